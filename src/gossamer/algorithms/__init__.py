"""Algorithms: one file each, all of the same form, known by the name with which each declares itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.algorithms.base import Algorithm, AlgorithmState, Emit, Init, OverTime, Step
from gossamer.algorithms.registry import METHODS, Method, find_method, method

if TYPE_CHECKING:
    from gossamer.algorithms.diadsp import diadsp as diadsp
    from gossamer.algorithms.diadsp import diadsp_own as diadsp_own
    from gossamer.algorithms.dsgd import dsgd as dsgd
    from gossamer.algorithms.dsgd import dsgd_naive as dsgd_naive
    from gossamer.algorithms.ldol import ldol as ldol
    from gossamer.algorithms.ldp_gradient_tracking import ldp_gradient_tracking as ldp_gradient_tracking
    from gossamer.algorithms.push_pull import push_pull as push_pull
    from gossamer.algorithms.robust_push_pull import robust_push_pull as robust_push_pull
    from gossamer.algorithms.stochastic_subgradient import stochastic_subgradient as stochastic_subgradient
    from gossamer.algorithms.stochastic_subgradient import stochastic_subgradient_own as stochastic_subgradient_own
    from gossamer.algorithms.subgradient_rescaling import subgradient_rescaling as subgradient_rescaling
    from gossamer.algorithms.subgradient_rescaling import subgradient_rescaling_own as subgradient_rescaling_own
    from gossamer.algorithms.tailored_gradient_tracking import tailored_gradient_tracking as tailored_gradient_tracking
    from gossamer.algorithms.wang_basar import wang_basar as wang_basar

__all__ = [
    "METHODS", "Algorithm", "AlgorithmState", "Emit", "Init", "Method", "OverTime", "Step", "find_method", "method",
]  # fmt: skip


# Every file of this package is imported, and what it declares becomes a name here: a function, above its module.
globals().update({name: declared.factory for name, declared in METHODS.entries().items()})
