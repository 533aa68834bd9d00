"""Algorithms: one file each, all of the same form."""

from gossamer.algorithms.base import Algorithm
from gossamer.algorithms.diadsp import diadsp
from gossamer.algorithms.dsgd import dsgd
from gossamer.algorithms.ldol import ldol
from gossamer.algorithms.ldp_gradient_tracking import ldp_gradient_tracking
from gossamer.algorithms.push_pull import push_pull
from gossamer.algorithms.robust_push_pull import robust_push_pull
from gossamer.algorithms.stochastic_subgradient import stochastic_subgradient
from gossamer.algorithms.subgradient_rescaling import subgradient_rescaling
from gossamer.algorithms.tailored_gradient_tracking import tailored_gradient_tracking
from gossamer.algorithms.wang_basar import wang_basar

__all__ = [
    "Algorithm",
    "diadsp",
    "dsgd",
    "ldol",
    "ldp_gradient_tracking",
    "push_pull",
    "robust_push_pull",
    "stochastic_subgradient",
    "subgradient_rescaling",
    "tailored_gradient_tracking",
    "wang_basar",
]
