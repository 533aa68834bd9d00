"""One learner's privacy ledger: what its messages have cost so far, what they will cost, and when to stop.

The cost follows from public things alone: the graph, the schedules, the model's gradient bound and how many rounds have
passed; never from data. See gossamer.privacy.recursion for the argument, and gossamer.privacy.forever for the tail.

    messages, Laplace     ε = Σ x_t/ν_t, worst k; with δ > 0 by privacy loss distributions, or zCDP, ρ = ½ Σ (x_t/ν_t)²
    messages, Gaussian    μ² = Σ (x_t/σ_t)², worst k: (ε, δ) of one Gaussian mechanism with that μ
    source                Σ Δ_t/ν_t, or Σ (Δ_t/σ_t)², over the releases that remember a record, worst record;
                          see gossamer.privacy.source

See gossamer.privacy.laws. (An ε_t-private mechanism is ½ε_t²-zCDP: Bun & Steinke, TCC 2016, Prop. 1.4.)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gossamer.errors import Argument, BudgetSpent, GossamerError
from gossamer.lazy import FEW
from gossamer.privacy.forever import worst_case_for_ever
from gossamer.privacy.laws import Law, Shifts
from gossamer.privacy.recursion import GradientBound, Slack, losses_by_lag, no_slack, sensitivities, worst_case
from gossamer.privacy.releases import EVERY_ROUND, Releases
from gossamer.privacy.rounding import FAR as LARGEST_STATE
from gossamer.privacy.rounding import UNIT, enlarged
from gossamer.privacy.secrets import Shared
from gossamer.privacy.source import MOST_RECORDS, losses_at_source, shifts_of, total_at_source, total_at_source_for_ever
from gossamer.types import Array, Dynamics, Rounding

Where = Literal["messages", "source"]
ACCOUNTING = 3  # one more whenever a round would be booked, or its noise found, otherwise than before
SAFE = 1 + 1e-9  # totals are enlarged by it: what is computed here is rounded, too
FAR = 2**17  # rounds computed before the tail is proved
SOON = FEW - 1  # rounds that are looked at first, because they may tell enough
WHOLE = (int, np.integer)  # made once: it is asked for by every learner in every round
MOST_BY_LAG = 4096  # rounds for which every record's losses are worked out one by one; the work is quadratic


@dataclass(frozen=True)
class Terms:
    """All that a learner's budget depends on."""

    law: Law
    where: Where
    bound: GradientBound  # in the law's norm
    window: float  # rounds whose records the gradient is the mean of: 1 the latest, ∞ all
    dynamics: Callable[[int], Dynamics]  # of so many rounds
    settles: float  # from which round on the dynamics are constant but for the step
    initial: float  # noise scale ν0, or standard deviation σ0
    exponent: float  # ς: the scale falls as (t+1)^-ς
    coordinates: int  # of each message
    ratio: float = 1.0  # and by this factor from round to round
    records_in_round: int = 1  # that a mean is taken of, whatever adjacency is
    rounding: Callable[[int], Rounding] | None = None  # of so many rounds; None: exact numbers, which no computer has
    releases: Releases = EVERY_ROUND  # at the source: the rounds in which gradients are released
    held_at_most: float = math.inf  # records that there are in all
    factor: tuple[float, ...] = (1.0,)  # at the source: how noise is correlated over releases
    split: tuple[tuple[str, float], ...] = ()  # on messages: a channel's scale is this many times the learner's
    shared: Shared | None = None  # at the source: noise that cancels, which other learners have a part in

    def digest(self) -> str:
        """A fingerprint of what costs follow from: the bounds and, over the first rounds, the dynamics."""
        dynamics = self.dynamics(64)
        numbers = [self.bound, self.window, self.settles, self.coordinates, dynamics.v, dynamics.point]
        numbers += [sorted(dynamics.channels.items()), sorted(dynamics.after)]
        parts = [repr(numbers).encode(), np.ascontiguousarray(dynamics.A).tobytes(), dynamics.b.tobytes()]
        parts += [] if self.rounding is None else [errors.tobytes() for errors in self.rounding(64)]
        new = (self.releases, self.held_at_most, self.factor, self.split)  # left out where a ledger may be older
        parts += [] if new == (EVERY_ROUND, math.inf, (1.0,), ()) else [repr(new).encode()]
        parts += [] if self.shared is None else [repr(self.shared).encode()]
        return hashlib.blake2b(b"".join(parts), digest_size=12).hexdigest()

    def mean_error(self, rounds: Any) -> Any:
        """How far rounding moves the mean over so many rounds' records; see gossamer.models.bounds.mean_error."""
        return (rounds * self.records_in_round + 4) * UNIT * self.bound.c

    def scale(self, t: int) -> float:
        with np.errstate(over="ignore"):
            return float(self.initial * (t + 1.0) ** -self.exponent * np.float64(self.ratio) ** t)

    def inverse_scale(self, t: Array) -> Array:
        """1/ν_t of each round."""
        with np.errstate(over="ignore", divide="ignore"):  # a scale that fades to nothing costs ∞
            return np.asarray((t + 1) ** self.exponent / (self.initial * np.float64(self.ratio) ** t))

    def visible(self, t: Array) -> Array:
        """What a shift of 1 in each round comes to, in noise scales, for those whom the budget is meant against."""
        return self.inverse_scale(t) * (1.0 if self.shared is None else self.shared.seen)

    @property
    def brings(self) -> float:
        """How many rounds bring records, the last of them perhaps fewer; ∞ where they go on."""
        rounds = self.held_at_most / self.records_in_round
        return math.ceil(rounds) if math.isfinite(rounds) else math.inf

    @property
    def alone(self) -> Terms:
        """The same if all others collude, so that the learner's own noise alone hides its records."""
        return self if self.shared is None else replace(self, shared=None)

    @property
    def noises(self) -> int:
        """How many noises are in one released number."""
        return 1 if self.shared is None else self.shared.noises

    def numbers(self, rounds: float) -> int:
        """How many noised numbers one record can be seen in."""
        if self.where == "messages":
            return self.coordinates * int(rounds) * len(self.dynamics(1).channels)
        kept = self.window if self.window == 1 or math.isinf(self.held_at_most) else math.inf  # the last ones stay
        seen = min(kept, MOST_RECORDS) / self.releases.step + len(self.factor)  # longer runs are refused
        seen += self.releases.head  # one a round, whatever the step is
        return self.coordinates * self.noises * min(math.ceil(seen), self.releases.count(rounds))

    def surcharge(self, rounds: int) -> float:
        """What goes onto ε for the grid; see gossamer.privacy.exact."""
        return self.law.surcharge * self.numbers(rounds)


def total(terms: Terms, rounds: int, squared: bool) -> float:
    """Σ x_t w_t, or Σ (x_t w_t)², over so many rounds, for the worst record; without the grid's surcharge."""
    if rounds == 0:
        return 0.0
    if terms.where == "source":
        return SAFE ** (1 + squared) * total_at_source(terms, rounds, squared)
    dynamics, weights, slack = _horizon(terms, rounds)
    return SAFE * worst_case(dynamics, terms.bound, weights, window=terms.window, squared=squared, slack=slack)


def total_for_ever(terms: Terms, squared: bool) -> float:
    """The same without a horizon; ∞ where no finite bound is proved."""
    if terms.where == "source":
        return SAFE ** (1 + squared) * total_at_source_for_ever(terms, squared)
    if not math.isfinite(terms.settles) or terms.ratio != 1 or terms.dynamics(1).v is None:
        return math.inf
    if terms.dynamics(1).after and terms.exponent < 0:
        return math.inf  # x_{t+1} is charged below as if it were sent in round t+1, which is dearer only if noise falls
    dynamics = enlarged(terms.dynamics(max(FAR, 2 * int(terms.settles)) + 1))
    d = dynamics.b.shape[1]
    sent = np.isin(np.arange(d), list(dynamics.channels.values()))
    initial, exponent = np.where(sent, terms.initial, math.inf), np.where(sent, terms.exponent, -math.inf)
    for channel, times in terms.split:
        initial[dynamics.channels[channel]] *= times
    return SAFE * worst_case_for_ever(dynamics, terms.bound, initial, exponent, window=terms.window, squared=squared)


def curve(terms: Terms, rounds: Array, squared: bool) -> Array:
    """total() at each of the given, rising numbers of rounds."""
    if terms.where == "messages" and math.isinf(terms.window):
        dynamics, weights, slack = _horizon(terms, int(rounds[-1]))
        each = sensitivities(dynamics, terms.bound, terms.window, 0, slack) * weights
        for component in (dynamics.channels[channel] for channel in dynamics.after):
            each[:-1, component] = each[1:, component]  # what x_{t+1} costs is paid in round t
        sums = SAFE * np.concatenate([[0.0], np.cumsum((each**2 if squared else each).sum(axis=1))])
        return np.asarray(sums[rounds.astype(int)])
    if terms.where == "source" and math.isinf(terms.window) and len(terms.factor) == 1:
        released = terms.releases.before(int(rounds[-1]))
        sums = np.concatenate([[0.0], np.cumsum(shifts_of(terms, int(rounds[-1]), 0) ** (2 if squared else 1))])
        return np.asarray(SAFE ** (1 + squared) * sums[np.searchsorted(released, rounds.astype(int))])
    return np.array([total(terms, int(t), squared) for t in rounds])


def _horizon(terms: Terms, rounds: int) -> tuple[Dynamics, Array, Slack]:
    """The dynamics of x_0 … x_rounds, each component's weights, 1/scale of the round that sends it, and rounding."""
    dynamics = enlarged(terms.dynamics(rounds + 1))
    weights = np.zeros((rounds + 1, dynamics.b.shape[1]))
    for channel, component in dynamics.channels.items():
        sent = slice(1, None) if channel in dynamics.after else slice(0, rounds)
        weights[sent, component] += terms.inverse_scale(np.arange(float(rounds))) / dict(terms.split).get(channel, 1.0)
    return dynamics, weights, rounding_slack(terms, dynamics)


def rounding_slack(terms: Terms, dynamics: Dynamics) -> Slack:
    """What float64 adds to the recursion, in the norm of the noise, where no state is beyond `LARGEST_STATE` scales.

    Two runs round differently, so everything counts twice. Of a record's gradient it is the model's own bound; of the
    mean, mean_error; of the ridge, the product r θ and the sum; of emit and step, `Terms.rounding`, an error of each
    coordinate, of which n make an error of n times that in L1 and √n times in L2.
    """
    if terms.rounding is None:
        return no_slack(dynamics)
    bound, T = terms.bound, len(dynamics.b)
    rounding = terms.rounding(T)
    with np.errstate(divide="ignore"):
        size = LARGEST_STATE / terms.inverse_scale(np.arange(float(T)))
    of_norm = terms.law.norm_of_ones(terms.coordinates)
    of_record = bound.error + bound.error_per_size * size
    of_ridge = UNIT * (bound.c + 3 * bound.ridge * of_norm * size) if bound.ridge else 0 * size
    of_mean = terms.mean_error(np.minimum(np.arange(1.0, T + 1), terms.window))
    of_states = rounding.of_states * of_norm * size
    of_gradient = rounding.of_gradient * (bound.c + bound.ridge * of_norm * size)
    extra = dynamics.b * (of_mean + of_ridge)[:, None] + (of_states + of_gradient)[:, None]
    return Slack(2 * of_record, 2 * extra)


def losses(terms: Terms, rounds: int) -> Array | None:
    """Every message's sensitivity/ν, for a record that is worst in each; None where that is too much to work out."""
    if terms.where == "source":
        return SAFE * losses_at_source(terms, rounds)
    if not math.isinf(terms.window) and rounds > MOST_BY_LAG:
        return None
    dynamics, weights, slack = _horizon(terms, rounds)
    if not math.isinf(terms.window):
        return SAFE * losses_by_lag(dynamics, terms.bound, weights, terms.window, slack).ravel()
    return np.asarray(SAFE * sensitivities(dynamics, terms.bound, terms.window, 0, slack) * weights).ravel()


def epsilon_curve(terms: Terms, rounds: Array, delta: float) -> Array:
    """ε after each of the given, rising numbers of rounds, from the law's own total of each."""
    law = terms.law

    def epsilon(whole: float, t: int) -> float:
        shifts = Shifts(terms.numbers(t), lambda squared: whole if squared == law.squared else math.inf)
        return law.epsilon(shifts, delta)

    totals = curve(terms, rounds, law.squared)
    return np.array([epsilon(float(whole), int(t)) for whole, t in zip(totals, rounds, strict=True)])


class Accountant:
    """The ledger of one learner, with a budget that it does not overspend.

    A round is charged before it is sent: `step()` refuses one that the budget does not allow.
    """

    def __init__(self, terms: Terms, budget: float = math.inf, delta: float = 0.0) -> None:
        if not budget > 0:
            raise GossamerError(f"a privacy budget of ε = {budget:g}: expected above 0.")
        if not 0 <= delta < 1 or (terms.law.needs_delta and delta == 0 and math.isfinite(budget)):
            raise GossamerError(f"δ = {delta:g}: expected 0 ≤ δ < 1, and above 0 for Gaussian noise, such as 1e-5.")
        self.terms, self.budget, self.delta = terms, budget, delta
        self.rounds = 0
        self._affordable: float = 0 if math.isfinite(budget) else math.inf  # rounds that are known to be
        self._for_ever: dict[float, float] = {}  # by δ: asked for in every round, and the same in all of them
        self._soon: dict[float, float] = {}  # a part of it

    def step(self, rounds: int = 1) -> None:
        """Charge the next rounds; changes nothing where they would overspend."""
        if not isinstance(rounds, WHOLE) or rounds < 0:
            raise GossamerError(f"step({rounds!r}): expected a whole number of rounds ≥ 0; what is sent stays spent.")
        if self.rounds + rounds > self._affordable and not self.affords(self.rounds + rounds):
            spent = self.epsilon_at(self.rounds, self.delta)
            raise BudgetSpent(
                f"round {self.rounds} would overspend: ε = {spent:.6g} of {self.budget:g} is spent; "
                "the learner sends nothing new from here on."
            )
        self.rounds += rounds

    def affords(self, rounds: int) -> bool:
        """Whether so many rounds in all stay within the budget."""
        if rounds > self._affordable:
            if not self.epsilon_at(rounds, self.delta) <= self.budget:  # whatever is not a number is not afforded
                return False
            self._affordable = rounds
        return True

    def affordable_rounds(self, most: int) -> int:
        """The largest number of rounds, at most `most`, that the budget allows."""
        if self.affords(most):
            return most
        low, high = self.rounds, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.affords(middle) else (low, middle)
        return low

    def get_epsilon(self, delta: float = 0.0) -> float:
        """ε of all that was sent so far, at δ."""
        return self.epsilon_at(self.rounds, delta)

    def epsilon_at(self, rounds: int, delta: float = 0.0) -> float:
        """ε after so many rounds in all, at δ."""
        if not 0 <= delta < 1:
            raise GossamerError(f"δ = {delta!r}: expected 0 ≤ δ < 1.")
        if rounds == 0:
            return 0.0
        terms, numbers = self.terms, self.terms.numbers(rounds)
        sent = Shifts(numbers, lambda squared: total(terms, rounds, squared), lambda: losses(terms, rounds))
        return terms.law.epsilon(sent, delta)

    def epsilon_for_ever(self, delta: float = 0.0, enough: float = math.inf) -> float:
        """ε if the run never ends, proved, or ∞. Where it is more than `enough`, ∞ may be said, which is quicker.

        With noise on messages, what the grid and rounding cost is not in it, because it grows without end, if slowly:
        about 1e-7 a round with 100 coordinates on two channels. step() charges it, and a learner whose budget it uses
        up stops. At the source all is in it.
        """
        if delta not in self._for_ever and self._epsilon_soon(delta, enough) > enough * (1 + 1e-6):
            return math.inf
        if delta not in self._for_ever:
            numbers = self.terms.numbers(math.inf) if self.terms.where == "source" else 0
            ever = Shifts(numbers, lambda squared: total_for_ever(self.terms, squared))
            self._for_ever[delta] = self.terms.law.epsilon(ever, delta)
        return max(self._for_ever[delta], self.get_epsilon(delta))

    def _epsilon_soon(self, delta: float, enough: float) -> float:
        """A part of ε for ever that is quick to find, where the whole is not: what the first rounds cost, unrounded."""
        terms = self.terms
        if terms.where == "source" or not math.isinf(terms.window) or math.isinf(max(enough, terms.settles)):
            return 0.0
        if delta not in self._soon:
            exact = replace(terms, rounding=None)
            self._soon[delta] = terms.law.epsilon(Shifts(0, lambda squared: total(exact, SOON, squared)), delta)
        return self._soon[delta]

    def epsilon_if_all_collude(self, delta: float = 0.0) -> float:
        """ε of all that was sent so far if all other learners put together what they know."""
        return Accountant(self.terms.alone, delta=self.delta).epsilon_at(self.rounds, delta)

    def epsilon_by_arrival(self, arrivals: Sequence[int], rounds: int, delta: float = 0.0) -> Array:
        """ε, after so many rounds in all, of a record that arrived in each of these: late ones are seen less often.

        With noise on messages every record is charged as the dearest.
        """
        terms = self.terms
        if terms.where == "messages":
            return np.full(len(arrivals), self.epsilon_at(rounds, delta))

        def epsilon(k: int) -> float:
            each = SAFE * shifts_of(terms, rounds, k)
            seen = Shifts(
                terms.coordinates * terms.noises * len(each),
                lambda squared: float((each ** (1 + squared)).sum()),
                lambda: each,
            )
            return terms.law.epsilon(seen, delta) if len(each) else 0.0

        return np.array([epsilon(int(k)) for k in arrivals])

    def remaining(self) -> float:
        """What is left of the budget."""
        return self.budget - self.get_epsilon(self.delta)

    def state_dict(self) -> dict[str, Any]:
        terms = self.terms
        scale = {"initial": terms.initial, "exponent": terms.exponent, "ratio": terms.ratio, "terms": terms.digest()}
        spent = {"rounds": self.rounds, "budget": self.budget, "delta": self.delta}
        return {"law": str(terms.law), "where": terms.where, **scale, **spent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a ledger's rounds; refuses one kept on other terms, or with fewer rounds than are spent here."""
        mine = self.state_dict()
        for name in ("law", "where", "initial", "exponent", "ratio", "terms", "budget", "delta"):
            if state.get(name) != mine[name]:
                raise GossamerError(f"the ledger was kept with {name} = {state.get(name)!r}, expected {mine[name]!r}.")
        rounds = state.get("rounds")
        if not isinstance(rounds, int) or rounds < self.rounds or not self.affords(rounds):
            raise GossamerError(
                f"the ledger has {rounds!r} rounds, expected a whole number from {self.rounds} up to what the budget "
                "allows: it is damaged, or older than this one."
            )
        self.rounds = rounds

    def to_dp_event(self) -> Any:
        """The rounds so far as an event of the dp-accounting library (extra `accounting`), worst record first."""
        try:
            import dp_accounting
        except ImportError:
            raise GossamerError("to_dp_event() needs the dp-accounting library: pip install dp-accounting.") from None
        each = losses(self.terms, self.rounds)
        if each is None:
            raise GossamerError(
                "to_dp_event() with ",
                Argument("gradient", "latest"),
                f" works out every record's losses, for at most {MOST_BY_LAG} rounds, and the ledger has "
                f"{self.rounds}: use get_epsilon().",
            )
        event = getattr(dp_accounting, self.terms.law.in_dp_accounting)
        return dp_accounting.ComposedDpEvent([event(float(1 / loss)) for loss in each if loss > 0])


def epsilons(terms: Sequence[Terms], rounds: int, delta: float) -> list[float | None]:
    """ε of every learner after so many rounds; None where it is not finite."""
    each = [Accountant(one, delta=delta).epsilon_at(rounds, delta) for one in terms]
    return [epsilon if math.isfinite(epsilon) else None for epsilon in each]
