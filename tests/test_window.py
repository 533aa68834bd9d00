"""Linear models that remember the newest R rounds: what they compute, what a record costs, and what is refused."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.models.memory import LinearMemory
from gossamer.models.standard import Looks, Standardise
from gossamer.privacy.accountant import Accountant, losses, total, total_for_ever
from gossamer.privacy.laws import GAUSSIAN, LAPLACE
from gossamer.privacy.releases import every, thinning
from gossamer.records import Batch, FeatureBounds, dense_rows
from gossamer.setting import setting_of
from gossamer.streams import from_arrays
from test_source_accounting import terms

R = 4
CLIP = gs.clip_l2(0.5)
MODELS = {
    "logistic": gs.LogisticRegression(remember=R),
    "logistic, clipped": gs.LogisticRegression(clip=CLIP, remember=R),
    "softmax": gs.SoftmaxRegression(3, clip=CLIP, remember=R),
    "ridge": gs.RidgeRegression(remember=R),
    "ridge, clipped": gs.RidgeRegression(clip=CLIP, remember=R),
}
NET, ALGORITHM = gs.Network.ring(3), gs.ldp_gradient_tracking(step=gs.decay(0.3, 0.8))


def stream_of(records=(40, 40, 40), per_round=(2, 2, 2), kind="dense", classes=2, n=5):
    """Learners with so many records each, so many a round."""
    rng = np.random.default_rng(0)
    X = [rng.random((count, n)) < 0.4 if kind == "bits" else rng.normal(size=(count, n)) for count in records]
    if kind != "bits":
        X = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in X]
    stream = from_arrays(X, [rng.integers(0, classes, size=count).astype(float) for count in records], list(per_round))
    if kind != "bits":
        stream.table = replace(stream.table, bounds=FeatureBounds(n**0.5, 1.0, 1.0))
    return stream


def newest(stream, t, rounds):
    """By learner, the places of the records of the newest rounds, up to round t, that brought it some."""
    first, found = 0, []
    for held, pace in zip(stream.room(10**6).tolist(), stream.description["per_round"], strict=True):
        last = min(t + 1, -(-held // pace))
        found.append(first + np.arange(max(0, last - rounds) * pace, min(last * pace, held)))
        first += held
    return found


# -- what is computed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "bits"])
@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_is_the_mean_over_the_newest_rounds_records(name, kind):
    """Also of learners with unlike numbers of records, after the last of them; to the bit what a new memory finds."""
    model, rng = MODELS[name], np.random.default_rng(1)
    stream = stream_of((41, 17, 60), (3, 1, 7), kind, classes=model.outputs + (model.outputs == 1))
    memory = model.memory(stream.table, "history", np.array([1, 1, 1]))  # grows, and turns over many times
    theta = rng.normal(size=(3, 5 * model.outputs))
    for t in range(30):
        memory.observe(stream.arrivals(t))
        for i, places in enumerate(newest(stream, t, R)):
            rows, labels = stream.table.rows[places], stream.table.labels[places]
            alone = LinearMemory(replace(model, remember=None), stream.table, "history", np.array([1]))
            alone.observe(Batch(rows, labels, np.array([len(places)])))
            assert memory.filled[i] == len(places)
            assert (memory.gradient(theta)[i] == alone.gradient(theta[[i]])[0]).all()
        if name == "logistic":
            for i, places in enumerate(newest(stream, t, R)):
                a, b = dense_rows(stream.table)[places].astype(float), stream.table.labels[places]
                mean = a.T @ (1 / (1 + np.exp(-a @ theta[i])) - b) / len(places)
                np.testing.assert_allclose(memory.gradient(theta)[i], mean, rtol=0, atol=1e-13)


def test_memory_holds_twice_the_window_however_many_rounds_there_are():
    stream, model = stream_of((4000,) * 3), gs.LogisticRegression(clip=CLIP, remember=50)
    memory = model.memory(stream.table, "history", stream.room(50))
    held, records = set(), 3 * 50 * 2
    for t in range(2000):
        memory.observe(stream.arrivals(t))
        assert memory.filled.sum() <= records
        if t % 500 == 499:
            held.add(sum(v.nbytes for v in vars(memory).values() if isinstance(v, np.ndarray)))
    assert len(held) == 1
    assert len(memory.labels) == 2 * records
    whole = replace(model, remember=None).memory(stream.table, "history", stream.room(2000))
    assert len(whole.labels) == 3 * 4000


def test_a_learner_that_starts_again_needs_the_newest_rounds_alone():
    stream, theta = stream_of((200,) * 3, (2, 3, 1), "bits"), np.random.default_rng(1).normal(size=(3, 5))
    long, late = (MODELS["logistic, clipped"].memory(stream.table, "history", np.array([k] * 3)) for k in (100, 1))
    for t in range(37):
        long.observe(stream.arrivals(t))
    for t in range(37 - R, 37):
        late.observe(stream.arrivals(t))
    assert (long.gradient(theta) == late.gradient(theta)).all()


def test_a_run_goes_on_where_it_stopped_and_equals_all_records_while_they_are_few():
    stream = stream_of((60, 40, 80), (2, 1, 4))

    def run(remember, steps, **more):
        model = gs.LogisticRegression(l2=0.1, remember=remember)
        return gs.simulate(ALGORITHM, NET, stream, model=model, steps=steps, evaluate_every=10, **more)

    whole = run(7, 50)
    assert (run(7, 50, resume=run(7, 23)).theta == whole.theta).all()
    assert (run(100, 50).theta == run(None, 50).theta).all()
    assert np.abs(whole.theta - run(None, 50).theta).max() > 1e-3
    with pytest.raises(gs.GossamerError, match="was run with model"):
        run(8, 50, resume=run(7, 23))


def test_moments_of_standardised_records_are_those_of_the_window():
    stream = from_arrays(np.random.default_rng(0).uniform(-1, 1, size=(2, 40, 3)), np.ones((2, 40)), per_round=2)
    about = Standardise((0, 2), width=2.0)
    model = gs.LogisticRegression(clip=CLIP, intercept=True, standardise=about, remember=R)
    memory = model.memory(stream.table, "history", stream.room(R))
    memory.prepare(Looks(0, 15, 17, np.zeros(2)))
    for t in range(16):
        memory.observe(stream.arrivals(t))
        released = memory.seen(np.zeros((2, model.theta_size(3))), t)
        for i, places in enumerate(newest(stream, t, R)):
            a = stream.table.rows[places][:, [0, 2]]
            mean = np.hstack([a, a**2 - 1]).mean(axis=0)
            np.testing.assert_allclose(released[i, 3:-1], -about.unit(0.5, 2) * mean, rtol=0, atol=1e-14)
    memory.observe(stream.arrivals(16))
    later = memory.seen(np.zeros((2, model.theta_size(3))), 18)  # as they are seen, the window alone
    assert np.isfinite(later).all()
    assert memory.filled.tolist() == [2 * R, 2 * R]


# -- what a record costs -----------------------------------------------------------------------------------------------


def by_definition(t, one, rounds):
    """(releases, p-th powers of shifts) of every round k whose records are replaced: counted, not worked out."""
    N, held, window = one.records_in_round, one.held_at_most, one.window
    brought = [min((s + 1) * N, held) - min(s * N, held) for s in range(rounds)]
    rounds_with = [s for s in range(rounds) if brought[s]]
    found = []
    for k in rounds_with:
        shifts = []
        for s in t:
            remembered = [r for r in rounds_with if r <= s][-int(window) :]
            n = sum(brought[r] for r in remembered)
            shifts.append(2 * one.bound.c / n / one.scale(s) if k in remembered else 0.0)
        found.append(shifts)
    return np.array(found)


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("releases", [every(), every(3, after=7), every(2, after=5, until=20), thinning(1.3, after=4)])
@pytest.mark.parametrize("held", [math.inf, 1.0, 9.0, 24.0, 31.0])
@pytest.mark.parametrize("exponent", [-0.5, 0.3])
def test_a_window_costs_what_counting_finds_also_after_the_last_record(law, releases, held, exponent):
    p = 2 if law is GAUSSIAN else 1
    for window, rounds in itertools.product((2.0, 4.0, 40.0), (8, 15, 33)):
        one = terms(law=law, window=window, releases=releases, exponent=exponent, held_at_most=held)
        t = releases.before(rounds)
        shifts = by_definition(t.tolist(), one, rounds)
        sums = (shifts**p).sum(axis=1)
        assert total(one, rounds, p == 2) == pytest.approx(sums.max(), rel=1e-6)
        for k in range(0, len(sums), 5):
            seen = np.sort(shifts[k][shifts[k] > 0])
            spent = Accountant(one, delta=1e-5).epsilon_by_arrival([k], rounds, 1e-5)[0]
            assert spent <= Accountant(one, delta=1e-5).epsilon_at(rounds, 1e-5) * (1 + 1e-9)
            worst = losses(one, rounds)
            assert len(seen) <= len(worst) <= one.numbers(rounds)
            in_order = shifts[k][shifts[k] > 0]
            assert (in_order <= worst[: len(in_order)] * (1 + 1e-6)).all()


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
def test_a_full_window_costs_what_the_formula_says(law):
    """4c²/(R N² σ²), or 2c/(N ν), whatever the run's length; with releases R rounds apart each record is in one."""
    c, N, sigma = 0.5, 2, 0.3
    for window in (5, 20):
        one = terms(law=law, window=float(window), releases=every(1, after=window - 1), exponent=0.0)
        expected = 4 * c**2 / (window * N**2 * sigma**2) if law is GAUSSIAN else 2 * c / (N * sigma)
        for rounds in (3 * window, 50 * window):
            assert total(one, rounds, law is GAUSSIAN) == pytest.approx(expected, rel=1e-6)
        assert total_for_ever(one, law is GAUSSIAN) == pytest.approx(expected, rel=1e-6)
        apart = replace(one, releases=every(window, after=window - 1))
        once = (2 * c / (window * N * sigma)) ** (2 if law is GAUSSIAN else 1)
        assert total(apart, 1000, law is GAUSSIAN) == pytest.approx(once, rel=1e-6)


def test_for_ever_the_last_records_are_paid_for_as_long_as_they_are_seen():
    one = terms(window=4.0, held_at_most=31.0, releases=every(2, after=5), exponent=0.0)
    assert total_for_ever(one, True) == math.inf  # in all releases, with noise that stays
    assert total(one, 4000, True) > 1.9 * total(one, 2000, True)
    louder = replace(one, exponent=-0.7)
    assert total(louder, 2**18, True) <= total_for_ever(louder, True) <= 1.1 * total(louder, 2**18, True)
    ended = replace(one, releases=every(2, after=5, until=20))
    assert total_for_ever(ended, True) == total(ended, 20, True) < math.inf
    sliding = replace(one, held_at_most=math.inf)
    assert total_for_ever(sliding, True) == pytest.approx(total(sliding, 10_000, True), rel=1e-6)


@pytest.mark.parametrize("records", [(40, 40, 40), (33, 21, 39)], ids=["alike", "unlike, and ended"])
def test_one_record_moves_what_is_computed_by_what_is_booked(records):
    """Two worlds, every round of the record, every round after it: never more than Δ_t, and as much where it is."""
    stream, T, model = stream_of(records), 24, gs.LogisticRegression(clip=CLIP, remember=R)
    steps = T if len(set(records)) > 1 else 20
    setting = setting_of(ALGORITHM, NET, stream, model, "history", steps)
    booked = [t.terms for t in gs.Gaussian(1.0, "source", delta=1e-5, releases=every()).bind(setting).ledgers]
    starts = np.cumsum([0, *records])
    theta = np.zeros((3, 5))
    for k in range(0, 20, 3):
        worlds = [model.memory(stream.table, "history", stream.room(R)) for _ in range(2)]
        moved = []
        for t in range(steps):
            batch = stream.arrivals(t)
            other = Batch(batch.rows.copy(), batch.labels.copy(), batch.counts)
            ends = np.cumsum(batch.counts) - batch.counts
            for i in np.flatnonzero(batch.counts):
                if t == k:
                    other.rows[ends[i]], other.labels[ends[i]] = batch.rows[ends[i]], 1 - batch.labels[ends[i]]
            worlds[0].observe(batch)
            worlds[1].observe(other)
            apart = worlds[0].gradient(theta) - worlds[1].gradient(theta)
            moved.append(np.linalg.norm(apart, axis=1))
        for i, one in enumerate(booked):
            if k >= -(-records[i] // 2):
                continue
            shifts = by_definition(range(steps), one, steps)[min(k, -(-records[i] // 2) - 1)]
            # At θ = 0 a weight is ½, the clipper's length, and goes to −½: a record moves by all of 2c.
            np.testing.assert_allclose(np.array(moved)[:, i], shifts, rtol=1e-9, atol=1e-12)
    assert starts[-1] == len(stream.table)


# -- runs --------------------------------------------------------------------------------------------------------------


def private_run(remember=6, records=(60, 60, 60), steps=40, epsilon=5.0, model=None, **given):
    usual = {"where": "source", "horizon": None}
    mechanism = gs.Gaussian.for_budget(epsilon, 1e-5, **(usual | given))
    model = model or gs.LogisticRegression(l2=0.01, clip=CLIP, remember=remember)
    return gs.simulate(ALGORITHM, NET, stream_of(records), model=model, privacy=mechanism, steps=steps)


def test_learners_with_unlike_numbers_of_records_go_on_over_their_last_window():
    run = private_run(records=(60, 41, 77), steps=50)
    assert (run.epsilon.spent <= 5.0).all()
    assert (run.epsilon.spent > 4.9).all()
    assert (run.epsilon.for_ever < np.inf).all(), "a learner whose records have ended releases no more, by rule"
    stated = private_run(records=(60, 41, 77), steps=50, releases=every(1, after=5))
    assert (stated.epsilon.spent > 4.9).all()
    # Releases that go on over the last window cost its records more: more noise for the same budget.
    noise = [np.array([row[0] for row in one.config["noise"]]) for one in (run, stated)]
    assert (noise[1] > 1.2 * noise[0]).any()


def test_a_windows_noise_is_by_the_root_of_its_length_and_constant():
    noise = {R: private_run(R, (400,) * 3, 200).config["noise"][0] for R in (4, 16)}
    assert noise[4][0] == pytest.approx(2 * noise[16][0], rel=1e-3)
    assert noise[4][1] == 0


def test_pair_secrets_hide_a_windows_records_as_well():
    with_pairs = private_run(secrets=gs.Secrets(colluders=1))
    assert (with_pairs.epsilon.spent <= 5.0).all()
    assert (with_pairs.epsilon.all_collude > with_pairs.epsilon.spent).all()


def test_a_budget_on_messages_is_found_and_kept():
    mechanism = gs.Laplace.for_budget(50.0)
    model = gs.LogisticRegression(l2=0.01, remember=6)
    stream = stream_of((40, 40, 40))
    run = gs.simulate(ALGORITHM, NET, stream, model=model, privacy=mechanism, steps=20)
    assert (run.epsilon.spent <= 50.0).all()
    assert (run.epsilon.spent > 49.0).all()
    with pytest.raises(gs.NotProvable, match="40 records for 21 rounds of 2"):
        gs.simulate(ALGORITHM, NET, stream, model=model, privacy=mechanism, steps=21)


@pytest.mark.parametrize("law", [gs.Laplace, gs.Gaussian])
def test_on_messages_a_windows_budget_for_ever_is_above_what_any_run_costs(law):
    """Found for ever, it is kept by runs of every length; and it is not far above what long ones cost."""
    delta, squared = (0.0, False) if law is gs.Laplace else (1e-5, True)
    stream = stream_of((1000,) * 3)
    for window in (2, 30):
        model = gs.LogisticRegression(l2=0.01, remember=window)
        setting = setting_of(ALGORITHM, NET, stream, model, "history", 300)
        one = law(gs.decay(1.0, 0.6), delta=delta).terms(setting)[0]
        for_ever, long = total_for_ever(one, squared), total(one, 300, squared)
        assert total(one, 40, squared) <= long <= for_ever <= (2.3 if squared else 1.05) * long
    found = law.for_budget(8.0, delta, horizon=math.inf).terms(setting._replace(learners=1))[0]
    assert 7.9 <= Accountant(found, delta=delta).epsilon_for_ever(delta) <= 8.0
    far = gs.LogisticRegression(l2=0.01, remember=2**23)
    setting = setting_of(ALGORITHM, NET, stream, far, "history", 300)
    assert total_for_ever(law(gs.decay(1.0, 0.6), delta=delta).terms(setting)[0], squared) == math.inf


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"band": 3}, "remembers a few rounds: leave it out"),
        ({"model": gs.RidgeRegression(remember=6)}, "nothing bounds|no privacy|clip"),
    ],
)
def test_what_is_not_proved_of_a_window_is_refused(given, says):
    with pytest.raises(gs.GossamerError, match=says):
        private_run(**given)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "5"])
def test_a_window_is_a_whole_number_of_rounds(wrong):
    with pytest.raises(gs.GossamerError, match="expected a whole number of rounds ≥ 1, or None for all"):
        gs.LogisticRegression(remember=wrong)


def test_a_window_is_for_a_history():
    with pytest.raises(gs.GossamerError, match="remember=3 is for gradient='history'"):
        gs.LogisticRegression(remember=3).memory(stream_of().table, "latest", np.array([1, 1, 1]))


def test_a_model_without_a_window_is_written_as_it_was():
    assert repr(gs.LogisticRegression(l2=0.5)) == (
        "LogisticRegression(l2=0.5, clip=None, intercept=False, standardise=None)"
    )
    assert repr(gs.RidgeRegression(remember=3)).endswith(", remember=3)")


# -- the command, estimators, parties ----------------------------------------------------------------------------------


def test_the_command_runs_with_a_window_says_so_and_goes_on(gossamer, tmp_path):
    asked = ("--remember", 20, "--steps", 60, "--out", tmp_path / "run")
    assert gossamer("run", "mushrooms", "--epsilon", 8, "--draw", "once", *asked)[0] == 0
    record = gs.Record.load(tmp_path / "run" / "record.npz")
    assert "remember=20" in record.config["model"]
    assert (record.epsilon.spent <= 8).all()
    code, out, _ = gossamer("budget", "mushrooms", "--epsilon", 3, "--remember", 50, "--horizon", 400, "--rows", "l2")
    assert code == 0
    assert "in the releases of 50 rounds" in " ".join(out.split())
    code, _, err = gossamer("run", "mushrooms", "--remember", 5, "--gradient", "latest", "--steps", 5)
    assert code == 2
    assert "--remember 5 is for --gradient history" in err


def test_an_estimator_keeps_a_window_of_rows_and_its_copy_goes_on_alike():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(900, 3)), rng.integers(0, 2, size=900)
    model = gs.PrivateDecentralizedClassifier(
        math.inf, learners=3, bounds=(-1, 1), classes=[0, 1], per_round=2, remember=5, steps=100
    )
    for part in range(2):
        model.partial_fit(X[300 * part :][:300], y[300 * part :][:300])
    copy = pickle.loads(pickle.dumps(model))
    for one in (model, copy):
        one.partial_fit(X[600:], y[600:])
    assert (model.coef_ == copy.coef_).all()
    run = model._run
    assert len(run._past) == 5
    assert run._memory.filled.max() == 10
    assert model.record_.config["stream"]["records"] == 900


@pytest.mark.parametrize("crashes", [0, 10])
def test_parties_remember_what_the_simulator_does_through_crashes(tmp_path, monkeypatch, crashes):
    pytest.importorskip("msgspec", reason="needs the extra `peers`")
    import test_peers

    whole = test_peers.simulated()
    monkeypatch.setattr(test_peers, "MODEL", gs.LogisticRegression(l2=0.1, remember=7))
    found = test_peers.Team(tmp_path).run(crashes)
    np.testing.assert_allclose(found, test_peers.simulated(), rtol=0, atol=1e-12)
    assert np.abs(found - whole).max() > 1e-3


def test_a_window_is_agreed_on_and_older_runs_keep_their_names(gossamer, tmp_path):
    pytest.importorskip("cryptography", reason="needs the extra `peers`")
    from gossamer.peers.config import read_config

    file = tmp_path / "visits.csv"
    file.write_text("age,ill\n" + "\n".join(f"{20 + k % 60},{'no' if k % 3 else 'yes'}" for k in range(90)) + "\n")
    told = ("--csv", file, "--target", "ill", "--classes", "no,yes", "--range", "age=0:100", "--learners", 3)
    plans = {}
    for name, more in {"all": (), "few": ("--remember", 12)}.items():
        code, _, err = gossamer("peers", "init", tmp_path / name, *told, "--steps", 40, *more)
        assert code == 0, err
        plans[name] = read_config(tmp_path / name / "learner-1")
    assert plans["few"].model().remember == 12
    assert plans["all"].model().remember is None
    assert "remember" not in plans["all"].shared["model"]
    assert plans["few"].shared["model"]["remember"] == "12"
    # 30 records of each, over the whole run rather than its first half.
    assert [plans[name].config.run.per_round for name in ("all", "few")] == [2, 1]
