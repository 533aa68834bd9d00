"""The same runs on Dask: the same bytes as here, a killed worker's made again, unfit workers refused in a sentence."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import gossamer as gs
from gossamer.experiments.engines import connect
from gossamer.experiments.runs import Runs
from sweep_jobs import LIMIT, Held, begun_by, kept_in, kill_one_that_began, tasks

pytest.importorskip("distributed", reason="needs distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # what Dask warns of is its own
WITHOUT = "import sys; sys.modules['gossamer'] = None; from distributed.cli.dask_worker import main; main()"
WITH = "from distributed.cli.dask_worker import main; main()"
OURS = [str(Path(gs.__file__).parents[1]), str(Path(__file__).parent)]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """The address of a scheduler in a process of its own."""
    place = tmp_path_factory.mktemp("scheduler")
    told = place / "scheduler.json"
    code = "from distributed.cli.dask_scheduler import main; main()"
    words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told)]
    with started([sys.executable, "-c", code, *words], place, OURS):
        wait_until(lambda: told.exists() and told.read_text().strip().endswith("}"))
        yield json.loads(told.read_text())["address"].removeprefix("tcp://")


@contextlib.contextmanager
def started(words, place, path):
    """A process, in a folder of its own, that finds modules there."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    with open(place / "log", "a") as log:
        process = subprocess.Popen(words, cwd=place, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(true):
    until = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)


@contextlib.contextmanager
def workers(scheduler, place, count, code=WITH, path=OURS):
    words = [scheduler, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(place)]
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(started([sys.executable, "-c", code, *words], place, path))
        from distributed import Client

        with Client(scheduler, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=LIMIT)
        yield


def test_a_study_on_dask_comes_to_the_same_bytes_though_a_worker_is_killed(tmp_path, scheduler):
    word, said = tmp_path / "word", []
    word.mkdir()
    expected = Runs(tmp_path / "here", jobs=1)(tasks(4))
    engine = f"dask:{scheduler}"
    with workers(scheduler, tmp_path, 2), Runs(tmp_path / "there", engine=engine, say=said.append) as runs:
        killer = threading.Thread(target=kill_one_that_began, args=(word, 2))
        killer.start()
        assert runs([Held(task, str(word)) for task in tasks(4)]) == expected
        killer.join()
    assert kept_in(tmp_path / "there") == kept_in(tmp_path / "here")
    assert os.getpid() not in begun_by(word)
    assert len(said) == 1
    assert "a worker was lost" in said[0]


def test_workers_that_lack_something_are_refused_before_anything_runs(tmp_path, scheduler, own_csv, monkeypatch):
    other = tmp_path / "other" / "gossamer"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    (other / "version.py").write_text('__version__ = "0.1.0"\n')
    remedy = f"install gossamer-learning=={gs.__version__}"
    engine, word = f"dask:{scheduler}", tmp_path / "word"
    word.mkdir()
    for code, path, said in (
        (WITHOUT, OURS, f"cannot import Gossamer .*: {remedy}"),
        (
            WITH,
            [str(other.parent)],
            rf"has Gossamer 0\.1\.0, where {gs.__version__} is needed for the same .*: {remedy}",
        ),
    ):
        with (
            workers(scheduler, tmp_path, 1, code, path),
            Runs(tmp_path, engine=engine) as runs,
            pytest.raises(gs.GossamerError, match=said),
        ):
            runs([Held(tasks(1)[0], str(word))])
    assert not begun_by(word)


def test_nobody_there_is_a_sentence(tmp_path, monkeypatch):
    dask = pytest.importorskip("gossamer.experiments.engines.dask")
    monkeypatch.setattr(dask, "PATIENCE", 0.5)
    with Runs(tmp_path, engine="dask:127.0.0.1:9") as runs, pytest.raises(gs.GossamerError, match="no Dask scheduler"):
        runs(tasks(1))


def test_an_address_where_nobody_listens_is_one_sentence_and_leaves_no_thread():
    with socket.socket() as nobody:  # bound, and not listening
        nobody.bind(("127.0.0.1", 0))
        address = f"dask:127.0.0.1:{nobody.getsockname()[1]}"
        before = set(threading.enumerate())
        with pytest.raises(gs.BadValue, match="no Dask scheduler answers there"), connect(address, None, print):
            pass
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("engine", ["dask:localhost", "dask:", "ray://", "dask:host:port"])
def test_an_address_without_its_parts_is_refused_before_any_work(tmp_path, engine):
    with pytest.raises(gs.BadValue, match="expected local, ray, ray://HOST:PORT or dask:HOST:PORT"):
        Runs(tmp_path, engine=engine)
