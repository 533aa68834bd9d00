"""Networks that carry records from a round to the next make no claim, and learners share nothing."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs

torch = pytest.importorskip("torch", reason="needs the extra `nn`")
from torch import nn  # noqa: E402

from gossamer.models.torch import NeuralNetwork, clip_rows  # noqa: E402
from gossamer.privacy.recursion import GradientBound, sensitivities  # noqa: E402
from gossamer.privacy.source import shifts_of  # noqa: E402
from gossamer.setting import setting_of  # noqa: E402


class Keeps(nn.Module):
    """Subtracts a running mean that lives in an attribute."""

    def __init__(self):
        super().__init__()
        self.line, self.mean = nn.Linear(3, 2), 0.0

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.line(x - self.mean)


class ReadsRunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.line = nn.BatchNorm1d(3), nn.Linear(3, 2)

    def forward(self, x):
        return self.line(self.norm(x) - self.norm.running_mean)


class FreezesLater(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.line = nn.BatchNorm1d(3), nn.Linear(3, 2)

    def forward(self, x):
        out = self.line(self.norm(x))
        self.norm.eval()
        return out


class Renorm(nn.BatchNorm1d):
    pass


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.zeros(2))

    def forward(self, out, labels):
        self.centre = 0.9 * self.centre + 0.1 * out.detach().mean(0)
        return nn.functional.cross_entropy(out - self.centre, labels)


def network(build, per="round", **given):
    return NeuralNetwork(build, shape=(3,), clip=gs.clip_l1(1.0, per=per), dtype=torch.float64, **given)


@pytest.mark.parametrize("build", [Keeps, ReadsRunningMean, FreezesLater], ids=lambda build: build.__name__)
def test_what_remembers_records_is_found_out(build):
    with pytest.raises(gs.GossamerError, match="gives another gradient for the same records once it has seen others"):
        network(build).reach(None, 1)


def test_what_remembers_is_found_where_each_record_is_clipped_too():
    with pytest.raises(gs.GossamerError, match="once it has seen others"):
        network(Keeps, per="record").reach(None, 1)


def test_a_relative_of_batchnorm_and_a_loss_with_buffers_make_no_claim():
    with pytest.raises(gs.GossamerError, match="has buffers in"):
        network(lambda: nn.Sequential(Renorm(3), nn.Linear(3, 2))).reach(None, 1)
    with pytest.raises(gs.GossamerError, match="the loss has parameters or buffers"):
        network(lambda: nn.Linear(3, 2), loss=Centred()).reach(None, 1)


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Linear(3, 2),
        lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)),
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.LayerNorm(4), nn.Linear(4, 2)),
    ],
    ids=["line", "BatchNorm", "Dropout and LayerNorm"],
)
def test_what_forgets_keeps_its_claim(build):
    assert network(build).reach(None, 1).c == 1.0


def test_learners_share_no_part_of_their_modules():
    shared = nn.Linear(3, 3)
    model = network(lambda: nn.Sequential(shared, nn.Tanh(), nn.Linear(3, 2)))
    stream = gs.streams.from_arrays(np.zeros((2, 2, 3)), np.array([[0, 1], [1, 0]]))
    with pytest.raises(gs.GossamerError, match="gives the same module, or a part of it, again"):
        model.memory(stream.table, "latest", stream.room(1))


def test_modules_learn_in_training_mode_whatever_build_says():
    model = network(lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)).eval())
    stream = gs.streams.from_arrays(np.zeros((2, 2, 3)), np.array([[0, 1], [1, 0]]), per_round=2)
    memory = model.memory(stream.table, "latest", stream.room(1))
    assert all(layer.training for module in memory.modules for layer in module.modules())


@pytest.mark.parametrize("c", [1e-3, 1e-13, 4e-16, 1e-30])
def test_a_norm_near_the_largest_number_is_clipped_to_no_more_than_c(c):
    """c/norm is subnormal there, and left up to twice c."""
    rows = torch.tensor([[1.7e308, 1e292, 0.0], [3.0, 4.0, 0.0], [1e99, 0.0, 0.0]], dtype=torch.float64)
    found = clip_rows(rows.clone(), gs.clip_l1(c))
    assert (found.abs().sum(1) <= c).all()
    assert found[1].abs().sum() == pytest.approx(c, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_private_run_in_narrow_numbers_ends_with_its_claim(dtype):
    rng = np.random.default_rng(0)
    stream = gs.streams.from_arrays(rng.normal(size=(3, 6, 3)), rng.integers(0, 2, (3, 6)).astype(float), per_round=2)
    model = NeuralNetwork(lambda: nn.Linear(3, 2), shape=(3,), clip=gs.clip_l2(1.0), dtype=dtype)
    run = gs.simulate(
        gs.dsgd(gs.decay(0.1, 0.6)), gs.Network.ring(3), stream, model=model, gradient="latest", steps=3,
        privacy=gs.Gaussian.for_budget(4.0, 1e-5, where="source"),
    )  # fmt: skip
    assert run.claim.startswith("private")
    assert np.isfinite(run.theta).all()
    with pytest.raises(gs.GossamerError, match="proved for states in float64"):
        gs.simulate(
            gs.dsgd(gs.decay(0.1, 0.6)), gs.Network.ring(3), stream, model=model, gradient="latest", steps=3,
            privacy=gs.Gaussian.for_budget(4.0, 1e-5),
        )  # fmt: skip


@pytest.mark.parametrize("remember", [1, 2, 5])
def test_history_over_the_newest_rounds_is_accounted_as_what_is_computed(remember):
    """A record weighs 1/(min(t+1, r) N) while it is remembered, and nothing after; the ledger said 1/((t+1) N)."""
    N, T, k, c = 2, 12, 6, 1.0
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2, T * N, 3)), rng.integers(0, 2, size=(2, T * N)).astype(float)
    model = network(lambda: nn.Linear(3, 2), per="record", remember=remember)
    streams = [gs.streams.from_arrays(X, y, per_round=N)]
    X, y = X.copy(), y.copy()
    X[0, k * N], y[0, k * N] = -50 * X[0, k * N], 1 - y[0, k * N]
    streams.append(gs.streams.from_arrays(X, y, per_round=N))
    setting = setting_of(gs.dsgd(gs.decay(0.1, 0.6)), gs.Network.ring(2), streams[0], model, "history", T)
    assert setting.window == remember
    memories = [model.memory(stream.table, "history", stream.room(T)) for stream in streams]
    theta, moves = model.start(2, 0), []
    for t in range(T):
        for memory, stream in zip(memories, streams, strict=True):
            memory.observe(stream.arrivals(t))
        one, other = (memory.gradient(theta)[0] for memory in memories)
        moves.append(float((one - other).abs().sum()))
    weight = 1 / (remember * N)
    assert moves[:k] == [0] * k
    assert all(move <= 2 * c * weight * (1 + 1e-12) for move in moves)
    assert 0.5 * weight < moves[k], "and about that much it is"
    assert moves[k + remember :] == [0] * (T - k - remember)
    dynamics = setting.dynamics(0, T)
    x = sensitivities(dynamics, GradientBound(c, np.inf, 0.0, N), float(remember), k)
    assert x[k + 1, 0] == pytest.approx(dynamics.b[k, 0] * 2 * c * weight)


def test_a_window_is_accounted_for_beyond_the_last_record_too():
    """Learners with 7 and 12 records, two a round: the last round of one brings half, and its last two rounds stay."""
    N, T, c, rng = 2, 10, 1.0, np.random.default_rng(0)
    X = [rng.normal(size=(count, 3)) for count in (7, 12)]
    y = [rng.integers(0, 2, size=len(part)).astype(float) for part in X]
    model = network(lambda: nn.Linear(3, 2), per="record", remember=2)
    stream, algorithm = gs.streams.from_arrays(X, y, per_round=N), gs.dsgd(gs.decay(0.1, 0.6))
    setting = setting_of(algorithm, gs.Network.ring(2), stream, model, "history", T)
    terms = gs.Laplace(1.0, "source", releases=gs.every()).terms(setting)
    theta = model.start(2, 0)
    for k in range(6):
        memories, moved = [model.memory(stream.table, "history", stream.room(T)) for _ in range(2)], []
        for t in range(T):
            batch = stream.arrivals(t)
            rows, labels, first = batch.rows.copy(), batch.labels.copy(), np.cumsum(batch.counts) - batch.counts
            for i in np.flatnonzero(batch.counts) if t == k else ():
                rows[first[i]], labels[first[i]] = -50 * rows[first[i]], 1 - labels[first[i]]
            memories[0].observe(batch)
            memories[1].observe(batch._replace(rows=rows, labels=labels))
            one, other = (memory.gradient(theta) for memory in memories)
            moved.append((one - other).abs().sum(dim=1).tolist())
        for i, each in enumerate(terms):
            booked = np.zeros(T)
            if k < -(-len(X[i]) // N):
                booked[k:] = shifts_by_round(each, T, k)
                assert (np.array(moved)[:, i] <= booked * (1 + 1e-9)).all()
                assert ((np.array(moved)[:, i] > 0) == (booked > 0)).all()
    last = shifts_by_round(terms[0], T, 3)
    np.testing.assert_allclose(last, 2 * c / 3 * np.ones(T - 3), rtol=1e-9)  # three records are left, for good


def shifts_by_round(terms, rounds, k):
    """What a record of round k moves each round from k on by, where every round releases."""
    found = shifts_of(terms, rounds, k)
    return np.pad(found, (0, rounds - k - len(found)))
