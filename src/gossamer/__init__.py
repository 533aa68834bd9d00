"""Gossamer: private learning without a centre.

import gossamer as gs

run = gs.simulate(gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.paper(),
                  gs.datasets.mushrooms(learners=10), model=gs.LogisticRegression(l2=1e-2), steps=1000)
run.plot("run.png")
"""

from typing import TYPE_CHECKING, Any

from gossamer import datasets, privacy, streams
from gossamer.algorithms import (
    Algorithm,
    diadsp,
    dsgd,
    ldol,
    ldp_gradient_tracking,
    push_pull,
    robust_push_pull,
    stochastic_subgradient,
    subgradient_rescaling,
    tailored_gradient_tracking,
    wang_basar,
)
from gossamer.checks.audit import audit
from gossamer.checks.conformance import check_algorithm
from gossamer.errors import BadValue, BudgetSpent, Diverged, GossamerError, NotProvable
from gossamer.models import LogisticRegression, RidgeRegression, SoftmaxRegression
from gossamer.models.bounds import clip_l1, clip_l2
from gossamer.networks import Network
from gossamer.privacy import Gaussian, Laplace
from gossamer.schedules import decay, geometric
from gossamer.simulate import Record, simulate
from gossamer.types import Dynamics, Out, Rows
from gossamer.version import __version__

if TYPE_CHECKING:
    from gossamer.models.torch import NeuralNetwork as NeuralNetwork
else:

    def __getattr__(name: str) -> Any:
        """NeuralNetwork, once it is asked for: torch is an extra."""
        if name != "NeuralNetwork":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            from gossamer.models.torch import NeuralNetwork
        except ModuleNotFoundError:
            raise GossamerError(
                "neural networks need torch: install the extra, pip install 'gossamer-learning[nn]'."
            ) from None
        return NeuralNetwork


__all__ = [
    "Algorithm",
    "BadValue",
    "BudgetSpent",
    "Diverged",
    "Dynamics",
    "Gaussian",
    "GossamerError",
    "Laplace",
    "LogisticRegression",
    "Network",
    "NotProvable",
    "Out",
    "Record",
    "RidgeRegression",
    "Rows",
    "SoftmaxRegression",
    "__version__",
    "audit",
    "check_algorithm",
    "clip_l1",
    "clip_l2",
    "datasets",
    "decay",
    "diadsp",
    "dsgd",
    "geometric",
    "ldol",
    "ldp_gradient_tracking",
    "privacy",
    "push_pull",
    "robust_push_pull",
    "simulate",
    "stochastic_subgradient",
    "streams",
    "subgradient_rescaling",
    "tailored_gradient_tracking",
    "wang_basar",
]
