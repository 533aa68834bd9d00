"""How a command becomes a run on many ranks: it starts mpiexec, which starts the same command again as each rank.

mpiexec gets a session of its own, so that ctrl-C reaches this process alone, which hands it on once. Its standard
input is a pipe that nothing is written to: when this process ends, however it does, the pipe ends, and rank 0, which
reads it, ends all ranks. So nothing is left behind, even where this process was killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from gossamer.cluster.world import REMEDY, check_installed, world
from gossamer.errors import BadValue, GossamerError

ENDS_WITH_INPUT = "GOSSAMER_RANK_ENDS_WITH_INPUT"  # set for ranks that were started here
OF_MPIEXEC = (b"[mpiexec@", b"=====")  # how the lines begin that it says itself, of ranks that were ended
INTERRUPTED = 130
SAID = (0, 1, 2, INTERRUPTED)  # exit codes of ranks that have said why
RANKS_A_CORE = 4  # at most, of those that are started here
STOPS_WITHIN = 20.0  # seconds that mpiexec gets to end its ranks


def check_room(ranks: int) -> None:
    """Refuse far more ranks than this machine has cores: each of them is a process that computes all the time."""
    cores = os.cpu_count() or 1
    if ranks > RANKS_A_CORE * cores:
        raise BadValue(
            "ranks", ranks, f"expected 2 to {RANKS_A_CORE * cores} ranks, {RANKS_A_CORE} for each of this machine's "
            f"{cores} cores",
            "start mpiexec yourself, with its list of hosts, where more machines take part",
        )  # fmt: skip


def launch(ranks: int, words: Sequence[str]) -> int:
    """Run `gossamer` with these words as so many ranks; the exit code."""
    check_installed()
    env = {**os.environ, ENDS_WITH_INPUT: "1", "COLUMNS": str(shutil.get_terminal_size().columns)}
    env.setdefault("OMP_NUM_THREADS", "1")  # ranks are what computes side by side
    command = [_mpiexec(), "-n", str(ranks), sys.executable, "-m", "gossamer", *words]
    asked, pipe = list[int](), subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, start_new_session=True)
    with process, _handed_on(process, asked):
        assert process.stdout is not None
        _copied(process.stdout)
        code = process.wait()
    if asked and code:
        return INTERRUPTED
    if abs(code) not in SAID:
        raise GossamerError(
            f"the ranks were ended from outside (mpiexec ended with {code}), perhaps one by a lack of memory: nothing "
            "is kept of the run; start it again, with fewer ranks or learners."
        )
    return abs(code)


@contextmanager
def _handed_on(process: subprocess.Popen[bytes], asked: list[int]) -> Iterator[None]:
    """Ctrl-C goes to the ranks; whatever else ends this, ends them."""

    def hand_on(number: int, _: Any) -> None:
        asked.append(number)
        process.send_signal(signal.SIGINT if len(asked) == 1 else signal.SIGTERM)

    previous = signal.signal(signal.SIGINT, hand_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()


def _copied(output: Iterable[bytes]) -> None:
    """What the ranks say goes out as it comes; what mpiexec says of itself does not, nor anything after it."""
    out: BinaryIO = sys.stdout.buffer
    for line in output:
        if line.startswith(OF_MPIEXEC):
            break
        out.write(line)
        out.flush()
    for _ in output:
        pass


def _mpiexec() -> str:
    """The one beside this Python, which the extra brings, or else the first on the PATH."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise GossamerError(f"there is no mpiexec: {REMEDY}.")
    return found


def end_with_input() -> None:
    """At rank 0 of ranks that were started here: end all when whoever started them is gone."""
    if ENDS_WITH_INPUT not in os.environ or world().rank:
        return

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)  # whereupon mpiexec ends the others

    threading.Thread(target=watch, daemon=True).start()
