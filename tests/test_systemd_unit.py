"""docs/examples/gossamer-peer@.service: systemd finds no fault in it, and it lets a learner do what a learner does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers.config import PrivacyPlan
from test_processes import make

UNIT = Path(__file__).parents[1] / "docs" / "examples" / "gossamer-peer@.service"
TEXT = UNIT.read_text()
PROGRAM = "/opt/gossamer/bin/gossamer"
LIMIT = 300.0  # seconds


def said_of(name):
    """All values of a setting, in order."""
    return re.findall(rf"(?m)^{name}=(.*)$", TEXT)


def analyze(*words):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("THE UNIT WAS NOT VERIFIED: systemd-analyze is not installed")
    asked = subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return asked.returncode, asked.stdout + asked.stderr


@pytest.fixture
def unit(tmp_path):
    """A copy for one party, whose program is one that is here."""
    place = tmp_path / "gossamer-peer@study.service"
    assert f"ExecStart={PROGRAM} peer run " in TEXT
    place.write_text(TEXT.replace(PROGRAM, sys.executable))
    return place


def test_systemd_finds_no_fault(unit):
    code, said = analyze("verify", unit)
    assert (code, said) == (0, "")
    unit.write_text(unit.read_text().replace("ProtectHome=true", "ProtectHouse=true"))
    assert "Unknown key" in analyze("verify", unit)[1], "it would have been seen"


def test_what_a_learner_may_do_is_little(unit):
    code, said = analyze("security", "--offline=true", "--threshold=16", unit)  # in tenths, of 100
    assert code == 0, said


def test_when_it_is_started_again():
    assert said_of("Restart") == ["on-failure"]
    assert said_of("RestartPreventExitStatus") == ["2"]
    assert said_of("StartLimitIntervalSec") == ["0"], "what passes by itself, code 75, may take its time"
    assert int(said_of("RestartSec")[0]) >= 5, "without a limit, starts must not be all that a machine does"
    assert int(said_of("LimitNOFILE")[0]) >= 4096
    assert said_of("User") == ["gossamer"]
    assert said_of("UMask") == ["0077"]


def calls_in(name):
    """All system calls of one of systemd's sets."""
    code, said = analyze("syscall-filter", name)
    assert code == 0, said
    words = [line.strip() for line in said.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return {call for word in words for call in (calls_in(word) if word.startswith("@") else [word])}


def test_every_system_call_of_a_learner_is_let_through(tmp_path):
    """Two learners to their end, compiled kernels and journals on the disk included, under strace."""
    if shutil.which("strace") is None:
        pytest.skip("THE UNIT'S FILTER WAS NOT TRIED: strace is not installed")
    *allowed, denied = said_of("SystemCallFilter")
    assert (allowed, denied) == (["@system-service"], "~@privileged")
    filtered = calls_in("@system-service") - calls_in("@privileged")
    make(tmp_path / "run", 40, gs.Network.exponential(2), PrivacyPlan(epsilon=5.0), m=2, durability="power")
    started = []
    for i in range(2):
        command = [sys.executable, "-m", "gossamer", "peer", "run", str(tmp_path / f"run/learner-{i}"), "--quiet"]
        traced = ["strace", "-f", "-qq", "-c", "-o", str(tmp_path / f"calls-{i}")]
        started.append(subprocess.Popen([*traced, *command], stderr=subprocess.PIPE))
    try:
        for process in started:
            _, said = process.communicate(timeout=LIMIT)
            assert process.returncode == 0, said
    finally:
        for process in started:
            process.kill()
            process.wait()
    summary = (tmp_path / "calls-0").read_text().splitlines()[2:]
    used = {line.split()[-1] for line in summary if line[:1] != "-"} - {"total"}
    assert {"read", "openat", "socket"} <= used
    as_root = {"fchown"} if os.getuid() == 0 else set()  # SQLite's, which root alone makes
    assert used - as_root <= filtered
