"""`gossamer theory schedules`: what a faster rate costs in ε for ever, along the best exponents.

For every rate the schedule with the most room (gossamer.theory.best) is priced by the accountant: λ0 = 1, noise that
starts with scale 1, one record a round with ‖∇l‖ ≤ 1 and L = ¼ (logistic loss on records of norm 1), the paper's
network and the learner that pays most on it. At the source releases begin in round 100.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms import ldp_gradient_tracking
from gossamer.experiments.pages import Page, rounded, write_epsilon
from gossamer.networks import Network
from gossamer.privacy import Accountant, Releases, Terms, law_named
from gossamer.privacy.recursion import GradientBound
from gossamer.report.theory import draw_tradeoff
from gossamer.schedules import decay
from gossamer.theory.best import Best, Law, Proof, best_schedule
from gossamer.types import Dynamics

DELTA = 1e-5
FIRST = 100  # round of the first release at the source
BOUND = GradientBound(c=1.0, L=0.25, ridge=0.0, records=1)
KINDS: dict[str, tuple[Proof, Law]] = {
    "Laplace on messages, Theorem 2": ("paper", "laplace"),
    "Laplace on messages, ours": ("ours", "laplace"),
    "Gaussian on messages, Theorem 2": ("paper", "gaussian"),
    "Gaussian on messages, ours": ("ours", "gaussian"),
    "Laplace at the source, ours": ("source", "laplace"),
    "Gaussian at the source, ours": ("source", "gaussian"),
}


class Priced(NamedTuple):
    """A best schedule and its ε for ever."""

    best: Best
    epsilon: float


def price(best: Best, proof: Proof, law: Law) -> float:
    """ε for ever, at δ = 1e-5 for Gaussian noise, of the learner that pays most."""
    network, name = Network.paper(), law_named(law)
    learner = int(network.perron.argmin())  # its steps are the longest

    @lru_cache(maxsize=1)
    def dynamics(rounds: int) -> Dynamics:
        algorithm = ldp_gradient_tracking(decay(1.0, best.v), strict=False)
        assert algorithm.dynamics is not None
        return algorithm.dynamics(network.rows([learner]), network.own_weights(rounds)[:, learner])

    where: Any = "source" if proof == "source" else "messages"
    releases = Releases(1, FIRST) if proof == "source" else Releases()
    terms = Terms(name, where, BOUND, math.inf, dynamics, network.settles, 1.0, best.noise, 1, releases=releases)
    delta = DELTA if name.needs_delta else 0.0
    return Accountant(terms, delta=delta).epsilon_for_ever(delta)


def trade_off(proof: Proof, law: Law, steps: int = 12) -> list[Priced]:
    """From slow to fast: for each rate the schedule with the most room, and what it costs."""
    fastest = best_schedule("rate", proof=proof, law=law).rate
    found = []
    for rate in np.linspace(0.1, fastest, steps):
        best = best_schedule("budget", at_least=float(rate) - 1e-5, proof=proof, law=law)  # as answers are rounded
        found.append(Priced(best, price(best, proof, law)))
    return found


def tell_schedules(steps: int) -> Page:
    curves = {label: trade_off(proof, law, steps) for label, (proof, law) in KINDS.items()}
    drawn = {
        label: (np.array([one.epsilon for one in found]), np.array([one.best.rate for one in found]))
        for label, found in curves.items()
    }
    rows = [["noise and proof", "aim", "v", "noise ∝ t^−x, x", "rate", "room", "ε for ever"]]
    for label, (proof, law) in KINDS.items():
        for aim, best in (
            ("fastest rate", best_schedule("rate", proof=proof, law=law)),
            ("rate ≥ 0.3, most room", best_schedule("budget", at_least=0.3, proof=proof, law=law)),
            ("most room", best_schedule("budget", proof=proof, law=law)),
        ):
            shown = [f"{value:.3g}" for value in (best.v, best.noise, best.rate, best.room)]
            rows.append([label, aim, *shown, write_epsilon(price(best, proof, law))])
    numbers = {
        label: [{**vars(one.best), "epsilon": rounded(one.epsilon)} for one in found] for label, found in curves.items()
    }
    return Page(
        "The best exponents, and what a rate costs",
        "Exponents with the fastest proved rate among those with a budget that is finite for ever, and with the "
        "most room for that budget; a distance of 0.05 is kept from every strict condition. 'Theorem 2' is the "
        "paper's, 'ours' is for losses that are strongly convex record by record. ε is of noise that starts with "
        "scale 1, λ0 = 1, ‖∇l‖ ≤ 1, L = ¼, one record a round, for the learner that pays most on the paper's graph; "
        f"Gaussian at δ = {DELTA:g}; at the source releases begin in round {FIRST}. Noise of scale 1 on messages and "
        "at the source are different things: compare along a curve, not across these two.",
        rows,
        [
            "Theorem 2 has its fastest rate, ½, with all v ≤ ¾ and ς ≥ (v + ½)/2; the most room among these is at v "
            "= ¾, ς = ⅝.",
            "In exponents, noise on messages with ς and noise at the source with α = ς − v have the same rate and "
            "the same room for a finite budget. What the source is better by is in the constants: no recursion, no "
            "Lipschitz constant.",
            "Gaussian noise at the source reaches the rate 1, which is that of the records themselves, at a finite "
            "budget; Laplace noise comes near to it only as room is lost.",
        ],
        {"curves": numbers},
        {"tradeoff.png": ("Proved rate against ε for ever", draw_tradeoff(
            drawn, "Proved rates against ε for ever, along the exponents with the most room; noise that starts "
            "with scale 1"))},
    )  # fmt: skip
