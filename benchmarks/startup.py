"""How long it takes until something can be done, as ratios to `import numpy`, and what a peer that waits weighs.

Every row is the best of several fresh processes, taken in turns, after a first round that fills caches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from simulator import show

REPEATS = 7
BASE = "python -c 'import numpy'"
CACHED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # compiled once
PATIENCE = 120.0  # seconds for a peer to say that it waits
PARTIES = ["--learners", "3", "--target", "ill", "--classes", "0,1", "--range", "age=0:120", "--steps", "100"]


def gossamer(*words: str) -> list[str]:
    return [sys.executable, "-m", "gossamer", *words]


COMMANDS = {
    BASE: [sys.executable, "-c", "import numpy"],
    "python -c 'import gossamer'": [sys.executable, "-c", "import gossamer"],
    "gossamer --help": gossamer("--help"),
    "gossamer run --help": gossamer("run", "--help"),
}
ASKED = {"python -c 'import gossamer'": "≤ 0.5 s", "gossamer --help": "≤ 0.4 s"}


def seconds_of(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=CACHED)
    return time.perf_counter() - start


def wait_for(said: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while not said():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit("the peer ended, or does not say that it waits")
        time.sleep(0.005)


def status_of(folder: Path) -> dict[str, object]:
    try:
        return dict(json.loads((folder / "status.json").read_text()))
    except FileNotFoundError:
        return {}


def resident(process: subprocess.Popen[bytes]) -> float:
    """MB of memory that the process has now; Linux alone says it so."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024 / 1e6


def waiting_peer() -> tuple[float, float, float]:
    """Seconds until it waits for records, MB then, and MB when after a first round it waits for a neighbour."""
    with tempfile.TemporaryDirectory() as place:
        seconds_of(gossamer("peers", "init", f"{place}/run", *PARTIES))
        folder = Path(place) / "run" / "learner-0"
        start = time.perf_counter()
        process = subprocess.Popen(gossamer("peer", "run", str(folder), "--quiet"), env=CACHED)
        try:
            wait_for(lambda: status_of(folder).get("state") == "waiting for records", process)
            seconds = time.perf_counter() - start
            time.sleep(1.0)
            before = resident(process)
            rows = [f"{20 + k},{k % 2}" for k in range(8)]
            (folder / "records.csv").write_text("\n".join(["age,ill", *rows, ""]))
            wait_for(lambda: bool(status_of(folder).get("waits_for")), process)
            time.sleep(1.0)
            return seconds, before, resident(process)
        finally:
            process.kill()
            process.wait()


def main() -> None:
    for command in COMMANDS.values():
        seconds_of(command)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(REPEATS):
        for name, command in COMMANDS.items():
            taken[name].append(seconds_of(command))
    best = {name: min(times) for name, times in taken.items()}
    peers = [waiting_peer() for _ in range(3)]
    best["a peer, until it waits for records"] = min(seconds for seconds, _, _ in peers)
    before, after = (min(column) for column in list(zip(*peers, strict=True))[1:])
    times = [
        (name, f"{seconds:.3f} s, {seconds / best[BASE]:.2f} ×", ASKED.get(name, "")) for name, seconds in best.items()
    ]
    memory = [
        ("a peer that waits for records, memory", f"{before:.0f} MB", "≤ 120 MB"),
        ("  after its first round, waiting for a neighbour", f"{after:.0f} MB", ""),
    ]
    show("start-up, seconds and ratios to numpy's import", (times, memory))


if __name__ == "__main__":
    main()
