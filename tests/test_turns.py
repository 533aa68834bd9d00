"""benchmarks/peers.py: turns are bounded in time and leave nothing, however they end, and their spread is said."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
LIMIT = 120.0
PROGRAM = """
import os, sys, time
from pathlib import Path
from processes import in_processes

def work(about):
    Path(sys.argv[1], f"{about.i}").write_text(f"{os.getpid()} {about.folder}")
    about.gate.wait(60)
    what = sys.argv[2]
    if what == "fails" and about.i == 1:
        raise ValueError("something is wrong")
    if what == "ends" and about.i == 1:
        os._exit(3)
    while what == "hangs":
        time.sleep(0.1)
    about.ports[about.i] = about.i
    return about.i, bytes(200_000)

found = in_processes(3, work, float(sys.argv[3]))
assert [i for i, _ in found] == [0, 1, 2]
print("found", len(found))
"""


def wait_until(done):
    end = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_there(pid):
    """Whether a process still runs; one that has ended may wait for somebody to ask."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")])}


class Turn:
    """A benchmark whose three processes are told what to do."""

    def __init__(self, place, what, limit):
        self._told = place
        command = [sys.executable, "-c", PROGRAM, str(place), what, str(limit)]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            start_new_session=True,
        )

    def begun(self):
        """The processes and their folder."""
        wait_until(lambda: len([one for one in self._told.iterdir() if " " in one.read_text()]) == 3)
        return [(int(pid), Path(folder)) for pid, folder in (p.read_text().split() for p in self._told.iterdir())]

    def ended(self):
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, out, err


def nothing_is_left(begun):
    wait_until(lambda: not any(is_there(pid) for pid, _ in begun))
    wait_until(lambda: not any(folder.exists() for _, folder in begun))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize(
    ("what", "limit", "words"),
    [
        ("works", 100, ""), ("fails", 100, "process 1 of 3 failed"), ("ends", 100, "process 1 of 3 ended without"),
        ("hangs", 2, "processes [0, 1, 2] of 3 were not done after 2 s"),
    ],
)  # fmt: skip
def test_a_turn_gives_what_all_found_or_a_sentence_and_leaves_nothing(tmp_path, what, limit, words):
    turn = Turn(tmp_path, what, limit)
    begun = turn.begun()
    code, out, err = turn.ended()
    assert words in err
    assert (code, out) == ((0, "found 3\n") if what == "works" else (1, ""))
    nothing_is_left(begun)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_benchmark_that_is_ended_takes_its_processes_with_it(tmp_path, number):
    turn = Turn(tmp_path, "hangs", 100)
    begun = turn.begun()
    os.kill(turn.process.pid, number)
    code, _, err = turn.ended()
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in err
    nothing_is_left(begun)


def test_learners_and_bare_streams_are_run_in_turns_and_their_spread_is_said(tmp_path):
    command = [
        sys.executable,
        str(BENCHMARKS / "peers.py"),
        "10",
        "--turns",
        "2",
        "--numbers",
        "f4",
        "--noise",
        "source",
    ]
    env = environment() | {"TMPDIR": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT, env=env, check=False)
    assert ran.returncode == 0, ran.stderr
    _, bare, learners = ran.stdout.splitlines()
    speeds = r"([\d.]+) \( *([\d.]+) to +([\d.]+)\) rounds/s"
    for line in (bare, learners):
        middle, least, largest = map(float, re.search(speeds, line).groups())
        assert 0 < least <= middle <= largest
    assert re.search(r"[\d.]+ \([\d.]+ to [\d.]+\) × bare", learners)
    assert not list(tmp_path.iterdir()), "nothing is left"
