"""Many runs on this machine: the same bytes on any number of workers; nothing is made twice, what is lost again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import gossamer as gs
from gossamer.experiments import engines, workers
from gossamer.experiments.runs import Runs
from gossamer.experiments.workers import Unfit
from sweep_jobs import LIMIT, LINES, Deadly, Held, Mistaken, Telling, begun_by, kept_in, kill_one_that_began, tasks


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """(results, kept files) of six runs that this process made by itself."""
    place = tmp_path_factory.mktemp("expected")
    return Runs(place, jobs=1)(tasks(6)), kept_in(place)


def test_a_killed_workers_runs_are_tried_again_and_come_to_the_same_bytes(tmp_path, expected):
    word, said = tmp_path / "word", []
    word.mkdir()
    with Runs(tmp_path, jobs=2, say=said.append) as runs:
        killer = threading.Thread(target=kill_one_that_began, args=(word,))
        killer.start()
        results = runs([Held(task, str(word)) for task in tasks(6)])
        killer.join()
    assert (results, kept_in(tmp_path)) == expected
    assert len(set(begun_by(word))) >= 2, "another process went on"
    assert len(said) == 1
    assert "a worker was lost" in said[0]


def test_a_run_that_takes_every_worker_with_it_is_given_up_and_the_others_are_not(tmp_path, expected):
    word, said = tmp_path / "word", []
    word.mkdir()
    first, *others = tasks(6)
    with Runs(tmp_path, jobs=2, say=said.append) as runs, pytest.raises(gs.GossamerError, match="1 of 6 runs took"):
        runs([Deadly(first, str(word)), *others])
    assert len(begun_by(word)) == 3
    assert len(said) == 2
    kept = dict(expected[1])
    del kept[f"{first.key()}.json"]
    assert kept_in(tmp_path) == kept


def test_a_run_that_fails_by_itself_is_said_once_and_not_tried_again(tmp_path):
    word, said = tmp_path / "word", []
    word.mkdir()
    with Runs(tmp_path, jobs=2, say=said.append) as runs, pytest.raises(gs.GossamerError, match=r"^a mistake of the"):
        runs([Mistaken(tasks(1)[0], str(word))])
    assert len(begun_by(word)) == 1
    assert not said


def test_what_was_interrupted_goes_on_with_what_is_missing(tmp_path, expected):
    def interrupt(done, of):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Runs(tmp_path, jobs=2, progress=interrupt) as runs:
        runs(tasks(6))
    there = kept_in(tmp_path)
    assert len(there) == 3
    seen = []
    with Runs(tmp_path, jobs=2, progress=lambda *counts: seen.append(counts)) as runs:
        assert runs(tasks(6)) == expected[0]
    assert runs.made == 3
    assert seen == [(done, 6) for done in (3, 4, 5, 6)]
    assert kept_in(tmp_path) == expected[1]


def test_a_worker_is_another_process_with_one_thread(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with Runs(tmp_path, jobs=2) as runs:
        (told,) = runs([Telling(tasks(1)[0], "")])
    assert told["threads"] == "1"
    assert told["pid"] != os.getpid()
    assert os.environ["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize("name", ["magic", "ray:", "ray:host:1", "dask", "dask:", "local:4", ""])
def test_what_is_no_engine_is_refused_before_any_work(tmp_path, name):
    with pytest.raises(gs.GossamerError, match="expected local, ray, ray://HOST:PORT or dask:HOST:PORT"):
        Runs(tmp_path, engine=name)


@pytest.mark.parametrize(
    ("name", "installed"), [("ray", r"gossamer-learning\[cluster\]"), ("dask:host:8786", "distributed")]
)
def test_an_engine_whose_package_is_missing_says_what_to_install(tmp_path, monkeypatch, name, installed):
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda module: None)
    with pytest.raises(gs.GossamerError, match=f"install {installed}"):
        Runs(tmp_path, engine=name)


def test_a_worker_with_other_versions_refuses_a_run():
    task = tasks(1)[0]
    mine = workers.own_versions()
    assert workers.make("k", task, task.named(), mine).error is None
    for name, other in (("Python", "3.10.1"), ("NumPy", "1.26.0"), ("Gossamer", "0.1.0")):
        answer = workers.make("k", task, task.named(), mine | {name: other})
        assert isinstance(answer.error, Unfit)
        assert f"has {name} {mine[name]}, where {other} is needed" in str(answer.error)
    series = mine["Python"].rpartition(".")[0]
    assert workers.make("k", task, task.named(), mine | {"Python": f"{series}.99"}).error is None


def test_a_worker_without_a_file_or_with_another_one_refuses_a_run(tmp_path, own_csv, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = tasks(1, LINES.but(dataset=None, csv=own_csv, target="ill", drop=("clinic",), graph="ring", clip=None))[0]
    named, there = task.named(), task.placed()
    assert there.named() == named
    file = tmp_path / own_csv
    file.write_text(file.read_text() + "\n")
    said = str(workers.make("k", there, named, workers.own_versions()).error)
    assert f"has another file {file}: put the same there" in said
    file.unlink()
    said = str(workers.make("k", there, named, workers.own_versions()).error)
    assert f"has no file {file}" in said
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert there.named().keys() == named.keys(), "a description that was placed names the same from anywhere"


def test_far_more_workers_than_cores_are_refused_before_any_starts(tmp_path):
    with Runs(tmp_path, jobs=10**6) as runs, pytest.raises(gs.BadValue, match="expected at most"):
        runs(tasks(2))


WHO_HEARS = """
import sys, tempfile
from pathlib import Path
from gossamer.experiments.runs import Runs
from sweep_jobs import Listening, tasks
with tempfile.TemporaryDirectory() as place, Runs(Path(place), jobs=2) as runs:
    print(runs([Listening(task, place) for task in tasks(6)]))
"""


def test_no_worker_hears_ctrl_c_which_is_for_whoever_started_it():
    """In a fresh process: there the first worker's start brings others along that let ctrl-C through."""
    here = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", WHO_HEARS], capture_output=True, text=True, timeout=LIMIT, check=True, cwd=here
    )
    assert done.stdout.strip() == str([{"deaf": True}] * 6)


THREADS = """
import sys
from pathlib import Path
from threadpoolctl import threadpool_info
from gossamer.experiments.runs import Runs
from sweep_jobs import Passed, tasks

class Counting(Passed):
    def outcome(self):
        return {"threads": max(threads().values())}

def counted():
    with Runs(Path(sys.argv[1]), jobs=1) as runs:
        return runs([Counting(tasks(1)[0], "")])

def threads():
    return {one["filepath"]: one["num_threads"] for one in threadpool_info()}

import scipy.linalg
before = threads()
assert max(before.values()) > 1, "or nothing is tried"
print(counted()[0]["threads"], threads().items() >= before.items())
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="BLAS has one thread on one core")
def test_a_run_in_this_process_has_one_thread_as_in_a_worker(tmp_path):
    """With more of them BLAS adds up in another order, and the bytes would be others than a worker's."""
    many = {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}
    many["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), many.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", THREADS, str(tmp_path)]
    done = subprocess.run(command, env=many, capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout.split() == ["1", "True"], done
