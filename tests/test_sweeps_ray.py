"""The same runs on Ray: the same bytes as here, a killed worker's made again, unfit workers refused in a sentence."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import gossamer as gs
from gossamer.experiments.runs import Runs
from sweep_jobs import LIMIT, Held, begun_by, kept_in, kill_one_that_began, tasks

ray = pytest.importorskip("ray", reason="needs the extra `cluster`")
pytestmark = pytest.mark.filterwarnings("ignore")  # what Ray warns of is its own
OURS = [str(Path(gs.__file__).parents[1]), str(Path(__file__).parent)]  # where workers find modules
ALONE = "GOSSAMER_TEST_ALONE"


def alone(test):
    """Run it in a process of its own. Ray forks, and its child may hang where other threads of this process are in
    gRPC, as tests of parties leave them."""

    @functools.wraps(test)
    def apart(**fixtures):
        if ALONE in os.environ:
            test(**fixtures)
            return
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::{test.__name__}"]
        done = subprocess.run(
            command, env={**os.environ, ALONE: "1"}, capture_output=True, text=True, timeout=2 * LIMIT
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return apart


@alone
def test_a_study_on_ray_comes_to_the_same_bytes_though_a_worker_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(OURS))
    word, said = tmp_path / "word", []
    word.mkdir()
    expected = Runs(tmp_path / "here", jobs=1)(tasks(4))
    with Runs(tmp_path / "there", jobs=2, engine="ray", say=said.append) as runs:
        killer = threading.Thread(target=kill_one_that_began, args=(word,))
        killer.start()
        assert runs([Held(task, str(word)) for task in tasks(4)]) == expected
        killer.join()
        assert ray.is_initialized()
        assert not ray._common.usage.usage_lib.usage_stats_enabled(), "nobody is told that Ray is used"
    assert kept_in(tmp_path / "there") == kept_in(tmp_path / "here")
    assert os.getpid() not in begun_by(word)
    assert len(said) == 1
    assert "a worker was lost" in said[0]
    assert not ray.is_initialized(), "the cluster that was started is ended"


@alone
def test_a_cluster_with_another_version_is_refused_before_anything_runs_and_is_left_as_it_was(tmp_path):
    other = tmp_path / "other" / "gossamer"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    (other / "version.py").write_text('__version__ = "0.1.0"\n')
    word = tmp_path / "word"
    word.mkdir()
    there = {"env_vars": {"PYTHONPATH": str(other.parent)}}
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=10**8, runtime_env=there)
    try:
        said = rf"has Gossamer 0\.1\.0, where {gs.__version__} is needed.*install gossamer-learning=={gs.__version__}"
        with Runs(tmp_path, engine="ray") as runs, pytest.raises(gs.GossamerError, match=said):
            runs([Held(tasks(1)[0], str(word))])
        assert not begun_by(word)
        assert ray.is_initialized()
    finally:
        ray.shutdown()
