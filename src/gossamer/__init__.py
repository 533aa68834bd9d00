"""Gossamer: private learning without a centre.

import gossamer as gs

run = gs.simulate(gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.paper(),
                  gs.datasets.mushrooms(learners=10), model=gs.LogisticRegression(l2=1e-2), steps=1000)
run.plot("run.png")
"""

import importlib

from gossamer.lazy import import_on_first_use
from gossamer.version import __version__

TYPE_CHECKING = False  # importing typing for it would cost more than all the rest
if TYPE_CHECKING:
    from gossamer import cluster, datasets, loggers, privacy, streams, theory
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
    from gossamer.estimator import LearnerNetwork as LearnerNetwork
    from gossamer.estimator import PrivateDecentralizedClassifier as PrivateDecentralizedClassifier
    from gossamer.estimator import PrivateDecentralizedRegressor as PrivateDecentralizedRegressor
    from gossamer.models import LogisticRegression, RidgeRegression, SoftmaxRegression
    from gossamer.models.bounds import clip_l1, clip_l2
    from gossamer.models.tensors import tensors
    from gossamer.models.torch import NeuralNetwork as NeuralNetwork
    from gossamer.networks import Network, NetworkSchedule
    from gossamer.predictions import load_model
    from gossamer.privacy import Gaussian, Laplace, Secrets, every, thinning
    from gossamer.run_record import Record
    from gossamer.schedules import decay, geometric
    from gossamer.simulate import simulate
    from gossamer.types import Dynamics, Out, Rows
else:
    # Python gives the name of a package to the package when it is first imported: here `simulate` would no longer be
    # the function once any module of gossamer.simulate is loaded. So it is imported now, and gives its name back.
    importlib.import_module("gossamer.simulate")
    del globals()["simulate"]

    __getattr__ = import_on_first_use(
        __name__,
        {
            "gossamer.algorithms": ["Algorithm", "algorithms"],
            "gossamer.checks.audit": ["audit"],
            "gossamer.cluster": ["cluster"],
            "gossamer.checks.conformance": ["check_algorithm"],
            "gossamer.datasets": ["datasets"],
            "gossamer.estimator": [
                "LearnerNetwork",
                "PrivateDecentralizedClassifier",
                "PrivateDecentralizedRegressor",
                "estimator",
            ],
            "gossamer.errors": ["BadValue", "BudgetSpent", "Diverged", "GossamerError", "NotProvable"],
            "gossamer.loggers": ["loggers"],
            "gossamer.models": ["LogisticRegression", "RidgeRegression", "SoftmaxRegression", "models"],
            "gossamer.models.bounds": ["clip_l1", "clip_l2"],
            "gossamer.models.tensors": ["tensors"],
            "gossamer.networks": ["Network", "NetworkSchedule", "networks"],
            "gossamer.predictions": ["load_model", "predictions"],
            "gossamer.privacy": ["Gaussian", "Laplace", "Secrets", "every", "privacy", "thinning"],
            "gossamer.schedules": ["decay", "geometric", "schedules"],
            "gossamer.simulate.engine": ["simulate"],
            "gossamer.run_record": ["Record"],
            "gossamer.models.torch": ["NeuralNetwork"],
            "gossamer.streams": ["streams"],
            "gossamer.theory": ["theory"],
            "gossamer.types": ["Dynamics", "Out", "Rows"],
        },
        otherwise="gossamer.algorithms",  # every method that is declared there
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "Algorithm", "BadValue", "BudgetSpent", "Diverged", "Dynamics", "Gaussian", "GossamerError", "Laplace",
    "LogisticRegression", "Network", "NetworkSchedule", "NotProvable", "Out", "Record", "RidgeRegression", "Rows",
    "Secrets", "SoftmaxRegression",
    "__version__", "audit", "check_algorithm", "clip_l1", "clip_l2", "cluster", "datasets", "decay", "diadsp", "dsgd",
    "every", "geometric", "ldol", "ldp_gradient_tracking", "load_model", "loggers", "privacy", "push_pull",
    "robust_push_pull", "simulate", "stochastic_subgradient", "streams", "subgradient_rescaling",
    "tailored_gradient_tracking", "tensors", "theory", "thinning", "wang_basar",
]  # fmt: skip
