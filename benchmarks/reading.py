"""How long a CSV file of numbers takes to become a stream, and how much memory, as ratios taken in one run.

Time is measured against numpy.loadtxt, which parses the same numbers in C, and against a bare pass of Python's csv
module, which splits and converts nothing. Memory is what a fresh process needs at its peak on top of one that has only
imported, against the records as they are packed: float64 for every feature, the intercept and the label. A party's feed
reads the same file, as CSV and as JSONL; it looks at every record at its start and keeps few of them, and reads the
others again when their round comes, so that its second row is a start and all rounds.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from simulator import show

from gossamer.streams import from_csv

RECORDS, FEATURES, REPEATS = 200_000, 20, 3
FIRST = """
import sys, time
from gossamer.rounds import Rounds
send = Rounds.send
def first(*given):
    print("\\nfirst round", time.time(), time.process_time(), file=sys.stderr)
    Rounds.send = send
    return send(*given)
Rounds.send = first
from gossamer.cli import main
main()
"""
PEAK = """
import sys
from pathlib import Path
import scipy.sparse
from gossamer.streams import from_csv
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
Path("/proc/self/clear_refs").write_text("5")  # the peak from here on; Linux alone says it so
before = peak()
from_csv(sys.argv[1], "y")
print((peak() - before) * 1024)
"""


FEED = """
import sys, time
from pathlib import Path
import scipy.special
from gossamer.peers.feed import Records
from gossamer.streams.schema import Schema
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
schema = Schema("y", ("0", "1"), {f"x{k}": (-300.0, 300.0) for k in range(int(sys.argv[3]))}, {})
Path("/proc/self/clear_refs").write_text("5")
before, start = peak(), time.process_time()
feed = Records(Path(sys.argv[1]), sys.argv[2], schema, 100, follow=False)
started = time.process_time() - start
for t in range(feed.rounds):
    feed.arrivals(t)
    feed.read(t)
print(started, time.process_time() - start, (peak() - before) * 1024)
"""


def write(path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(RECORDS, FEATURES)) * 50
    y = X[:, 0] + rng.normal(size=RECORDS) * 20 > 0
    header = ",".join([*(f"x{k}" for k in range(FEATURES)), "y"])
    np.savetxt(path, np.column_stack([X, y]), "%.6g", ",", header=header, comments="")


def split(path: Path) -> None:
    with path.open(newline="") as file:
        for _ in csv.reader(file):
            pass


def write_objects(path: Path, out: Path) -> None:
    """The same records as JSONL."""
    with path.open(newline="") as file, out.open("w") as lines:
        for given in csv.DictReader(file):
            numbers = {name: float(cell) for name, cell in given.items() if name != "y"}
            lines.write(json.dumps(numbers | {"y": int(float(given["y"]))}) + "\n")


def of_a_party(path: Path, kind: str) -> tuple[float, float, int]:
    """A fresh feed: the processor's seconds for its start, and for that and all rounds, and bytes at its peak."""
    words = [sys.executable, "-c", FEED, str(path), kind, str(FEATURES)]
    told = [subprocess.run(words, capture_output=True, check=True, text=True).stdout.split() for _ in range(REPEATS)]
    return min(float(one[0]) for one in told), min(float(one[1]) for one in told), max(int(one[2]) for one in told)


def best(call: Callable[[], object]) -> float:
    """Seconds of the processor, so that others on the machine count for little."""
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return min(taken)


def until_the_first_round(path: Path, out: Path) -> tuple[float, float]:
    """Seconds from the start of `gossamer run` to its first round: of the clock, and of the processor."""
    words = ["run", "--csv", str(path), "--target", "y", "--steps", "1", "--noise", "0", "--out", str(out)]
    start = time.time()
    ended = subprocess.run([sys.executable, "-c", FIRST, *words], capture_output=True, text=True, check=True)
    told = next(line for line in ended.stderr.splitlines() if line.startswith("first round"))
    clock, processor = map(float, told.split()[2:])
    return clock - start, processor


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "numbers.csv"
        write(path)
        size = path.stat().st_size
        ours = best(lambda: from_csv(path, "y"))
        numpys = best(lambda: np.loadtxt(path, delimiter=",", skiprows=1))
        bare = best(lambda: split(path))
        peak = int(subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, check=True).stdout)
        clock, processor = until_the_first_round(path, Path(place) / "out")
        write_objects(path, path.with_suffix(".jsonl"))
        feeds = {kind: of_a_party(path.with_suffix(f".{kind}"), kind) for kind in ("csv", "jsonl")}
    packed = RECORDS * (FEATURES + 2) * 8
    times = [
        ("from_csv / numpy.loadtxt, time", f"{ours / numpys:.2f} ×", ""),
        ("from_csv / a bare pass of csv.reader, time", f"{ours / bare:.2f} ×", ""),
        ("from_csv, processor time", f"{ours:.2f} s", ""),
        ("from the start of a run to its first round", f"{clock:.2f} s", "≤ 6 s"),
        ("  of that the processor's", f"{processor:.2f} s", ""),
    ]
    memory = [
        ("peak memory of from_csv / packed records", f"{peak / packed:.2f} ×", "≤ 3 ×"),
        ("the file / packed records, size", f"{size / packed:.2f} ×", ""),
    ]
    for kind, (started, all_rounds, kept) in feeds.items():
        times.append((f"a party's feed, {kind}, until it starts", f"{started:.2f} s", "≤ 3 s"))
        times.append(("  with all its rounds", f"{all_rounds:.2f} s", ""))
        memory.append((f"peak memory of a party's feed, {kind} / packed records", f"{kept / packed:.2f} ×", "≤ 3 ×"))
    show(f"reading {RECORDS} records of {FEATURES} numbers", (times, memory))


if __name__ == "__main__":
    main()
