"""Many runs on all cores, or on a cluster, each done once: results are kept by content, so a stopped study goes on."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Self

from gossamer.experiments.engines import LOCAL, Engine, check_engine, check_named, check_workers, connect
from gossamer.experiments.retries import deaf_children, run_all
from gossamer.experiments.workers import Job, Result
from gossamer.files import replace_file


class Runs:
    """Makes runs and keeps every outcome in `folder`/runs as soon as it is there.

    jobs      at most so many at once; by default as many as this machine has cores, or the cluster
    progress  is told how many are done, of how many
    engine    where they are made: see gossamer.experiments.engines. Whichever it is, the numbers are the same
    say       is told, in a sentence, when a worker was lost

    The engine starts with the first run that is not kept already. It ends with the `with` block, or with the process.
    """

    def __init__(
        self,
        folder: Path,
        jobs: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        engine: str = LOCAL,
        say: Callable[[str], None] | None = None,
    ) -> None:
        check_engine(engine)
        self._folder = folder / "runs"
        self._jobs, self._named = jobs, engine
        self._progress = progress or (lambda done, of: None)
        self._say = say or _warn
        self._engine: Engine | None = None
        self._open = ExitStack()
        self.made = 0  # how many were not kept from before

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine = None
        self._open.close()

    def __call__(self, tasks: Iterable[Job]) -> list[Result]:
        tasks = list(tasks)
        results = {task: self._kept(task.key()) for task in dict.fromkeys(tasks)}
        missing = [task for task, result in results.items() if result is None]
        done = len(results) - len(missing)
        self._progress(done, len(results))
        with closing(self._new(missing)) as fresh:
            for task, made in fresh:
                results[task] = made
                done += 1
                self._progress(done, len(results))
        return [result for task in tasks if (result := results[task]) is not None]

    def _new(self, tasks: list[Job]) -> Generator[tuple[Job, Result]]:
        if not tasks:
            return
        engine = self._connected()
        if engine.ask is not None:
            check_named(engine.ask, tasks)
        with closing(run_all(engine, tasks, self._say)) as answers:
            for task, answer in answers:
                if answer.error is not None:
                    raise answer.error
                assert answer.result is not None
                self._keep(answer.key, answer.result)
                yield task, answer.result

    def _connected(self) -> Engine:
        if self._engine is None:
            with deaf_children():
                engine = self._open.enter_context(connect(self._named, self._jobs, self._say))
            if engine.ask is not None:
                check_workers(engine.ask)
            self._engine = engine
        return self._engine

    def _kept(self, key: str) -> Result | None:
        try:
            kept = json.loads((self._folder / f"{key}.json").read_text())
            return dict(kept["result"]) if kept["key"] == key else None
        except (OSError, ValueError, KeyError, TypeError):  # not there, or damaged: run it
            return None

    def _keep(self, key: str, result: Result) -> None:
        replace_file(self._folder / f"{key}.json", json.dumps({"key": key, "result": result}).encode())
        self.made += 1


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=2)
