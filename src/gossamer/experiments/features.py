"""What real privacy costs on images: fixed features, a linear head, one pass, one image protected.

Noise on eleven million coordinates drowns what a network learns, so the learners train a linear head on features that
depend on no private image (gossamer.streams.scattering). Every image is read once; each image's gradient is clipped in
‖·‖₂, and Gaussian noise goes to a round's mean, at the source: whatever happens to it later, in whichever method, costs
nothing more, so that all methods have the same (ε, δ) with the same noise. Images a round, N, and λ0 are chosen for
every method and ε by one rule: accuracy on training images, on another seed than those reported. The tuning itself is
not charged to ε.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.experiments.runs import Runs
from gossamer.experiments.study import OURS, Case, Effort, Studied, Study, most
from gossamer.spec import Spec

COMPARED = (OURS, "push_pull", "stochastic_subgradient", "subgradient_rescaling", "dsgd")
CLIP = 0.25  # of each image's gradient, whose features have norm 1
EPSILONS = (2.0, 8.0, None)
QUICK = Effort(None, 2, (64.0, 256.0), evaluations=1, epsilons=EPSILONS, per_round=(200,))
USUAL = Effort(
    None, 3, (64.0, 128.0, 256.0, 512.0, 1024.0), evaluations=1, epsilons=EPSILONS, per_round=(10, 50, 100, 200, 400)
)


def feature_problem(data: str, split: str) -> Spec:
    return Spec.of(
        dataset=data, split=split, draw="once", features="scattering", model="softmax", l2=0.0, graph="paper"
    )


def study_features(problem: Spec, runs: Runs, effort: Effort, methods: Sequence[str] = COMPARED) -> Studied:
    cases = [Case(method, epsilon, law="gaussian", where="source") for epsilon in effort.epsilons for method in methods]
    return Study(problem, effort, runs, most("train_accuracy"), _clip_where_noised).run(cases)


def _clip_where_noised(problem: Spec, case: Case) -> Spec:
    return problem if case.epsilon is None else problem.but(clip=CLIP)
