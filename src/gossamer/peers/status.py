"""What a learner's owner sees of it: status.json in its folder, written every second, and for the owner alone.

Beside what /metrics shows it has errors on own records, which are not noised.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.models import LinearModel, Objective
from gossamer.peers.blocks import NEWEST
from gossamer.peers.changes import Inbox
from gossamer.peers.compared import words_of
from gossamer.peers.config import Plan
from gossamer.peers.credentials import CredentialsWatch
from gossamer.peers.feed import Records
from gossamer.peers.folders import learners_in
from gossamer.peers.journal import Journal
from gossamer.peers.node import PUT_OUT, Node
from gossamer.peers.passing import passing_state
from gossamer.peers.status_file import StatusFile
from gossamer.peers.uncancelled import Shares, shares_of, tell_uncancelled
from gossamer.privacy import PrivateBoundary, Unproved
from gossamer.records import Population
from gossamer.version import __version__

EVERY = 1.0  # seconds
ENDED = ("done", "stopped")
NAME = "status.json"
RECORDS = "waiting for records"  # a state
NUMBERS = {"learner": int, "life": int, "round": int, "steps": int, "updated": float | int, "waits": float | int}


class Status:
    """Where one learner is; `node` is there from the moment that it has its first records."""

    def __init__(
        self,
        plan: Plan,
        model: LinearModel,
        boundary: PrivateBoundary | Unproved,
        journal: Journal,
        feed: Records,
        credentials: CredentialsWatch,
        inbox: Inbox | None = None,
    ) -> None:
        self._file = StatusFile(plan.folder / NAME)
        self.plan, self.journal, self.credentials, self._inbox = plan, journal, credentials, inbox
        self._model, self._boundary, self._feed = model, boundary, feed
        self._words = words_of(plan)  # to compare with other parties'
        self.node: Node | None = None
        self.state = "starting"
        self.errors: dict[str, float] = {}  # as last written
        self._spent_at: int = -2
        self._spent: tuple[float, ...] = ()

    @property
    def against(self) -> str | None:
        """Against whom ε holds, in words; None where nothing is claimed."""
        return self._boundary.mechanism.against if isinstance(self._boundary, PrivateBoundary) else None

    @property
    def paid_rounds(self) -> int | None:
        """The round from which the budget allows nothing new: of a whole run all of them; None without a budget."""
        return int(self._boundary.stops[0]) if isinstance(self._boundary, PrivateBoundary) else None

    def shares(self, ended: bool = False) -> Shares | None:
        """What is known of the rounds in which shared noise did not cancel."""
        round_ = 0 if self.node is None else self.node.party.round
        return shares_of(self._boundary, self.plan, self.journal.late(), round_, ended)

    def budget(self) -> tuple[float, ...] | None:
        """ε so far, for ever and, with pair secrets, if all others collude; None where nothing is claimed.

        It is worked out once a round.
        """
        if not isinstance(self._boundary, PrivateBoundary):
            return None
        round_ = -1 if self.node is None else self.node.party.round
        if self._spent_at != round_:
            self._spent_at, self._spent = round_, tuple(map(float, self._boundary.budget()[0]))
        return self._spent

    def write(self, state: str | None = None) -> None:
        """`state` where the learner does something of its own; otherwise it is seen from its node."""
        about: dict[str, Any] = {
            "learner": self.plan.learner, "pid": os.getpid(), "life": self.journal.epoch,
            "steps": self.plan.config.run.steps, "updated": time.time(), "records": len(self._feed),
            "claim": self._boundary.claim, "epsilon": self.budget(), "budget": self.plan.config.privacy.epsilon,
            "against": self.against, "release": __version__, "clipped": dict(self._feed.clipped),
            "certificate_days_left": round(self.credentials.days_left, 1), "fingerprint": self._words,
        }  # fmt: skip
        if self.credentials.problem:
            about["credentials"] = self.credentials.problem
        shares = self.shares(ended=state in ENDED)
        if shares is not None:
            about["uncancelled"] = tell_uncancelled([shares], self.plan)
        self.state = state or self.state
        if self.node is not None:
            about |= self._progress(self.node, state)
        if self.state == RECORDS:
            about["file"] = str(self._feed.path)
        if self._file.failed:
            about["unwritten"] = self._file.failed
        self._file.write(about | {"state": self.state})

    def write_failure(self, error: Exception) -> None:
        """How the learner has ended."""
        write_failure(self.plan, error, self._file)

    @property
    def unwritten(self) -> int:
        """How often the status file could not be replaced."""
        return self._file.failed

    def close(self) -> None:
        self._file.close()

    def _progress(self, node: Node, state: str | None) -> dict[str, Any]:
        party = node.party
        waits_for = [] if state or node.done or node.waiting < EVERY else node.waits_for
        if state is None:
            starved = RECORDS if party.starved else "running"
            waiting = "waiting" if node.told_out.isdisjoint(waits_for) else PUT_OUT
            going_on = "delivering" if party.finished else waiting if waits_for else starved
            self.state = "held" if node.doubts.halting else going_on
        self.errors = self._own_errors(party.state.theta)
        return {
            "round": party.round, "waits_for": waits_for, "waits": round(node.waiting, 1),
            "sent": node.sent, "received": node.received, "late": len(self.journal.late()),
            "refused": {f"{j} {reason}": n for (j, reason), n in node.refused.items()}, "errors": self.errors,
            "held": {str(j): why for j, why in node.doubts.held.items()},
            "releases": {str(j): release.version for j, release in sorted(node.releases.items())},
            "membership": self._membership(node),
            "differs": {str(j): why for j, why in sorted((node.apart | node.differences).items()) if why},
        }  # fmt: skip

    def _membership(self, node: Node) -> dict[str, Any]:
        """Who takes part: in this round, and from which round on others do; and which document is refused."""
        party, i = node.party, self.plan.learner
        history, said = party.history, dict[str, Any]()
        version = history.version_at(party.round)
        coming = [{"change": change.version, "round": change.at} for change in history.changes[version:]]
        refused = {} if self._inbox is None else dict(self._inbox.refused)
        refused |= {"neighbour": node.membership.refused} if node.membership.refused else {}
        for change in history.changes:
            said |= {"joined": change.at} if i in change.joins else {}
            said |= {"left": change.at} if i in change.leaves and party.round >= change.at else {}
            said |= {"put out": change.at} if i in change.lost else {}
        return {
            "version": version, "members": list(history.members_of(version)), "coming": coming, "refused": refused,
        } | said  # fmt: skip

    def _own_errors(self, theta: Any) -> dict[str, float]:
        """Loss and score on some of the own records: for the owner alone."""
        X, y = self._feed.newest(NEWEST)
        if not len(y):
            return {}
        people = Population(self.plan.schema.table(X, y), np.full(len(y), 1 / len(y)))
        values, quality = Objective(self._model, people).evaluate(
            self._model.parameters(theta, self.plan.schema.columns)
        )
        return {"loss": float(values[0]), self._model.score: float(quality[0])}


def write_failure(plan: Plan, error: Exception, file: StatusFile | None = None) -> None:
    """Say how a learner has ended: what passes by itself is no failure."""
    about = {"learner": plan.learner, "pid": os.getpid(), "state": passing_state(error) or "failed", "why": str(error)}
    (file or StatusFile(plan.folder / NAME)).write(about | {"updated": time.time()})


def read_statuses(folder: Path) -> list[dict[str, Any]]:
    """What every learner of a run's folder, or the one of a party's folder, has last said of itself."""
    places = [folder] if (folder / "party.toml").exists() else learners_in(folder)
    return [{"folder": place.name} | _read_status(place) for place in places]


def _read_status(place: Path) -> dict[str, Any]:
    """The status file in a party's folder; "not started" if it is missing, empty, or not what a learner writes."""
    try:
        about = json.loads((place / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or not isinstance(about.get("state"), str):
        return {"state": "not started"}
    known = all(isinstance(about.get(name, 0), kind) for name, kind in NUMBERS.items())
    return about if known and ("steps" in about or "round" not in about) else {"state": "not started"}
