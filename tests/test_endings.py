"""How a learner ends, and for what it does not: descriptors, disks, ports, clocks, signals, a link cut at the end."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.cli import peers_up
from gossamer.peers import certificates, logs
from gossamer.peers.certificates import check_pair, issue_certificate, make_authority
from gossamer.peers.config import read_config
from gossamer.peers.journal import Journal
from gossamer.peers.outcome import collect_outcomes
from gossamer.peers.passing import TryLater, passing_state
from gossamer.peers.status_file import StatusFile
from test_operations import wait_until
from test_processes import LIMIT, make, simulated

M = 3
RING = gs.Network.complete(M)


def in_round(fleet, i, t):
    """Wait until a learner that runs has told of a round after t."""

    def there():
        assert fleet.code(i) is None, fleet.status(i)
        return fleet.status(i).get("round", 0) > t

    wait_until(there)


def ended(fleet, *learners):
    wait_until(lambda: all(fleet.code(i) is not None for i in learners))
    return [fleet.code(i) for i in learners]


# A status that cannot be written


def no_room(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("before", [True, False])
def test_a_status_is_written_in_place_where_it_cannot_be_replaced(tmp_path, monkeypatch, before):
    """Into a spare file that was there before; without one, over the file that is there."""
    place = tmp_path / "status.json"
    file = StatusFile(place)
    assert file.write({"state": "running", "differs": {"1": "x" * 300}})
    if not before:
        file.close()
        file = StatusFile(place)
    monkeypatch.setattr("tempfile.mkstemp", no_room)
    for t in range(3):
        assert file.write({"state": "disk full", "round": t})
        assert json.loads(place.read_text()) == {"state": "disk full", "round": t}
        assert place.stat().st_mode & 0o777 == 0o600
    assert file.failed == 3
    long = {"state": "disk full", "why": "y", "differs": {str(j): "x" * 900 for j in range(40)}}
    assert file.write(long)
    assert json.loads(place.read_text()).items() >= {"state": "disk full"}.items()
    monkeypatch.undo()
    assert file.write({"state": "running"})
    assert place.read_text() == '{"state": "running"}\n'
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_a_status_that_cannot_be_written_at_all_raises_nothing(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("tempfile.mkstemp", no_room)
    file = StatusFile(tmp_path / "status.json")
    with caplog.at_level("WARNING", "gossamer.peers"):
        assert [file.write({"state": "running"}) for _ in range(100)] == [False] * 100
    assert len([one for one in caplog.records if one.message == "status not written"]) == 7, "1, 2, 4, … 64"


def test_a_learner_without_descriptors_goes_on_and_says_so(tmp_path, fleet_of):
    """As with 1,200 connections of a stranger at a limit of 1,024 files."""
    steps = 6000
    make(tmp_path / "run", steps, RING, m=M)
    fleet = fleet_of(tmp_path / "run", m=M)
    fleet.start()
    in_round(fleet, 1, 5)
    pid, (soft, hard) = fleet.pids[1], resource.prlimit(fleet.pids[1], resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
    wait_until(lambda: fleet.status(1).get("unwritten", 0) >= 1)
    stood = fleet.status(1)["round"]
    wait_until(lambda: fleet.status(1).get("unwritten", 0) >= 2)
    assert fleet.status(1)["round"] > stood or fleet.status(1)["state"] != "running"
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    np.testing.assert_allclose(fleet.finish(), simulated(steps, RING, M), rtol=0, atol=1e-11)
    assert "Too many open files" in next(line for line in fleet.log(1) if line["event"] == "status not written")["why"]


# A full disk


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(place)], capture_output=True)
    if made.returncode:
        pytest.skip("needs a small disk, which only root can mount")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place):
    with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_disk_that_is_full_passes_and_the_status_says_so(tmp_path, small_disk, fleet_of):
    """The whole folder is on it: journal, status, log and standard error."""
    steps = 4000
    make(tmp_path / "run", steps, RING, m=M)
    shutil.move(tmp_path / "run/learner-1", small_disk / "learner-1")
    (tmp_path / "run/learner-1").symlink_to(small_disk / "learner-1")
    fleet = fleet_of(tmp_path / "run", m=M)
    fleet.start()
    in_round(fleet, 1, 5)
    fill(small_disk)
    assert ended(fleet, 1) == [75]
    status = fleet.status(1)
    assert status["state"] == "disk full"
    assert "free the disk" in status["why"]
    assert "Traceback" not in (fleet.place(1) / "stderr.log").read_text()
    fleet.start(1)  # as systemd does: it passes no sooner than the disk has room
    assert ended(fleet, 1) == [75]
    assert fleet.status(1)["state"] == "disk full"
    assert fleet.code(0) is None
    (small_disk / "filler").unlink()
    fleet.start(1)
    np.testing.assert_allclose(fleet.finish(), simulated(steps, RING, M), rtol=0, atol=1e-11)


def test_what_is_private_is_so_from_its_first_moment(tmp_path, monkeypatch):
    """With the usual umask: whatever is put in its place was nobody else's before, and neither were the folders."""
    seen, replace = {}, os.replace

    def watched(fresh, path):
        seen[os.path.basename(path)] = os.stat(fresh).st_mode & 0o777
        replace(fresh, path)

    monkeypatch.setattr(os, "replace", watched)
    before = os.umask(0o022)
    try:
        make(tmp_path / "run", 5, RING, m=M)
        place = tmp_path / "run/learner-0"
        StatusFile(place / "status.json").write({"state": "running"})
        journal = Journal(tmp_path / "j.db", "run", 0, "f", "process")
        made = (tmp_path / "j.db", tmp_path / "j.db-wal")
        assert [path.stat().st_mode & 0o777 for path in made] == [0o600] * 2
        journal.close()
        logs.log_to(tmp_path / "log.jsonl", quiet=True)
        logs.stop_logging()
    finally:
        os.umask(before)
    assert (tmp_path / "log.jsonl").stat().st_mode & 0o777 == 0o600
    assert {name: mode for name, mode in seen.items() if name in ("key.pem", "records.csv", "status.json")} == {
        "key.pem": 0o600, "records.csv": 0o600, "status.json": 0o600
    }  # fmt: skip
    for path in (tmp_path / "run").glob("*/key.pem"):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_log_that_cannot_be_written_raises_and_prints_nothing(tmp_path, capsys):
    logs.log_to(tmp_path / "log.jsonl", quiet=True)
    try:
        [handler] = logs.log.handlers
        handler.stream.close()
        handler.stream = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115
        for _ in range(3):
            logs.log.warning("something", extra={"why": "x" * 10_000})
    finally:
        logs.stop_logging()
    assert capsys.readouterr() == ("", "")


# What passes by itself


def test_what_passes_by_itself_is_told_from_a_mistake():
    def made(error):
        try:
            try:
                raise error
            except OSError:
                raise gs.GossamerError("a sentence.") from None
        except gs.GossamerError as sentence:
            return sentence

    for number in (errno.ENOSPC, errno.EDQUOT):
        assert passing_state(made(OSError(number, ""))) == "disk full"
    for number in (errno.EMFILE, errno.ENFILE, errno.EADDRINUSE, errno.EADDRNOTAVAIL):
        assert passing_state(made(OSError(number, ""))) == "starting again"
    for number in (errno.EACCES, errno.ENOENT, errno.EROFS):
        assert passing_state(made(OSError(number, ""))) is None
    assert passing_state(TryLater("later.")) == "starting again"
    assert passing_state(gs.GossamerError("a mistake.")) is None


def at(monkeypatch, when):
    clock = SimpleNamespace(now=lambda zone: when)
    monkeypatch.setattr(certificates, "datetime", SimpleNamespace(datetime=clock, UTC=datetime.UTC))


def test_a_clock_that_is_behind_is_named_and_passes(monkeypatch):
    own = issue_certificate(make_authority("run", 30), 0, days=30)
    now = datetime.datetime.now(datetime.UTC)
    check_pair(own)
    at(monkeypatch, datetime.datetime(1970, 1, 1, 0, 7, tzinfo=datetime.UTC))
    with pytest.raises(TryLater, match=r"this machine's clock says 1970-01-01 00:07 UTC: set the clock"):
        check_pair(own)
    at(monkeypatch, now + datetime.timedelta(days=31))
    with pytest.raises(gs.GossamerError, match=r"was valid until .* clock says .* have a new one") as late:
        check_pair(own)
    assert passing_state(late.value) is None


def test_a_port_in_use_ends_with_a_code_of_its_own(tmp_path, fleet_of):
    port = make(tmp_path / "run", 50, RING, m=M)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port + 1))
        other.listen()
        fleet = fleet_of(tmp_path / "run", m=M)
        fleet.start()
        assert ended(fleet, 1) == [75]
        assert fleet.status(1)["state"] == "starting again"
        assert "it is in use" in fleet.status(1)["why"]
    fleet.start(1)
    fleet.finish()


@pytest.fixture
def up(tmp_path):
    """Starts `gossamer peers up`, which ends with the test."""
    started = []

    def run():
        command = [sys.executable, "-m", "gossamer", "peers", "up", "run", "--not-private"]
        out = (tmp_path / "out.txt").open("w")
        started.append(subprocess.Popen(command, stdout=out, stderr=out, cwd=tmp_path))
        out.close()
        return started[-1], lambda: (tmp_path / "out.txt").read_text()

    yield run
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.wait()


def test_peers_up_starts_a_learner_again_whose_port_was_in_use(tmp_path, up):
    port = make(tmp_path / "run", 50, RING, m=M)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port + 1))
        other.listen()
        process, said = up()
        wait_until(lambda: "is started again in" in said() or process.poll() is not None)
    assert process.wait(LIMIT) == 0, said()
    assert "learner 1 ended with code 75: [party] listen" in said()
    for i in range(M):
        assert (tmp_path / f"run/learner-{i}/stderr.log").stat().st_mode & 0o077 == 0


class Process:
    """Of a learner that has ended at once."""

    def __init__(self, code):
        self.code = code

    def poll(self):
        return self.code


def fleet_whose_learner_ends(tmp_path, monkeypatch, codes, restarts):
    """A fleet of one, at a clock of its own, which goes on by half a minute with every look."""
    now, started = [0.0], []

    def start(*_, **__):
        started.append(now[0])
        return Process(codes[min(len(started), len(codes)) - 1])

    monkeypatch.setattr(peers_up.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(peers_up.subprocess, "Popen", start)
    (tmp_path / "learner-0").mkdir()
    fleet = peers_up.Fleet([tmp_path / "learner-0"], restarts)

    def look():
        now[0] += 30.0
        return fleet.look()

    return fleet, look, started


def test_a_disk_that_is_full_for_a_day_does_not_end_a_fleet(tmp_path, monkeypatch):
    """`--restarts` is of learners that were killed. What passes by itself backs off to a minute, and is said rarely."""
    fleet, look, started = fleet_whose_learner_ends(tmp_path, monkeypatch, [75], restarts=3)
    while started[-1] < 24 * 3600:
        assert look()
    assert not fleet.failed
    assert 1000 < len(started) < 2000
    assert len(fleet.news) <= 12
    assert "is started again in 60 s (1024 times)" in fleet.news[-1]


def test_restarts_are_of_learners_that_were_killed(tmp_path, monkeypatch):
    codes = [75, -9, 75, 75, -9, 75, -9]
    fleet, look, started = fleet_whose_learner_ends(tmp_path, monkeypatch, codes, restarts=2)
    while look():
        assert len(started) <= len(codes)
    assert list(fleet.failed.values()) == [-9]
    assert len(started) == len(codes)


def test_a_live_page_whose_port_is_in_use_is_tried_again(tmp_path, gossamer):
    """Its sentence names the option that `peer run` has."""
    make(tmp_path / "run", 20, RING, m=M)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        words = ("peer", "run", tmp_path / "run/learner-1", "--quiet", "--not-private", "--live", "--live-port", port)
        code, _, err = gossamer(*words)
    assert code == 75
    assert "Address already in use): give another --live-port." in " ".join(err.split())
    assert "--live-at" not in err


def test_a_metrics_host_that_has_no_address_now_is_tried_again(tmp_path, gossamer, monkeypatch):
    make(tmp_path / "run", 20, RING, m=M, metrics="north.example:9400")

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    code, _, err = gossamer("peer", "run", tmp_path / "run/learner-1", "--quiet", "--not-private")
    assert code == 75
    assert "[party] metrics = north.example:9400 cannot be listened on (Temporary failure" in err
    assert json.loads((tmp_path / "run/learner-1/status.json").read_text())["state"] == "starting again"


def test_a_second_process_is_refused_the_journal_as_long_as_the_first_runs(tmp_path, fleet_of):
    """Also after the first has looked through its folder: closing any file of the database would give up its lock."""
    make(tmp_path / "run", 200, RING, m=M)
    fleet = fleet_of(tmp_path / "run", tmp_path / "tap", m=M)
    fleet.start()
    wait_until(lambda: "round" in fleet.status(0))
    first = fleet.pids[0]
    os.kill(first, signal.SIGSTOP)
    try:
        status, log = fleet.status(0), (fleet.place(0) / "log.jsonl").read_text()
        fleet.start(0)
        assert ended(fleet, 0) == [2]
        assert (fleet.status(0), (fleet.place(0) / "log.jsonl").read_text()) == (status, log), "these are the first's"
    finally:
        os.kill(first, signal.SIGCONT)
    assert "another process has it open" in (fleet.place(0) / "stderr.log").read_text()
    fleet.pids[0] = first
    fleet.codes.clear()
    fleet.finish()


# Signals


def test_a_hang_up_stops_a_learner_and_a_fleet_in_order(tmp_path, fleet_of, up):
    make(tmp_path / "run", 5000, RING, m=M)
    fleet = fleet_of(tmp_path / "run", m=M)
    fleet.start(0)
    wait_until(lambda: "round" in fleet.status(0))
    os.kill(fleet.pids[0], signal.SIGHUP)
    assert ended(fleet, 0) == [0]
    assert fleet.status(0)["state"] == "stopped"
    process, said = up()
    wait_until(lambda: all(fleet.status(i).get("state") not in (None, "stopped") for i in range(M)))
    pids = [fleet.status(i)["pid"] for i in range(M)]
    process.send_signal(signal.SIGHUP)
    assert process.wait(LIMIT) in (0, 130), said()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert {fleet.status(i)["state"] for i in range(M)} <= {"stopped", "done"}


# The end of a run


def outcome(fleet, i):
    return fleet.place(i) / "outcome.npz"


def test_the_outcome_is_there_at_the_last_round_and_delivery_goes_on_apart(tmp_path, fleet_of):
    """Learner 0 is cut off when it has taken its last round: nobody knows of it, and it knows of nobody."""
    steps = 60
    make(tmp_path / "run", steps, RING, m=M)
    fleet = fleet_of(tmp_path / "run", m=M)
    fleet.start(1, 2)
    fleet.start(0, fault=["committed", steps])
    assert ended(fleet, 0) == [-signal.SIGKILL]
    wait_until(lambda: all(outcome(fleet, i).exists() for i in (1, 2)))
    wait_until(lambda: all(fleet.status(i)["state"] == "delivering" for i in (1, 2)))
    for i in (1, 2):
        os.kill(fleet.pids[i], signal.SIGTERM)
    assert ended(fleet, 1, 2) == [0, 0]
    fleet.start(0)
    wait_until(lambda: outcome(fleet, 0).exists() and fleet.status(0)["state"] == "delivering")
    record = collect_outcomes(tmp_path / "run")
    assert (record.t, len(record.theta)) == (steps, M)
    np.testing.assert_allclose(record.theta, simulated(steps, RING, M), rtol=0, atol=1e-12)
    os.kill(fleet.pids[0], signal.SIGTERM)
    assert ended(fleet, 0) == [0]
    assert fleet.status(0)["state"] == "stopped"
    fleet.start()
    wait_until(lambda: all(outcome(fleet, i).exists() for i in range(M)))
    np.testing.assert_allclose(fleet.finish(), record.theta, rtol=0, atol=0)
    assert [fleet.status(i)["state"] for i in range(M)] == ["done"] * M

    lives = fleet.status(1)["life"]
    fleet.start(1)  # once more, when all is over: it keeps what it has found
    wait_until(lambda: outcome(fleet, 1).exists() and fleet.status(1)["life"] > lives)
    for _ in range(20):
        assert outcome(fleet, 1).exists()
        time.sleep(0.02)
    os.kill(fleet.pids[1], signal.SIGTERM)
    assert ended(fleet, 1) == [0]
    assert fleet.status(1)["state"] == "done"
    np.testing.assert_array_equal(collect_outcomes(tmp_path / "run").theta, record.theta)


def test_a_learner_that_is_done_begins_with_the_outcome_that_it_has(tmp_path, fleet_of, monkeypatch):
    """It may be ended before it has written another."""
    from gossamer.peers import process

    make(tmp_path / "run", 20, RING, m=M)
    fleet = fleet_of(tmp_path / "run", m=M)
    fleet.start()
    fleet.finish()
    seen, learner = [], process.LearnerProcess(read_config(fleet.place(1)))

    def look(party):
        seen.append((party.finished, outcome(fleet, 1).exists()))
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(learner, "_leave_outcome", look)
    try:
        assert asyncio.run(learner.run()) == 0
    finally:
        learner.close()
    assert seen[0] == (True, True)


def test_an_outcome_that_cannot_be_written_ends_nobody_and_is_tried_again(tmp_path, monkeypatch):
    from gossamer.peers import process

    make(tmp_path / "run", 20, RING, m=M)
    learner = process.LearnerProcess(read_config(tmp_path / "run/learner-0"))
    try:
        calls = []

        def write(*given):
            calls.append(given)
            if len(calls) == 1:
                raise gs.GossamerError("no room.")

        monkeypatch.setattr(process, "write_outcome", write)
        monkeypatch.setattr(process, "LEAVE_AGAIN", 0.0)
        for _ in range(5):
            learner._leave_outcome(None)
        assert len(calls) == 2, "until it was written"
    finally:
        learner.close()
