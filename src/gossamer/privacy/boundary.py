"""What stands, in a run, between the learners' private values and their messages."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gossamer.arrays import NUMPY, kind_of
from gossamer.errors import NotProvable
from gossamer.lazy import kernels_for
from gossamer.privacy.accountant import Accountant, Terms
from gossamer.privacy.booked import Booked
from gossamer.privacy.course import MOST_SHOWN, SHOWN_AT_A_COST, alike, course, first_release, rounds_shown
from gossamer.privacy.exact import LARGEST, check_on_grid
from gossamer.privacy.pairs import CLAMP as MOST_STEPS
from gossamer.privacy.pairs import Grid, PairNoise
from gossamer.privacy.releases import spans
from gossamer.privacy.rounding import FAR
from gossamer.records import Batch
from gossamer.types import Array

if TYPE_CHECKING:
    from gossamer.privacy.mechanisms import Mechanism

CLAMP = LARGEST - 1  # noise scales
LARGEST_SCALE = 1e90
UNNOISED = "past."  # what the names of past gradients start with: they stay where the records are
KEPT = ("sent.", UNNOISED)  # what the names of all that a boundary keeps start with
PAST = ("gradient", "used")  # of releases before, where noise is correlated over them
BUDGET = np.dtype([("spent", "f8"), ("for_ever", "f8")])  # ε of all that was sent so far, and if the run never ends
COLLUDING = np.dtype([*BUDGET.descr, ("all_collude", "f8")])  # with pair secrets: and so far, if all others collude
Budgets = np.recarray[Any, Any]  # of one of these kinds, one row for each learner


class Boundary(Protocol):
    """What stands, in one run, between the learners' private values and their messages; nothing crosses it twice."""

    claim: str

    def arrived(self, t: int, records: Batch) -> None:
        """The records that came in round t, before anything is done with them; how many there are is public."""

    def charge(self, t: int) -> None:
        """Round t, before anything of it is sent."""

    def fresh(self, t: int) -> NDArray[np.bool_] | bool:
        """Which learners use a gradient in round t, or whether all do; the others step with a gradient of zero."""

    def gradient(self, t: int, grad: Array) -> Array:
        """The round's gradients as the algorithm may use them."""

    def release(self, channel: str, t: int, value: Array) -> Array:
        """What leaves the learners on a private channel."""

    def take(self, t: int, got: Array) -> Array:
        """What a learner may use of a sum that it received in round t on a private channel."""

    def hold(self, t: int, state: Array) -> Array:
        """What a learner keeps, for round t, of a part of its state that holds parameters."""

    def kept(self, t: int) -> dict[str, Array]:
        """What it must know to go on from round t, by name, beside the rounds that were charged."""

    def go_on(self, kept: Mapping[str, Array]) -> None: ...


class PrivateBoundary:
    """The boundary of a run with a proved budget.

    It draws exact noise, charges the ledgers before anything is sent, and holds back what a budget does not allow. On
    the way in it cuts off what is so large that rounding would tell of records: see gossamer.privacy.rounding.
    """

    def __init__(
        self, mechanism: Mechanism, ledgers: list[Accountant], steps: int, pairs: PairNoise | None = None
    ) -> None:
        self.mechanism, self.ledgers, self._pairs = mechanism, ledgers, pairs
        self._on_messages = mechanism.where == "messages"
        self._scaled: tuple[int, Array] = (-1, np.empty(0))
        self._bound, self._ids = steps, np.arange(len(ledgers))
        self._initial = np.array([[ledger.terms.initial] for ledger in ledgers])
        self._exponent = np.array([[ledger.terms.exponent] for ledger in ledgers])
        self._ratio = np.array([[ledger.terms.ratio] for ledger in ledgers])
        self._booked = Booked([ledger.terms for ledger in ledgers])
        self._releases = list(dict.fromkeys(ledger.terms.releases for ledger in ledgers))
        self.stops = np.array([ledger.affordable_rounds(steps) for ledger in ledgers])
        self.channels = tuple(ledgers[0].terms.dynamics(1).channels) if self._on_messages else ("gradient",)
        if not self.channels:
            raise NotProvable("the algorithm's dynamics name no channel: say which of its messages differ by what.")
        self._check_scales(steps)
        if self._on_messages and any(ledger.terms.rounding is None for ledger in ledgers):
            raise NotProvable("nothing is known of how the algorithm rounds: bind the mechanism to a run's setting.")
        self._factor = np.asarray(ledgers[0].terms.factor)
        self._split = dict(ledgers[0].terms.split)
        self._last: dict[str, Array] = {}
        self._past: deque[tuple[Array, Array]] = deque(maxlen=len(self._factor) - 1)  # gradients, and as they were used
        self.clamped = 0  # values beyond the grid so far
        self.cut = 0  # received values and states that were too large
        place = "on messages" if self._on_messages else "at the source"
        at = f", δ = {mechanism.delta:g}" if mechanism.delta else ""
        self.claim = f"private: exact {mechanism.law} noise {place}{at}, {mechanism.against}"

    def _check_scales(self, steps: int) -> None:
        if max(largest_scale(ledger.terms, steps) for ledger in self.ledgers) > LARGEST_SCALE:
            raise NotProvable(
                f"a noise scale of {self._initial.max():g}: expected at most {LARGEST_SCALE:g} throughout the run, so "
                "that no state overflows; scale features down."
            )

    def part(self, learners: NDArray[np.int64]) -> PrivateBoundary:
        """The boundary of some of its learners, with their own ledgers, in a process that plays these alone.

        Every number of a boundary is of one learner and depends on no other's, but for noise that pairs share. So where
        each learner is in one part, its noise is drawn once and its ledger charged once, as here.
        """
        if self._pairs is not None:
            raise NotProvable("pairs' noise is dealt where all learners are: play them in one process.")
        some = PrivateBoundary(self.mechanism, [self.ledgers[int(i)] for i in learners], self._bound)
        some._ids = self._ids[learners]
        return some

    def book(self, rounds: Sequence[int], clamped: int, cut: int, last: Mapping[str, Array]) -> None:
        """Put down what its parts did: rounds charged, one number for each learner, values cut, messages sent last."""
        for ledger, done in zip(self.ledgers, rounds, strict=True):
            ledger.step(int(done) - ledger.rounds)
        self.clamped, self.cut, self._last = clamped, cut, dict(last)

    @property
    def last(self) -> Mapping[str, Array]:
        """The newest message of every channel."""
        return self._last

    def lasts(self, rounds: int) -> None:
        """Go on for at least so many rounds in all, each learner as far as its budget allows.

        A run that nobody knows the end of is bound for the rounds that were planned; the ledgers know what more cost.
        """
        if rounds > self._bound:
            self._bound = 2 * rounds
            self._check_scales(self._bound)
            self.stops = np.array([ledger.affordable_rounds(self._bound) for ledger in self.ledgers])

    def release(self, channel: str, t: int, value: Array) -> Array:
        """What learners send on a private channel; a learner whose budget is spent repeats its last message."""
        if not self._on_messages:
            return value
        if channel not in self.channels:
            raise NotProvable(
                f"a message on channel {channel!r}, and the algorithm's recursion knows {', '.join(self.channels)}: "
                "nothing is known of what it would cost; add the channel to its dynamics."
            )
        noisy, frozen = self._noised(t, value, self._split.get(channel, 1.0)), t >= self.stops
        if frozen.any():
            noisy[frozen] = self._last[channel][frozen] if channel in self._last else 0.0
        self._last[channel] = noisy
        return noisy

    def fresh(self, t: int) -> NDArray[np.bool_] | bool:
        """At the source: who releases in round t. A learner whose budget is spent does no more, and goes on mixing."""
        if self._on_messages:
            return True
        if len(self._releases) > 1:
            return np.array([ledger.terms.releases.includes(t) for ledger in self.ledgers]) & (t < self.stops)
        before = t < self.stops
        return self._releases[0].includes(t) and (True if before.all() else before)

    def gradient(self, t: int, grad: Array) -> Array:
        """The round's gradients, noised where noise goes to the source; of who does not release, whatever they are."""
        if self._on_messages:
            return grad
        if len(self._factor) > 1:
            return self._correlated(t, grad)
        return self._noised(t, grad)

    def _correlated(self, t: int, grad: Array) -> Array:
        """g̃ = y − Σ f g̃ over the releases before, where y = g + Σ f g over them, noised."""
        behind = self._factor[1 : len(self._past) + 1]  # the newest first
        weighted = sum((f * g for f, (g, _) in zip(behind, self._past, strict=True)), 0 * grad)
        used = sum((f * g for f, (_, g) in zip(behind, self._past, strict=True)), 0 * grad)
        noisy = self._noised(t, grad + weighted) - used
        self._remember(np.broadcast_to(self.fresh(t), len(self.ledgers)), (grad, noisy))
        return noisy

    def _remember(self, fresh: NDArray[np.bool_], newest: tuple[Array, Array]) -> None:
        """Put the newest in front of what is past, of those who release: releases are counted learner by learner."""
        if fresh.all():
            self._past.appendleft(newest)
            return
        moved = [newest, *self._past][: self._past.maxlen]
        stayed = [*self._past, (0 * newest[0], 0 * newest[1])]
        self._past.clear()
        for old, new in zip(stayed, moved, strict=False):
            pair = tuple(0 + part for part in old)  # copies
            for part, instead in zip(pair, new, strict=True):
                part[fresh] = instead[fresh]
            self._past.append((pair[0], pair[1]))

    def take(self, t: int, got: Array) -> Array:
        """What a learner may use of a sum that it received in round t: nothing beyond what rounding is proved for.

        No coordinate is beyond FAR of its learner's scales; cutting off moves no two values apart.
        """
        if not self._on_messages:
            return got
        scale, kind = self._scale(t), kind_of(got)
        if kind is NUMPY:  # tensors are not counted: that would wait for their device
            beyond = _count_beyond(got, scale, FAR)
            if not beyond:
                return got
            self.cut += beyond
        kept: Array = kind.cut_off(got, FAR * scale)
        return kept

    def hold(self, t: int, state: Array) -> Array:
        """What a learner keeps of a part of its state for round t; likewise."""
        return self.take(t, state)

    def clamped_to_grid(self, t: int, value: Array, times: float = 1.0) -> Array:
        """No more than the grid holds: clamping moves no two values apart, where refusing would tell.

        A tensor comes back in float64, because a scale rounded to a narrower kind could be a smaller one.
        """
        exact: Any = kind_of(value).widen(value)
        kind, scale = kind_of(exact), self._scale(t) if times == 1 else times * self._scale(t)
        if kind is NUMPY:
            beyond = _count_beyond(exact, scale, CLAMP)
        else:
            beyond = int((abs(exact) > CLAMP * kind.make(scale)).sum())
        if beyond:  # hardly ever
            self.clamped += beyond
            most = CLAMP * kind.make(scale)
            exact = exact.clip(-most, most)
        clamped: Array = exact
        return clamped

    def _hidden(self, t: int, value: Any, pairs: PairNoise) -> Array:
        """Values with noise of which a part cancels: times their weights, on the grid that everybody has."""
        kind, terms = kind_of(value), self.ledgers[0].terms
        grid, weights = self._grid
        step = grid.step(terms.scale(t) / terms.initial)
        exact: Any = kind.to_numpy(kind.widen(value)) * weights
        largest, most = float(np.abs(exact).max(initial=0.0)), MOST_STEPS * step
        if not math.isfinite(largest):
            check_on_grid(largest)
        if largest > most:
            self.clamped += int((np.abs(exact) > most).sum())
            exact = exact.clip(-most, most)
        hidden: Array = kind.narrow(kind.make(grid.release(exact, step, t, pairs) * step / weights))
        return hidden

    @cached_property
    def _grid(self) -> tuple[Grid, Array]:
        """The grid of noise that cancels, and the learners' weights as a column."""
        pairs = [(ledger.terms.initial, ledger.terms.shared) for ledger in self.ledgers]
        known = [(initial, shared) for initial, shared in pairs if shared is not None]
        own = [initial * shared.weight for initial, shared in known]
        weights = np.array([[shared.weight] for _, shared in known])
        return Grid.of(own, known[0][1].floor, known[0][1].pair), weights

    def _noised(self, t: int, value: Array, times: float = 1.0) -> Array:
        if self._pairs is not None:
            return self._hidden(t, value, self._pairs)
        exact: Any = self.clamped_to_grid(t, value, times)
        scale = kind_of(exact).make(self._scale(t) if times == 1 else times * self._scale(t))
        noisy: Array = kind_of(value).narrow(self.mechanism.law.exact(exact, scale))
        return noisy

    def arrived(self, t: int, records: Batch) -> None:
        """Refuse other numbers of records than are booked: one record would weigh more."""
        self._booked.check(t, records.counts, self._ids)

    def charge(self, t: int) -> None:
        """Round t's messages, before they are sent."""
        for ledger, stop in zip(self.ledgers, self.stops, strict=True):
            if t < stop:
                ledger.step()

    def _scale(self, t: int) -> Array:
        """ν_t of every learner, as a column; asked for several times in a round."""
        if self._scaled[0] != t:
            self._scaled = (t, self._initial * (t + 1.0) ** -self._exponent * self._ratio**t)
        return self._scaled[1]

    def spent(self) -> dict[str, list[float]]:
        """Each learner's ε so far, and with pair secrets if all others collude; quick, as "for ever" is not."""
        delta = self.mechanism.delta
        spent = {"epsilon": [ledger.get_epsilon(delta) for ledger in self.ledgers]}
        if self._pairs is None:
            return spent
        return spent | {"epsilon_if_all_collude": [ledger.epsilon_if_all_collude(delta) for ledger in self.ledgers]}

    def budget(self) -> Budgets:
        """Each learner's ε so far and for ever, which is no more than its budget."""
        delta = self.mechanism.delta
        kept = [(alike(ledger.terms), ledger.rounds) for ledger in self.ledgers]
        one_each = dict(zip(kept, self.ledgers, strict=True))  # learners of like data cost alike
        so_far = {key: ledger.get_epsilon(delta) for key, ledger in one_each.items()}
        enough = max(ledger.budget for ledger in self.ledgers)
        without_end = {key: ledger.epsilon_for_ever(delta, enough) for key, ledger in one_each.items()}
        spent = [so_far[key] for key in kept]
        for_ever = [min(without_end[key], ledger.budget) for key, ledger in zip(kept, self.ledgers, strict=True)]
        if self._pairs is None:
            return budgets(spent, for_ever)
        return budgets(spent, for_ever, [ledger.epsilon_if_all_collude(delta) for ledger in self.ledgers])

    def course(self, ahead: int | None = None) -> dict[str, Any]:
        """ε of every learner over the rounds so far, with its budget: what a record's report draws.

        Or over so many rounds, as they are planned: a learner sends nothing new once its budget is spent.
        """
        delta, done = self.mechanism.delta, [ledger.rounds for ledger in self.ledgers]
        if ahead is not None:
            done = [min(ahead, int(stop)) for stop in self.stops]
        terms = [ledger.terms for ledger in self.ledgers]
        searched = self._on_messages and not any(math.isinf(one.window) for one in terms)
        most = SHOWN_AT_A_COST if searched else MOST_SHOWN
        rounds = rounds_shown(max(done) if ahead is None else ahead, len(done), first_release(terms), most)
        spent = course(terms, rounds, delta, stops=done)
        budget = [ledger.budget for ledger in self.ledgers]
        return {"t": rounds.tolist(), "epsilon": spent, "budget": budget, "delta": delta}

    @property
    def correlated(self) -> bool:
        """Whether noise is correlated over releases."""
        return len(self._factor) > 1

    @property
    def description(self) -> dict[str, Any]:
        """Each learner's noise, for a run's record."""
        terms = [ledger.terms for ledger in self.ledgers]
        about: dict[str, Any] = {"noise": [[each.initial, each.exponent, each.ratio] for each in terms]}
        about |= {"against": self.mechanism.against}
        about |= {} if self._on_messages else {"releases": [str(each.releases) for each in terms]}
        shared = terms[0].shared
        if shared is not None:
            graph = shared.secrets.graph if isinstance(shared.secrets.graph, str) else shared.edges
            about["secrets"] = {"graph": graph, "colluders": shared.secrets.colluders}
            about["secrets"] |= {"agreed": shared.floor, "pair": shared.pair}
        return about

    def _worth(self) -> list[str]:
        """With pair secrets: how much noise pairs add, and what that is worth."""
        shared = [ledger.terms.shared for ledger in self.ledgers if ledger.terms.shared is not None]
        if not shared:
            return []
        less, most = 1 / max(one.seen for one in shared), math.sqrt(shared[0].learners - shared[0].secrets.colluders)
        share = shared[0].pair / shared[0].floor
        return [
            f"Pair secrets: a pair's noise is {share:.3g} times a learner's own, and ε takes {less:.3g} times less "
            f"noise than without them ({most:.3g} at most)."
        ]

    def notes(self, t: int) -> list[str]:
        """Who stopped sending, when and why."""
        said = self._worth()
        if self.clamped:
            most = CLAMP if self._pairs is None else MOST_STEPS / min(self._grid[0].own)
            said.append(f"{self.clamped} values were beyond {most:g} noise scales and were clamped to that.")
        if self.cut:
            said.append(
                f"{self.cut} received values or states were beyond {FAR:g} noise scales, where rounding would tell of "
                "records, and were cut off to that: a neighbour that misbehaves, steps that are too long, or noise "
                "that fades too fast."
            )
        spent = [f"{i} from round {stop}" for i, stop in enumerate(self.stops) if stop < t]
        if not spent:
            return said
        shown = ", ".join(spent[:12]) + (", …" if len(spent) > 12 else "")
        said.append(f"Learners whose budget is spent send nothing new: {shown} on.")
        if self._pairs is not None:
            said += self._uncancelled(t)
        return said

    def _uncancelled(self, t: int) -> list[str]:
        """With pair secrets: where some released and others, whose noise would have cancelled theirs, did not."""
        until, releases = np.minimum(self.stops, t), self.ledgers[0].terms.releases
        alone = [int(one) for one in releases.before(int(until.max())) if one >= until.min()]
        if not alone:
            return []
        return [
            f"Noise of pairs did not cancel in {spans(alone, releases.step)}, in which some learners released "
            "nothing: that costs accuracy, and no privacy."
        ]

    def kept(self, t: int) -> dict[str, Array]:
        """The last messages, by name, where a learner has stopped and goes on sending its own; and past gradients."""
        sent = {f"sent.{c}": last for c, last in self._last.items()} if (t >= self.stops).any() else {}
        past = {
            f"{UNNOISED}{k}.{name}": g for k, pair in enumerate(self._past) for name, g in zip(PAST, pair, strict=True)
        }
        return sent | past

    def go_on(self, kept: Mapping[str, Array]) -> None:
        """Take back what `kept` gave; with it may come other things."""
        sent = {name.removeprefix("sent."): value for name, value in kept.items() if name.startswith("sent.")}
        pairs = [
            [kept[f"{UNNOISED}{k}.{name}"] for name in PAST]
            for k in range(len(self._factor))
            if f"{UNNOISED}{k}.{PAST[0]}" in kept
        ]
        self._past.extend((own, used) for own, used in pairs)
        self._last = sent


def _count_beyond(values: Array, scales: Array, far: float) -> int:
    """How many values are farther from 0 than `far` times their row's scale, as NaN is."""
    return int(kernels_for(values.size, "gossamer.privacy").count_beyond(values, scales, far))


def all_colluding(budget: Budgets) -> str:
    """What goes behind a claim with pair secrets: ε, and what it is if all others collude."""
    if "all_collude" not in (budget.dtype.names or ()):
        return ""
    return f" (ε = {budget.spent.max():.3g}; {budget.all_collude.max():.3g} if all others collude)"


def budgets(spent: Any, for_ever: Any, all_collude: Any = None) -> Budgets:
    """Each learner's ε so far and for ever, and with pair secrets so far if all others collude, as named columns."""
    if all_collude is None:
        return np.rec.fromarrays([spent, for_ever], dtype=BUDGET)
    return np.rec.fromarrays([spent, for_ever, all_collude], dtype=COLLUDING)


def largest_scale(terms: Terms, steps: int) -> float:
    """The largest that a scale gets: at an end, or where growing as a power and fading geometrically balance."""
    last = max(steps - 1, 0)
    turns = terms.exponent / math.log(terms.ratio) - 1 if terms.ratio != 1 else 0.0
    return max(terms.scale(t) for t in {0, last, min(max(int(turns), 0), last), min(max(int(turns) + 1, 0), last)})
