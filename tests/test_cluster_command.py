"""`gossamer run --engine mpi`: one run on ranks that it starts, and nothing left of them, however it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gossamer as gs
from gossamer.cluster import launching, world

pytest.importorskip("mpi4py", reason="the extra `mpi` is not installed")
PATIENCE = 300.0  # seconds; ranks wait for each other on a busy machine
RUN = ["run", "mushrooms", "--steps", "12", "--seed", "3"]
COMMAND = [sys.executable, "-m", "gossamer"]
LONG = ["run", "mushrooms", "--steps", "100000000", "--evaluate-every", "10000000", "--engine", "mpi", "-n", "2"]


def command(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)


def test_the_command_runs_on_ranks_and_prints_the_cut(tmp_path: Path) -> None:
    done = command(*RUN, "--engine", "mpi", "-n", "2", "--json", "-", "--out", "ranks", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "2 ranks play 5 learners each" in done.stderr
    assert any("links" in note and "Shared out by number" in note for note in told["notes"])
    ours = gs.Record.load(tmp_path / "ranks")
    alone = command(*RUN, "--out", "alone", folder=tmp_path)
    assert alone.returncode == 0, alone.stderr
    kept = gs.Record.load(tmp_path / "alone")
    np.testing.assert_allclose(ours.theta, kept.theta, rtol=1e-12, atol=1e-12)
    assert dict(ours.config["network"]) == dict(kept.config["network"])
    assert {file.name for file in (tmp_path / "ranks").iterdir()} == {
        file.name for file in (tmp_path / "alone").iterdir()
    }


@pytest.mark.parametrize("starts", ["the command", "mpiexec"])
def test_a_rank_that_fails_ends_all_and_one_says_why(tmp_path: Path, starts: str) -> None:
    wild = ["--no-strict", "--step", "1e200,0.1", "--noise", "0", "--steps", "300", "--json", "-"]
    words = ["run", "mushrooms", *wild, "--engine", "mpi"]
    if starts == "mpiexec":
        mpiexec = [str(Path(sys.executable).with_name("mpiexec")), "-n", "2", *COMMAND, *words]
        done = subprocess.run(mpiexec, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    else:
        done = command(*words, "-n", "2", folder=tmp_path)
        assert done.stdout == ""
    assert done.returncode == 2
    assert done.stderr.count("gossamer: the run diverged: learner ") == 1
    assert len(done.stderr.splitlines()) == 2  # the cut, and why
    assert not list(tmp_path.iterdir())


def test_one_rank_downloads_what_is_not_there(tmp_path: Path) -> None:
    """Through a proxy that refuses, but waits a while for a second who asks."""
    asked, second = [], threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                asked.append(connection)
                threading.Thread(target=answer, args=(connection,)).start()

        def answer(connection: socket.socket) -> None:
            with connection:
                if len(asked) > 1:
                    second.set()
                second.wait(2)
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

        threading.Thread(target=refuse, daemon=True).start()
        proxy = f"http://127.0.0.1:{server.getsockname()[1]}"
        env = {**os.environ, "GOSSAMER_DATA": str(tmp_path), "https_proxy": proxy, "HTTPS_PROXY": proxy}
        env |= {"no_proxy": "", "NO_PROXY": ""}
        words = [
            "run",
            "mnist",
            "--features",
            "scattering",
            "--steps",
            "2",
            "--engine",
            "mpi",
            "-n",
            "2",
            "--json",
            "-",
        ]
        done = subprocess.run(
            [*COMMAND, *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        server.shutdown(socket.SHUT_RDWR)
    assert done.returncode == 2
    assert done.stderr.count("cannot be reached") == 1
    assert done.stderr.count("downloading") == 1
    assert len(asked) == 1


def processes(word: str) -> dict[int, str]:
    """Those in whose command line the word is, by their numbers."""
    listed = subprocess.run(["ps", "-axww", "-o", "pid,args"], capture_output=True, text=True, timeout=PATIENCE).stdout
    rows = [line.split(maxsplit=1) for line in listed.splitlines()[1:] if word in line]
    return {int(pid): args for pid, args in rows}


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_the_command_ends_its_ranks(tmp_path: Path, sent: signal.Signals) -> None:
    folder = tmp_path / "kept"  # whose name tells these ranks from others
    process = subprocess.Popen(
        [*COMMAND, *LONG, "--out", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "run: 2 ranks play 5 learners each" in process.stderr.readline()  # they are at work
    assert len(processes(str(folder))) == 4  # this one, mpiexec and its ranks
    process.send_signal(sent)
    _, err = process.communicate(timeout=PATIENCE)
    if sent == signal.SIGINT:
        assert process.returncode == 130
        assert err.splitlines()[-1] == "gossamer: stopped."
    until = time.monotonic() + PATIENCE
    while processes(str(folder)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not processes(str(folder))


def test_a_rank_that_is_killed_ends_all_in_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    process = subprocess.Popen(
        [*COMMAND, *LONG, "--out", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "run: 2 ranks play 5 learners each" in process.stderr.readline()
    others = {pid: args for pid, args in processes(str(folder)).items() if pid != process.pid}
    ranks = [pid for pid, args in others.items() if "mpiexec" not in args]
    assert len(ranks) == 2
    os.kill(ranks[0], signal.SIGKILL)  # of which is the first, numbers say nothing: they begin anew at their end
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert err.splitlines()[-1].startswith("gossamer: the ranks were ended from outside")
    until = time.monotonic() + PATIENCE
    while processes(str(folder)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not processes(str(folder))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--engine", "mpi"], "give --ranks 4"),
        (["--ranks", "3"], "--ranks 3 is for --engine mpi"),
        (["--engine", "mpi", "-n", "1"], "-n 1: expected a whole number ≥ 2"),
        (["--engine", "mpi", "-n", "100000"], "--ranks 100000: expected 2 to"),
        (["--engine", "mpi", "-n", "2", "--repeat", "2"], "leave --repeat out"),
        (["--engine", "mpi", "-n", "2", "--also-without-noise"], "leave --also-without-noise out"),
        (["--engine", "mpi", "-n", "2", "--out", "."], "it exists already"),
    ],
)
def test_what_is_not_for_ranks_is_refused_before_any_starts(
    gossamer: Any, tmp_path: Path, words: list[str], says: str
) -> None:
    (tmp_path / "something").touch()
    code, _, err = gossamer(*RUN, *words)
    assert code == 2
    assert says in err


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(gs.GossamerError, match=r"MPI needs mpi4py: install the extra `mpi`, pip install"):
        launching.launch(2, ["run"])
    monkeypatch.undo()

    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(world.importlib, "import_module", missing)
    with pytest.raises(gs.GossamerError, match=r"MPI cannot be loaded \(No module named 'mpi4py.MPI'\): install"):
        world.load_mpi()


def test_a_rank_waits_until_what_it_says_has_been_read():
    """Its launcher ends with it, and forwards nothing more."""
    read, write = os.pipe()
    os.write(write, b"gossamer: why\n")
    waits = threading.Thread(target=world._wait_until_read, args=(write,))
    waits.start()
    waits.join(0.5)
    assert waits.is_alive()
    os.read(read, 100)
    waits.join(PATIENCE)
    assert not waits.is_alive()
    with tempfile.TemporaryFile() as file:
        world._wait_until_read(file.fileno())  # nobody reads it from here
    os.close(read)
    os.close(write)
