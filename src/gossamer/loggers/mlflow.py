"""MLflow's tracking, through its client: a server, or a database file on this machine."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gossamer.loggers.base import Numbers, by_tag, learners_in, needs
from gossamer.run_record import Record, plain

EXPERIMENT = "gossamer"
LONGEST = 500  # letters of a parameter
BATCH = 100  # parameters, and metrics, that a server takes at once


class Mlflow:
    """A run of the experiment "gossamer": settings as parameters, numbers as metrics over the rounds (extra `mlflow`).

    uri   such as http://host:5000 or sqlite:///mlflow.db; without it MLflow's own, which MLFLOW_TRACKING_URI says
    name  what the run is called there
    """

    def __init__(self, uri: str | None = None, name: str | None = None) -> None:
        needs("mlflow", "gossamer-learning[mlflow]")
        self._uri, self._name = uri, name
        self._learners: Sequence[str] = ()
        self._client: Any = None
        self._run = ""

    def start(self, config: Mapping[str, Any]) -> None:
        self._client = importlib.import_module("mlflow").MlflowClient(tracking_uri=self._uri)
        entities = importlib.import_module("mlflow.entities")
        self._learners = learners_in(config)
        there = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = self._client.create_experiment(EXPERIMENT) if there is None else there.experiment_id
        tags = {"mlflow.note.content": str(config["claim"]), "gossamer.from": str(config["from"])}
        name = self._name or str(config["title"])
        self._run = self._client.create_run(experiment, tags=tags, run_name=name).info.run_id
        told = [entities.Param(key, text) for key, text in _flat(plain(config))]
        for k in range(0, len(told), BATCH):
            self._client.log_batch(self._run, params=told[k : k + BATCH])

    def log(self, t: int, numbers: Numbers) -> None:
        entities = importlib.import_module("mlflow.entities")
        now = int(time.time() * 1000)
        tagged = by_tag(numbers, self._learners).items()
        told = [entities.Metric(tag, value, now, t) for tag, value in tagged]
        for k in range(0, len(told), BATCH):
            self._client.log_batch(self._run, metrics=told[k : k + BATCH])

    def end(self, outcome: Record | BaseException) -> None:
        ran = isinstance(outcome, Record)
        state = "FINISHED" if isinstance(outcome, Record) and outcome.finished else "KILLED" if ran else "FAILED"
        self._client.set_terminated(self._run, state)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Settings by a dotted name, such as algorithm.step; lists as they are written."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(one, f"{name}.{key}" if name else str(key))
    else:
        yield name, str(value)[:LONGEST]
