"""Standardised records, from the equations: how they are seen, what is agreed on, and what it costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

import gossamer as gs
from gossamer.algorithms import METHODS
from gossamer.models.memory import LinearMemory
from gossamer.models.standard import MOMENTUM, Frame, Looks, Standardise, StandardMemory
from gossamer.models.statistics import StatisticsMemory
from gossamer.privacy import PrivateBoundary
from gossamer.privacy.accountant import total
from gossamer.privacy.releases import Releases
from gossamer.records import Batch, Table, dense_table
from gossamer.run_record import NotResumedError
from gossamer.setting import setting_of
from gossamer.streams import OnePass

RING = gs.Network.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], 0.4)
FADING = ("tailored_gradient_tracking", "ldol", "wang_basar")  # methods whose links weaken with time
KINDS = ("logistic", "softmax", "quantity")


def records_of(count, seed=0, spread=0.2):
    """Two numbers far from 0 that spread little, a category, and an intercept."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([
        0.6 + spread * rng.uniform(-1, 1, count), -0.3 + 0.1 * rng.uniform(-1, 1, count),
        rng.integers(0, 2, count), np.ones(count),
    ])  # fmt: skip
    return X, rng


def labels_of(kind, X, rng):
    score = 4 * (X[:, 0] - 0.6) - 6 * (X[:, 1] + 0.3) + 0.4 * X[:, 2]
    if kind == "quantity":
        return np.clip(0.2 + 0.3 * score + 0.05 * rng.normal(size=len(X)), -1, 1)
    noisy = score + 0.3 * rng.normal(size=len(X))
    return (noisy > 0.2).astype(float) + (noisy > 0.9 if kind == "softmax" else 0)


def model_of(kind, clip=None, l2=0.1, label=True):
    about = Standardise((0, 1), label=kind == "quantity" and label, width=4.0)
    if kind == "softmax":
        return gs.SoftmaxRegression(3, l2, clip, intercept=True, standardise=about)
    make = gs.LogisticRegression if kind == "logistic" else gs.RidgeRegression
    return make(l2, clip, intercept=True, standardise=about)


def weights_by_hand(kind, margins, labels):
    """dl/dmargins, (records, outputs)."""
    if kind == "quantity":
        return margins - labels[:, None]
    if kind == "logistic":
        return 1 / (1 + np.exp(-margins)) - labels[:, None]
    p = np.exp(margins - margins.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) - np.eye(3)[labels.astype(int)]


def matrix_by_hand(middles, spreads):
    """T with a' = T a, for two numbers, a category and the intercept."""
    T = np.eye(4)
    for j in (0, 1):
        T[j, j], T[j, 3] = 1 / spreads[j], -middles[j] / spreads[j]
    return T


def with_exact_moments(kind, X, y, clip=None):
    """A learner's memory that sees its records by their exact moments."""
    numbers = np.column_stack([X[:, :2], *([y] if kind == "quantity" else [])])
    memory = model_of(kind, clip).memory(dense_table(X, y), "history", np.array([len(y)]))
    frame = Frame(numbers.mean(axis=0)[None], numbers.std(axis=0)[None])
    memory.observe(Batch(X, y, np.array([len(y)])))
    memory.adopt(frame)
    return memory, frame


@pytest.mark.parametrize("kind", KINDS)
def test_with_exact_moments_the_direction_is_the_one_written_by_hand(kind):
    X, rng = records_of(50)
    y = labels_of(kind, X, rng)
    memory, frame = with_exact_moments(kind, X, y)
    outputs = 3 if kind == "softmax" else 1
    theta = rng.normal(size=(4, outputs))
    point = np.concatenate([theta.ravel(), rng.normal(size=memory.about.extra)])[None]

    T = matrix_by_hand(*(part[0] for part in frame))
    middle, spread = (frame.middles[0, -1], frame.spreads[0, -1]) if kind == "quantity" else (0.0, 1.0)
    seen, seen_labels = X @ T.T, (y - middle) / spread if kind == "quantity" else y
    phi = np.linalg.solve(T.T, theta) / spread
    phi[3] -= middle / spread
    np.testing.assert_allclose(memory.to_seen(point[:, : 4 * outputs]), phi.reshape(1, -1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(seen[:, :2].std(axis=0), 1, rtol=1e-9)
    if kind == "quantity":  # residuals are the same, in spreads of the label
        np.testing.assert_allclose(seen @ phi - seen_labels[:, None], (X @ theta - y[:, None]) / spread, atol=1e-10)
    else:
        np.testing.assert_allclose(seen @ phi, X @ theta, atol=1e-10)

    ridge = np.array([0.1, 0.1, 0.1, 0.0])[:, None]
    first = seen.T @ weights_by_hand(kind, seen @ phi, seen_labels) / len(y) + ridge * phi
    steps = [memory.used(memory.seen(point, 100), point, 100) for _ in range(2)]
    for step, share in zip(steps, (1 - MOMENTUM, 1 - MOMENTUM**2), strict=True):
        by_hand = share * spread * T.T @ first
        np.testing.assert_allclose(step[0, : 4 * outputs], by_hand.ravel(), rtol=1e-9, atol=1e-12)
        assert not step[:, 4 * outputs :].any()


def test_sums_of_records_give_the_same_directions_as_records():
    X, rng = records_of(60)
    y, model = labels_of("quantity", X, rng), model_of("quantity")
    table = dense_table(X, y)
    memories = [
        model.memory(table, "history", np.array([30, 30])),
        StandardMemory(model, table, LinearMemory(model, table, "history", np.array([30, 30]))),
    ]
    assert isinstance(memories[0]._inner, StatisticsMemory)
    psi = np.array([[0.6, -0.3, 0.2, -0.6, -0.9, -0.9, 1.0], [1.0, -0.7, 0.5, -1.2, -1.7, -1.6, 2.0]])
    for t, some in ((0, slice(0, 40)), (1, slice(40, 60))):  # some come before records are seen otherwise, some later
        point = np.hstack([rng.normal(size=(2, 4)), psi])
        steps = []
        for memory in memories:
            count = len(y[some]) // 2
            memory.observe(Batch(X[some], y[some], np.array([count, count])))
            steps.append(memory.used(memory.seen(point, t), point, t))
        np.testing.assert_allclose(steps[0], steps[1], rtol=1e-9, atol=1e-11)
        assert np.abs(steps[0]).max() > 1e-3


# -- what is agreed on -------------------------------------------------------------------------------------------------


def stream_of(kind, counts, seed=0, **given):
    X, rng = records_of(sum(counts), seed)
    X[: counts[0], 0] -= 0.3  # learners differ
    ends = np.cumsum(counts)
    order = [np.arange(end - n, end) for n, end in zip(counts, ends, strict=True)]
    return OnePass(dense_table(X, labels_of(kind, X, rng)), order, **given), order


@pytest.mark.parametrize("method", [name for name, one in METHODS.entries().items() if one.compared])
def test_what_learners_agree_on_is_the_mean_of_their_moments(method):
    made = METHODS.find(method)
    algorithm = made.make(gs.decay(0.2, made.step_exponent), strict=False)
    stream, order = stream_of("logistic", [5, 9, 6, 8], per_round=[2, 3, 2, 2])
    run = gs.simulate(algorithm, RING, stream, model=model_of("logistic"), steps=500)
    psi = run.state["theta"][:, 4:]
    moments = np.array([
        np.concatenate([X.mean(axis=0), (X**2 - 1).mean(axis=0)]) for X in (stream.table.rows[ids, :2] for ids in order)
    ])  # fmt: skip
    weights = np.ones(4) if algorithm.weights is None else algorithm.weights(RING.perron)
    meant = np.tile(weights @ moments / weights.sum(), (4, 1))
    assert np.abs(moments - meant).max() > 0.15, "learners differ"
    assert (psi[:, -1] > 0).all()
    # A tracker mixes while its steps fade; and where links fade, too, learners agree only in the end.
    np.testing.assert_allclose(psi[:, :-1] / psi[:, -1:], meant, atol=0.02 if method in FADING else 2e-3)
    if method not in FADING:
        np.testing.assert_allclose(run.state["seen.middles"], meant[:, :2], atol=0.05)


def test_a_simulation_is_the_loop_written_by_hand():
    """Algorithm 1, logistic: a look after a tenth of the rounds, a pause, and then learning with momentum."""
    steps, lam = 20, gs.decay(0.5, 0.8)
    stream, order = stream_of("logistic", [3, 2, 4, 3], per_round=[2, 1, 2, 3])
    run = gs.simulate(gs.ldp_gradient_tracking(lam), RING, stream, model=model_of("logistic"), steps=steps)
    X, y, pace = stream.table.rows, stream.table.labels, [2, 1, 2, 3]
    look, learn, m, l2 = 2, 5, 4, np.array([0.1, 0.1, 0.1, 0.0])
    R, C = (M.toarray() if hasattr(M, "toarray") else M for M in (RING.R, RING.C))
    s, theta, z = np.zeros((m, 9)), np.zeros((m, 9)), np.eye(m)
    running, frames = np.zeros((m, 4)), []
    for t in range(steps):
        g = np.zeros((m, 9))
        if t == learn:
            for psi in theta[:, 4:]:
                middles = psi[:2] / psi[4]
                frames.append((middles, np.sqrt(psi[2:4] / psi[4] + 1 - middles**2)))
        for i in range(m):
            own = order[i][: pace[i] * (t + 1)]
            if t == look:
                g[i, 4:8], g[i, 8] = -np.concatenate([X[own, :2].mean(axis=0), (X[own, :2] ** 2 - 1).mean(axis=0)]), -1
            if t >= learn:
                T = matrix_by_hand(*frames[i])
                seen, phi = X[own] @ T.T, np.linalg.solve(T.T, theta[i, :4])
                new = seen.T @ (1 / (1 + np.exp(-seen @ phi)) - y[own]) / len(own) + l2 * phi
                running[i] = 0.9 * running[i] + 0.1 * new
                g[i, :4] = T.T @ running[i]
        moved = s + C @ s + lam(t) * g
        theta = theta + R @ theta - (moved - s) / (m * np.diag(z))[:, None]
        s, z = moved, z + R @ z
    np.testing.assert_allclose(run.state["theta"], theta, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(run.state["seen.running"], running, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("weight", ["equal", "records"])
@pytest.mark.parametrize("kind", ["logistic", "quantity"])
def test_unequal_learners_find_the_minimiser_of_the_stated_objective(kind, weight):
    counts = [40, 10, 25, 5]
    stream, _ = stream_of(kind, counts, per_round=40, weight=weight)
    share = np.concatenate([np.full(n, 1 / 80 if weight == "records" else 1 / (4 * n)) for n in counts])
    X, y = stream.table.rows, stream.table.labels
    variances = np.ones(4)
    variances[:2] = share @ (X[:, :2] - share @ X[:, :2]) ** 2
    l2 = np.array([0.1, 0.1, 0.1, 0.0]) * variances

    def F(theta):
        margins = X @ theta
        each = (
            0.5 * (margins - y) ** 2 if kind == "quantity" else (1 - y) * margins + np.log1p(np.exp(-np.abs(margins)))
            + np.maximum(-margins, 0)
        )  # fmt: skip
        return share @ each + 0.5 * l2 @ theta**2

    best = scipy.optimize.minimize(F, np.zeros(4), method="BFGS", options={"gtol": 1e-10}).x
    algorithm = gs.robust_push_pull(gs.decay(0.1, 0.0))
    net = gs.Network.complete(4)  # all agree at once, so that they see alike
    run = gs.simulate(algorithm, net, stream, model=model_of(kind), steps=2500)
    np.testing.assert_allclose(run.theta[:, :4], np.tile(best, (4, 1)), atol=2e-4)
    np.testing.assert_allclose(run.optimum[:4], best, atol=1e-5)


# -- going on ----------------------------------------------------------------------------------------------------------

HEAD = Releases(2, 14, head=4, pause=3)  # moments in rounds 7 to 10, gradients from 14 on
PRIVATE = gs.Gaussian.for_budget(2.0, 1e-5, where="source", releases=HEAD)


def known_noise(self, t, value, times=1.0):
    drawn = np.random.default_rng(t).normal(size=value.shape)
    return self.clamped_to_grid(t, value, times) + drawn * times * self._scale(t)


def a_run(kind, private, **given):
    stream, _ = stream_of(kind, [12, 9, 16, 10], per_round=[1, 1, 2, 3], weight="records")
    model = model_of(kind, gs.clip_l2(0.5) if private else None)
    algorithm = gs.ldp_gradient_tracking(gs.decay(0.5, 0.6))
    privacy = PRIVATE if private else None
    return gs.simulate(algorithm, RING, stream, model=model, privacy=privacy, steps=40, **given)


@pytest.mark.parametrize("private", [False, True], ids=["without noise", "private"])
@pytest.mark.parametrize("kind", ["logistic", "quantity"])
def test_a_run_that_goes_on_gives_the_same_numbers(monkeypatch, tmp_path, kind, private):
    monkeypatch.setattr(PrivateBoundary, "_noised", known_noise)
    whole = a_run(kind, private)
    assert np.abs(whole.state["seen.running"]).max() > 0
    # Without noise the look is in round 4 and the pause lasts until round 8; in private the rounds are the head's.
    for stop in (2, 5, 7, 9, 12, 15, 27):
        part = a_run(kind, private, callback=lambda progress, stop=stop: progress.t == stop)
        assert part.t == stop
        part.save(tmp_path / f"{stop}")
        again = a_run(kind, private, resume=gs.Record.load(tmp_path / f"{stop}"))
        for name, value in whole.state.items():
            np.testing.assert_array_equal(again.state[name], value, err_msg=f"{name}, stopped in round {stop}")
        if private:
            np.testing.assert_array_equal(again.epsilon, whole.epsilon)
            with pytest.raises(NotResumedError, match="gone on from already"):
                a_run(kind, private, resume=gs.Record.load(tmp_path / f"{stop}"))


def test_a_record_knows_nothing_of_the_frame_before_learning_begins():
    part = a_run("logistic", True, callback=lambda progress: progress.t == 13)
    assert not [name for name in part.state if name.startswith("seen.")]


# -- what it costs -----------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 7), st.integers(0, 60), st.integers(0, 12), st.integers(0, 9),
    st.sampled_from([1.0, 1.1, 1.7]), st.sampled_from([math.inf, 1, 5, 40]), st.integers(0, 150),
)  # fmt: skip
def test_a_schedule_with_a_head_agrees_with_brute_force(step, after, head, pause, ratio, lasts, rounds):
    after += head + pause
    until = after + lasts
    releases = Releases(1 if ratio > 1 else step, after, ratio, until, head, pause)
    by_hand, t = list(range(after - pause - head, after - pause)), after
    while t < min(until, 400):
        by_hand.append(t)
        t = max(t + (1 if ratio > 1 else step), math.ceil(ratio * (t + 1)) - 1)
    inside = [t for t in by_hand if t < rounds]
    assert releases.before(rounds).tolist() == inside
    assert releases.count(rounds) == len(inside)
    assert [t for t in range(rounds) if releases.includes(t)] == inside
    assert releases.first.tolist() == by_hand[:head]
    assert releases.learning(rounds).tolist() == [t for t in inside if t >= after]


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("releases", [HEAD, Releases(1, 20, head=6, pause=0), Releases(1, 12, 1.4, head=3, pause=2)])
def test_the_ledger_books_moments_as_it_books_gradients(law, releases):
    squared, counts, pace = law == "gaussian", [12, 9, 16, 10], [1, 1, 2, 3]
    stream, _ = stream_of("logistic", counts, per_round=pace)
    model = model_of("logistic", gs.clip_l2(0.5) if squared else gs.clip_l1(0.5))
    made = gs.Gaussian if squared else gs.Laplace
    mechanism = made(gs.decay(0.7, 0.2), "source", releases=releases, **({"delta": 1e-5} if squared else {}))
    setting = setting_of(gs.ldp_gradient_tracking(gs.decay(0.5, 0.6)), RING, stream, model, "history", 40)
    rounds = [*range(releases.after - releases.pause - releases.head, releases.after - releases.pause)]
    t = releases.after
    while t < 40:
        rounds.append(t)
        t = max(t + releases.step, math.ceil(releases.ratio * (t + 1)) - 1)
    for terms, n, N in zip(mechanism.terms(setting), counts, pace, strict=True):
        shifts = [2 * 0.5 / min(N * (t + 1), n) / (0.7 / (t + 1) ** 0.2) for t in rounds]
        by_hand = sum(x**2 if squared else x for x in shifts)
        assert total(terms, 40, squared) == pytest.approx(by_hand, rel=1e-8)
        assert total(terms, 40, squared) >= by_hand
        assert terms.numbers(40) == terms.coordinates * len(rounds)
        assert terms.numbers(math.inf) >= terms.numbers(10_000), "what the grid costs is of all releases"


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_unit_is_as_large_as_the_clipper_allows(norm, k):
    a = np.linspace(-1, 1, 20_001)
    largest = (np.abs(a) + np.abs(a**2 - 1)).max() * k if norm == 1 else math.sqrt((a**2 + (a**2 - 1) ** 2).max() * k)
    assert Standardise(tuple(range(k))).unit(0.3, norm) * largest == pytest.approx(0.3, rel=1e-8)
    assert Standardise(tuple(range(k))).unit(0.3, norm) * largest <= 0.3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("far", [1.0, 3.0, 1e9, 1e200, 1e307])
def test_whatever_a_record_holds_what_is_released_of_it_is_no_longer_than_c(kind, norm, far):
    X, rng = records_of(20)
    y = labels_of(kind, X, rng)
    X[:10, :2] *= far
    y = y * far if kind == "quantity" else y
    memory = model_of(kind, gs.models.Clip(norm, 0.5)).memory(dense_table(X, y), "history", np.ones(20, dtype=int))
    memory.prepare(Looks(1, 1, 2, np.full(20, 1e-9)))
    with np.errstate(over="ignore", invalid="ignore"):
        memory.observe(Batch(X, y, np.ones(20, dtype=int)))
        size = memory.about.extra + 4 * (3 if kind == "softmax" else 1)
        theta = rng.normal(size=(20, size)) * 10.0 ** rng.uniform(-3, 90, size=(20, 1))
        theta[:5, -1] = 1e-300  # a neighbour's doing: moments that overflow
        for t in (1, 2, 3):
            released = memory.seen(theta, t)
            assert np.isfinite(released).all()
            assert np.linalg.norm(released, norm, axis=1).max() <= 0.5


def test_a_label_that_is_no_number_hides_nothing_and_breaks_nothing():
    X, _ = records_of(4)
    y = np.array([math.nan, math.inf, -math.inf, 0.5])
    memory = model_of("quantity", gs.clip_l2(0.5)).memory(dense_table(X, y), "history", np.array([4]))
    memory.prepare(Looks(0, 0, 1, np.full(1, 1e-9)))
    memory.observe(Batch(X, y, np.array([4])))
    for t in (0, 1):
        released = memory.seen(np.zeros((1, 11)), t)
        assert np.isfinite(released).all()
        assert np.linalg.norm(released) <= 0.5


def test_numbers_that_are_no_columns_or_codes_are_refused():
    digits = np.zeros((4, 2), dtype=np.uint8)
    packed = gs.streams.from_arrays([digits], [np.zeros(4)], ranges=(0, 1)).table
    for table, columns, said in (
        (packed, (0,), "packed"), (dense_table(np.ones((4, 2)), np.zeros(4)), (2,), "columns"),
        (dense_table(np.ones((4, 2)), np.zeros(4)), (1, 1), "each once"),
        (Table(digits, np.zeros(4), None, 2), (0,), "packed"),
    ):  # fmt: skip
        model = gs.LogisticRegression(standardise=Standardise(columns))
        with pytest.raises(gs.GossamerError, match=said):
            model.memory(table, "history", np.array([4]))


@pytest.mark.parametrize("given", [{"head": 1.5}, {"head": -1}, {"pause": -2}, {"head": 8, "pause": 3}, {"head": True}])
def test_a_head_that_is_no_number_of_rounds_is_refused(given):
    with pytest.raises(gs.GossamerError, match="releases"):
        Releases(1, 10, **given)


def test_weights_by_records_are_refused_where_messages_are_noised():
    """A gradient that counts 1.6 times moves messages 1.6 times as far as the recursion says."""
    given = {"model": gs.LogisticRegression(0.1, gs.clip_l1(0.5)), "privacy": gs.Laplace.for_budget(1.0), "steps": 5}
    algorithm = gs.ldp_gradient_tracking(gs.decay(0.5, 0.8))
    for weight in ("equal", "records"):
        stream, _ = stream_of("logistic", [20, 5, 10, 15], per_round=[4, 1, 2, 3], weight=weight)
        if weight == "equal":
            assert (gs.simulate(algorithm, RING, stream, **given).epsilon.spent <= 1).all()
            continue
        with pytest.raises(gs.GossamerError, match="weight"):
            gs.simulate(algorithm, RING, stream, **given)


def test_what_is_not_proved_is_refused():
    stream, _ = stream_of("logistic", [12, 9, 16, 10])
    undeclared = stream.table.__class__(**{**vars(stream.table), "undeclared": "ranges were read off the data."})
    read = OnePass(undeclared, [np.arange(40)[i::4] for i in range(4)])
    algorithm = gs.ldp_gradient_tracking(gs.decay(0.5, 0.6))

    def refused(stream=stream, clip=None, privacy=PRIVATE, **given):
        with pytest.raises(gs.GossamerError) as said:
            gs.simulate(algorithm, RING, stream, model=model_of("logistic", clip), privacy=privacy, steps=9, **given)
        return str(said.value)

    assert "read off the data" in refused(read, gs.clip_l2(0.5))
    assert "nothing bounds" in refused()
    assert "clips in L1" in refused(clip=gs.clip_l1(0.5))
    assert "per record" in refused(clip=gs.clip_l2(0.5, per="round"))
    assert "history" in refused(clip=gs.clip_l2(0.5), gradient="latest")
    assert "source alone" in refused(clip=gs.clip_l1(0.5), privacy=gs.Laplace.for_budget(1.0))
