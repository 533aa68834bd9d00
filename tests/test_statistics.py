"""Least squares without a clipper: sums over records in place of the records, to the same gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.automatic import found_step
from gossamer.datasets.regression import regression
from gossamer.models.memory import LinearMemory
from gossamer.models.standard import Standardise, usual_looks
from gossamer.models.statistics import MOST_COLUMNS, StatisticsMemory
from gossamer.models.tensor_statistics import TensorStatistics
from gossamer.peers.journal import Journal
from gossamer.peers.party import Party
from gossamer.peers.turns import rounds_kept
from gossamer.privacy import Unproved
from gossamer.records import Batch, FeatureBounds, dense_rows
from gossamer.setting import setting_of
from gossamer.streams import from_arrays

MODEL = gs.RidgeRegression(l2=0.1)
FEATURES = {
    "dense": lambda rng, shape: rng.normal(size=shape),
    "bits": lambda rng, shape: rng.random(shape) < 0.5,
    "sparse bits": lambda rng, shape: rng.random(shape) < 0.05,
}


def stream_of(kind="dense", per_round=(3, 1, 7), T=40, n=23, seed=0):
    rng = np.random.default_rng(seed)
    X = [FEATURES[kind](rng, (T * count, n)) for count in per_round]
    return from_arrays(X, [rng.normal(size=len(part)) for part in X], per_round=list(per_round))


def observed(stream, rounds, model=MODEL):
    memory = model.memory(stream.table, "history", stream.room(rounds))
    for t in range(rounds):
        memory.observe(stream.arrivals(t))
    return memory


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_the_gradient_is_the_mean_over_all_records_so_far(kind, scale):
    stream, rng = stream_of(kind), np.random.default_rng(1)
    if kind != "dense":
        object.__setattr__(stream.table, "scale", scale)
    rows, labels = dense_rows(stream.table), stream.table.labels
    owned, theta = np.cumsum([0, *stream.room(40)]), rng.normal(size=(3, 23))
    for rounds in (1, 2, 40):
        memory = observed(stream, rounds)
        assert isinstance(memory, StatisticsMemory)
        by_records = LinearMemory(MODEL, stream.table, "history", stream.room(rounds))
        for t in range(rounds):
            by_records.observe(stream.arrivals(t))
        for i, count in enumerate(stream.room(rounds)):
            a, b = rows[owned[i] : owned[i] + count], labels[owned[i] : owned[i] + count]
            mean = a.T @ (a @ theta[i] - b) / count
            np.testing.assert_allclose(memory.gradient(theta)[i], mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(memory.gradient(theta), by_records.gradient(theta), rtol=0, atol=1e-12)


def test_bytes_of_rows_are_not_added_as_bytes():
    """Products of small whole numbers overflow where they are kept as such."""
    X = np.full((1, 5, 2), 250, dtype=np.uint8)
    table = from_arrays(X.astype(float), np.zeros((1, 5))).table
    memory = MODEL.memory(table, "history", np.array([5]))
    memory.observe(Batch(X[0], np.zeros(5), np.array([5])))
    np.testing.assert_array_equal(memory.gradient(np.ones((1, 2))), np.full((1, 2), 2 * 250.0**2))


def test_nothing_grows_with_the_rounds():
    stream = stream_of(T=400)
    few, many = observed(stream, 4), observed(stream, 400)
    held = [sum(v.nbytes for v in vars(m).values() if isinstance(v, np.ndarray)) for m in (few, many)]
    assert held[0] == held[1] == 8 * 3 * (23 * 23 + 23 + 1)
    assert not many.kept()


@pytest.mark.parametrize("kind", FEATURES)
def test_sums_are_the_same_bytes_however_records_come_and_whoever_else_is_there(kind):
    """A simulation's block of three, one learner by itself, one record at a time, or all at once."""
    stream, rng = stream_of(kind), np.random.default_rng(2)
    together, theta = observed(stream, 40), rng.normal(size=(3, 23))
    starts = np.cumsum([0, *stream.room(40)])
    for i in range(3):
        own = slice(starts[i], starts[i + 1])
        rows, labels = stream.table.rows[own], stream.table.labels[own]
        for at_once in (1, 2, 5, len(labels)):
            alone = MODEL.memory(stream.table, "history", np.array([1]))
            for k in range(0, len(labels), at_once):
                some = labels[k : k + at_once]
                alone.observe(Batch(rows[k : k + at_once], some, np.array([len(some)])))
            assert (alone.squares == together.squares[i]).all()
            assert (alone.products == together.products[i]).all()
            assert (alone.gradient(theta[[i]]) == together.gradient(theta)[i]).all()


def test_records_are_kept_with_a_clipper_for_the_latest_and_for_very_many_columns():
    table = stream_of().table
    for model, keep in ((gs.RidgeRegression(clip=gs.clip_l2(1.0)), "history"), (MODEL, "latest")):
        assert isinstance(model.memory(table, keep, np.array([1])), LinearMemory)
    wide = from_arrays(np.zeros((1, 1, MOST_COLUMNS + 1)), np.zeros((1, 1))).table
    assert isinstance(MODEL.memory(wide, "history", np.array([1])), LinearMemory)


def test_what_is_refused_of_other_memories_is_refused():
    table = stream_of().table
    object.__setattr__(table, "classes", 2)  # labels that were not declared
    with pytest.raises(gs.GossamerError, match="expected one of the 2 declared"):
        MODEL.memory(table, "history", np.array([1]))
    with pytest.raises(gs.GossamerError, match="expected 'history'"):
        MODEL.memory(stream_of().table, "newest", np.array([1]))


def test_sums_of_very_many_learners_are_not_kept():
    """A choice by learners and columns alone: 2^28 numbers, whatever the length of the run."""
    table = from_arrays(np.zeros((1, 1, 512)), np.zeros((1, 1))).table
    assert MODEL._sums(table, "history", np.ones(1024, dtype=int))
    assert not MODEL._sums(table, "history", np.ones(1025, dtype=int))
    assert not MODEL._sums(table, "history", np.full(1025, 10**6))


@pytest.mark.parametrize("kind", ["dense", "sparse bits"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_on_tensors_sums_give_the_same_gradients_and_models(kind, dtype):
    pytest.importorskip("torch", reason="needs the extra `nn`")
    stream, rng = stream_of(kind, per_round=(3, 3, 7)), np.random.default_rng(1)
    model, near = gs.RidgeRegression(l2=0.1, arrays=gs.tensors("cpu", dtype)), 1e-11 if dtype == "float64" else 1e-4
    theta, memory, held = rng.normal(size=(3, 23)), model.memory(stream.table, "history", stream.room(1)), set()
    assert isinstance(memory, TensorStatistics)
    for t in range(40):
        memory.observe(stream.arrivals(t))
        held.add(memory.squares.nbytes + memory.products.nbytes)
    found = model.arrays.to_numpy(memory.gradient(model.arrays.make(theta)))
    np.testing.assert_allclose(found, observed(stream, 40).gradient(theta), rtol=0, atol=near)
    assert held == {8 * 3 * 23 * 24}
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(0.02, 0.6))
    runs = [
        gs.simulate(algorithm, gs.Network.ring(3), stream, model=one, steps=60, evaluate_every=30)
        for one in (model, MODEL)
    ]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=0, atol=10 * near)


def test_on_tensors_records_are_kept_where_sums_do_not_do():
    pytest.importorskip("torch", reason="needs the extra `nn`")
    table, arrays = stream_of().table, gs.tensors("cpu", "float64")
    for model, keep in ((gs.RidgeRegression(clip=gs.clip_l2(1.0), arrays=arrays), "history"),
                        (gs.RidgeRegression(arrays=arrays), "latest")):  # fmt: skip
        assert not isinstance(model.memory(table, keep, np.ones(3, dtype=int)), TensorStatistics)


class ByRecords(gs.RidgeRegression):
    def memory(self, table, keep, room):
        return LinearMemory(self, table, keep, room)


def test_a_simulation_gives_the_same_models_and_goes_on_where_it_stopped():
    stream, net = stream_of(T=60), gs.Network.ring(3)
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(0.02, 0.6))

    def run(model, **more):
        return gs.simulate(algorithm, net, stream, model=model, steps=60, evaluate_every=20, **more)

    whole, by_records = run(MODEL), run(ByRecords(l2=0.1))
    np.testing.assert_allclose(whole.theta, by_records.theta, rtol=1e-11, atol=1e-12)
    half = run(MODEL, callback=lambda progress: progress.t == 31)
    assert half.t == 31
    np.testing.assert_array_equal(run(MODEL, resume=half).theta, whole.theta)


class Feed:
    def __init__(self, stream, i):
        self._stream, self._i = stream, i

    def here(self, t):
        return True

    def read(self, t):
        return ""

    def arrivals(self, t):
        batch = self._stream.arrivals(t)
        ends = np.cumsum([0, *batch.counts])
        own = slice(ends[self._i], ends[self._i + 1])
        return Batch(batch.rows[own], batch.labels[own], batch.counts[[self._i]])


def sent_by_parties(folder, stream, steps, ends_after=None, model=MODEL):
    """Everything that three parties send, each message's bytes; one starts anew after the round given, if any."""
    net, algorithm = gs.Network.ring(3), gs.ldp_gradient_tracking(step=gs.decay(0.02, 0.6))
    size, journals, parties, sent = model.theta_size(stream.table.columns), {}, {}, {}

    def start(i):
        journals[i] = Journal(folder / f"{i}.db", "run", i, "settings", "process", rounds_kept(size, "f8", 0))
        memory = model.memory(stream.table, "history", np.array([1]))
        if model.standardise is not None:
            memory.prepare(usual_looks(steps, 4, 1))
        parties[i] = Party(
            i, algorithm, net, Feed(stream, i), memory, Unproved(None), journals[i], size=size, steps=steps,
            ridge=model.ridge(stream.table.columns),
        )  # fmt: skip

    for i in range(3):
        start(i)
    for t in range(steps):
        if t == ends_after:
            journals[1].close()
            start(1)
        messages = {i: dict(party.journal.messages()[t]) for i, party in parties.items()}
        for i, party in parties.items():
            sent[t, i] = messages[i]
            for sender, channel in party.expected(t):
                party.receive(sender, t, channel, messages[sender][channel])
        for party in parties.values():
            for j in party._outbox.used:
                party._outbox.used[j] = t - 1
            party.advance()
    states = {i: party.state.theta for i, party in parties.items()}
    for journal in journals.values():
        journal.close()
    return sent, states


def test_a_party_that_starts_again_sends_the_same_bytes_and_what_a_simulation_sends(tmp_path):
    stream, steps = stream_of(T=25), 25
    for name in ("whole", "torn"):
        (tmp_path / name).mkdir()
    whole, states = sent_by_parties(tmp_path / "whole", stream, steps)
    torn, _ = sent_by_parties(tmp_path / "torn", stream, steps, ends_after=14)
    assert whole == torn
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(0.02, 0.6))
    run = gs.simulate(algorithm, gs.Network.ring(3), stream, model=MODEL, steps=steps)
    np.testing.assert_allclose(np.vstack([states[i] for i in range(3)]), run.theta, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("clip", [None, gs.clip_l2(1.0)])
@pytest.mark.parametrize("ends_after", [2, 4, 5, 7, 9, 20, 39])
def test_a_party_that_standardises_starts_again_in_any_phase_with_the_same_bytes(tmp_path, clip, ends_after):
    """Before and in the round of moments (4), in the pause after it, and while it learns from its records' look."""
    stream, steps = stream_of(T=25), 40
    model = replace(MODEL, clip=clip, standardise=Standardise((0, 2), True, 3.0))
    for name in ("whole", "torn"):
        (tmp_path / name).mkdir()
    whole, states = sent_by_parties(tmp_path / "whole", stream, steps, model=model)
    torn, _ = sent_by_parties(tmp_path / "torn", stream, steps, ends_after, model)
    assert whole == torn
    assert all(np.abs(theta[0, : stream.table.columns]).max() > 0 for theta in states.values())


# -- steps for a quantity whose range is declared ----------------------------------------------------------------------


def found(table, clip, privacy=None, steps=200):
    stream = gs.streams.OnePass(table, [np.arange(i, len(table), 3) for i in range(3)])
    algorithm, net = gs.ldp_gradient_tracking(step="auto"), gs.Network.ring(3)
    model = gs.RidgeRegression(clip=None if clip is None else gs.clip_l2(clip))
    privacy = privacy or gs.Gaussian.for_budget(0.3, 1e-5, where="source", horizon=steps)
    setting = lambda: setting_of(algorithm, net, stream, model, "history", steps)  # noqa: E731
    return found_step(algorithm, net, model, table, privacy, steps, setting)


def test_with_a_declared_range_noise_moves_margins_by_a_share_of_it_whatever_the_clipper():
    """Noise is in proportion to c: λ0 c is the same for every c where noise decides, and grows with the range."""
    table = stream_of(per_round=(1, 1, 1), T=200, n=4).table
    table = replace(table, bounds=FeatureBounds(4.0, 2.0, 1.0), rows=np.clip(table.rows, -1, 1))
    unit, twice = (replace(table, half_range=half) for half in (0.05, 0.1))
    steps = [clip * found(unit, clip) for clip in (3.0, 6.0, 12.0)]
    np.testing.assert_allclose(steps, steps[0], rtol=0.01)
    np.testing.assert_allclose(found(twice, 6.0), 2 * found(unit, 6.0), rtol=0.01)
    assert found(table, 6.0) == found(replace(table, half_range=0.0), 6.0)


def test_a_declared_target_says_its_range_and_one_read_off_the_data_does_not(tmp_path):
    path = tmp_path / "records.csv"
    path.write_text("a,y\n" + "".join(f"{k},{2 * k}\n" for k in range(8)))

    def half(**declared):
        return gs.streams.from_csv(path, "y", 2, regression=True, ranges=declared).table.half_range

    assert half(a=(0, 10), y=(0, 20)) == 1.0
    assert half(a=(0, 10)) == 0.0
    assert regression().table.half_range == 0.5


def test_an_automatic_step_is_found_without_a_clipper_too():
    """Noise at the source that makes no claim needs none."""
    table = stream_of(per_round=(1, 1, 1), T=200, n=4).table
    table = replace(table, bounds=FeatureBounds(4.0, 2.0, 1.0), rows=np.clip(table.rows, -1, 1))
    assert found(table, None, gs.privacy.simulated(gs.decay(0.1, 0.0), where="source")) > 0
