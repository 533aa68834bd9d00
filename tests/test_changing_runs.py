"""Runs over networks that change: where they lead, privacy, records that go on, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from changing_runs import DENSE, KINDS, ONE_WAY, RING, M, N, X, Y, run
from gossamer import NetworkSchedule, decay
from gossamer.algorithms import METHODS
from gossamer.simulate.holding import READ_AHEAD_UP_TO
from gossamer.streams import from_arrays

# -- where they lead ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("all", "away")])
def test_push_pull_comes_to_the_optimum_over_every_kind_of_network(kind):
    record = run(gs.push_pull(decay(0.05, 0.0)), KINDS[kind], 3000, evaluate_every=3000)
    assert record.history[-1].tracking_error < 1e-10
    failing = KINDS[kind].failures > 0
    if failing:
        dropped = run(gs.push_pull(decay(0.05, 0.0)), replace(KINDS[kind], lost="dropped"), 3000, evaluate_every=3000)
        assert dropped.history[-1].tracking_error > 0.1, "what is dropped is missing for good"


def test_after_all_changes_push_pull_comes_to_the_optimum_of_those_who_are_there():
    schedule = NetworkSchedule.of(DENSE).leaving(3, 50)
    there = np.flatnonzero(schedule.at(60).present)
    theta = run(gs.push_pull(decay(0.05, 0.0)), schedule, 3000, evaluate_every=3000).state["theta"]
    H = np.einsum("irn,irk->nk", X[there], X[there]) / 3 + 0.1 * len(there) * np.eye(N)
    best = np.linalg.solve(H, np.einsum("irn,ir->n", X[there], Y[there]) / 3)
    np.testing.assert_allclose(theta[there], np.broadcast_to(best, (9, N)), atol=1e-9)


def test_algorithm_1_reads_ahead_or_its_tracker_never_comes_to_rest():
    """With running sums alone every loss stirs s, which has gathered Σ λ 1ᵀg, and θ moves by what s changes."""
    step, schedule = decay(0.3, 0.6), NetworkSchedule.of(ONE_WAY, seed=1).failing(0.1)
    fixed = run(gs.ldp_gradient_tracking(step), ONE_WAY, 3000, evaluate_every=3000).history[-1].tracking_error
    ahead = run(gs.ldp_gradient_tracking(step), schedule, 3000, evaluate_every=3000).history[-1].tracking_error
    sums = run(gs.ldp_gradient_tracking(step, strict=False), replace(schedule, lost="sums"), 3000, evaluate_every=3000)
    assert ahead < 4 * fixed
    assert sums.history[-1].tracking_error > 100 * ahead
    assert any("lost pushes cannot be 'sums'" in note for note in sums.notes)


def test_reading_ahead_is_stable_as_far_as_is_said_and_no_farther():
    step = decay(0.3, 0.6)

    def error(p):
        algorithm = gs.ldp_gradient_tracking(step, strict=p <= READ_AHEAD_UP_TO)
        schedule = NetworkSchedule.of(ONE_WAY, seed=1).failing(p)
        return run(algorithm, schedule, 1500, evaluate_every=1500).history[-1].tracking_error

    assert error(READ_AHEAD_UP_TO) < 0.01
    assert error(0.85) > 100
    with pytest.raises(gs.GossamerError, match=r"reading ahead was measured to diverge; use gossamer\.push_pull"):
        run(gs.ldp_gradient_tracking(step), NetworkSchedule.of(ONE_WAY).failing(0.85), 10)


def test_on_several_networks_algorithm_1_needs_one_resting_tracker():
    """Balanced C leave ω = 1 at rest: it comes nearer as steps fall. Others are refused, and never come near."""
    step = decay(0.3, 0.6)
    balanced = NetworkSchedule.of([gs.Network.complete(M), RING], every=2)
    errors = run(gs.ldp_gradient_tracking(step), balanced, 8000, evaluate_every=2000).history.tracking_error
    assert errors[-1] < 0.6 * errors[1] < 0.01, "as 4^-0.6 = 0.44"
    stirred = NetworkSchedule.of([ONE_WAY, RING], every=2)
    with pytest.raises(gs.GossamerError, match=r"never comes to rest; use gossamer\.push_pull"):
        run(gs.ldp_gradient_tracking(step), stirred, 10)
    away = run(gs.ldp_gradient_tracking(step, strict=False), stirred, 3000, evaluate_every=3000)
    assert away.history[-1].tracking_error > 0.05


def test_rescaling_divides_by_the_weights_of_the_rounds_to_come():
    """On two unbalanced networks by turns their common model nears the optimum as steps fall; without, it does not."""
    schedule = NetworkSchedule.of([gs.Network.random(M, 2, seed=1), gs.Network.random(M, 2, seed=2)], every=4)

    def far(algorithm):
        record = run(algorithm, schedule, 8000, evaluate_every=8000)
        common = schedule.voices(7999) @ record.state["theta"]
        return np.linalg.norm(common - record.optimum)

    step = decay(0.5, 0.6)
    assert far(gs.subgradient_rescaling(step)) < 0.05 * far(gs.dsgd(step, over="R", strict=False))


# -- privacy -----------------------------------------------------------------------------------------------------------


def private_stream():
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, size=(M, 40, N)) / N
    return from_arrays(rows, (rows.sum(axis=2) > 0).astype(float), ranges=(-1 / N, 1 / N))


def private(network, steps=40, **given):
    model = gs.LogisticRegression(l2=0.1, clip=gs.clip_l2(0.5))
    mechanism = gs.Gaussian.for_budget(2.0, 1e-5, where="source")
    return gs.simulate(
        gs.push_pull(decay(0.3, 0.6)), network, private_stream(), model=model, privacy=mechanism, steps=steps, **given
    )


def test_noise_at_the_source_keeps_its_budget_and_who_sleeps_is_charged_all_the_same():
    fixed, changing = private(ONE_WAY), private(KINDS["failing"].sleeping(0.2))
    np.testing.assert_allclose(changing.epsilon.spent, fixed.epsilon.spent, rtol=1e-12)
    assert changing.epsilon.spent.max() <= 2.0
    assert any("charged as if it had released" in note for note in changing.notes)
    assert changing.claim == fixed.claim


def test_what_a_sleeper_would_have_released_is_used_by_nobody(monkeypatch):
    """Put something absurd in the place of a sleeper's gradient: no state of anybody changes."""
    from gossamer.privacy.boundary import PrivateBoundary

    schedule = NetworkSchedule.of(DENSE, seed=4).sleeping(0.3)

    def seeded(absurd):
        def gradient(self, t, grad):
            noisy = grad + np.random.default_rng([t]).normal(size=grad.shape)
            noisy[~schedule.at(t).awake] = absurd
            return noisy

        monkeypatch.setattr(PrivateBoundary, "gradient", gradient)
        return private(schedule).state["theta"]

    np.testing.assert_array_equal(seeded(0.0), seeded(1e9))


def test_every_release_that_is_charged_enters_the_filter_of_correlated_noise(monkeypatch):
    """Also in rounds in which all sleep: otherwise an older gradient, of a larger share, would weigh in the next."""
    from gossamer.privacy.boundary import PrivateBoundary

    schedule = NetworkSchedule.of(gs.Network.from_edges(2, [(0, 1), (1, 0)])).sleeping(0.8)
    assert not all(schedule.at(t).acts.any() for t in range(30)), "some rounds have nobody"
    rows = np.random.default_rng(2).uniform(-1, 1, size=(2, 30, N))
    stream = from_arrays(rows, (rows.sum(axis=2) > 0).astype(float), ranges=(-1, 1))
    taken, plain = [], PrivateBoundary._correlated

    def noted(self, t, grad):
        taken.append(t)
        return plain(self, t, grad)

    monkeypatch.setattr(PrivateBoundary, "_correlated", noted)
    noise = gs.Gaussian(decay(50.0, 0.9), where="source", delta=1e-5, band=4, releases=gs.every(1))
    model = gs.LogisticRegression(l2=0.1, clip=gs.clip_l2(1.0))
    gs.simulate(gs.push_pull(decay(0.05, 0.6)), schedule, stream, model=model, steps=30, privacy=noise)
    assert taken == list(range(30))


@pytest.mark.parametrize(
    ("mechanism", "says"),
    [
        (gs.Laplace.for_budget(5.0), "noise on messages is proved for one network in all rounds"),
        (gs.Gaussian.for_budget(2.0, 1e-5, where="source", secrets=gs.Secrets()), "leave the pair secrets out"),
    ],
)
def test_what_is_not_proved_on_networks_that_change_is_refused(mechanism, says):
    with pytest.raises(gs.NotProvable, match=says):
        gs.simulate(
            gs.push_pull(decay(0.3, 0.6)), KINDS["failing"], private_stream(),
            model=gs.LogisticRegression(l2=0.1, clip=gs.clip_l2(0.5)), privacy=mechanism, steps=10,
        )  # fmt: skip


# -- records -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["failing", "all"])
@pytest.mark.parametrize("name", ["push_pull", "ldp_gradient_tracking"])
def test_a_run_that_goes_on_has_the_same_numbers(kind, name, tmp_path):
    algorithm = getattr(gs, name)(decay(0.2, 0.6), strict=False)
    whole = run(algorithm, KINDS[kind], 60, evaluate_every=10)
    stopped = run(algorithm, KINDS[kind], 60, evaluate_every=10, callback=lambda now: now.t == 33)
    stopped.save(tmp_path / "record")
    gone_on = run(algorithm, KINDS[kind], 60, resume=gs.Record.load(tmp_path / "record"))
    np.testing.assert_array_equal(gone_on.state["theta"], whole.state["theta"])
    np.testing.assert_array_equal(gone_on.history, whole.history)


@pytest.mark.parametrize(
    "other",
    [ONE_WAY, KINDS["failing"].failing(0.25), replace(KINDS["failing"], seed=6), KINDS["sleeping"],
     replace(KINDS["failing"], lost="ahead")],
)  # fmt: skip
def test_a_run_goes_on_over_the_same_schedule_alone(other):
    algorithm = gs.push_pull(decay(0.2, 0.6))
    stopped = run(algorithm, KINDS["failing"], 60, callback=lambda now: now.t == 33)
    with pytest.raises(gs.GossamerError, match="resume with the same settings, or start anew"):
        run(algorithm, other, 60, resume=stopped)
    alone = run(algorithm, ONE_WAY, 60, callback=lambda now: now.t == 33)
    with pytest.raises(gs.GossamerError, match="resume with the same settings, or start anew"):
        run(algorithm, KINDS["failing"], 60, resume=alone)


def test_a_record_says_what_changed_and_what_is_not_proved():
    record = run(gs.push_pull(decay(0.2, 0.6)), KINDS["all"], 30)
    assert record.config["network"]["changes"]["failures"] == 0.2
    said = " ".join(record.notes)
    assert "none of them is claimed" in said
    assert "Not proved: with falling steps" in said
    assert "running sums" in said
    dropped = run(gs.push_pull(decay(0.2, 0.6)), replace(KINDS["all"], lost="dropped"), 30)
    assert any(note.startswith("An ABLATION") for note in dropped.notes)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: NetworkSchedule.of([]), "expected one gossamer.Network, or several in a list"),
        (lambda: NetworkSchedule.of([RING, gs.Network.ring(4)]), "networks of 4 and 10 learners in one schedule"),
        (lambda: NetworkSchedule.of(RING, every=0), "every=0: expected a whole number from 1"),
        (lambda: NetworkSchedule.of(RING).failing(1.0), "failures=1.0: expected a probability from 0 to below 1"),
        (lambda: NetworkSchedule.of(RING).sleeping(-0.1), "sleep=-0.1: expected a probability"),
        (lambda: NetworkSchedule.of(RING).failing(0.1, lost="never"), "expected one of sums, ahead, kept, dropped"),
        (lambda: NetworkSchedule.turns(RING, [[(0, 5)]]), "the link 0→5, which the network has not"),
        (lambda: NetworkSchedule.turns(RING, [[(0, 1)], [(1, 2)]]), "over all rounds of a cycle together: G_R is not"),
        (lambda: NetworkSchedule.of(RING).leaving(3, 5), "from round 5 on, .*G_R is not strongly connected"),
        (lambda: NetworkSchedule.of(DENSE).leaving(3, 5).leaving(3, 9), "let it leave and join by turns"),
        (lambda: NetworkSchedule.of(DENSE).leaving(12, 5), "learner=12: expected one of the network's learners"),
    ],
)  # fmt: skip
def test_a_schedule_that_cannot_be_is_refused_in_a_sentence(make, says):
    with pytest.raises(gs.GossamerError, match=says):
        make()


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("ldp_gradient_tracking", "sleeping", "never comes to rest; use gossamer.push_pull"),
        ("robust_push_pull", "turns", "never comes to rest; use gossamer.push_pull"),
        ("diadsp", "failing", "let them fail both ways"),
        ("wang_basar", "failing", "senders do not know what is lost; let links fail both ways"),
        ("wang_basar", "networks", "which weights would do so on several networks is not known"),
        ("stochastic_subgradient", "turns", "its weights D are balanced on all of a network's links"),
    ],
)
def test_a_method_that_cannot_be_right_is_refused_and_run_and_noted_where_not_strict(name, kind, says):
    entry = METHODS.find(name)
    algorithm = entry.make(decay(0.05, entry.step_exponent))
    with pytest.raises(gs.GossamerError, match=says):
        run(algorithm, KINDS[kind], 5)
    loose = run(replace(algorithm, strict=False), KINDS[kind], 5)
    assert any(says.split(";")[0] in note for note in loose.notes)


def test_estimators_have_one_network():
    model = gs.PrivateDecentralizedClassifier(network=KINDS["failing"], learners=M)
    rows = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(gs.GossamerError, match="estimators have one network in all rounds; give that"):
        model.fit(rows, rows[:, 0] > 0)


def test_a_method_of_ones_own_says_what_it_asks_or_is_refused():
    mine = replace(gs.dsgd(decay(0.1, 0.6)), over_time=None)
    with pytest.raises(gs.GossamerError, match="nothing is known of dsgd on a network that changes"):
        run(mine, KINDS["failing"], 5)
