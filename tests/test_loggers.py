"""What loggers are told is what the record holds; one that fails is left, and the run goes on."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.loggers.base import by_tag
from gossamer.loggers.named import logger_named

LIMIT = 300.0  # seconds, on a machine that is busy with other things
MEANS = ("tracking_error", "optimality_gap", "consensus_error", "accuracy")


def run_of(*loggers, steps=40, private=False, **more):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3, 60, 2))
    y = (X @ [2.0, -1.0] > 0).astype(float)
    stream = gs.streams.from_arrays(X, y, ranges=(-1, 1))
    privacy = gs.Gaussian.for_budget(2.0, delta=1e-5, where="source", horizon=40) if private else None
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.8))
    return gs.simulate(
        algorithm, gs.Network.ring(3), stream, model=gs.LogisticRegression(l2=0.1), privacy=privacy, steps=steps,
        evaluate_every=10, loggers=loggers, **more,
    )  # fmt: skip


class Told:
    """A logger that remembers."""

    def __init__(self):
        self.started, self.rows, self.ended = [], [], []

    def start(self, config):
        self.started.append(config)

    def log(self, t, numbers):
        self.rows.append((t, dict(numbers)))

    def end(self, outcome):
        self.ended.append(outcome)


class Broken(Told):
    def __init__(self, at):
        super().__init__()
        self.at = at

    def start(self, config):
        super().start(config)
        self._fail("start")

    def log(self, t, numbers):
        super().log(t, numbers)
        self._fail(t)

    def end(self, outcome):
        super().end(outcome)
        self._fail("end")

    def _fail(self, now):
        if now == self.at:
            raise OSError("no route to host\nand a second line")


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_logger_is_told_every_evaluation_of_the_record_in_order():
    told = Told()
    record = run_of(told)
    (config,), (ended,) = told.started, told.ended
    assert ended is record
    assert config["from"] == 0
    assert config["claim"] == record.claim
    assert {name: record.config[name] for name in config if name in record.config}.keys() >= {"algorithm", "stream"}
    assert all(config[name] == record.config[name] for name in config if name in record.config and name != "stream")
    assert [t for t, _ in told.rows] == record.history.t.tolist() == [0, 10, 20, 30, 40]
    for (_, numbers), row in zip(told.rows, record.history, strict=True):
        assert numbers == {name: row[name] for name in MEANS}, "and no ε where nothing is claimed"


def test_of_a_private_run_a_logger_is_told_what_each_learner_has_spent():
    told = Told()
    record = run_of(told, private=True)
    spent = np.array([numbers["epsilon"] for _, numbers in told.rows])
    assert spent.shape == (5, 3)
    assert not spent[0].any(), "before the first round nothing was sent"
    assert (np.diff(spent, axis=0) >= 0).all()
    np.testing.assert_array_equal(spent[-1], record.epsilon.spent)
    assert any("is not noised" in note for note in told.started[0]["notes"])


def test_a_configuration_cannot_be_changed_by_a_logger():
    told = Told()
    run_of(told)
    with pytest.raises(TypeError):
        told.started[0]["seed"] = 7


@pytest.mark.parametrize("at", ["start", 0, 20, "end"])
def test_a_logger_that_fails_is_left_with_one_sentence_and_the_run_goes_on(at):
    broken, other = Broken(at), Told()
    with pytest.warns(gs.loggers.LoggerFailed) as said:
        record = run_of(broken, other)
    assert record.finished
    assert [str(one.message) for one in said] == [
        "the logger Broken failed (OSError: no route to host): the run goes on without it."
    ]
    assert len(other.rows) == 5
    assert other.ended == [record]
    calls = {"start": (1, 0, 0), 0: (1, 1, 0), 20: (1, 3, 0), "end": (1, 5, 1)}[at]
    assert (len(broken.started), len(broken.rows), len(broken.ended)) == calls, "it is not asked again"


def test_what_ends_a_run_without_a_record_is_told(tmp_path):
    def ctrl_c(progress):
        if progress.t == 25:
            raise KeyboardInterrupt

    told = Told()
    with pytest.raises(KeyboardInterrupt):
        run_of(told, gs.loggers.Jsonl(tmp_path / "log.jsonl"), callback=ctrl_c)
    assert isinstance(told.ended[0], KeyboardInterrupt)
    *_, before, end = lines(tmp_path / "log.jsonl")
    assert before["t"] == 20
    assert (end["event"], end["finished"], end["error"]) == ("end", False, "KeyboardInterrupt")


def test_what_is_no_logger_is_refused_before_the_run():
    with pytest.raises(gs.GossamerError, match=r"loggers: str has no start and no log and no end\(\)"):
        run_of("events.jsonl")


def test_lines_hold_the_config_the_evaluations_and_the_end(tmp_path):
    record = run_of(gs.loggers.Jsonl(tmp_path / "new" / "log.jsonl"), private=True)
    start, *rows, end = lines(tmp_path / "new" / "log.jsonl")
    assert (start["event"], start["t"]) == ("start", 0)
    assert start["config"]["algorithm"] == dict(record.config["algorithm"])
    assert [row["t"] for row in rows] == record.history.t.tolist()
    for name in MEANS:
        values = [row[name] for row in rows]
        np.testing.assert_array_equal(values, record.history[name])
    assert (end["event"], end["t"], end["finished"]) == ("end", 40, True)
    assert end["epsilon"] == record.epsilon.spent.tolist() == rows[-1]["epsilon"]
    assert end["claim"] == record.claim


CRASH = """
import os, sys
sys.path.insert(0, os.path.dirname({test!r}))
from test_loggers import run_of
import gossamer as gs
run_of(gs.loggers.Jsonl({path!r}), callback=lambda progress: os._exit(9) if progress.t == 30 else None)
"""


def test_a_crash_leaves_all_lines_until_then(tmp_path):
    path = tmp_path / "log.jsonl"
    code = CRASH.format(test=__file__, path=str(path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=LIMIT)
    assert done.returncode == 9, done.stderr
    assert path.read_bytes().endswith(b"\n")
    assert [line["t"] for line in lines(path) if line["event"] == "evaluation"] == [0, 10, 20, 30]


def test_a_run_that_is_resumed_appends_after_the_last_whole_line(tmp_path):
    path = tmp_path / "log.jsonl"
    stopped = run_of(gs.loggers.Jsonl(path), callback=lambda progress: progress.t == 20)
    with path.open("ab") as file:
        file.write(b'{"time": "half a li')
    whole = run_of(gs.loggers.Jsonl(path), resume=stopped)
    told = [(line["event"], line["t"]) for line in lines(path)]
    first = [("start", 0), ("evaluation", 0), ("evaluation", 10), ("evaluation", 20), ("end", 20)]
    assert told == [*first, ("start", 20), ("evaluation", 30), ("evaluation", 40), ("end", 40)]
    assert lines(path)[-1]["accuracy"] == whole.history.accuracy[-1]


def test_a_full_disk_ends_the_log_and_not_the_run(tmp_path, monkeypatch):
    logger, write = gs.loggers.Jsonl(tmp_path / "log.jsonl"), os.write
    space = iter([True, True])

    def into_little_space(file, content):
        fits = file != logger._file or next(space, False)
        return write(file, content if fits else content[:7])

    monkeypatch.setattr(os, "write", into_little_space)
    with pytest.warns(gs.loggers.LoggerFailed, match="No space left on device"):
        assert run_of(logger).finished
    assert [line["event"] for line in lines(tmp_path / "log.jsonl")] == ["start", "evaluation"], "and no half line"


def test_loggers_get_no_digest_of_the_records(tmp_path):
    """Whoever knows all records but one could try values for it until the digest is right."""
    rng = np.random.default_rng(0)
    X, told = rng.uniform(-1, 1, size=(3, 20, 2)), Told()
    y = (X[..., 0] > 0).astype(float)
    stream = gs.streams.from_arrays(X, y, ranges=(-1, 1), test=(X[0], y[0]))
    record = gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.8)), gs.Network.ring(3), stream, steps=3,
        model=gs.LogisticRegression(l2=0.1), loggers=[told, gs.loggers.Jsonl(tmp_path / "log.jsonl")],
    )  # fmt: skip
    digests = [record.config["stream"][name] for name in ("fingerprint", "test")]
    everything = (tmp_path / "log.jsonl").read_text() + str(told.started)
    assert not [digest for digest in digests if digest in everything]
    assert told.started[0]["stream"]["records"] == record.config["stream"]["records"]


@pytest.mark.parametrize("content", [b"the only copy", b'{"time": "2026"}\nmine', b"a,b\n1,2"])
def test_a_file_that_ends_with_no_line_of_ours_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "thesis.txt"
    path.write_bytes(content)
    with pytest.warns(gs.loggers.LoggerFailed, match="ends with a line that no logger wrote"):
        assert run_of(gs.loggers.Jsonl(path)).finished
    assert path.read_bytes() == content


@pytest.mark.parametrize("half", [b"{", b'{"time": "2026-01'])
def test_a_line_of_ours_that_was_cut_anywhere_is_dropped(tmp_path, half):
    path = tmp_path / "log.jsonl"
    path.write_bytes(half)
    run_of(gs.loggers.Jsonl(path))
    assert lines(path)[0]["event"] == "start"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="NOT TESTED: a pipe, which this system has not")
def test_a_pipe_that_nobody_reads_is_refused_and_does_not_hold_up_the_run(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.warns(gs.loggers.LoggerFailed, match="is no regular file"):
        assert run_of(gs.loggers.Jsonl(tmp_path / "pipe")).finished


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize("raised", [SystemExit(3), Speechless(), GeneratorExit()])
def test_nothing_that_a_logger_raises_ends_the_run(raised):
    class Ends(Told):
        def log(self, t, numbers):
            raise raised

    with pytest.warns(gs.loggers.LoggerFailed, match=rf"Ends failed \({type(raised).__name__}"):
        assert run_of(Ends()).finished


def test_a_failing_logger_ends_no_run_where_warnings_are_errors():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        assert run_of(Broken(20)).finished
    assert "the logger Broken failed (OSError: no route to host)" in str(said[0].message), "and it is shown"


def test_ctrl_c_in_a_logger_is_meant_for_the_run():
    class Slow(Told):
        def log(self, t, numbers):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_of(Slow())


def test_numbers_of_learners_are_told_apart_and_what_is_not_finite_is_left_out():
    numbers = {"accuracy": 0.5, "tracking_error": float("nan"), "epsilon": [1.0, float("inf")]}
    assert by_tag(numbers, ["St. Mary's", "b"]) == {"accuracy": 0.5, "epsilon/0-St._Mary_s": 1.0}
    assert by_tag({"epsilon": [1.0, 2.0]}) == {"epsilon/0": 1.0, "epsilon/1": 2.0}


def test_tensorboard_reads_what_was_logged(tmp_path):
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    stopped = run_of(gs.loggers.TensorBoard(tmp_path), callback=lambda progress: progress.t == 20)
    record = run_of(gs.loggers.TensorBoard(tmp_path), resume=stopped)
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) == set(MEANS)
    for name in MEANS:
        read = events.Scalars(name)
        assert [one.step for one in read] == record.history.t.tolist()
        np.testing.assert_allclose([one.value for one in read], record.history[name], rtol=1e-6)
    (text,) = {event.tensor_proto.string_val[0] for event in events.Tensors("config/text_summary")[:1]}
    assert b'"algorithm"' in text


def test_tensorboard_that_cannot_write_ends_the_log_and_not_the_run(tmp_path):
    pytest.importorskip("tensorboardX")
    (tmp_path / "taken").write_text("a file, and no folder")
    with pytest.warns(gs.loggers.LoggerFailed, match="TensorBoard failed"):
        assert run_of(gs.loggers.TensorBoard(tmp_path / "taken")).finished


class StandIn(types.ModuleType):
    """As much of wandb's and trackio's calls as is used, which are the same in both."""

    def __init__(self, name):
        super().__init__(name)
        self.rows, self.finished, self.settings = [], False, None

    def init(self, *, project, name, config):
        print("a greeting")  # as both have
        self.settings = {"project": project, "name": name, "config": config}
        return types.SimpleNamespace(log=self._log, finish=self._finish)

    def _log(self, numbers, step):
        self.rows.append((step, numbers))

    def _finish(self):
        self.finished = True


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_wandb_and_trackio_are_told_every_evaluation(name, monkeypatch, capsys):
    library = StandIn(name)
    monkeypatch.setitem(sys.modules, name, library)
    record = run_of(logger_named(f"{name}:wards", "first"), private=True)
    assert library.settings["project"] == "wards"
    assert library.settings["name"] == "first"
    assert json.dumps(library.settings["config"]), "plain values, which a library can keep"
    assert [step for step, _ in library.rows] == record.history.t.tolist()
    assert library.rows[-1][1]["accuracy"] == record.history.accuracy[-1]
    assert library.rows[-1][1]["epsilon/2"] == record.epsilon.spent[2]
    assert library.finished
    assert capsys.readouterr().out == "", "standard output is for results"


class MlflowStandIn:
    """As much of MLflow's client as is used, with its limits on what is sent at once."""

    def __init__(self, tracking_uri=None):
        self.uri, self.params, self.metrics, self.state = tracking_uri, {}, [], None

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        return f"number of {name}"

    def create_run(self, experiment, *, tags, run_name):
        self.run = (experiment, run_name)
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="one"))

    def log_batch(self, run_id, metrics=(), params=()):
        assert run_id == "one"
        assert len(metrics) <= 1000
        assert len(params) <= 100
        self.metrics += metrics
        self.params |= dict(params)

    def set_terminated(self, run_id, state):
        self.state = state


def test_mlflow_is_told_settings_evaluations_and_how_it_ended(monkeypatch):
    clients = []
    library, entities = types.ModuleType("mlflow"), types.ModuleType("mlflow.entities")
    library.MlflowClient = lambda **given: clients.append(MlflowStandIn(**given)) or clients[-1]
    entities.Param, entities.Metric = (lambda *given: given), (lambda *given: given)
    monkeypatch.setitem(sys.modules, "mlflow", library)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    record = run_of(logger_named("mlflow:http://host:5000", "first"))
    run_of(logger_named("mlflow", "stopped"), callback=lambda progress: progress.t == 5)
    done, stopped = clients
    assert (done.uri, done.run, done.state) == ("http://host:5000", ("number of gossamer", "first"), "FINISHED")
    assert (stopped.uri, stopped.state) == (None, "KILLED")
    assert done.params["algorithm.name"] == "ldp_gradient_tracking"
    told = [(t, value) for tag, value, _, t in done.metrics if tag == "accuracy"]
    assert told == list(zip(record.history.t, record.history.accuracy, strict=True))


REAL = """
import os, sys, json
sys.path.insert(0, os.path.dirname({test!r}))
from test_loggers import run_of
import gossamer as gs
from gossamer.loggers.named import logger_named
record = run_of(logger_named({name!r}, "first"))
{check}
"""
CHECKS = {
    "mlflow": """
from mlflow import MlflowClient
client = MlflowClient({place!r})
(run,) = client.search_runs([client.get_experiment_by_name("gossamer").experiment_id])
assert run.info.status == "FINISHED" and run.info.run_name == "first", run.info
assert run.data.params["seed"] == "0", run.data.params
read = client.get_metric_history(run.info.run_id, "accuracy")
assert [(one.step, one.value) for one in read] == list(zip(record.history.t, record.history.accuracy)), read
""",
    "trackio": """
from trackio.sqlite_storage import SQLiteStorage
read = SQLiteStorage.get_logs({place!r}, "first")
assert [(one["step"], one["accuracy"]) for one in read] == list(zip(record.history.t, record.history.accuracy)), read
""",
    "wandb": """
from pathlib import Path
assert list(Path("wandb").glob("offline-run-*/*.wandb")), "an offline run was kept"
""",
}


@pytest.mark.parametrize(
    ("name", "place"), [("mlflow", "sqlite:///mlflow.db"), ("trackio", "wards"), ("wandb", "wards")]
)
def test_the_library_itself_takes_what_it_is_told(name, place, tmp_path):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"NOT TESTED: {name} itself, which is not installed here: its calls are tested with a stand-in.")
    code = REAL.format(test=__file__, name=f"{name}:{place}", check=CHECKS[name].format(place=place))
    away = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | away, capture_output=True, text=True,
        timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "LoggerFailed" not in done.stderr


def test_a_logger_by_a_name_that_there_is_not_is_refused_with_the_near_one(gossamer):
    code, _, err = gossamer("run", "mushrooms", "--steps", 5, "--log", "tensorbord:here")
    assert code == 2
    assert err == (
        "gossamer: --log tensorbord:here: it is not one of tensorboard, mlflow, trackio, wandb; perhaps tensorboard is "
        "meant.\n"
    )


def test_a_library_that_is_not_there_is_said_before_the_run(gossamer, monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, _, err = gossamer("run", "mushrooms", "--steps", 5, "--log", "mlflow")
    assert (code, err) == (2, "gossamer: logging to mlflow needs it: install gossamer-learning[mlflow].\n")
    assert not list(tmp_path.iterdir()), "nothing was begun"


def test_every_run_of_the_command_has_its_lines_and_a_failing_logger_ends_none(gossamer, tmp_path, monkeypatch):
    library = StandIn("trackio")
    library.init = None
    monkeypatch.setitem(sys.modules, "trackio", library)
    code, out, err = gossamer("run", "mushrooms", "--steps", 20, "--evaluate-every", 5, "--log", "trackio")
    assert code == 0
    assert "gossamer: the logger Wandb failed (TypeError" in err
    assert err.count("gossamer:") == 1
    assert "gossamer-run/events.jsonl" in out
    record = gs.Record.load(tmp_path / "gossamer-run")
    start, *rows, end = lines(tmp_path / "gossamer-run" / "events.jsonl")
    assert start["config"]["seed"] == 0
    assert [row["accuracy"] for row in rows] == record.history.accuracy.tolist()
    assert end["finished"]
    code, _, _ = gossamer("run", "--resume", "gossamer-run", "--steps", 30)
    assert code == 0
    told = lines(tmp_path / "gossamer-run" / "events.jsonl")
    assert [line["t"] for line in told if line["event"] == "start"] == [0, 20]
    assert told[-1]["t"] == 30


def test_of_a_private_run_it_is_said_which_numbers_are_not_noised(gossamer, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", StandIn("wandb"))
    code, _, err = gossamer("run", "mushrooms", "--steps", 20, "--epsilon", 3, "--log", "wandb")
    assert code == 0
    assert "errors, accuracies and counts of clipped values of this private run are not noised, and go to wandb" in err


def test_the_logger_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs" / "command.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    exec(compile(code, "docs/command.md", "exec"), {})
    assert "from round 0" in capsys.readouterr().out
    assert [line["t"] for line in lines("events.jsonl")] == [0, 0, 10, 20, 20]
