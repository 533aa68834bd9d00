"""A whole run, seen from outside: what parties that agree to it show on /metrics.

Every address is asked in a thread of its own, again and again; one that is silent holds up nobody, neither the others
nor the end of the command. What comes from an address is believed as little as any guest: it is bounded, every number
is checked, and it decides nothing but what is shown.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gossamer.peers.exposition import Labels, Samples, read_exposition
from gossamer.peers.scraping import Target, Unanswered, fetch
from gossamer.peers.wire import quoted

WORD = 60  # letters of what a party says that are shown


class Answer(NamedTuple):
    """What a party has said of itself; None where it does not say."""

    learner: int | None
    run: str
    version: str
    state: str
    round: int
    steps: int
    waiting: float  # seconds since its last round
    waits_for: tuple[int, ...]
    held: tuple[int, ...]  # who says that its journal is old
    spent: float | None
    budget: float | None
    paid_rounds: float | None  # how many rounds the budget lasts
    days_left: float | None


class Seen(NamedTuple):
    """What is known of one address: its last answer, how old that is, and why there is no newer one."""

    target: str
    answer: Answer | None
    age: float  # seconds since the answer; since the first question where there is none
    why: str  # what kept it from answering the last time; "" where it did

    @property
    def done(self) -> bool:
        """All its rounds are taken: such a party may well be gone."""
        return self.answer is not None and self.answer.round >= self.answer.steps


def read_answer(body: bytes) -> Answer:
    """What /metrics of a learner says; Unanswered where it is not a learner's."""
    samples = read_exposition(body)
    round_, steps = _number(samples, "gossamer_round"), _number(samples, "gossamer_steps")
    if round_ is None or steps is None or not 0 <= round_ <= steps <= 1e12:
        raise Unanswered("an answer that is no learner's: gossamer_round and gossamer_steps are not in it")
    who = _labels(samples, "gossamer_info")
    learner = who.get("learner", "")
    return Answer(
        learner=int(learner) if _is_learner(learner) else None,
        run=quoted(who.get("run", ""), WORD),
        version=quoted(who.get("version", ""), WORD),
        state=quoted(_labels(samples, "gossamer_state").get("state", ""), WORD),
        round=int(round_),
        steps=int(steps),
        waiting=_number(samples, "gossamer_waiting_seconds") or 0.0,
        waits_for=_learners(samples, "gossamer_waits_for"),
        held=_learners(samples, "gossamer_held"),
        spent=_number(samples, "gossamer_epsilon_spent"),
        budget=_number(samples, "gossamer_epsilon_budget"),
        paid_rounds=_number(samples, "gossamer_epsilon_rounds"),
        days_left=_number(samples, "gossamer_certificate_days_left"),
    )


def _number(samples: Samples, name: str) -> float | None:
    """A metric without labels; None where it is missing or no finite number."""
    value = samples.get(name, {}).get(())
    return value if value is not None and math.isfinite(value) else None


def _labels(samples: Samples, name: str) -> dict[str, str]:
    """Of the metric's only sample."""
    found: list[Labels] = list(samples.get(name, {}))
    return dict(found[0]) if len(found) == 1 else {}


def _learners(samples: Samples, name: str) -> tuple[int, ...]:
    """The learners that a metric has a sample of."""
    said = (dict(labels).get("learner", "") for labels in samples.get(name, {}))
    return tuple(sorted(int(one) for one in said if _is_learner(one)))


def _is_learner(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 6


class Watch:
    """Asks all addresses, each every few seconds, until the process ends; `ask` gives one answer's body."""

    def __init__(
        self, targets: Sequence[Target], every: float, timeout: float, ask: Callable[[Target, float], bytes] = fetch
    ) -> None:
        self._targets, self._every, self._timeout, self._ask = targets, every, timeout, ask
        self._begun = time.monotonic()
        self._answers: list[tuple[float, Answer] | None] = [None] * len(targets)
        self._why: list[str | None] = [None] * len(targets)  # None: not yet asked
        self._news, self._stop = threading.Condition(), threading.Event()

    def start(self) -> None:
        for k in range(len(self._targets)):
            threading.Thread(target=self._follow, args=(k,), daemon=True).start()

    def stop(self) -> None:
        """Ask nobody any more; who is being asked is not waited for."""
        self._stop.set()

    def seen(self) -> list[Seen]:
        now = time.monotonic()
        with self._news:
            return [
                Seen(target.name, came and came[1], now - (came[0] if came else self._begun), why or "")
                for target, came, why in zip(self._targets, self._answers, self._why, strict=True)
            ]

    def wait_for_all(self) -> list[Seen]:
        """What is seen when everybody has been asked once, or has had twice the time for it."""
        with self._news:
            self._news.wait_for(lambda: None not in self._why, timeout=2 * self._timeout)
            for k, why in enumerate(self._why):
                if why is None:
                    self._why[k] = f"no answer within {2 * self._timeout:g} s"
        return self.seen()

    def _follow(self, k: int) -> None:
        while True:
            try:
                answer, why = read_answer(self._ask(self._targets[k], self._timeout)), ""
            except Unanswered as unanswered:
                answer, why = None, str(unanswered)
            with self._news:
                self._why[k] = why
                if answer is not None:
                    self._answers[k] = (time.monotonic(), answer)
                self._news.notify_all()
            if self._stop.wait(self._every):
                return
