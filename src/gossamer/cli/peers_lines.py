"""What `gossamer peers up` says where nobody looks at a terminal: lines for a log, few and each one news.

A party's start, its return and its end get a line each, and so does every tenth of the run. Waiting is said once it has
lasted, and then only when it lasts twice as long, so that records which come slowly do not fill a log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from gossamer.cli.words import lasting, printable
from gossamer.peers.standing import AGAIN, OVER

TENTHS = 10
LONG = 5.0  # seconds of waiting that are worth a line
SOON = 30.0  # days that a certificate may have left
ENDED_BADLY = ("failed", *AGAIN)
Status = dict[str, Any]


def say(line: str) -> None:
    """One line, at once."""
    print(printable(line), flush=True)


class Party:
    """What was said of one learner."""

    def __init__(self) -> None:
        self.life, self.state = 0, ""
        self.since, self.patience, self.said_waiting = 0.0, LONG, False


class Lines:
    """Tells what has changed since it last looked; `clock` gives seconds."""

    def __init__(self, say: Callable[[str], None] = say, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._parties: dict[str, Party] = {}
        self._differences: set[str] = set()
        self._noted: set[str] = set()
        self._tenth = 0

    def look(self, statuses: Sequence[Status]) -> None:
        for one in statuses:
            if "life" in one or one["state"] in (*OVER, *AGAIN):
                self._tell_party(one, self._parties.setdefault(one["folder"], Party()))
        for note in (
            *whom_epsilon_is_against(statuses),
            *uncancelled_in(statuses),
            *releases_in(statuses),
            *certificates_in(statuses),
        ):
            if note not in self._noted:
                self._noted.add(note)
                self._say(note)
        for why in held_in(statuses):
            if why not in self._differences:
                self._differences.add(why)
                self._say(why)
        for why in differences_in(statuses):
            if why not in self._differences:
                self._differences.add(why)
                self._say(f"settings differ: {why}")
        self._tell_progress(statuses)

    def _tell_party(self, one: Status, known: Party) -> None:
        name, state, now = called(one), one["state"], self._clock()
        if one.get("life", known.life) != known.life:
            self._say(f"{name} {'comes back in' if known.life else 'starts in'} {_place(one)}")
            known.life = one["life"]
        if state != known.state:
            known.state, known.since = state, now
            if state == "failed":
                self._say(f"{name} has failed: {one.get('why', '')}")
            elif state in AGAIN:
                self._say(f"{name} has ended, {state}: {one.get('why', '')}")
            elif state in OVER:
                self._say(f"{name} is {state} in {_place(one)}{_numbers([one])}")
            elif known.said_waiting and not state.startswith("waiting"):
                known.said_waiting = False
                self._say(f"{name} goes on in {_place(one)}")
        waited = now - known.since
        if state.startswith("waiting") and waited >= known.patience:
            known.patience, known.said_waiting = 2 * known.patience, True
            self._say(f"{name} waits for {_awaited(one)} in {_place(one)}, for {lasting(waited)} so far")

    def _tell_progress(self, statuses: Sequence[Status]) -> None:
        """A line at every tenth of the run that all learners have behind them."""
        if not statuses or any("round" not in one for one in statuses):
            return
        slowest = min(statuses, key=lambda one: one["round"])
        tenth = TENTHS * slowest["round"] // slowest["steps"]
        if tenth > self._tenth:
            self._tenth = tenth
            for known in self._parties.values():
                known.patience = LONG
            self._say(f"{_place(slowest)} is reached by all{_numbers(statuses)}")


def called(one: Status) -> str:
    """learner-3 is learner 3."""
    return str(one["folder"]).replace("-", " ", 1)


def differences_in(statuses: Sequence[Status]) -> list[str]:
    """What keeps learners apart, each sentence once: both ends say the same one."""
    return list(dict.fromkeys(why for one in statuses for why in (one.get("differs") or {}).values()))


def held_in(statuses: Sequence[Status]) -> list[str]:
    """Whose links are held because they say that a journal is old: a sentence each."""
    return list(dict.fromkeys(why for one in statuses for why in (one.get("held") or {}).values()))


def changes_in(statuses: Sequence[Status]) -> list[str]:
    """Who is to join or to leave, and when; which documents are not accepted, and why: a sentence each."""
    known = [one.get("membership") or {} for one in statuses]
    coming = {change["change"]: change["round"] for one in known for change in one.get("coming") or []}
    has = {k: sum(any(c["change"] == k for c in one.get("coming") or []) for one in known) for k in coming}
    said = [f"Change {k} comes in round {t}; {has[k]} of those here know of it." for k, t in sorted(coming.items())]
    refused = [why for one in known for why in (one.get("refused") or {}).values()]
    return [*said, *dict.fromkeys(refused)]


def releases_in(statuses: Sequence[Status]) -> list[str]:
    """Who runs which release, where not all run the same: a sentence, or none."""
    found = dict[str, str]()
    for one in statuses:
        found |= {str(j): version for j, version in (one.get("releases") or {}).items()}
    found |= {str(one["learner"]): one["release"] for one in statuses if "learner" in one and "release" in one}
    by_release = {version: [j for j in found if found[j] == version] for version in sorted(set(found.values()))}
    if len(by_release) < 2:
        return []
    said = (
        f"{version or 'one that says no version'} at {', '.join(sorted(who, key=int))}"
        for version, who in by_release.items()
    )
    return [f"Learners run several releases of gossamer: {'; '.join(said)}."]


def whom_epsilon_is_against(statuses: Sequence[Status]) -> list[str]:
    """Against whom the parties' ε holds, each sentence once."""
    return list(dict.fromkeys(f"ε holds {one['against']}." for one in statuses if one.get("against")))


def words_in(statuses: Sequence[Status]) -> list[str]:
    """What parties compare by telephone; where those here differ, who has which."""
    who: dict[str, list[Status]] = {}
    for one in statuses:
        if one.get("fingerprint"):
            who.setdefault(str(one["fingerprint"]), []).append(one)
    if len(who) < 2:
        return [f"Words to compare: {words}." for words in who]
    return [f"Words of {', '.join(map(called, those))}: {words}; others have others." for words, those in who.items()]


def certificates_in(statuses: Sequence[Status]) -> list[str]:
    """Whose certificate comes to its end, and whose new one is of no use."""
    said = []
    for one in statuses:
        left = one.get("certificate_days_left")
        if left is not None and left < SOON and one["state"] not in OVER:
            when = f"ends in {days_said(left)}" if left > 0 else "has ended: links that stand go on, and new ones fail"
            said.append(f"The certificate of {called(one)} {when}; gossamer party renew asks for another.")
        if one.get("credentials"):
            said.append(f"{called(one).capitalize()} does not take what its folder has: {one['credentials']}")
    return said


def days_said(days: float) -> str:
    """9 days, or 23 h 10 min: never more than there are."""
    return f"{int(days)} days" if days >= 2 else lasting(60 * int(24 * 60 * days))


def failures_in(statuses: Sequence[Status]) -> list[str]:
    """Why learners have ended that did not end in order."""
    return [f"{called(one)}: {one['why']}" for one in statuses if one["state"] in ENDED_BADLY and one.get("why")]


def uncancelled_in(statuses: Sequence[Status]) -> list[str]:
    """In which rounds noise of pairs did not cancel, each sentence once."""
    return list(dict.fromkeys(why for one in statuses for why in one.get("uncancelled") or []))


def _place(one: Status) -> str:
    return f"round {one.get('round', 0)} of {one['steps']}" if "steps" in one else "an unknown round"


def _awaited(one: Status) -> str:
    whom = [] if "records" in one["state"] else one.get("waits_for") or []
    listed = ", ".join(map(str, whom))
    records = f"records in {one['file']}" if one.get("file") else "records"
    return f"learner{'s' if len(whom) > 1 else ''} {listed}" if whom else records


def _numbers(statuses: Sequence[Status]) -> str:
    """Score on own records and ε so far, where there are any: from the least to the most."""
    said = ""
    scores = [(name, value) for one in statuses for name, value in (one.get("errors") or {}).items() if name != "loss"]
    if scores:
        said += f", {scores[0][0]} {_span([value for _, value in scores], '.3f')}"
    return said + spent_of([one["epsilon"] for one in statuses if one.get("epsilon")])


def spent_of(epsilons: Sequence[Sequence[float]]) -> str:
    """ε so far, and with pair secrets if all others collude, from the least to the most."""
    if not epsilons:
        return ""
    alone = [each[2] for each in epsilons if len(each) > 2]
    return f", ε spent {_span([each[0] for each in epsilons], '.3g')}" + (
        f" ({_span(alone, '.3g')} if all others collude)" if alone else ""
    )


def _span(values: Sequence[float], form: str) -> str:
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"
