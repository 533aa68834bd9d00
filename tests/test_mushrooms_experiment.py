"""The paper's first experiment, with its published settings."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs

PAPER_NOISE = gs.decay(1.0, [0.5 + 0.01 * i for i in range(1, 11)])


@pytest.fixture(scope="module")
def runs():
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.6), noise=PAPER_NOISE, strict=False)
    return [
        gs.simulate(
            algorithm,
            gs.Network.paper(),
            gs.datasets.mushrooms(learners=10, seed=seed),
            model=gs.LogisticRegression(l2=1e-2),
            steps=2000,
            seed=seed,
        )
        for seed in range(5)
    ]


def test_mean_accuracy_is_at_least_0_965(runs):
    accuracy = [run.history.accuracy[-1] for run in runs]
    assert np.mean(accuracy) >= 0.965, accuracy


def test_the_tracking_error_falls_once_the_first_noise_has_come_in(runs):
    errors = np.mean([run.history.tracking_error for run in runs], axis=0)
    t = runs[0].history.t
    assert errors[-1] < 0.85 * errors.max()
    quarters = [errors[(t > a) & (t <= a + 500)].mean() for a in (0, 500, 1000, 1500)]
    assert quarters == sorted(quarters, reverse=True), quarters


def test_the_run_says_why_it_is_not_strict(runs):
    assert any("learner 9 has ς = 0.6 where v = 0.6" in note for note in runs[0].notes)
    with pytest.raises(gs.GossamerError, match=r"learner 9 has ς = 0\.6"):
        gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.6), noise=PAPER_NOISE)


def test_theta_star_minimises_the_whole_data_sets_loss(runs):
    assert all(np.array_equal(run.optimum, runs[0].optimum) for run in runs)
    assert (runs[0].learners.optimality_gap > 0).all()
