"""Try to catch a claim lying: the code that runs, with a sceptic's records, messages and statistics.

    gradients   what the model declares of its gradients, measured                        (gossamer.checks.gradients)
    pairs       an observer with the keys of some, where learners share secrets           (gossamer.checks.pairs)
    noise       law, scale, independence, one copy, freezing                              (gossamer.checks.noise)
    dynamics    differences of gradients, sent through emit and step, against `dynamics`  (gossamer.checks.travel)
    rounding    a neighbour that parks, pushes and pulls                                  (gossamer.checks.steer)
    replay      neighbouring records and points, climbed, against the whole claim         (gossamer.checks.climb)

All learners, all channels and all rounds are looked at. An audit that passes proves nothing; one that fails disproves
the claim. How close `replay` comes to the claim says how much an audit that passes is worth: its power.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.checks import Finding, within
from gossamer.checks.climb import worst_found
from gossamer.checks.gradients import gradient_findings
from gossamer.checks.noise import noise_findings
from gossamer.checks.pairs import pair_findings
from gossamer.checks.steer import steered_losses
from gossamer.checks.travel import travel_findings
from gossamer.checks.worlds import Case
from gossamer.errors import BadValue, GossamerError
from gossamer.models import Gradient, LinearModel
from gossamer.networks import Network
from gossamer.privacy import Mechanism
from gossamer.types import Array

REPLAYED = "replayed loss"


def audit(
    algorithm: Algorithm[Any],
    network: Network,
    model: LinearModel,
    mechanism: Mechanism,
    gradient: Gradient,
    *,
    rounds: int = 12,
    per_round: int = 2,
    seed: int = 0,
) -> list[Finding]:
    """Every check of a method, a model and a mechanism; records lie in the unit ball of the mechanism's norm.

    All hold where `all(finding.holds for finding in found)`; `gossamer.checks.audit.power(found)` says how near to the
    claim the sceptic came.
    """
    if not isinstance(mechanism, Mechanism):
        raise GossamerError(f"{type(mechanism).__name__} makes no claim to audit: give Laplace or Gaussian.")
    if not isinstance(rounds, int) or rounds < 6:
        raise BadValue("rounds", rounds, "expected at least 6, so that there is something to replay")
    case = Case(algorithm, network, model, mechanism, gradient, rounds, per_round)
    if not len(case.released()):
        releases = case.terms[0].releases.argument
        raise BadValue("rounds", rounds, ("nothing is released in them, by ", releases), "replay more")
    return list(findings(case, seed))


def findings(case: Case, seed: int = 0) -> Iterator[Finding]:
    """The same one by one, what is quick first."""
    if case.mechanism.secrets is not None:
        yield from pair_findings(case)
    yield from noise_findings(case)
    yield from gradient_findings(case, seed)
    if case.mechanism.where == "messages":
        yield from travel_findings(case.algorithm, case.network)
    yield _of_claim("loss through rounding", steered_losses(case, seed=seed), case)
    yield _of_claim(REPLAYED, worst_found(case, seed=seed, claims=case.claims).losses, case)


def power(found: list[Finding]) -> float:
    """The largest replayed loss, as a share of the claim."""
    return max((f.measured / f.allowed for f in found if f.check.startswith(REPLAYED)), default=math.nan)


def _of_claim(name: str, losses: Array, case: Case) -> Finding:
    """The learner that comes nearest to its claim; Gaussian losses are squares, and their root is what ε grows with."""
    i = int((losses / np.maximum(case.claims, 1e-300)).argmax())
    loss, claim = (case.law.one_shift(float(value)) for value in (losses[i], case.claims[i]))
    shift = f"δ/{case.law.letter}"
    unit = f"√Σ ({shift})²" if case.law.squared else f"Σ {shift}"
    return within(f"{name} {unit}, learner {i}", loss, claim)
