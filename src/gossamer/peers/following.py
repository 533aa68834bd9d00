"""Learners' processes as a live page sees them: from the status files of a run's folder, or of one party's.

A status file is its owner's, and so is this page. What it shows of own records, loss and score, is not noised. So it is
told to nobody but the owners: `own_errors` is off where the page can be reached from elsewhere, and then only those
parties' are shown that have `show_errors` in their configuration, as in /metrics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gossamer.peers.config import Plan, read_config
from gossamer.peers.folders import learners_in
from gossamer.peers.standing import Standing, standings
from gossamer.peers.status import read_statuses
from gossamer.report.feed import Delta, add_to_view
from gossamer.report.live import starting_view
from gossamer.report.run import claim_words
from gossamer.report.view import Chart, Series, View, network_view

Status = Mapping[str, Any]
Pids = Callable[[], Mapping[str, int]]  # the processes that run, by the names of their folders
UNKNOWN: Standing = {"state": "unknown", "t": None, "said": ""}


class Following:
    """Follows all learners of a run's folder, or the one of a party's folder."""

    def __init__(self, folder: Path, pids: Pids | None = None, own_errors: bool = True, command: str = "") -> None:
        self._folder, self._pids, self._command = folder, pids, command
        self._one_party = (folder / "party.toml").exists()
        places = [folder] if self._one_party else learners_in(folder)
        self._plans = [read_config(place) for place in places]
        self._learners = [plan.learner for plan in self._plans]
        self._shown = [own_errors or plan.config.party.show_errors for plan in self._plans]
        self._started = time.monotonic()
        self._begun = False
        self._t = -1  # the round that all have reached
        self._rounds: dict[int, int] = {}
        self._standings: list[Standing] = []
        self._drawing = self._plan.network.drawing()

    @property
    def _plan(self) -> Plan:
        return self._plans[0]

    def first_view(self) -> View:
        """Before the learners have said anything."""
        run = self._plan.config.run
        who = f"learner {self._plan.learner} of {run.learners}" if self._one_party else f"{run.learners} learners"
        learners = [{"name": str(i), **UNKNOWN} for i in range(run.learners)]
        view = starting_view(
            "peers", f"{run.method}, {who}", f"{who} as processes, {run.steps:,} rounds", self._command,
            t=0, steps=run.steps, seconds=0.0, said="", learners=learners,
        )  # fmt: skip
        if self._drawing is not None:
            view["network"] = network_view(self._drawing)
        return view

    def take(self) -> Delta | None:
        """What has changed since it was asked last."""
        statuses = read_statuses(self._folder)
        if not self._begun and all("claim" in one for one in statuses):
            self._begun, self._standings = True, self._stand(statuses)
            self._t = _reached(statuses)
            view = self._whole(statuses)
            add_to_view(view, self._points(statuses, self._t))
            return {"t": self._t, "view": view, "learners": self._standings}
        delta: dict[str, Any] = {}
        stand = self._stand(statuses)
        if stand != self._standings:
            self._standings = delta["learners"] = stand
        carried = self._carried(statuses)
        if carried:
            delta["messages"] = carried
        reached = _reached(statuses)
        if self._begun and reached > self._t:
            self._t = delta["t"] = reached
            delta |= self._points(statuses, reached)
        return delta | {"seconds": round(time.monotonic() - self._started, 2)} if delta else None

    def _stand(self, statuses: Sequence[Status]) -> list[Standing]:
        """How everybody stands; of whom nothing is known, only whether this party waits for it."""
        known = dict(zip(self._learners, standings(statuses, self._pids and self._pids()), strict=True))
        for one in statuses if self._one_party else ():
            for j in one.get("waits_for") or []:
                known.setdefault(j, {"state": "late", "t": None, "said": "this party waits for it"})
        return [known.get(i, UNKNOWN) for i in range(self._plan.config.run.learners)]

    def _carried(self, statuses: Sequence[Status]) -> list[int]:
        """The links into those who took a round since: whoever takes one has used what came over them."""
        rounds = {i: int(one["round"]) for i, one in zip(self._learners, statuses, strict=True) if "round" in one}
        moved = {i for i, t in rounds.items() if t > self._rounds.get(i, t)}
        self._rounds |= rounds
        return [k for k, (_, to) in enumerate(self._drawing["edges"] if self._drawing else ()) if to in moved]

    def _whole(self, statuses: Sequence[Status]) -> View:
        """The view, now that all have said what they claim."""
        view = self.first_view()
        claims = sorted({str(one["claim"]) for one in statuses})
        spent = [one.get("epsilon") for one in statuses]
        against = sorted({str(one["against"]) for one in statuses if one.get("against")})
        view |= {
            "claim": " ".join(map(claim_words, claims)), "private": None not in spent, "against": "; ".join(against),
            "notes": self._notes(statuses), "charts": self._charts(statuses),
        }  # fmt: skip
        if any(each is not None for each in spent):
            privacy = [plan.config.privacy for plan in self._plans]
            view["epsilon"] = {
                "t": [],
                "learners": [{"name": f"learner {i}", "y": []} for i in self._learners],
                "budget": [one.get("budget") for one in statuses],
                "for_ever": [None if each is None else each[1] for each in spent],
                "if_all_collude": None,
                "delta": max(one.delta for one in privacy) if "gaussian" in {one.law for one in privacy} else 0.0,
                "against": view["against"],
            }
        return view

    def _notes(self, statuses: Sequence[Status]) -> list[str]:
        hidden = len(self._shown) - sum(self._shown)
        notes = ["Loss and score are on the newest 2,000 of a learner's own records, are not noised, and are its own."]
        if hidden:
            notes = [
                f"Loss and score on own records of {hidden} learners are not shown on a page that others can reach, "
                "unless their owners set show_errors."
            ]
        return notes

    def _charts(self, statuses: Sequence[Status]) -> list[Chart]:
        """One of the loss and one of the score, on own records; without points."""
        if not any(self._shown):
            return []
        score = self._plan.model().score
        shown = [i for i, may in zip(self._learners, self._shown, strict=True) if may]

        def empty() -> list[Series]:
            return [{"name": f"learner {i}", "y": [], "group": "learner"} for i in shown]

        return [
            {"id": "score", "title": score.capitalize(), "unit": "on own records", "log": False, "t": [], "lines": [],
             "series": empty()},
            {"id": "loss", "title": "Loss", "unit": "on own records", "log": False, "t": [], "lines": [],
             "series": empty()},
        ]  # fmt: skip

    def _points(self, statuses: Sequence[Status], reached: int) -> dict[str, Any]:
        """Everybody's newest numbers, at the round that all have reached."""
        named = [(f"learner {i}", one.get("errors") or {}) for i, one in zip(self._learners, statuses, strict=True)]
        named = [one for one, may in zip(named, self._shown, strict=True) if may]
        loss = {name: [errors.get("loss")] for name, errors in named}
        score = {name: [next((v for k, v in errors.items() if k != "loss"), None)] for name, errors in named}
        parts: dict[str, Any] = {}
        if named:
            parts["charts"] = {"score": {"t": [reached], "series": score}, "loss": {"t": [reached], "series": loss}}
        spent = [one.get("epsilon") for one in statuses]
        if any(each is not None for each in spent):
            parts["epsilon"] = {"t": [reached], "learners": [[None if each is None else each[0]] for each in spent]}
        return parts


def _reached(statuses: Sequence[Status]) -> int:
    """The round that all have done."""
    return min(int(one.get("round", 0)) for one in statuses)
