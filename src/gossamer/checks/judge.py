"""An outside judge: many noised runs of one learner, in the worst two worlds found, before somebody else's auditor."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from gossamer.checks import Finding
from gossamer.checks.climb import Worst, worst_found
from gossamer.checks.worlds import Case, Worlds
from gossamer.errors import GossamerError
from gossamer.privacy import Accountant
from gossamer.types import Array

Draw = Callable[[Array, float], Array]


def judge(
    case: Case, *, learner: int = 0, runs: int = 4000, draw: Draw | None = None, significance: float = 1e-3
) -> Finding:
    """What jax_privacy's CanaryScoreAuditor (extra `audit`) certifies, against the claim; `draw` may be other noise."""
    try:
        auditing = importlib.import_module("jax_privacy.auditing")
    except ImportError:
        raise GossamerError(
            "an outside judge needs the jax-privacy library: pip install 'gossamer-learning[audit]'."
        ) from None
    delta = case.mechanism.delta
    held_in, held_out = scores(case, learner, runs, draw or case.law.exact)
    bound = float(auditing.CanaryScoreAuditor(held_in, held_out).epsilon_clopper_pearson(significance, delta=delta))
    claim = Accountant(case.terms[learner], delta=delta).epsilon_at(case.rounds, delta)
    return Finding("ε certified by the outside judge", bound, claim, bound <= claim)


def scores(case: Case, learner: int, runs: int, draw: Draw, worst: Worst | None = None) -> tuple[Array, Array]:
    """Log-likelihood ratios of many noised runs in either world.

    The most powerful attack that knows the records, the messages and the law: high where the first world is likelier.
    Where secrets hide a learner, all releases and the worst keys tell of it what one release with more noise would.
    `worst` are two worlds that were found before, such as for another ε.
    """
    worst = worst or worst_found(case)
    worlds = Worlds(case).replay(worst.candidate, worst.k).noised
    density = getattr(importlib.import_module("scipy.stats"), case.law.in_scipy)
    ratios = np.zeros((2, runs))
    for t, (one, other) in enumerate(zip(*worlds, strict=True)):
        for channel in one:
            scale = case.terms[learner].scale(t) * case.times(channel) / case.seen[learner]
            values = one[channel][learner], other[channel][learner]
            if case.mechanism.where == "source" and np.array_equal(*values):
                continue  # the same release in both worlds, or none
            for which, truth in enumerate(values):
                out = draw(np.broadcast_to(truth, (runs, truth.size)), scale)
                one_likely, other_likely = (density.logpdf((out - value) / scale) for value in values)
                ratios[which] += (one_likely - other_likely).sum(axis=1)
    return ratios[0], ratios[1]
