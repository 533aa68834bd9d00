"""The engine and its record: evaluation, noise, stopping, resuming, saving."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from conftest import KnownNoise
from gossamer.models import Objective
from gossamer.privacy import simulated

STEP = gs.decay(0.5, 0.8)


def small(steps=40, learners=4, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(learners, 60, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.normal(size=(learners, 60)) > 0).astype(float)
    given = {
        "algorithm": gs.ldp_gradient_tracking(step=STEP, noise=gs.decay(0.1, 0.6)),
        "network": gs.Network.ring(learners),
        "stream": gs.streams.from_arrays(X, y),
        "model": gs.LogisticRegression(l2=0.1),
        "steps": steps,
        **options,
    }
    return gs.simulate(given.pop("algorithm"), given.pop("network"), given.pop("stream"), **given)


def test_history_is_what_the_parameters_say():
    run = small(steps=40, evaluate_every=15)
    np.testing.assert_array_equal(run.history.t, [0, 15, 30, 40])
    last, theta = run.history[-1], run.theta
    assert last.tracking_error == pytest.approx(np.linalg.norm(theta - run.optimum, axis=1).mean())
    assert last.consensus_error == pytest.approx(np.linalg.norm(theta - theta.mean(axis=0), axis=1).mean())
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 60, 3)).reshape(-1, 3)
    y = (X.reshape(4, 60, 3) @ [1.0, -1.0, 0.5] + rng.normal(size=(4, 60)) > 0).astype(float).ravel()

    def F(v):
        return np.mean((1 - y) * (X @ v) + np.log1p(np.exp(-X @ v))) + 0.05 * v @ v

    gaps = [F(v) - F(run.optimum) for v in theta]
    np.testing.assert_allclose(run.learners.optimality_gap, gaps, atol=1e-12)
    assert last.optimality_gap == pytest.approx(np.mean(gaps))
    hits = [np.mean((X @ v > 0) == y) for v in theta]
    np.testing.assert_allclose(run.learners.accuracy, hits)
    assert run.history.tracking_error[0] == pytest.approx(np.linalg.norm(run.optimum)), "θ starts at 0"


def test_seeded_noise_has_the_laws_scale_and_says_that_it_is_not_private():
    run = small()
    assert run.claim == "not private: seeded noise, for simulation only"
    scale = gs.decay(1.0, [0.0, 0.5, 1.0])
    drawn = simulated(scale, seed=3).noise("s", 3, (3, 200_000))
    np.testing.assert_allclose(np.abs(drawn).mean(axis=1), [1, 0.5, 0.25], rtol=0.02)  # E|Lap(ν)| = ν
    np.testing.assert_allclose((drawn**2).mean(axis=1), 2 * np.array([1, 0.5, 0.25]) ** 2, rtol=0.04)
    again = [simulated(scale, seed=3).noise(c, t, (3, 4)) for c, t in (("s", 3), ("s", 3), ("theta", 3), ("s", 4))]
    np.testing.assert_array_equal(again[0], again[1])
    assert (again[0] != again[2]).all()
    assert (again[0] != again[3]).all()
    assert (simulated(scale, seed=4).noise("s", 3, (3, 4)) != again[0]).all()


def test_without_noise_the_record_says_so_and_noise_is_added_only_when_given():
    quiet = small(algorithm=gs.ldp_gradient_tracking(step=STEP))
    assert quiet.claim == "not private: no noise"
    known = KnownNoise(40, 4, 3)
    loud = small(privacy=known)
    assert loud.claim == "not private: the noise makes no claim"
    assert np.abs(loud.theta - quiet.theta).max() > 1e-3
    assert {c for c, _ in known.asked} == {"s", "theta"}


@pytest.mark.parametrize("gradient", ["history", "latest"])
@pytest.mark.parametrize("stop", [1, 17, 20, 39])
def test_a_stopped_run_resumes_to_the_same_numbers(tmp_path, gradient, stop):
    whole = small(gradient=gradient, evaluate_every=10)
    part = small(gradient=gradient, evaluate_every=10, callback=lambda p: p.t == stop)
    assert part.t == stop
    assert not part.finished
    assert part.history.t[-1] == stop
    part.save(tmp_path / "part")
    again = small(gradient=gradient, evaluate_every=10, resume=gs.Record.load(tmp_path / "part"))
    assert again.finished
    for name in whole.state:
        np.testing.assert_array_equal(again.state[name], whole.state[name])
    np.testing.assert_array_equal(again.history, whole.history)
    np.testing.assert_array_equal(again.learners, whole.learners)


def test_a_finished_run_can_be_extended():
    longer = small(steps=60, evaluate_every=10)
    np.testing.assert_array_equal(
        small(steps=60, evaluate_every=10, resume=small(evaluate_every=10)).theta, longer.theta
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 1}, "stream"),
        ({"gradient": "latest"}, "gradient"),
        ({"model": gs.LogisticRegression(l2=0.2)}, "model"),
        ({"network": gs.Network.complete(4)}, "network"),
        ({"algorithm": gs.ldp_gradient_tracking(step=gs.decay(1, 0.9))}, "algorithm"),
        ({"privacy": KnownNoise(40, 4, 3)}, "privacy"),
        ({"steps": 10}, "ask for more"),
    ],
)
def test_a_record_is_not_resumed_as_another_run(change, says):
    part = small(callback=lambda p: p.t == 12, evaluate_every=5)
    with pytest.raises(gs.GossamerError, match=says):
        small(resume=part, **{"evaluate_every": 5, **change})


def test_records_are_saved_and_loaded_whole_and_without_pickle(tmp_path):
    run = small()
    npz, readable = run.save(tmp_path / "deep" / "er" / "run")
    again = gs.Record.load(npz)
    for name in run.state:
        np.testing.assert_array_equal(again.state[name], run.state[name])
    np.testing.assert_array_equal(again.history, run.history)
    assert again.config == run.config
    assert again.notes == run.notes
    told = json.loads(readable.read_text())
    assert told["final"]["accuracy"] == run.history.accuracy[-1]
    assert told["history"]["t"] == run.history.t.tolist()
    assert len(told["learners"]) == 4
    assert told["claim"].startswith("not private")
    with np.load(npz, allow_pickle=False) as stored:
        assert all(stored[name].dtype != object for name in stored.files)


def test_a_damaged_or_absent_record_is_refused(tmp_path):
    with pytest.raises(gs.GossamerError, match="no run record"):
        gs.Record.load(tmp_path / "absent")
    npz, _ = small().save(tmp_path / "run")
    whole = npz.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"no zip", bytes(reversed(whole))):
        npz.write_bytes(damaged)
        with pytest.raises(gs.GossamerError, match="cannot be read as a run record"):
            gs.Record.load(npz)
    np.savez(npz, history=np.zeros(3))
    with pytest.raises(gs.GossamerError, match="cannot be read as a run record"):
        gs.Record.load(npz)


def test_a_record_is_immutable():
    run = small()
    with pytest.raises(ValueError, match="read-only"):
        run.theta[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        run.history.accuracy[0] = 1
    with pytest.raises(TypeError):
        run.config["seed"] = 1
    with pytest.raises(AttributeError):
        run.t = 1


def test_a_record_draws_itself(tmp_path):
    figure = small().plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    errors, quality = figure.axes
    assert len(errors.lines) == 3
    np.testing.assert_array_equal(quality.lines[0].get_ydata(), small().history.accuracy)


def test_when_records_run_out_the_run_says_so():
    run = small(steps=80)
    assert any("No new records arrive after round 60" in note for note in run.notes)
    with pytest.raises(gs.GossamerError, match="gradient='latest' needs"):
        small(steps=80, gradient="latest")


def test_a_diverging_run_stops_with_the_round_the_learner_and_the_remedy():
    wild = gs.ldp_gradient_tracking(step=gs.decay(1e9, 0.6))
    says = r"diverged: learner \d .* at round \d+; use a smaller step"
    with pytest.raises(gs.GossamerError, match=says):
        small(steps=60, model=gs.RidgeRegression(l2=0.1), algorithm=wild)


def test_without_an_optimum_the_run_goes_on_and_says_so():
    X = np.array([[[1.0], [-2.0]]] * 3)
    stream = gs.streams.from_arrays(X, [[1, 0]] * 3)
    run = gs.simulate(
        gs.ldp_gradient_tracking(step=STEP), gs.Network.ring(3), stream, model=gs.LogisticRegression(), steps=9
    )
    assert np.isnan(run.history.tracking_error).all()
    assert any("use l2 > 0" in note for note in run.notes)
    assert run.history.accuracy[-1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"steps": 0}, "steps=0"),
        ({"steps": 2.5}, "steps=2.5"),
        ({"evaluate_every": 0}, "evaluate_every=0"),
        ({"seed": -1, "network": gs.Network.ring(4)}, "seed=-1"),
        ({"network": gs.Network.ring(5)}, "network has 5 learners and the stream 4"),
        ({"gradient": "newest"}, "expected 'history'"),
        ({"privacy": simulated(gs.decay(0.1, [0.6] * 3))}, "given for 3 learners and the network has 4"),
        ({"privacy": simulated(gs.decay(0.1, 0.9))}, "Assumption 4 asks for max ς < v"),
    ],
)
def test_what_cannot_be_run_is_refused(change, says):
    with pytest.raises(gs.GossamerError, match=says):
        gs.simulate(
            gs.ldp_gradient_tracking(step=STEP),
            change.pop("network", gs.Network.ring(4)),
            gs.streams.from_arrays(np.random.default_rng(0).normal(size=(4, 9, 2)), np.arange(36).reshape(4, 9) % 2),
            model=gs.LogisticRegression(l2=0.1),
            **{"steps": 5, **change},
        )


def test_many_learners_use_sparse_mixing_and_agree_with_dense_matrices():
    net, steps, n = gs.Network.random(200, degree=3, seed=1), 30, 2
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, steps, n)), rng.normal(size=(200, steps))
    run = gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(0.1, 0.8)),
        net,
        gs.streams.from_arrays(X, y),
        model=gs.RidgeRegression(l2=0.1),
        steps=steps,
        gradient="latest",
    )
    R, C = net.R.toarray(), net.C.toarray()
    s, theta, z = np.zeros((200, n)), np.zeros((200, n)), np.eye(200)
    for t in range(steps):
        g = (np.einsum("in,in->i", X[:, t], theta) - y[:, t])[:, None] * X[:, t] + 0.1 * theta
        s_new = s + C @ s + 0.1 / (t + 1) ** 0.8 * g
        theta = theta + R @ theta - (s_new - s) / (200 * np.diag(z))[:, None]
        s, z = s_new, z + R @ z
    np.testing.assert_allclose(run.theta, theta, rtol=1e-10, atol=1e-12)


def test_a_record_with_other_schedules_between_the_ends_is_another_run():
    def run(between, **options):
        noise = gs.decay([0.1, between, between, 0.1], [0.6] * 4)
        return small(algorithm=gs.ldp_gradient_tracking(step=STEP, noise=noise), evaluate_every=5, **options)

    part = run(0.1, callback=lambda p: p.t == 12)
    with pytest.raises(gs.GossamerError, match="algorithm"):
        run(100.0, resume=part)
    almost = gs.ldp_gradient_tracking(step=gs.decay(0.5000004, 0.8), noise=gs.decay(0.1, 0.6))
    with pytest.raises(gs.GossamerError, match="algorithm"):
        small(algorithm=almost, evaluate_every=5, resume=small(evaluate_every=5, callback=lambda p: p.t == 12))


def test_a_record_whose_state_does_not_fit_is_refused():
    part = small(callback=lambda p: p.t == 12)
    for name, change in (("theta", lambda a: a[:, :2]), ("s", lambda a: a.astype(np.float32)), ("z", None)):
        state = {k: (change(v) if k == name else v) for k, v in part.state.items() if k != name or change}
        kept = (part.history, part.learners, part.optimum, part.config, part.notes, part.claim)
        with pytest.raises(gs.GossamerError, match=f"no fitting state '{name}'"):
            small(resume=gs.Record(part.t, state, *kept))


def saved_with(npz, **changed):
    """A record's file with other arrays or, of its summary, other values."""
    with np.load(npz, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    about = json.loads(arrays["summary"].tobytes())
    for name, value in changed.items():
        if name in arrays or "." in name:
            arrays[name] = value
        elif value is None:
            del about[name]
        else:
            about[name] = value
    arrays["summary"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez_compressed(npz, **arrays)


def test_a_record_that_was_changed_after_it_was_written_is_refused(tmp_path):
    """A round set back, rows of history cut, states of another round, other settings: all of it is under one seal."""
    early, late = (small(callback=lambda p, stop=stop: p.t == stop, evaluate_every=5) for stop in (10, 20))
    config = json.loads(early.save(tmp_path / "early")[1].read_text())["config"]
    changes = [
        {"t": 10, "history": late.history[:3]},
        {"state.theta": early.theta},
        {f"state.{name}": value for name, value in early.state.items()},
        {"history": late.history[[0, -1]]},
        {"config": {**config, "steps": 1000}},
        {"config": {**config, "privacy": "none"}},
        {"notes": ["all is well"]},
        {"claim": "not private: or is it"},
        {"learners": early.learners},
        {"optimum": late.optimum + 1},
        {"seal": "0" * 32},
    ]
    for change in changes:
        npz = late.save(tmp_path / "late")[0]
        gs.Record.load(npz)
        saved_with(npz, **change)
        with pytest.raises(gs.GossamerError, match=r"late\.npz was changed after it was written: restore it"):
            gs.Record.load(npz)
    npz, readable = late.save(tmp_path / "late")
    readable.write_text(readable.read_text().replace('"t": 20', '"t": 10'))
    assert gs.Record.load(npz).t == 20, "the .json is for people, and nothing is read from it"


def test_a_record_that_was_changed_in_memory_is_not_resumed_or_saved(tmp_path):
    early, late = (small(callback=lambda p, stop=stop: p.t == stop, evaluate_every=5) for stop in (10, 20))
    assert late.intact
    for change in (
        {"t": 10},
        {"t": 10, "history": late.history[:3]},
        {"state": early.state},
        {"config": {**late.config, "steps": 1000}},
        {"notes": ("all is well",)},
    ):
        changed = replace(late, **change)
        assert not changed.intact
        with pytest.raises(gs.GossamerError, match="was changed after it was made: use the record as"):
            small(evaluate_every=5, resume=changed)
        with pytest.raises(gs.GossamerError, match="was changed after it was made and would not be read back"):
            changed.save(tmp_path / "changed")
    built = replace(late, t=10, seal=None)
    with pytest.raises(gs.GossamerError, match="of round 10, was changed"):
        small(evaluate_every=5, resume=built)
    meddled = pickle.loads(pickle.dumps(late))
    meddled.theta.setflags(write=True)
    meddled.theta[0, 0] += 1e-9
    with pytest.raises(gs.GossamerError, match="was changed after it was made"):
        small(evaluate_every=5, resume=meddled)


def test_a_record_of_before_there_were_seals_is_read_and_goes_on(tmp_path):
    npz = small(callback=lambda p: p.t == 12, evaluate_every=5).save(tmp_path / "old")[0]
    saved_with(npz, seal=None)
    old = gs.Record.load(npz)
    assert old.seal == ""
    np.testing.assert_array_equal(small(evaluate_every=5, resume=old).theta, small(evaluate_every=5).theta)
    assert gs.Record.load(old.save(tmp_path / "copy")[0]).seal == "", "and gets no seal by being copied"


def test_a_seal_is_the_same_wherever_it_is_taken(tmp_path):
    record = small()
    again = gs.Record.load(record.save(tmp_path / "r")[0])
    assert again.seal == record.seal == replace(record, seal=None).seal == replace(again, seal=None).seal
    assert json.loads((tmp_path / "r.json").read_text())["seal"] == record.seal


def test_records_travel_between_processes():
    run = small()
    again = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(again.theta, run.theta)
    assert again.config == run.config


def test_a_callback_cannot_change_the_record():
    def meddle(progress):
        with pytest.raises(ValueError, match="read-only"):
            progress.last.accuracy[0] = 42

    assert small(callback=meddle).history.accuracy.max() <= 1


def test_an_optimum_is_found_or_refused_whatever_the_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2, 100, 3))
    for unit in (1e-3, 1.0, 1e3):
        y = unit * (X @ [1.0, 2.0, 3.0]) + rng.normal(size=(2, 100))
        F = Objective(gs.RidgeRegression(l2=0.01), gs.streams.from_arrays(unit * X, y).population)
        assert np.linalg.norm(F.gradient(F.minimiser())) <= 1e-10 * max(1, unit**2)
        apart = X.copy()
        apart[..., 0] += np.sign(apart[..., 0])
        separable = gs.streams.from_arrays(unit * apart, (apart[..., 0] > 0).astype(float))
        with pytest.raises(gs.GossamerError, match="use l2 > 0"):
            Objective(gs.LogisticRegression(), separable.population).minimiser()


def test_asking_for_more_rounds_than_memory_holds_is_no_error():
    assert small(steps=10**10, callback=lambda p: p.t == 3, evaluate_every=10**9).t == 3


def test_steps_by_rule_are_told_in_numbers():
    X = np.random.default_rng(0).uniform(-1, 1, size=(3, 20, 2))
    stream = gs.streams.from_arrays(X, (X.sum(axis=2) > 0).astype(float), ranges=(-1, 1))
    for method, falls in ((gs.ldp_gradient_tracking, r" \(t\+1\)\^−[0-9.]+"), (gs.diadsp, " in every round")):
        run = gs.simulate(
            method(step="auto", strict=False), gs.Network.ring(3), stream, model=gs.LogisticRegression(0.1), steps=4
        )
        (said,) = (note for note in run.notes if note.startswith("Steps by rule"))
        assert re.fullmatch(f"Steps by rule: λ_t = {run.config['first_step']:g}{falls}\\.", said)
