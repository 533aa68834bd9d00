"""How long ten learners take from `gossamer peers up` to their first round, and what memory each has then.

python benchmarks/start.py [--turns 3]

The mushrooms' demo, as `gossamer peers init` makes it, with noise at the source, the default, and with noise on
messages, whose budget is a recursion over all rounds. It is begun anew in every turn; before the first, learners run
once to fill caches (Python's, and numba's where it is used). A learner's time ends when its status says that round 0 is
over. Beside seconds of the clock, which count what else the machine does, stand those of the processor, all learners'
and the command's together. Memory is read in that moment: resident (RSS), with a learner's share of what processes have
in common (PSS), and what is its own alone. Linux alone says these.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from simulator import show
from startup import CACHED, gossamer, seconds_of

LEARNERS = 10
PATIENCE = 120.0  # seconds for all to start
MOST_SECONDS, MOST_MEMORY = 6.0, 120.0
KINDS = {
    "noise at the source": (),
    "noise on messages": ("--where", "messages", "--law", "laplace"),
}
TICKS = os.sysconf("SC_CLK_TCK")


class Started(NamedTuple):
    """Of one turn."""

    seconds: float  # until the last has taken its first round
    spent: float  # the processor's
    resident: float  # MB, of the largest learner
    shared_out: float
    own: float


def status_of(folder: Path) -> dict[str, object]:
    try:
        return dict(json.loads((folder / "status.json").read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def spent_by(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_of(pid: int) -> tuple[float, float, float]:
    """MB: resident, with its share of what others have as well, its own alone."""
    lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]]
    size = {words[0]: int(words[1]) * 1024 / 1e6 for words in lines}
    return size["Rss:"], size["Pss:"], size["Private_Clean:"] + size["Private_Dirty:"]


@contextmanager
def running(run: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        gossamer("peers", "up", str(run)), stdout=subprocess.DEVNULL, env=CACHED, start_new_session=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def started(run: Path) -> Started:
    folders = sorted(run.glob("learner-*"))
    begun = time.perf_counter()
    with running(run) as process:
        waiting, measured = set(folders), dict[Path, tuple[float, float, float, float]]()
        while waiting:
            if process.poll() is not None or time.perf_counter() - begun > PATIENCE:
                raise SystemExit(f"learners of {run} have not all taken a round: see their log.jsonl")
            time.sleep(0.01)
            for folder in list(waiting):
                status = status_of(folder)
                pid, round_ = status.get("pid"), status.get("round")
                if isinstance(pid, int) and isinstance(round_, int) and round_ >= 1:
                    waiting.remove(folder)
                    measured[folder] = spent_by(pid), *memory_of(pid)
        seconds = time.perf_counter() - begun
        spent = spent_by(process.pid) + sum(cpu for cpu, *_ in measured.values())
    return Started(seconds, spent, *(max(column) for column in list(zip(*measured.values(), strict=True))[1:]))


def best_of(turns: int, options: tuple[str, ...]) -> tuple[Started, float]:
    """The least of everything, and the median of the seconds."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        for turn in range(turns + 1):
            run = Path(place) / str(turn)
            seconds_of(gossamer("peers", "init", str(run), "--learners", str(LEARNERS), *options))
            found.append(started(run))
    best = Started(*map(min, zip(*found[1:], strict=True)))
    return best, statistics.median(one.seconds for one in found[1:])


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--turns", type=int, default=3, help="how often all are started")
    turns = words.parse_args().turns
    for kind, options in KINDS.items():
        best, middle = best_of(turns, options)
        times = [
            ("until all have taken a round", f"{best.seconds:.1f} s, median {middle:.1f} s", f"≤ {MOST_SECONDS:g} s"),
            ("  the processor's, of all together", f"{best.spent:.1f} s", ""),
        ]
        memory = [
            ("a learner then, resident (RSS)", f"{best.resident:.0f} MB", f"≤ {MOST_MEMORY:g} MB"),
            ("  with its share of what processes have in common (PSS)", f"{best.shared_out:.0f} MB", ""),
            ("  its own alone", f"{best.own:.0f} MB", ""),
        ]
        show(f"{LEARNERS} learners' start, {kind}, the best of {turns} turns", (times, memory))


if __name__ == "__main__":
    main()
