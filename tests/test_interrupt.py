"""Ctrl-C, whenever it comes, ends the command with code 130 and at most one sentence; workers and learners end, too."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time

import pytest

LIMIT = 600.0  # seconds; what is waited for takes a few, unless the machine is very busy or something is broken
START = """
import os, sys
from gossamer.cli import interrupt, main
start = interrupt.start
def started():
    start()
    os.write(1, b"!")
interrupt.start = started
sys.exit(main())
"""
AT_A_FILE = """
import os, signal, sys
which, sent = sys.argv.pop(1), []
def look(event, args):
    if not sent and event == "open" and which in str(args[0]):  # modules are opened, too
        sent.append(event)
        os.kill(os.getpid(), signal.SIGINT)
from gossamer.cli import main
sys.addaudithook(look)
sys.exit(main())
"""
RUN = ["run", "mushrooms", "--steps", "60", "--plot", "run.png"]
CSV = ["run", "--csv", "own.csv", "--target", "ill", "--drop", "clinic", "--categorical", "ward", "--steps", "40"]


def check_quiet(code, err, codes=(130,)):
    assert code in codes, (code, err)
    assert "Traceback" not in err
    assert "Interrupt" not in err
    news = [line for line in err.splitlines() if line.strip() and "rounds" not in line and "runs done" not in line]
    assert len(news) <= 1, err


@pytest.mark.parametrize(
    ("which", "words"),
    [
        *((f"/{module}/", RUN) for module in ("typer", "numpy", "numba")),
        ("/gossamer/models/", RUN),
        ("mushrooms.data.xz", RUN),
        ("own.csv", CSV),
        ("/gossamer/checks/", ["audit", "--quick"]),
        ("/gossamer/peers/", ["peers", "up", "."]),
    ],
)
def test_at_a_module_or_a_file(tmp_path, own_csv, which, words):
    done = subprocess.run(
        [sys.executable, "-c", AT_A_FILE, which, *words], capture_output=True, text=True, cwd=tmp_path, timeout=LIMIT
    )
    check_quiet(done.returncode, done.stderr)
    left = set(os.listdir(tmp_path)) - {own_csv}
    assert not left or {"record.npz", "settings.json"} <= set(os.listdir(tmp_path / "gossamer-run")), left


def interrupted(words, seconds, folder):
    """How a command ends that all its processes are told to stop after so many seconds, as a terminal tells them."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout.read(1) == "!"
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)  # not waited for yet: the group's number is still its own
        _, err = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.communicate()
    return process.returncode, err


@pytest.mark.parametrize(
    ("words", "moments"),
    [
        (RUN, 3),
        (CSV, 3),
        (["budget", "--epsilon", "3"], 2),
        (["peers", "init", "made", "--learners", "3"], 2),
        (["compare", "mushrooms", "--quick", "--jobs", "2", "--methods", "dsgd", "--steps", "20"], 2),
    ],
    ids=["run", "csv", "budget", "peers init", "compare"],
)
def test_at_any_moment(tmp_path, own_csv, words, moments):
    """Moments spread over the time that the whole command takes here, the last ones when it may be done."""
    before = time.monotonic()
    whole = subprocess.run([sys.executable, "-c", START, *words], capture_output=True, cwd=tmp_path, timeout=LIMIT)
    takes = time.monotonic() - before
    assert whole.returncode == 0, whole.stderr
    codes = []
    for k in range(moments):
        folder = tmp_path / f"{k}"
        folder.mkdir()
        (folder / own_csv).write_text((tmp_path / own_csv).read_text())
        code, err = interrupted(words, takes * k / moments, folder)
        check_quiet(code, err, (130, 0))
        codes.append(code)
    assert codes[0] == 130
    assert codes.count(130) >= moments // 3


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="needs the extra `peers`")
def test_peers_up_takes_its_learners_with_it(tmp_path, gossamer):
    import json

    from test_processes import free_ports

    words = ["--learners", 2, "--port", free_ports(2), "--per-round", 1]
    assert gossamer("peers", "init", "made", *words)[0] == 0
    learners = [tmp_path / "made" / f"learner-{i}" for i in range(2)]
    for seconds in (0.0, 0.5, 2.0, 4.0):
        code, err = interrupted(["peers", "up", "made"], seconds, tmp_path)
        check_quiet(code, err)
        statuses = [place / "status.json" for place in learners]
        for pid in [json.loads(status.read_text())["pid"] for status in statuses if status.exists()]:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        said = [(place / "stderr.log").read_text() for place in learners if (place / "stderr.log").exists()]
        assert "Traceback" not in "".join(said)


def test_workers_end_with_the_command_that_started_them(tmp_path):
    """Also where only that one is told: the workers themselves never hear of it."""
    command = [sys.executable, "-c", START, "compare", "mushrooms", "--jobs", "2", "--methods", "dsgd"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until = time.monotonic() + LIMIT
        while not list((tmp_path / "gossamer-compare").glob("runs/*.json")):  # workers are at work
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
        check_quiet(process.returncode, err)
        assert "what is done is kept" in err
        while True:  # nobody of its session is left; the last one may take a moment to go
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                break
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(tmp_path):
    """As in the background of a script, or under nohup."""
    code = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{AT_A_FILE}"
    command = [sys.executable, "-c", code, "/networkx/", "graph", "ring", "--learners", "4"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=LIMIT)
    assert done.returncode == 0, done.stderr


def test_the_entry_point_loads_nothing_that_takes_time():
    code = "import sys\nbefore = set(sys.modules)\nfrom gossamer.cli import main\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT)
    ours = {name for name in done.stdout.split() if name.startswith("gossamer")}
    allowed = {"gossamer", "gossamer.lazy", "gossamer.version", "gossamer.simulate", "gossamer.cli"}
    assert ours == allowed | {"gossamer.cli.interrupt"}
    assert not {"typing", "dataclasses", "typer", "numpy"} & set(done.stdout.split())
