"""What is not used is not loaded: the package, the command's help, a peer that waits; each in a fresh interpreter."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import numba.core.caching
import pytest

import gossamer as gs
from gossamer.cli.commands import COMMANDS, imported_command
from gossamer.compiling import compiled

HEAVY = (
    "numba",
    "scipy",
    "scipy.fft",
    "scipy.sparse",
    "scipy.special",
    "matplotlib",
    "networkx",
    "torch",
    "rich",
    "typer",
)
HELP = """
import sys
from gossamer.cli.commands import main
for command in sys.argv[1:] or [""]:
    sys.argv = ["gossamer", *command.split(), "--help"]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, command
"""
LIMIT = 120.0  # seconds, on a machine that is busy with other things


def loaded_after(code, *words):
    """Which of the heavy modules an interpreter has loaded that has run nothing else."""
    tell = f"\nimport sys\nprint()\nprint(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code + tell, *words], capture_output=True, text=True, check=True, timeout=LIMIT
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_nothing_heavy():
    assert not loaded_after("import gossamer")


@pytest.mark.parametrize("name", gs.__all__)
def test_every_public_name_is_found(name):
    assert getattr(gs, name) is not None
    assert name in dir(gs)


def test_a_name_that_there_is_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'simulation'"):
        _ = gs.simulation


@pytest.mark.parametrize("first", ["import gossamer.simulate.engine", "import gossamer; gossamer.simulate"])
def test_simulate_is_the_function_whatever_of_its_package_is_imported(first):
    then = "from gossamer.simulate.engine import simulate; import gossamer; assert gossamer.simulate is simulate"
    loaded_after(f"{first}\n{then}")


def test_help_loads_no_command():
    assert loaded_after(HELP) == {"typer"}


def test_help_of_a_command_loads_no_library_of_its_work():
    assert loaded_after(HELP, *COMMANDS, "peers init", "peer run") <= {"typer", "rich", "scipy"}  # and no part of scipy


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says_of_itself(name):
    command = imported_command(name)
    assert command.name == name
    assert command.get_short_help_str(1000).rstrip(".") == COMMANDS[name].rstrip(".")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="needs the extra `peers`")
def test_a_peer_that_waits_for_records_has_loaded_no_compiler(gossamer, tmp_path):
    words = ["--learners", "3", "--target", "ill", "--classes", "0,1", "--range", "age=0:120", "--steps", "5"]
    assert gossamer("peers", "init", "run", *words)[0] == 0
    folder = tmp_path / "run" / "learner-0"
    process = subprocess.Popen([sys.executable, "-m", "gossamer", "peer", "run", str(folder), "--quiet"])
    try:
        until = time.monotonic() + LIMIT
        while state_of(folder) != "waiting for records":
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        maps = Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.kill()
        process.wait()
    assert "numpy" in maps
    assert not [name for name in ("numba", "llvmlite", "matplotlib", "torch") if f"/{name}/" in maps]
    told = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert (told[0]["event"], told[0]["for"], told[0]["here"], told[0]["needed"]) == ("waiting", "records", 0, 4)
    assert told[0]["file"] == str(folder / "records.csv")
    assert json.loads((folder / "status.json").read_text())["file"] == str(folder / "records.csv")


PEER = """
import json, sys
from pathlib import Path
from gossamer.peers.config import read_config
from gossamer.peers.process import run_learner
def look(moment):
    told = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    peak = next(int(words[1]) for words in told if words[0] == "VmHWM:") * 1024 / 1e6
    loaded = [name for name in ("numba", "llvmlite", "scipy.optimize", "scipy.linalg") if name in sys.modules]
    Path(sys.argv[1], "looked.json").write_text(json.dumps([peak, loaded]))
run_learner(read_config(sys.argv[1]), look, quiet=True)
"""
MOST_MEMORY = 120.0  # MB


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="needs the extra `peers`")
@pytest.mark.parametrize("noise", [(), ("--where", "messages", "--law", "laplace")], ids=["source", "messages"])
def test_a_learner_of_few_parameters_needs_neither_a_compiler_nor_much_memory(gossamer, tmp_path, noise):
    """All its rounds, with TLS, journal and exact noise; its peak, at which the mushrooms' learners had 275 MB."""
    from test_processes import free_ports

    words = ["--learners", "3", "--steps", "12", "--port", str(free_ports(3)), *noise]
    assert gossamer("peers", "init", "run", *words)[0] == 0
    folders = [tmp_path / "run" / f"learner-{i}" for i in range(3)]
    processes = [subprocess.Popen([sys.executable, "-c", PEER, str(folder)]) for folder in folders]
    try:
        assert [process.wait(LIMIT) for process in processes] == [0, 0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for folder in folders:
        assert state_of(folder) == "done"
        assert json.loads((folder / "status.json").read_text())["epsilon"][0] > 0
        peak, loaded = json.loads((folder / "looked.json").read_text())
        assert loaded == []
        assert peak <= MOST_MEMORY


def state_of(folder):
    """What a learner says of itself, or None while it has said nothing."""
    status = folder / "status.json"
    return json.loads(status.read_text())["state"] if status.exists() else None


def test_where_no_machine_code_can_be_kept_it_is_made_anew(monkeypatch):
    """A read-only installation without a home: numba refuses to compile what is to be kept."""
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator"):
        numba.njit(cache=True)(_plus)
    assert compiled(nogil=True)(_plus)(2) == 3


def _plus(x):
    return x + 1
