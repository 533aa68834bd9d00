"""Runs that claim privacy: what they spend, when they stop, and what they refuse."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.privacy import exact
from gossamer.privacy.mechanisms import Laplace

NET = gs.Network.paper()


def run(privacy, steps=60, gradient="history", draw="random", model=None, callback=None, rows="l1", resume=None):
    return gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)),
        NET,
        gs.datasets.mushrooms(10, draw=draw, rows=rows),
        model=model or gs.LogisticRegression(l2=1e-2),
        privacy=privacy,
        steps=steps,
        gradient=gradient,
        callback=callback,
        resume=resume,
    )


@pytest.mark.parametrize(
    ("privacy", "gradient", "draw"),
    [
        (gs.Laplace.for_budget(4.0), "history", "random"),
        (gs.Laplace.for_budget(4.0), "latest", "random"),
        (gs.Gaussian.for_budget(4.0, 1e-5), "history", "once"),
        (gs.Laplace.for_budget(4.0, where="source"), "latest", "once"),
        (gs.Gaussian.for_budget(4.0, 1e-5, where="source"), "latest", "once"),
    ],
    ids=str,
)
def test_a_private_run_says_what_it_spent(tmp_path, privacy, gradient, draw):
    record = run(privacy, gradient=gradient, draw=draw)
    assert record.claim.startswith("private: exact")
    assert (record.epsilon.spent <= 4.0).all()
    assert (record.epsilon.spent >= 3.96).all()
    assert (record.epsilon.for_ever >= record.epsilon.spent - 1e-6).all()
    record.save(tmp_path / "r")
    again = gs.Record.load(tmp_path / "r")
    np.testing.assert_array_equal(again.epsilon, record.epsilon)
    assert again.summary()["epsilon"] == record.epsilon.spent.tolist()
    assert (run(privacy, gradient=gradient, draw=draw).theta != record.theta).any(), "noise is not seeded"


def test_every_message_is_noised_once_and_on_its_grid(monkeypatch):
    sent = []
    genuine = exact.released

    def watched(value, scale, law):
        sent.append((value.copy(), scale, genuine(value, scale, law)))
        return sent[-1][2]

    monkeypatch.setattr("gossamer.privacy.exact.released", watched)
    run(gs.Laplace(gs.decay(2.0, 0.6)), steps=30)
    assert len(sent) == 2 * 30, "s and θ, once a round"
    for t, (_, scale, _) in enumerate(sent):
        np.testing.assert_allclose(scale, 2.0 * (t // 2 + 1.0) ** -0.6)
    noise = np.concatenate([((out - v) / s).ravel() for v, s, out in sent])
    assert np.abs(noise).mean() == pytest.approx(1, abs=0.05)


def test_a_learner_whose_budget_is_spent_sends_nothing_new(monkeypatch):
    """Calibrated for 20 rounds, run for 60: from round 20 on every message repeats the last one."""
    released = []
    genuine = gs.privacy.PrivateBoundary.release

    def watched(self, channel, t, value):
        out = genuine(self, channel, t, value)
        released.append((channel, t, out.copy()))
        return out

    monkeypatch.setattr(gs.privacy.PrivateBoundary, "release", watched)
    record = run(gs.Laplace.for_budget([1.0] * 9 + [5.0], horizon=20), steps=60)
    assert (record.epsilon.spent <= [1.0] * 9 + [5.0]).all()
    assert any("send nothing new: 0 from round 20, 1 from round 20" in note for note in record.notes)
    for channel in ("s", "theta"):
        out = {t: v for c, t, v in released if c == channel}
        np.testing.assert_array_equal(out[59], out[19])
        assert (out[19] != out[18]).any()


def test_a_resumed_run_goes_on_with_its_ledger():
    part = run(gs.Laplace.for_budget(2.0, horizon=30), steps=60, callback=lambda p: p.t == 25)
    whole = run(gs.Laplace.for_budget(2.0, horizon=30), steps=60, resume=part)
    assert (whole.epsilon.spent <= 2.0).all()
    assert any("from round 30 on" in note for note in whole.notes)


def test_clipping_bounds_each_records_gradient_and_each_rounds():
    rng = np.random.default_rng(0)
    X, y = 5 * rng.normal(size=(2, 40, 3)), 5 * rng.normal(size=(2, 40))
    for norm, clip in ((1, gs.clip_l1(0.7)), (2, gs.clip_l2(0.7))):
        for keep in ("history", "latest"):
            model = gs.RidgeRegression(clip=clip)
            stream = gs.streams.from_arrays(X, y, per_round=4)
            memory = model.memory(stream.table, keep, stream.room(10))
            for t in range(10):
                memory.observe(stream.arrivals(t))
            theta = rng.normal(size=(2, 3))
            seen = slice(0, 40) if keep == "history" else slice(36, 40)
            for i in range(2):
                grads = (X[i, seen] @ theta[i] - y[i, seen])[:, None] * X[i, seen]
                size = np.linalg.norm(grads, norm, axis=1)
                clipped = grads * np.minimum(1, 0.7 / size)[:, None]
                np.testing.assert_allclose(memory.gradient(theta)[i], clipped.mean(axis=0), atol=1e-12)
                assert (size > 0.7).any()
        per_round = gs.RidgeRegression(l2=0.1, clip=gs.models.Clip(norm, 0.7, "round"))
        memory = per_round.memory(stream.table, "latest", stream.room(10))
        memory.observe(stream.arrivals(0))
        np.testing.assert_allclose(np.linalg.norm(memory.gradient(theta), norm, axis=1), 0.7)


def test_clipping_a_softmax_bounds_its_gradient_for_packed_rows_too():
    rng = np.random.default_rng(0)
    X, y = (rng.random((1, 30, 12)) < 0.5).astype(float), rng.integers(0, 3, (1, 30)).astype(float)
    theta = rng.normal(size=(1, 36))
    for norm, clip in ((1, gs.clip_l1(0.5)), (2, gs.clip_l2(0.5))):
        stream = gs.streams.from_arrays(X, y)
        memory = gs.SoftmaxRegression(3, clip=clip).memory(stream.table, "latest", stream.room(1))
        memory.observe(stream.arrivals(0))
        assert np.linalg.norm(memory.gradient(theta)[0], norm) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "model", [gs.LogisticRegression(), gs.SoftmaxRegression(3), gs.RidgeRegression(clip=gs.clip_l1(2.0))]
)
@pytest.mark.parametrize("norm", [1, 2])
def test_the_bounds_hold_for_random_records_and_points(model, norm):
    """c and L of the model against gradients at many points: never exceeded."""
    if isinstance(model, gs.RidgeRegression) and norm == 2:
        model = gs.RidgeRegression(clip=gs.clip_l2(2.0))
    rng = np.random.default_rng(norm)
    n, K = 4, model.outputs
    X = rng.uniform(-1, 2, size=(1, 300, n))
    y = (rng.integers(0, max(K, 2), (1, 300))).astype(float)
    stream = gs.streams.from_arrays(X, y, ranges=(-1.0, 2.0))
    c, L, *_ = model.reach(stream.table.bounds, norm)
    memory = model.memory(stream.table, "latest", np.array([1]))
    worst_c, worst_L = 0.0, 0.0
    for t in range(300):
        memory.observe(stream.arrivals(t))
        a = rng.normal(size=(1, n * K)) * rng.choice([0.1, 1, 5])
        b = a + rng.normal(size=a.shape) * 10.0 ** rng.uniform(-3, 0) * rng.integers(0, 2, a.shape)
        ga, gb = memory.gradient(a), memory.gradient(b)
        worst_c = max(worst_c, np.linalg.norm(ga, norm, axis=1)[0])
        if (a != b).any():
            worst_L = max(worst_L, np.linalg.norm((ga - gb)[0], norm) / np.linalg.norm((a - b)[0], norm))
    assert worst_c <= c * (1 + 1e-12)
    assert worst_L <= L * (1 + 1e-9)
    assert worst_c > c / 20


def test_declared_ranges_are_checked_and_clip_or_refuse():
    X, y = np.array([[[0.2], [3.0]]] * 2), [[0, 1]] * 2
    with pytest.raises(gs.GossamerError, match="record 1 has 3 in feature 0, outside the declared range 0 to 1"):
        gs.streams.from_arrays(X, y, ranges=(0, 1))
    stream = gs.streams.from_arrays(X, y, ranges=(0, 1), outside="clip")
    assert stream.table.rows.max() == 1
    assert stream.table.bounds == (1.0, 1.0, 1.0)
    undeclared = gs.streams.from_arrays(X, y)
    with pytest.raises(gs.GossamerError, match="declared feature ranges, or clip"):
        gs.LogisticRegression().reach(undeclared.table.bounds, 1)


def test_scaled_mushrooms_have_the_same_gradient_as_scaled_columns():
    from gossamer.records import features_of

    stream = gs.datasets.mushrooms(10, rows="l2")
    X = features_of(stream.table)
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1)
    memory = gs.LogisticRegression(l2=0.3).memory(stream.table, "history", stream.room(5))
    dense = [[] for _ in range(10)]
    for t in range(5):
        batch = stream.arrivals(t)
        memory.observe(batch)
        for i in range(10):
            row = next(r for r in np.flatnonzero((stream.table.rows == batch.rows[i]).all(axis=1)))
            dense[i].append((X[[row]].toarray()[0], batch.labels[i]))
    theta = np.random.default_rng(0).normal(size=(10, 117))
    for i in range(10):
        g = np.mean([(1 / (1 + np.exp(-a @ theta[i])) - b) * a for a, b in dense[i]], axis=0)
        np.testing.assert_allclose(memory.gradient(theta)[i], g, atol=1e-12)


def test_an_algorithm_without_a_recursion_makes_no_claim_on_messages():
    plain = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8))
    unknown = gs.Algorithm("unknown", plain.init, plain.emit, plain.step)
    with pytest.raises(gs.GossamerError, match="no sensitivity recursion is known for unknown"):
        gs.simulate(
            unknown, NET, gs.datasets.mushrooms(10), model=gs.LogisticRegression(l2=0.1), privacy=Laplace(1.0), steps=5
        )


def test_a_budget_for_ever_is_kept_for_ever():
    record = run(gs.Laplace.for_budget(3.0, horizon=math.inf), steps=50)
    assert (record.epsilon.for_ever <= 3.0).all()
    assert (record.epsilon.for_ever >= 2.97).all()
    assert (record.epsilon.spent < 3.0).all()


@pytest.mark.parametrize("gradient", ["history", "latest"])
def test_rounds_that_are_not_full_are_refused(gradient):
    """With fewer records than N in a round, or none any more, one record weighs more than the recursion says."""
    rng = np.random.default_rng(0)
    X = [rng.uniform(0, 1, size=(9, 2)), rng.uniform(0, 1, size=(10, 2))]
    stream = gs.streams.from_arrays(X, [np.arange(9) % 2, np.arange(10) % 2], per_round=2, ranges=(0, 1))
    given = {"model": gs.LogisticRegression(l2=0.1), "privacy": Laplace.for_budget(1.0), "gradient": gradient}
    algorithm, net = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.complete(2)
    assert gs.simulate(algorithm, net, stream, steps=4, **given).epsilon.spent.max() <= 1
    with pytest.raises(gs.GossamerError, match="learner 0 has 9 records for 5 rounds of 2"):
        gs.simulate(algorithm, net, stream, steps=5, **given)


def test_a_record_that_is_drawn_again_is_another_arrival_and_the_run_says_so():
    assert any("protects one arrival" in note for note in run(gs.Laplace.for_budget(1.0), steps=5).notes)
    assert not any("arrival" in note for note in run(gs.Laplace.for_budget(1.0), steps=5, draw="once").notes)


def private_run(steps, privacy, resume=None, **given):
    return gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.paper(), gs.datasets.mushrooms(10, 0, rows="l1"),
        model=gs.LogisticRegression(l2=0.1), privacy=privacy, steps=steps, resume=resume, evaluate_every=10, **given,
    )  # fmt: skip


def test_a_private_run_that_is_extended_keeps_its_noise_and_its_budget():
    first = private_run(10, gs.Laplace.for_budget(8.0))
    longer = private_run(40, gs.Laplace.for_budget(8.0), first)
    assert longer.config["noise"] == first.config["noise"]
    assert (longer.epsilon.spent <= 8.0).all()
    assert (longer.epsilon.for_ever <= 8.0).all(), "and for ever, since a learner stops where its budget ends"
    assert any("send nothing new" in note for note in longer.notes)


def test_a_stopped_learner_repeats_its_last_message_after_a_resume(tmp_path):
    mechanism = gs.Laplace.for_budget(8.0, horizon=10)
    first = private_run(20, mechanism)
    sent = {c: first.state[f"sent.{c}"] for c in ("s", "theta")}
    seen = {}
    genuine = gs.privacy.PrivateBoundary.release

    def watched(self, channel, t, value):
        seen[channel, t] = genuine(self, channel, t, value)
        return seen[channel, t]

    gs.privacy.PrivateBoundary.release = watched
    try:
        private_run(25, mechanism, gs.Record.load(first.save(tmp_path / "r")[0]))
    finally:
        gs.privacy.PrivateBoundary.release = genuine
    for (channel, _), value in seen.items():
        assert (value == sent[channel]).all()


def test_noise_of_the_algorithm_beside_a_mechanism_is_noted():
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8), noise=gs.decay(1.0, 0.6))
    record = gs.simulate(
        algorithm, gs.Network.paper(), gs.datasets.mushrooms(10, 0, rows="l1"),
        model=gs.LogisticRegression(l2=0.1), privacy=gs.Laplace.for_budget(8.0), steps=3,
    )  # fmt: skip
    assert any("is not used" in note for note in record.notes)


@pytest.mark.parametrize("privacy", [8.0, gs.Laplace, "laplace"])
def test_what_is_no_noise_is_refused(privacy):
    with pytest.raises(gs.GossamerError, match="expected noise, such as"):
        private_run(3, privacy)


@pytest.mark.parametrize("wrong", [None, "8", "eight", [None]])
def test_budgets_that_are_no_numbers_are_refused_in_a_sentence(wrong):
    if wrong == "8":
        assert gs.Laplace.for_budget(wrong).epsilon == 8.0
        return
    with pytest.raises(gs.GossamerError, match="epsilon="):
        private_run(3, gs.Laplace.for_budget(wrong))


def test_features_that_were_read_off_the_data_forbid_any_claim():
    stream = gs.datasets.mushrooms(10, 0, "once", rows="l1")
    stream.table = replace(stream.table, undeclared="the range of age was read off the data: declare it.")
    with pytest.raises(gs.GossamerError, match="privacy cannot be proved: the range of age"):
        gs.simulate(
            gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.paper(), stream,
            model=gs.LogisticRegression(l2=0.1, clip=gs.clip_l1(1.0)), steps=3, gradient="latest",
            privacy=gs.Laplace.for_budget(8.0, where="source"),
        )  # fmt: skip


def test_a_private_record_that_was_set_back_is_not_resumed():
    """Rounds 10 to 20 would be drawn again, with fresh noise, and booked once."""
    mechanism = gs.Laplace.for_budget(8.0, horizon=40)
    early = private_run(40, mechanism, callback=lambda p: p.t == 10)
    late = private_run(40, mechanism, callback=lambda p: p.t == 20)
    for change in (
        {"t": 10},
        {"t": 10, "history": late.history[:2]},
        {"state": early.state},
        {"epsilon": early.epsilon},
    ):
        with pytest.raises(gs.GossamerError, match="was changed after it was made"):
            private_run(40, mechanism, replace(late, **change))
    assert private_run(40, mechanism, late).t == 40


@pytest.mark.parametrize("lost", [{"seal": ""}, {"epsilon": None, "seal": None}, {"epsilon": None, "seal": ""}])
def test_a_private_record_without_seal_or_budget_is_only_looked_at(lost):
    part = replace(private_run(10, gs.Laplace.for_budget(8.0)), **lost)
    assert "accuracy" in repr(part)
    with pytest.raises(gs.GossamerError, match="has no budget or no seal"):
        private_run(20, gs.Laplace.for_budget(8.0), part)


def test_a_private_record_of_another_version_is_not_resumed(monkeypatch):
    """Its noise may be found, and its rounds be booked, in another way."""
    part = private_run(10, gs.Laplace.for_budget(8.0))
    seeded = private_run(10, gs.privacy.simulated(gs.decay(1.0, 0.6)))
    monkeypatch.setattr(importlib.import_module("gossamer.simulate.resuming"), "__version__", "99.0")
    with pytest.raises(gs.GossamerError, match=r"version = .* and this run has '99\.0'"):
        private_run(20, gs.Laplace.for_budget(8.0), part)
    assert private_run(20, gs.privacy.simulated(gs.decay(1.0, 0.6)), seeded).t == 20, "what claims nothing goes on"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"privacy": gs.Laplace.for_budget(8.0, horizon=20)}, "privacy"),
        ({"privacy": gs.Laplace.for_budget(4.0)}, "privacy"),
        ({"privacy": gs.Laplace.for_budget(8.0, exponent=0.7)}, "privacy"),
        ({"model": gs.LogisticRegression(l2=0.1, clip=gs.clip_l1(0.5))}, "model"),
        ({"stream": gs.datasets.mushrooms(10, 1, rows="l1")}, "stream"),
        ({"stream": gs.datasets.mushrooms(10, 0, rows="raw")}, "stream"),
        ({"step": gs.decay(1.0, 0.80000001)}, "algorithm"),
        ({"evaluate_every": 5}, "evaluate_every"),
        ({"gradient": "latest"}, "gradient"),
    ],
    ids=["horizon", "ε", "noise exponent", "clip", "records", "rows", "step", "evaluate_every", "gradient"],
)
def test_a_private_run_goes_on_with_nothing_changed(change, says):
    def run(steps, resume=None, step=None, stream=None, **given):
        usual = {"model": gs.LogisticRegression(l2=0.1), "privacy": gs.Laplace.for_budget(8.0), "evaluate_every": 10}
        return gs.simulate(
            gs.ldp_gradient_tracking(step=step or gs.decay(1.0, 0.8)), NET,
            stream or gs.datasets.mushrooms(10, 0, rows="l1"), steps=steps, resume=resume, **{**usual, **given},
        )  # fmt: skip

    with pytest.raises(gs.GossamerError, match=f"was run with {says} = "):
        run(20, resume=run(10), **change)


PRIVATE = ("run", "mushrooms", "--epsilon", 8, "--rows", "l1", "--horizon", 40)


def test_a_private_folder_whose_record_was_replaced_meanwhile_is_not_gone_on_with(gossamer, tmp_path, monkeypatch):
    """Two commands resume one folder; the second read the record before the first went on and wrote its own."""
    assert gossamer(*PRIVATE, "--steps", 5, "--out", "p")[0] == 0
    from gossamer.cli import run as command

    whole, before = command.build, gs.Record.load(tmp_path / "p")

    def overtaken(spec):
        parts = whole(spec)
        command._run(parts, before, None, (), None).save(tmp_path / "p" / "record")
        return parts

    monkeypatch.setattr(command, "build", overtaken)
    code, _, err = gossamer("run", "--resume", "p", "--steps", 10)
    assert code == 2
    assert "another command went on with this run in the meantime" in " ".join(err.split())
    assert gs.Record.load(tmp_path / "p").t == 10, "what the first command left is still there"
    assert not (tmp_path / "p" / command.USED).exists()


def test_a_private_folder_whose_record_another_command_took_is_refused_in_a_sentence(gossamer, tmp_path, monkeypatch):
    assert gossamer(*PRIVATE, "--steps", 5, "--out", "p")[0] == 0
    from gossamer.cli import run as command

    whole = command.build

    def taken(spec):
        (tmp_path / "p" / "record.npz").rename(tmp_path / "p" / command.USED)
        return whole(spec)

    monkeypatch.setattr(command, "build", taken)
    code, _, err = gossamer("run", "--resume", "p", "--steps", 10)
    assert code == 2
    assert "its record is gone, as if another command had just resumed it" in " ".join(err.split())
    assert (tmp_path / "p" / command.USED).exists()


def test_a_private_folder_that_was_refused_can_still_be_resumed(gossamer, tmp_path):
    """Nothing was sent: with the settings put right the run goes on."""
    assert gossamer(*PRIVATE, "--steps", 5, "--out", "p")[0] == 0
    file = tmp_path / "p" / "settings.json"
    right = file.read_text()
    file.write_text(right.replace('"epsilon": "8"', '"epsilon": "80"'))
    code, _, err = gossamer("run", "--resume", "p", "--steps", 10)
    assert code == 2
    assert "was run with privacy" in " ".join(err.split())
    file.write_text(right)
    assert gossamer("run", "--resume", "p", "--steps", 10)[0] == 0
    assert gs.Record.load(tmp_path / "p").t == 10
