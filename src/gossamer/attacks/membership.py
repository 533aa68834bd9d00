"""Was this record there? Two worlds that differ in one record, told apart over many runs by the likelihood ratio.

The two worlds are the worst that a sceptic found (gossamer.checks.climb); runs are drawn with the mechanism's own exact
noise, and each gets the logarithm of its likelihood ratio (gossamer.checks.judge.scores). By Neyman and Pearson no test
has more true alarms for as many false ones. What ε and δ allow of any test (Wasserman & Zhou, JASA 2010; Kairouz, Oh &
Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015):

    TPR ≤ min(e^ε FPR + δ,  1 − e^−ε (1 − δ − FPR))

**What is certified.** A threshold is chosen on one half of the runs, and looked at on the other. There the rates lie
above TPR⁻ and below FPR⁺ with a confidence of 95 % (Clopper & Pearson, Biometrika 1934; 97.5 % each), so that
ε ≥ log((TPR⁻ − δ)/FPR⁺) of any (ε, δ) that holds. This is the estimate of Jagielski, Ullman & Oprea ("Auditing
Differentially Private Machine Learning", NeurIPS 2020).

**What can be refuted.** So many runs certify some ε at most, even where no noise is drawn and no alarm is false. A
claim of that ε or more stands whatever is done: that it is not refuted says nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from gossamer.algorithms import ldp_gradient_tracking
from gossamer.attacks.kinds import KINDS
from gossamer.checks import ALARM
from gossamer.checks.climb import Worst, worst_found
from gossamer.checks.judge import scores
from gossamer.checks.worlds import Case
from gossamer.models import Clip, Gradient, LogisticRegression
from gossamer.networks import Network
from gossamer.privacy import Accountant, Mechanism, Secrets
from gossamer.privacy.accountant import Where
from gossamer.privacy.laws import law_named
from gossamer.privacy.mechanisms import mechanism_named
from gossamer.privacy.releases import every
from gossamer.schedules import Decay
from gossamer.types import Array

CONFIDENCE = 0.95
CHOOSING = 0.9999  # with which a threshold is chosen: with less, luck would choose one that few runs reach
DELTA = 1e-5  # of Gaussian noise
ROUNDS = 8
LEARNERS = 5
RELEASES = every(1, after=2)
TRIES, CLIMBS = 4, 40  # of the sceptic: it starts near the worst
MOST_RUNS = 10**6
PLANTED = 10.0  # times less noise than is claimed, where the attack is to find it
SECRETS = {"secrets": "the same with pair secrets, one colluding"}
TOLD: dict[str, str] = {str(kind): words for kind, words in KINDS.items()} | SECRETS


@dataclass(frozen=True)
class Told:
    """Two worlds told apart: scores of runs in either, and what they certify."""

    kind: str
    epsilon: float  # claimed
    delta: float
    present: Array  # scores of runs with the record
    absent: Array  # and with another in its place

    def certified(self, confidence: float = CONFIDENCE) -> float:
        """An ε below which no claim at δ is true, with this confidence."""
        return certified_epsilon(self.present, self.absent, self.delta, confidence)

    @property
    def refuted(self) -> bool:
        """Whether the claim falls: where chance would do that once in a million times."""
        return self.certified(1 - ALARM) > self.epsilon

    @property
    def reach(self) -> float:
        """A claim of this ε or more is not refuted by so many runs, whatever they say."""
        return reach_of(min(len(self.present), len(self.absent)), self.delta)

    def true_alarms(self, false_alarms: float) -> float:
        """The share of runs with the record that are found, where so many without it are taken for one."""
        return float(np.interp(false_alarms, *roc(self.present, self.absent)))

    @property
    def area(self) -> float:
        """Under the curve: the chance that a run with the record scores higher than one without."""
        rates = roc(self.present, self.absent)
        return float(np.trapezoid(rates[1], rates[0]))


def tell_apart(
    kind: str,
    law: str,
    epsilon: float,
    runs: int,
    *,
    times: float = 1.0,
    worst: Worst | None = None,
) -> Told:
    """One kind of noise; `times` as much of it as is claimed is drawn, in two worlds that `find_worst` found."""
    case = case_of(kind, law, epsilon)
    learner, spent = 0, case.mechanism.delta

    def draw(values: Array, scale: float) -> Array:
        exact = np.asarray(case.law.exact(values, scale))
        return exact if times == 1 else np.asarray(values + times * (exact - values))

    present, absent = scores(case, learner, runs, draw, worst or find_worst(kind, law, epsilon))
    claim = Accountant(case.terms[learner], delta=spent).epsilon_at(case.rounds, spent)
    return Told(kind, float(claim), spent, present, absent)


def find_worst(kind: str, law: str, epsilon: float) -> Worst:
    """Two worlds in which what learners send differs most; any two are neighbours, so they serve at every ε."""
    return worst_found(case_of(kind, law, epsilon), tries=TRIES, climbs=CLIMBS)


def case_of(kind: str, law: str, epsilon: float) -> Case:
    """A small run in which the sceptic may choose everything."""
    norm, spent = law_named(law).norm, 0.0 if law == "laplace" else DELTA
    where: Where = "messages" if kind == "messages" else "source"
    mechanism: Mechanism = mechanism_named(law).for_budget(
        epsilon, spent, horizon=ROUNDS, where=where,
        releases=RELEASES if kind in ("history", "secrets") else None,
        secrets=Secrets(colluders=1) if kind == "secrets" else None,
    )  # fmt: skip
    algorithm = ldp_gradient_tracking(step=Decay(0.05, 0.8))
    gradient: Gradient = "latest" if kind == "latest" else "history"
    model = LogisticRegression(0.01, Clip(norm, 1.0))
    return Case(algorithm, Network.ring(LEARNERS), model, mechanism, gradient, ROUNDS)


def tell_all_apart(
    law: str, epsilons: Sequence[float], runs: int, progress: Callable[[int, int], None], times: float = 1.0
) -> list[Told]:
    """All kinds of noise at all ε; pair secrets are for Gaussian noise alone."""
    kinds = [kind for kind in TOLD if kind != "secrets" or law == "gaussian"]
    told, count = list[Told](), len(kinds) * len(epsilons)
    for kind in kinds:
        worst = find_worst(kind, law, epsilons[0])
        for epsilon in sorted(epsilons):
            progress(len(told), count)
            told.append(tell_apart(kind, law, epsilon, runs, times=times, worst=worst))
    progress(count, count)
    return told


# -- rates -------------------------------------------------------------------------------------------------------------


def roc(present: Array, absent: Array) -> tuple[Array, Array]:
    """False and true alarms of every threshold, from none to all."""
    thresholds = np.concatenate([[np.inf], np.unique(np.concatenate([present, absent]))[::-1]])
    return _above(absent, thresholds), _above(present, thresholds)


def _above(values: Array, thresholds: Array) -> Array:
    """The share of the values that is at least each threshold."""
    return np.asarray(1 - np.searchsorted(np.sort(values), thresholds, side="left") / len(values))


def allowed_alarms(false_alarms: Array, epsilon: float, delta: float) -> Array:
    """The most true alarms that (ε, δ) allows."""
    grown = np.exp(np.minimum(epsilon, 700.0)) * false_alarms + delta
    return np.asarray(np.clip(np.minimum(grown, 1 - math.exp(-epsilon) * (1 - delta - false_alarms)), 0.0, 1.0))


class Test(NamedTuple):
    """An event: scores at or above the threshold, or below it."""

    threshold: float
    above: bool


def certified_epsilon(present: Array, absent: Array, delta: float, confidence: float = CONFIDENCE) -> float:
    """An ε below which no claim at δ can be true, with this confidence."""
    half_one, half_other = len(present) // 2, len(absent) // 2
    test = best_test(present[:half_one], absent[:half_other], delta, max(confidence, CHOOSING))
    return bound_of(test, present[half_one:], absent[half_other:], delta, confidence)


def best_test(present: Array, absent: Array, delta: float, confidence: float) -> Test:
    """The event that certifies most on these runs."""
    quantiles = np.unique(np.quantile(np.concatenate([present, absent]), np.linspace(0.002, 0.998, 250)))
    tests = [Test(float(threshold), above) for threshold in quantiles for above in (True, False)]
    return max(tests, key=lambda test: bound_of(test, present, absent, delta, confidence))


def bound_of(test: Test, present: Array, absent: Array, delta: float, confidence: float) -> float:
    """log((p⁻ − δ)/q⁺) of the event's probabilities, p where it is likelier: with the record, or without it."""
    likely, rare = (present, absent) if test.above else (absent, present)
    hits, alarms = (int(np.sum((scored >= test.threshold) == test.above)) for scored in (likely, rare))
    return bound_of_counts(hits, len(likely), alarms, len(rare), delta, confidence)


def bound_of_counts(hits: int, likely: int, alarms: int, rare: int, delta: float, confidence: float) -> float:
    """The same of `hits` among so many runs where the event is likelier, and `alarms` among those where it is rarer."""
    side = (1 - confidence) / 2
    low = float(scipy.special.betaincinv(hits, likely - hits + 1, side)) if hits else 0.0
    high = float(scipy.special.betaincinv(alarms + 1, rare - alarms, 1 - side)) if alarms < rare else 1.0
    return math.log((low - delta) / high) if low - delta > high else 0.0


def reach_of(runs: int, delta: float, confidence: float = 1 - ALARM) -> float:
    """The most that so many runs in either world certify: all are told apart on the half that is looked at."""
    looked = runs - runs // 2
    return bound_of_counts(looked, looked, 0, looked, delta, confidence)


def runs_to_refute(epsilon: float, delta: float) -> int | None:
    """The fewest runs that can refute such a claim, up to two digits; None: more than are ever run."""
    if reach_of(MOST_RUNS, delta) <= epsilon:
        return None
    low, high = 2, MOST_RUNS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reach_of(middle, delta) > epsilon else (middle + 1, high)
    unit = int(10 ** max(0, len(str(low)) - 2))
    return -(-low // unit) * unit
