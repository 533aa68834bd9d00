"""Linear models on torch's tensors against NumPy's arrays, and a GPU's one-pass rounds against whole ones.

A GPU's kernel runs where there is a GPU; benchmarks/large.py check is the same for a machine without pytest.
"""

from __future__ import annotations

import importlib
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gossamer as gs
from gossamer.algorithms import METHODS, find_method
from gossamer.arrays import NUMPY, Tensors
from gossamer.networks import network as network_module
from gossamer.privacy import Unproved, simulated
from gossamer.records import binary_table, dense_table
from gossamer.rounds import Rounds
from gossamer.simulate import passing
from gossamer.simulate.mixer import Mixer
from gossamer.simulate.play import Whole, one_round, play_of
from gossamer.streams.stream import Draws

torch = pytest.importorskip("torch", reason="needs the extra `nn`")

MODELS: dict[str, Any] = {
    "logistic": (gs.LogisticRegression, 2, {}),
    "softmax": (gs.SoftmaxRegression, 3, {"classes": 3}),
    "ridge": (gs.RidgeRegression, 2, {}),
}
CLIPS = {"no clipper": None, "records": gs.clip_l2(0.3), "rounds": gs.clip_l2(0.1, per="round")}
REFUSED = ("rounds", "history")


CASES = [(clip, gradient) for clip in CLIPS for gradient in ("latest", "history") if (clip, gradient) != REFUSED]


def stream_of(m: int, n: int, classes: int = 2, per_round: int = 2) -> Draws:
    rng = np.random.default_rng(0)
    table = dense_table(rng.normal(size=(2 * m, n)), rng.integers(0, classes, 2 * m).astype(float))
    return Draws(table, list(np.arange(2 * m).reshape(m, 2)), seed=0, per_round=per_round)


@pytest.mark.parametrize("m", [30, 140], ids=["dense", "sparse"])
@pytest.mark.parametrize(("clip", "gradient"), CASES)
@pytest.mark.parametrize("name", MODELS)
def test_a_run_on_tensors_is_the_run_on_arrays(name: str, clip: str, gradient: Any, m: int) -> None:
    """In float64 to 1e-10; in float32, of 24 bits, to 1e-5."""
    make, classes, more = MODELS[name]
    net, method = gs.Network.random(m, degree=3), gs.ldp_gradient_tracking(gs.decay(0.05, 0.6))

    def theta(**arrays: Any) -> Any:
        model = make(l2=0.01, clip=CLIPS[clip], intercept=True, **more, **arrays)
        run = gs.simulate(
            method, net, stream_of(m, 6, classes), model=model, steps=5, gradient=gradient, evaluate_every=5
        )
        return run.theta

    there = theta()
    for dtype, off in (("float64", 1e-10), ("float32", 1e-5)):
        here = theta(arrays=gs.tensors("cpu", dtype))
        assert here.dtype == dtype
        np.testing.assert_allclose(here, there, rtol=0, atol=off * np.abs(there).max())


def test_learners_with_unlike_numbers_of_records_and_packed_ones() -> None:
    """Room that is not filled adds nothing; codes are unpacked; the newest records take the place of those before."""
    rng, counts = np.random.default_rng(1), [1, 3, 2, 5]
    X = rng.integers(0, 2, size=(11, 7))
    order = np.split(np.arange(11), np.cumsum(counts)[:-1])
    stream = gs.streams.stream.OnePass(binary_table(X, (X.sum(axis=1) > 3).astype(float)), order, [1, 2, 1, 3])
    theta = rng.normal(size=(4, 7))
    for keep in ("latest", "history"):
        plain, model = (gs.LogisticRegression(), gs.LogisticRegression(arrays=gs.tensors("cpu", "float64")))
        one, other = (each.memory(stream.table, keep, stream.room(2)) for each in (plain, model))  # type: ignore[arg-type]
        for t in range(2):
            for memory in (one, other):
                memory.observe(stream.arrivals(t))
            wanted: Any = one.gradient(theta)
            got: Any = other.gradient(torch.from_numpy(theta))
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-13, atol=1e-15)


def test_a_run_on_tensors_goes_on_where_it_stopped(tmp_path: Any) -> None:
    net, method = gs.Network.random(20), gs.ldp_gradient_tracking(gs.decay(0.1, 0.6))
    model = gs.LogisticRegression(l2=0.01, arrays=gs.tensors("cpu", "float64"))

    def run(steps: int, **more: Any) -> Any:
        return gs.simulate(method, net, stream_of(20, 4), model=model, steps=steps, evaluate_every=3, **more)

    run(3).save(tmp_path / "half")
    whole, gone_on = run(6), run(6, resume=gs.Record.load(tmp_path / "half"))
    np.testing.assert_array_equal(gone_on.theta, whole.theta)


def test_nothing_is_claimed_of_tensors() -> None:
    model = gs.LogisticRegression(clip=gs.clip_l2(1.0), arrays=gs.tensors("cpu", "float64"))
    X, y = np.zeros((10, 4, 3)), np.zeros((10, 4))
    for where in ("source", "messages"):
        with pytest.raises(gs.NotProvable, match="these are tensors"):
            gs.simulate(
                gs.ldp_gradient_tracking(gs.decay(0.1, 0.8)), gs.Network.paper(), gs.streams.from_arrays(X, y),
                model=model, privacy=gs.Gaussian.for_budget(1.0, 1e-5, where=where), steps=3,
            )  # fmt: skip


def test_what_tensors_cannot_be_is_refused() -> None:
    with pytest.raises(gs.BadValue, match="expected float32 or float64"):
        gs.tensors("cpu", "float16")
    with pytest.raises(gs.BadValue, match="expected cpu, cuda"):
        gs.tensors("nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(gs.BadValue, match="torch sees no GPU here"):
            gs.tensors("cuda")
    model = gs.LogisticRegression(clip=CLIPS["rounds"], arrays=gs.tensors())
    with pytest.raises(gs.GossamerError, match="clipping per round needs"):
        model.memory(stream_of(4, 2).table, "history", np.ones(4, dtype=np.int64))


def test_arrays_are_no_part_of_what_a_record_says_of_a_model() -> None:
    assert repr(gs.LogisticRegression(arrays=gs.tensors())) == repr(gs.LogisticRegression())
    assert pickle.loads(pickle.dumps(gs.LogisticRegression())) == gs.LogisticRegression()
    assert pickle.loads(pickle.dumps(NUMPY)) is NUMPY


@pytest.mark.parametrize("name", METHODS.entries())
def test_a_round_never_brings_a_tensor_back(name: str) -> None:
    """On torch's meta device, which has no numbers to bring back: what would wait for a GPU fails here."""
    kind = Tensors(torch.float32, torch.device("meta"))
    column, ridge = torch.empty(3, 1, device="meta"), torch.empty(1, 4, device="meta")
    assert kind.add_scaled(column, ridge, column).shape == (3, 4)
    net, stream, method = gs.Network.random(30), stream_of(30, 4), find_method(name).build(0.1)
    for make, _, more in MODELS.values():
        model = make(l2=0.1, intercept=True, arrays=kind, **more)
        n = 4 * model.outputs
        for keep in ("latest", "history"):
            rows = net.rows(mixes=method.mixes).of_kind(kind)
            memory, state = model.memory(stream.table, keep, stream.room(1)), method.init(rows, model.start(30, 0, 4))
            rounds = Rounds(method, rows, memory, Unproved(None), model.ridge(4), finite=False)
            after = one_round(rounds, Mixer(net, method.mixes, kind), state, stream.arrivals(0), 0)
            assert after.theta.shape == (30, n)


@pytest.mark.parametrize("name", METHODS.entries())
def test_a_table_of_a_few_numbers_is_a_method(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel computes, in float64 on a CPU: (fields, gradient, arrivals) times the table is the next state."""
    monkeypatch.setattr(network_module, "ITERATED_UP_TO", 10)
    m, n, kind = 40, 3, gs.tensors("cpu", "float64")
    net, method, rng = gs.Network.random(m), find_method(name).build(0.1), np.random.default_rng(0)
    rows = net.rows(mixes=method.mixes).of_kind(kind)
    form = passing.form_of(method, net.rows(mixes=method.mixes))
    assert form is not None
    state = method.init(rows, kind.make(np.zeros((m, n))))
    given = [kind.make(rng.normal(size=(m, n))) for _ in range(len(form.wide) + 1 + len(form.channels))]
    for t in (0, 7):
        wanted = passing._stepped(method, form, rows, state, given, t)
        units = list(torch.eye(len(given), dtype=kind.dtype)[:, None])
        table = passing._stepped(method, form, rows, state, units, t)
        for field in form.wide:
            one = getattr(table, field).expand(m, -1)
            made = sum(one[:, k : k + 1] * value for k, value in enumerate(given))
            np.testing.assert_allclose(made, getattr(wanted, field), rtol=1e-12, atol=1e-12)


def test_a_method_that_cuts_numbers_off_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "ITERATED_UP_TO", 10)
    net, linear = gs.Network.random(40), find_method("dsgd").build(0.1)

    def boxed(*given: Any) -> Any:
        after = linear.step(*given)
        return after._replace(theta=after.theta.clip(-1.0, 1.0))

    rows = net.rows(mixes=linear.mixes)
    assert passing.form_of(linear, rows) is not None
    assert passing.form_of(replace(linear, step=boxed), rows) is None


@pytest.mark.parametrize("noise", [None, simulated(gs.decay(0.1, 0.6))], ids=["no noise", "noise"])
@pytest.mark.parametrize("name", METHODS.entries())
def test_one_pass_on_a_gpu_is_a_whole_round(name: str, noise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="comes with torch for CUDA")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    monkeypatch.setattr(network_module, "ITERATED_UP_TO", 10)
    m, n, kind, method = 140, 5, gs.tensors("cuda", "float64"), find_method(name).build(0.1)
    net, stream = gs.Network.random(m, degree=4), stream_of(m, n)
    rows, ends = net.rows(mixes=method.mixes).of_kind(kind), []
    for fast in (True, False):
        model = gs.LogisticRegression(l2=0.1, intercept=True, arrays=kind)
        memory = model.memory(stream.table, "latest", stream.room(1))
        state = method.init(rows, kind.make(np.random.default_rng(2).normal(size=(m, n))))
        rounds = Rounds(method, rows, memory, Unproved(noise), model.ridge(n), finite=False)
        play: Any = Whole(rounds, Mixer(net, method.mixes, kind))
        if fast:
            play = play_of(method, net, rows, model, memory, model.ridge(n), None, noise, rounds, state, 0)
            assert isinstance(play, importlib.import_module("gossamer.simulate.passing").Passes)
        for t in range(3):
            state = play(state, stream.arrivals(t), t)
        ends.append(state.theta.cpu().numpy())
    np.testing.assert_allclose(*ends, rtol=1e-11, atol=1e-13)
