"""The library as an estimator: the faces that scikit-learn and river know.

gossamer.PrivateDecentralizedClassifier, gossamer.PrivateDecentralizedRegressor    scikit-learn (extra `sklearn`)
gossamer.LearnerNetwork, and its learners                                         river (extra `river`)

Nothing is learnt here that is not learnt elsewhere: `fit` is the run that `gossamer run --csv` makes, and `partial_fit`
and `learn_one` are the simulator's rounds, one after another, as records come.
"""

from gossamer.lazy import import_on_first_use

TYPE_CHECKING = False  # importing typing for it would cost more than all the rest
if TYPE_CHECKING:
    from gossamer.estimator.classifier import PrivateDecentralizedClassifier
    from gossamer.estimator.faces import ClassifyingLearner, LearnerNetwork, PredictingLearner
    from gossamer.estimator.regressor import PrivateDecentralizedRegressor
else:
    __getattr__ = import_on_first_use(
        __name__,
        {
            "gossamer.estimator.classifier": ["PrivateDecentralizedClassifier"],
            "gossamer.estimator.regressor": ["PrivateDecentralizedRegressor"],
            "gossamer.estimator.faces": ["ClassifyingLearner", "LearnerNetwork", "PredictingLearner"],
        },
    )

__all__ = [
    "ClassifyingLearner",
    "LearnerNetwork",
    "PredictingLearner",
    "PrivateDecentralizedClassifier",
    "PrivateDecentralizedRegressor",
]
