"""Jobs for tests of sweeps, in a module of their own, so that workers can import them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

from gossamer.errors import GossamerError
from gossamer.experiments.search import Choice
from gossamer.experiments.study import Case, Effort, Study, least
from gossamer.experiments.tasks import Task
from gossamer.spec import Spec

LIMIT = 300.0  # seconds, on a machine that is busy with other things
LINES = Spec.of(dataset="regression", l2=1e-3, clip=1.0, graph="paper")


def tasks(count, problem=LINES, steps=15):
    """Real runs of a study, that differ in their steps' length."""
    study = Study(problem, Effort(steps, 1, ()), None, least("tracking_error"))
    return [study.task(Case("dsgd", None), Choice(0.1 / (k + 1)), 0) for k in range(count)]


@dataclass(frozen=True)
class Passed:
    """A task, as a job of another kind."""

    task: Task
    folder: str  # where it leaves word

    def key(self):
        return self.task.key()

    def outcome(self):
        return self.task.outcome()

    def named(self):
        return self.task.named()

    def placed(self):
        return self

    def begin(self):
        """A line for every time that it was begun: by whom."""
        with open(os.path.join(self.folder, self.key()), "a") as file:
            file.write(f"{os.getpid()}\n")


class Held(Passed):
    """Goes on when there is a file `go`."""

    def outcome(self):
        self.begin()
        until = time.monotonic() + LIMIT
        while not os.path.exists(os.path.join(self.folder, "go")):
            assert time.monotonic() < until
            time.sleep(0.02)
        return self.task.outcome()


class Deadly(Passed):
    """Takes its worker with it, every time."""

    def outcome(self):
        self.begin()
        os.kill(os.getpid(), signal.SIGKILL)


class Mistaken(Passed):
    def outcome(self):
        self.begin()
        raise GossamerError("a mistake of the user's: mend it.")


class Telling(Passed):
    """Says in which process it runs, and with how many threads."""

    def key(self):
        return "telling"

    def outcome(self):
        return {"pid": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS")}


def begun_by(folder):
    """The processes that have begun held runs, in no order."""
    return [int(pid) for place in folder.iterdir() if place.name != "go" for pid in place.read_text().split()]


def kill_one_that_began(folder, at_least=1):
    """Kill a worker that has begun a run, once there are some; then let runs go on."""
    until = time.monotonic() + LIMIT
    while len(begun_by(folder)) < at_least:
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(begun_by(folder)[0], signal.SIGKILL)
    (folder / "go").touch()


def kept_in(folder):
    """What is kept of every run, to the byte."""
    return {place.name: place.read_bytes() for place in (folder / "runs").glob("*.json")}


class Listening(Passed):
    """Says whether its process would hear ctrl-C."""

    def outcome(self):
        return {"deaf": signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])}
