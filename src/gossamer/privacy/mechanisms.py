"""Laplace and Gaussian noise with a proved budget, on the messages (the paper) or at the source (ours).

**On messages**, every learner adds noise of scale ν_{i,t} = ν_i0/(t+1)^ς to the states that it sends. Budgets follow
from the recursion in gossamer.privacy.recursion.

**At the source** a learner adds noise to the mean of its records' clipped gradients, in the rounds of a release
schedule, and sends its states as they are. The mean is over the newest round's records, over the newest R rounds', or
over all so far; over all it is by far the better mechanism, since one record is one of ever more. The proof, which
needs no Lipschitz constant, no recursion and no graph, is in gossamer.privacy.source. It needs each record to be read
once and a start that does not depend on data; whatever breaks one of these is refused.

How releases and noise go with time, where nobody says it, is decided in gossamer.privacy.plan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import NamedTuple, Self, final

import numpy as np

from gossamer.errors import AT_SOURCE, Argument, BadValue, BudgetUnmet, GossamerError, NotProvable, Part
from gossamer.privacy.accountant import Accountant, Terms, Where, total, total_for_ever
from gossamer.privacy.agreed import agreed_terms
from gossamer.privacy.arguments import Numbers, Short, checked_scale, checked_split, each_budget, number, of_learner
from gossamer.privacy.boundary import PrivateBoundary
from gossamer.privacy.laws import GAUSSIAN, LAPLACE, Law, law_named
from gossamer.privacy.pairs import DealtPairs, PairNoise
from gossamer.privacy.plan import planned, spaced, unmixed, usual_exponent, with_head
from gossamer.privacy.recursion import GradientBound
from gossamer.privacy.releases import Releases
from gossamer.privacy.secrets import AGAINST_ALL, Secrets, Shared
from gossamer.privacy.source import coefficients
from gossamer.schedules import Decay
from gossamer.types import Dynamics, Rounding

LONGEST = 2**40  # rounds that a budget may be meant for, beside for ever
MOST_ROUNDS = 10**7  # that a budget on messages is calibrated for
CALIBRATIONS = 60  # tries; two or three are enough
MOST_BAND = 4096  # releases that noise is correlated over: as many gradients are kept
HUGE, SMALL = 1e60, 1e-250  # scales


class Setting(NamedTuple):
    """What a run tells a mechanism, so that it can prove its claim."""

    learners: int
    coordinates: int
    steps: int
    window: float  # rounds whose records a gradient is the mean of: 1 the latest, math.inf all
    records: Sequence[int]  # N of each learner
    per_round: bool  # adjacency is a round's records, not one record
    reach: Callable[[int], tuple[float, float, float, float]]  # c, L and a record's rounding, in L1 or L2
    ridge: float
    dynamics: Callable[[int, int], Dynamics]  # of a learner, over so many rounds; refuses where none is known
    rounding: Callable[[int, int], Rounding]  # likewise
    settles: float
    step_exponent: float | None
    read_once: bool
    held: Sequence[float] = ()  # records of each learner in all, where they end; empty: they go on
    parties: int = 1  # learners in the whole run
    quiet: int = 0  # rounds that the graph takes to mix
    margin: float = math.nan  # ‖a‖₂ at most, which noise in the model is multiplied with
    curvature: float = math.nan  # of the mean loss, in L2, as far as it is declared
    standardises: bool = False  # whether learners see their records standardised: gossamer.models.standard
    prepares: bool = False  # and release moments of numbers for it, before gradients
    planned: int | None = None  # rounds that releases are planned for, where a run goes on for longer
    weights: Sequence[float] = ()  # factors of the learners' gradients, where they count unlike in the objective
    ids: Sequence[int] = ()  # which learners of the run these are
    floor: float | None = None  # with pair secrets: the own noise that was agreed on; None: found for these learners


def halfway(v: float | None) -> float:
    """ς of noise on messages where nobody said it: halfway between ½ and the step's v."""
    return 0.5 if v is None else (0.5 + v) / 2


@dataclass(frozen=True, repr=False)
class Mechanism(ABC):
    """A law of noise, where it goes, and either its scale or the budget to find one for."""

    scale: Decay | None = None
    where: Where = "messages"
    epsilon: tuple[float, ...] | float | None = None
    delta: float = 0.0
    horizon: float | None = None  # rounds to calibrate for; None: the run's own
    exponent: float | None = None  # ς to calibrate with; None: halfway between ½ and the step's v, or 0 at the source
    ratio: float = 1.0  # and the factor from round to round
    releases: Releases | None = None  # at the source: which rounds release; None: by rule
    band: int = 1  # at the source: over how many releases noise is correlated
    split: tuple[tuple[str, float], ...] = ()  # on messages: how many times the scale a channel gets
    secrets: Secrets | None = None  # at the source: noise of pairs, which cancels in sums over learners

    @property
    @abstractmethod
    def law(self) -> Law: ...

    def __post_init__(self) -> None:
        if not isinstance(self.where, str) or self.where not in ("messages", "source"):
            raise BadValue("where", self.where, "expected 'messages' or 'source'")
        if (self.scale is None) == (self.epsilon is None):
            raise GossamerError(
                "a mechanism has a scale or a budget: use Laplace(scale) or Laplace.for_budget(epsilon)."
            )
        if self.scale is not None:
            object.__setattr__(self, "scale", checked_scale(self.scale))
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", each_budget(self.epsilon))
            budgets = np.ravel(self.epsilon)
            if not budgets.size or not all((budgets > 0) & (budgets < math.inf)):
                raise BadValue("epsilon", self.epsilon, "expected a finite number above 0, or one for each learner")
        if not 0 <= number(self.delta) < 1:
            raise BadValue("delta", self.delta, "expected 0 ≤ δ < 1, and above 0 for Gaussian noise, such as 1e-5")
        if not 0 < number(self.ratio) < math.inf:
            raise BadValue("ratio", self.ratio, "expected a finite number above 0, such as 1.0 for none")
        if self.exponent is not None and not abs(number(self.exponent)) <= 100:
            raise BadValue("exponent", self.exponent, "expected a number of at most 100 in size, or None")
        rounds = 1.0 if self.horizon is None else number(self.horizon)
        if not (1 <= rounds <= LONGEST or rounds == math.inf):
            raise BadValue(
                "horizon", self.horizon, f"expected a number of rounds ≥ 1, at most {LONGEST:g}, or math.inf"
            )
        if self.horizon is not None and type(self.horizon) not in (int, float):
            object.__setattr__(self, "horizon", rounds)
        for name in ("delta", "ratio") if self.exponent is None else ("delta", "ratio", "exponent"):
            object.__setattr__(self, name, number(getattr(self, name)))  # a whole number's powers would overflow
        if self.scale is not None and (self.exponent is not None or self.ratio != 1):
            raise GossamerError(
                "a scale with ",
                Argument("exponent", self.exponent),
                " and ",
                Argument("ratio", self.ratio),
                ": say in the scale itself how it goes with time, such as decay(1.0, 0.6) or geometric(1.0, 0.99).",
            )
        if self.law.needs_delta and not 0 < self.delta < 1:
            raise BadValue("delta", self.delta, f"{self.law.name.capitalize()} noise needs 0 < δ < 1, such as 1e-5")
        self._check_shape()

    def _check_shape(self) -> None:
        """Releases and correlated noise are for the source, a split is for messages."""
        if self.releases is not None and type(self.releases) is not Releases:  # one of one's own books what it likes
            raise BadValue("releases", self.releases, "expected every(r, after=W) or thinning(ratio, after=W)")
        if (
            isinstance(self.band, bool)
            or not isinstance(self.band, int | np.integer)
            or not 1 <= self.band <= MOST_BAND
        ):
            raise BadValue("band", self.band, f"expected a whole number of releases from 1 to {MOST_BAND}")
        if self.where == "messages" and (self.releases is not None or self.band > 1):
            name = "releases" if self.releases is not None else "band"
            given = self.releases.argument if self.releases is not None else Argument(name, self.band)
            raise GossamerError(given, " is for noise at the source: use ", Argument("where", "source"), ".")
        if self.band > 1 and self.releases is not None and self.releases.ratio > 1:
            raise GossamerError(
                Argument("band", self.band),
                " needs releases at even distances: use ",
                Argument("releases", "r,W", "every(r, after=W)"),
                ".",
            )
        split = checked_split(self.split)
        if split and self.where == "source":
            raise GossamerError(Argument("split", dict(split)), " is for noise on messages: leave it out.")
        object.__setattr__(self, "split", split)
        self._check_secrets()

    def _check_secrets(self) -> None:
        if self.secrets is None:
            return
        if type(self.secrets) is not Secrets:
            raise BadValue("secrets", self.secrets, "expected gossamer.Secrets(colluders=q), or None")
        if not self.law.squared:
            # A shift may go to others' noise as well, but in L1 that costs as much as one's own, and the pair's beside.
            raise GossamerError(
                f"{self.law.name.capitalize()} noise gains nothing from pair secrets, because costs add up as the "
                "shifts themselves do: use ", Argument("law", "gaussian"), ".",
            )  # fmt: skip
        if self.where == "messages":
            raise GossamerError(Argument("secrets"), " is not for noise on messages: use ", *AT_SOURCE, ".")
        if self.scale is not None and np.ndim(self.scale.exponent):
            raise BadValue(
                "scale", self.scale, "pairs' noise goes with time as everybody's does: expected one exponent"
            )

    @classmethod
    def for_budget(
        cls,
        epsilon: Numbers,
        delta: float = 0.0,
        *,
        horizon: float | None = None,
        where: Where = "messages",
        exponent: float | None = None,
        ratio: float = 1.0,
        releases: Releases | None = None,
        band: int = 1,
        split: Mapping[str, float] | tuple[tuple[str, float], ...] = (),
        secrets: Secrets | None = None,
    ) -> Self:
        """Noise for a budget ε at δ, one ε for all learners or one each, over `horizon` rounds (math.inf: for ever).

        releases   at the source: the rounds in which gradients are released, every(r, after=W) or thinning(ratio,
                   after=W); by default all with gradient="latest", otherwise as gossamer.privacy.plan finds them
        band       at the source: over how many releases noise is correlated; see gossamer.privacy.source
        split      on messages: how many times the scale a channel gets, such as {"s": 2.0}
        secrets    at the source: Secrets(colluders=q), noise that cancels; ε holds against up to q colluding learners
        """
        return cls(None, where, each_budget(epsilon), delta, horizon, exponent, ratio, releases, band, split, secrets)  # type: ignore[arg-type]

    @property
    def against(self) -> str:
        """Against whom the budget holds, in words."""
        return AGAINST_ALL if self.secrets is None else self.secrets.against

    def over(self, rounds: float) -> Mechanism:
        """The same with so many rounds to calibrate for, where it says none itself."""
        return replace(self, horizon=rounds) if self.epsilon is not None and self.horizon is None else self

    @property
    def message_scale(self) -> Decay | None:
        """How the noise on messages goes with time, as far as it was said: what an algorithm's assumptions look at."""
        return self.scale if self.scale is not None or self.exponent is None else Decay(1.0, self.exponent, self.ratio)

    def fading(self, v: float | None) -> Decay:
        """How the noise on messages will go with time, for steps of exponent v; its size where it was said, else 1."""
        return self.message_scale or Decay(1.0, halfway(v), self.ratio)

    def terms(self, setting: Setting) -> list[Terms]:
        """Every learner's terms, with scales found for its budget where none were given."""
        learners = setting.learners
        if isinstance(self.epsilon, tuple) and len(self.epsilon) != learners:
            raise GossamerError(f"{len(self.epsilon)} budgets for {learners} learners: give one for all, or one each.")
        if self.scale is not None and self.scale.learners not in (None, learners):
            raise GossamerError(f"noise for {self.scale.learners} learners and the run has {learners}: give one each.")
        _check_rounds(setting, remembers=self.where == "source" and setting.window > 1)
        if self.where == "source":
            self._check_source(setting)
        elif setting.standardises:
            raise NotProvable(
                "how learners see standardised records is proved to be private with noise at the source alone: use ",
                *AT_SOURCE, ", or ", Argument("standardise", False), ".",
            )  # fmt: skip
        elif len(setting.weights):  # a record of a learner that counts twice moves its messages twice as far
            raise NotProvable(
                "learners with weights by their records are proved to be private with noise at the source alone: use ",
                *AT_SOURCE, ", or ", Argument("weight", "equal"), ".",
            )  # fmt: skip
        c, L, error, error_per_size = setting.reach(self.law.norm)
        units, shared = [], self._shared(setting, 1.0)
        for i in range(learners):
            records = 1 if setting.per_round else setting.records[i]
            terms = Terms(
                law=self.law,
                where=self.where,
                bound=GradientBound(c, L, setting.ridge, records, error, error_per_size),
                window=setting.window,
                dynamics=partial(setting.dynamics, i),
                settles=setting.settles,
                initial=1.0 if self.scale is None else of_learner(self.scale.initial, i),
                exponent=self._usual_exponent(setting) if self.scale is None else of_learner(self.scale.exponent, i),
                coordinates=setting.coordinates,
                ratio=self.ratio if self.scale is None else self.scale.ratio,
                records_in_round=setting.records[i],
                rounding=None if self.where == "source" else partial(setting.rounding, i),
                held_at_most=setting.held[i] if len(setting.held) else math.inf,
                split=self.split,
                shared=shared[i],
            )
            self._check_channels(terms)
            units.append(self._with_releases(terms, setting, i) if self.where == "source" else terms)
        if self.secrets is not None:
            units = self._together(units, setting)
        if self.scale is None:
            units = [self._calibrated(unit, of_learner(self.epsilon, i), setting.steps) for i, unit in enumerate(units)]
        return units if self.secrets is None else agreed_terms(units, setting.floor, self.scale is not None)

    def _together(self, units: list[Terms], setting: Setting) -> list[Terms]:
        """Terms with one schedule for all, since noise cancels among those who release, and with the pairs' share."""
        assert self.secrets is not None
        first = min(range(len(units)), key=lambda i: units[i].releases.after)
        releases, meant = units[first].releases, setting._replace(steps=setting.planned or setting.steps)
        if self.releases is None:
            releases = spaced(units[first], meant, self._horizon(meant), self._shift(units[first], meant, first))
        count = len(releases.learning(meant.steps))
        share = self.secrets.share_for(setting.parties, count, unmixed(meant, releases.step))
        shared = self._shared(setting, share)
        return [replace(u, releases=releases, shared=one) for u, one in zip(units, shared, strict=True)]

    def _shared(self, setting: Setting, share: float) -> list[Shared | None]:
        """What the learners' pairs do for them, in units of their own noise, if that is everybody's."""
        if self.secrets is None:
            return [None] * setting.learners
        left, m = self.secrets.left(setting.parties, share), setting.learners
        ids, weights = setting.ids or range(m), setting.weights if len(setting.weights) else [1.0] * m
        of_each = zip(ids, weights, strict=True)
        return [Shared(self.secrets, math.sqrt(left[i]), setting.parties, 1.0, share, float(w)) for i, w in of_each]

    def _check_channels(self, terms: Terms) -> None:
        for channel in dict(self.split):
            if channel not in terms.dynamics(1).channels:
                known = ", ".join(terms.dynamics(1).channels)
                raise BadValue("split", dict(self.split), f"the method's channels are {known}", "name one of them")

    def _with_releases(self, terms: Terms, setting: Setting, i: int) -> Terms:
        """Terms at the source with the rounds that release, the given ones or the rule's."""
        meant = setting._replace(steps=setting.planned or setting.steps)
        # Until the graph has mixed, methods that balance it by z weigh learners unlike, and nothing would cancel.
        first = min(meant.quiet, meant.steps // 10) if self.secrets is not None else 0
        terms = replace(terms, releases=self.releases or Releases(after=first), factor=coefficients(self.band))
        if not terms.releases.count(setting.steps):
            requirement = f"none of the run's {setting.steps} rounds releases a gradient"
            said = terms.releases.argument
            raise BadValue("releases", said.value, requirement, "start sooner, or run for longer", said.python)
        if self.releases is not None and setting.prepares and not self.releases.head:
            return with_head(terms, meant)
        if self.releases is not None or setting.window == 1:
            return terms
        return planned(terms, meant, self._horizon(meant), self._shift(terms, meant, i))

    def _usual_exponent(self, setting: Setting) -> float:
        """ς, or α at the source, where nobody said it."""
        v = setting.step_exponent
        if self.exponent is not None:
            return self.exponent
        if self.where == "messages":
            return halfway(v)
        if setting.window == 1 or setting.window < (setting.planned or setting.steps):
            return 0.0
        return usual_exponent(self.law, 0.5 if v is None else v, math.inf if self.horizon is None else self.horizon)

    def _horizon(self, setting: Setting) -> float:
        return setting.steps if self.horizon is None else self.horizon

    def _shift(self, unit: Terms, setting: Setting, i: int) -> float | None:
        """What learner i's budget allows in all, in noise scales; None where no budget is asked for."""
        if self.epsilon is None:
            return None
        horizon = self._horizon(setting)
        return self.law.shift_within(of_learner(self.epsilon, i), self.delta, unit.numbers(horizon))

    def _calibrated(self, unit: Terms, epsilon: float, steps: int) -> Terms:
        """The smallest scale whose total stays within ε, to a thousandth of that.

        The total is a/scale + r: one part falls with the scale, the other, rounding, does not. r is what is left at a
        huge scale; the rest is a fixed-point iteration for a, which hardly depends on the scale.
        """
        horizon = steps if self.horizon is None else self.horizon
        if (self.where == "messages" or unit.window > 1) and MOST_ROUNDS < horizon < math.inf:
            allowed = f"expected at most {MOST_ROUNDS:g} rounds, all of which are worked out"
            remedy = "give fewer, or math.inf for a budget that holds for ever"
            raise BadValue("horizon", Short(horizon), allowed, remedy)
        law, squared = self.law, self.law.squared
        rounds = steps if math.isinf(horizon) else int(horizon)
        shift = law.shift_within(epsilon, self.delta, unit.numbers(horizon if self.where == "source" else rounds))
        for_ever = total_for_ever(unit, squared) if math.isinf(horizon) else 0.0  # which leaves rounding out

        def total_at(scale: float) -> float:
            terms = replace(unit, initial=scale)
            return law.one_shift(max(total(terms, rounds, squared), for_ever / (scale**2 if squared else scale)))

        whole = total_at(1.0)
        if not math.isfinite(whole):
            raise BudgetUnmet(
                "no noise gives a finite budget for ever here: give a finite ",
                Argument("horizon"),
                ", a ",
                Argument("step"),
                " exponent above the noise's, a model with a Lipschitz constant, or noise at the source.",
            )
        rest = total_at(HUGE)
        if whole <= rest < shift:  # what is sent in so few rounds tells nothing of any record
            return unit
        scale = 1.0
        for _ in range(CALIBRATIONS if rest < shift else 0):
            scale = max(scale * (whole - rest) / (shift - rest), SMALL) * (1 + 1e-9)
            whole = total_at(scale)
            if 0.999 * shift <= whole <= shift:
                return self._eased(replace(unit, initial=scale), epsilon, rounds)
        raise BudgetUnmet(
            f"ε = {epsilon:g} over {rounds} rounds is below what the grid and rounding alone cost, "
            f"{unit.surcharge(rounds):.1e} and more: allow more."
        )

    def _eased(self, terms: Terms, epsilon: float, rounds: int) -> Terms:
        """Laplace noise at the source at δ > 0: less of it, as far as its composition at δ stays within ε.

        Totals are sums of shifts, which is what δ = 0 costs. ε falls with the scale, and bisection keeps to the safe
        side of it, to 0.2 %.
        """
        if self.law.squared or self.delta == 0 or self.where == "messages" or terms.releases.before(rounds).size < 2:
            return terms

        def costs(scale: float) -> float:
            ledger = Accountant(replace(terms, initial=scale), delta=self.delta)
            spent = ledger.epsilon_at(rounds, self.delta)
            return max(spent, ledger.epsilon_for_ever(self.delta)) if math.isinf(self.horizon or 0) else spent

        high, low = terms.initial, terms.initial / 64
        while high / low > 1.002:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if costs(middle) <= epsilon else (middle, high)
        return replace(terms, initial=high)

    def _check_source(self, setting: Setting) -> None:
        if 1 < setting.window < math.inf and self.band > 1:
            raise NotProvable(
                Argument("band", self.band), " is proved for ", Argument("gradient", "latest"), " and for a history of "
                "all records, and this model remembers a few rounds: leave it out.",
            )  # fmt: skip
        if not setting.read_once:
            raise NotProvable(
                "noise at the source needs every record to be read once: use a one-pass stream (",
                Argument("draw", "once"),
                "), and no more rounds than it has unless ",
                Argument("gradient", "history"),
                " remembers them.",
            )

    def bind(self, setting: Setting, pairs: PairNoise | None = None) -> PrivateBoundary:
        """The boundary of one run, with a ledger for each learner.

        `pairs` draws the noise that learners share with others; where all learners are here, it is dealt to them.
        """
        terms = self.terms(setting)
        budgets = [math.inf if self.epsilon is None else of_learner(self.epsilon, i) for i in range(setting.learners)]
        ledgers = [Accountant(t, b, self.delta) for t, b in zip(terms, budgets, strict=True)]
        if self.secrets is not None and pairs is None:
            if setting.learners != setting.parties:
                raise GossamerError("a learner's pairs need the keys that it shares: give pairs=.")
            pairs = DealtPairs(self.secrets.edges(setting.parties))
        return PrivateBoundary(self, ledgers, setting.steps, pairs)

    def __repr__(self) -> str:
        shown = [f for f in fields(self) if f.name != "secrets" or self.secrets is not None]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def __str__(self) -> str:
        shape = f"horizon {self.horizon}, exponent {self.exponent}, ratio {self.ratio:g}"
        if self.where == "source":
            shape += f", releases {self.releases or 'by rule'}" + (f", band {self.band}" if self.band > 1 else "")
            shape += f", {self.secrets}" if self.secrets is not None else ""
        if self.split:
            shape += f", split {dict(self.split)}"
        aim = f"scale {self.scale}" if self.scale is not None else f"for ε = {self.epsilon}, δ = {self.delta:g}"
        return f"exact {self.law} noise on {self.where}, {aim}, {shape}"


FEWER = ("use fewer ", Argument("steps"), " or a smaller ", Argument("per_round"))


def _check_rounds(setting: Setting, remembers: bool) -> None:
    """Refuse records that do not fill every round, where a record would weigh more than is booked.

    Noise at the source on a history or a window is booked by the records that there are, and asks for a round's.
    """
    for i, held in enumerate(setting.held):
        refuse_short_rounds(i, held, setting.records[i], 1 if remembers else setting.steps)


def refuse_short_rounds(
    learner: int, records: float, per_round: int, steps: int, remedy: Sequence[Part] = FEWER
) -> None:
    """Refuse records that do not fill every round of a private run.

    The recursion counts (t+1) N records in round t; with fewer, one record would weigh more than it says.
    """
    if records < steps * per_round:
        raise NotProvable(
            f"learner {learner} has {records:g} records for {steps} rounds of {per_round}, and privacy is proved for a "
            "full round every time: ", *remedy, ".",
        )  # fmt: skip


@final
class Laplace(Mechanism):
    """Laplace noise: pure ε. `Laplace(scale)` states the noise, `Laplace.for_budget(epsilon)` finds it."""

    law = LAPLACE


@final
class Gaussian(Mechanism):
    """Gaussian noise: (ε, δ). `Gaussian(scale, delta=1e-5)` states its standard deviation, `.for_budget` finds it."""

    law = GAUSSIAN


MECHANISMS: dict[str, type[Mechanism]] = {"laplace": Laplace, "gaussian": Gaussian}  # nothing else makes a claim


def mechanism_named(law: str) -> type[Mechanism]:
    """The mechanism whose noise has the law of this name; all of them take the same arguments."""
    return MECHANISMS[law_named(law).name]
