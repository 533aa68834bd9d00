"""Gossamer: private learning without a centre.

import gossamer as gs

run = gs.simulate(gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.paper(),
                  gs.datasets.mushrooms(learners=10), model=gs.LogisticRegression(l2=1e-2), steps=1000)
run.plot("run.png")
"""

from gossamer import datasets, privacy, streams
from gossamer.algorithms import Algorithm, ldp_gradient_tracking
from gossamer.models import LogisticRegression, RidgeRegression, SoftmaxRegression
from gossamer.models.bounds import clip_l1, clip_l2
from gossamer.networks import Network
from gossamer.privacy import Gaussian, Laplace
from gossamer.schedules import decay
from gossamer.simulate import Record, simulate
from gossamer.simulate.audit import audit
from gossamer.types import GossamerError
from gossamer.version import __version__

__all__ = [
    "Algorithm",
    "Gaussian",
    "GossamerError",
    "Laplace",
    "LogisticRegression",
    "Network",
    "Record",
    "RidgeRegression",
    "SoftmaxRegression",
    "__version__",
    "audit",
    "clip_l1",
    "clip_l2",
    "datasets",
    "decay",
    "ldp_gradient_tracking",
    "privacy",
    "simulate",
    "streams",
]
