"""Neural networks: torch and numpy take the same steps, clipping bounds, buffers stay, runs resume exactly."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer import decay
from gossamer.records import dense_table
from gossamer.streams.stream import OnePass

torch = pytest.importorskip("torch", reason="needs the extra `nn`")
from torch import nn  # noqa: E402
from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from gossamer.models.images import resnet18, small_cnn  # noqa: E402
from gossamer.models.torch import NeuralNetwork  # noqa: E402

NET = gs.Network.paper()
METHODS = {
    "ldp_gradient_tracking": lambda: gs.ldp_gradient_tracking(decay(0.5, 0.8), decay(0.1, 0.6)),
    "push_pull": lambda: gs.push_pull(decay(0.3, 0.6), decay(0.1, 0.6)),
    "diadsp": lambda: gs.diadsp(decay(0.1, 0.0), gs.geometric(0.1, 0.9)),
    "tailored_gradient_tracking": lambda: gs.tailored_gradient_tracking(decay(1.0, 0.98), decay(0.1, 0.6)),
    "stochastic_subgradient": lambda: gs.stochastic_subgradient(decay(1.0, 0.5), decay(0.1, 0.6), box=5.0),
    "subgradient_rescaling": lambda: gs.subgradient_rescaling(decay(0.3, 0.8), decay(0.1, 0.6), box=5.0),
    "ldol": lambda: gs.ldol(decay(0.5, 0.8), decay(0.1, 0.6), box=5.0),
    "robust_push_pull": lambda: gs.robust_push_pull(decay(0.1, 0.0), decay(0.1, 0.6)),
    "wang_basar": lambda: gs.wang_basar(decay(0.5, 0.9), decay(0.1, 0.6)),
    "dsgd": lambda: gs.dsgd(decay(0.5, 0.8), decay(0.1, 0.6)),
}


class OneOutput(nn.Module):
    """Logistic regression as a module, started at 0."""

    def __init__(self, n):
        super().__init__()
        self.line = nn.Linear(n, 1, bias=False)
        nn.init.zeros_(self.line.weight)

    def forward(self, x):
        return self.line(x)[:, 0]


def numbers(seed=0, rounds=12, per_round=3, n=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10, rounds * per_round, n))
    y = (X @ rng.normal(size=n) > 0).astype(float)
    return dense_table(X.reshape(-1, n), y.ravel()), list(np.arange(y.size).reshape(10, -1)), per_round


class NumpyNoise:
    """The same noise for both engines."""

    def noise(self, channel, t, shape):
        return np.random.default_rng([t, len(channel)]).laplace(size=shape) * 0.1

    def like(self, channel, t, value):
        drawn = self.noise(channel, t, tuple(value.shape))
        return value.new_tensor(drawn) if hasattr(value, "new_tensor") else drawn


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_torch_and_numpy_take_the_same_steps(method, dtype, close):
    table, order, per_round = numbers()
    given = {"privacy": NumpyNoise(), "steps": 12, "gradient": "latest"}
    ours = gs.simulate(
        METHODS[method](), NET, OnePass(table, order, per_round), model=gs.LogisticRegression(l2=0.1), **given
    )
    network = NeuralNetwork(
        lambda: OneOutput(4), shape=(4,), loss=binary_cross_entropy_with_logits, labels=dtype, l2=0.1, dtype=dtype
    )
    theirs = gs.simulate(METHODS[method](), NET, OnePass(table, order, per_round), model=network, **given)
    scale = max(1.0, np.abs(ours.theta).max())
    assert np.abs(ours.theta - theirs.theta).max() <= close * scale


def pictures(count=400, classes=3, seed=0, size=8):
    """Bright squares in a corner that tells the class: what a two-block CNN must learn."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, size=count)
    images = rng.integers(0, 60, size=(count, 1, size, size))
    for k, label in enumerate(labels):
        images[k, 0, (label // 2) * 4 : (label // 2) * 4 + 4, (label % 2) * 4 : (label % 2) * 4 + 4] += 150
    return images.astype(np.uint8).reshape(count, -1), labels.astype(float)


def stream_of_pictures(rounds=40, per_round=1, seed=0):
    from gossamer.records import Table

    rows, labels = pictures(10 * rounds * per_round, seed=seed)
    stream = OnePass(Table(rows, labels, None, rows.shape[1]), list(np.arange(len(rows)).reshape(10, -1)), per_round)
    test_rows, test_labels = pictures(90, seed=99)
    stream.test = Table(test_rows, test_labels, None, rows.shape[1])
    return stream


def cnn(**given):
    return NeuralNetwork(lambda: small_cnn(3, 1, 8, 4), shape=(1, 8, 8), name="small CNN", **given)


@pytest.mark.parametrize(("gradient", "rounds", "step"), [("latest", 120, 0.2), ("history", 60, 0.3)])
def test_a_small_cnn_learns_what_all_see(gradient, rounds, step):
    run = gs.simulate(
        gs.ldp_gradient_tracking(decay(step, 0.6)),
        NET,
        stream_of_pictures(rounds, 4),
        model=cnn(),
        steps=rounds,
        gradient=gradient,
        evaluate_every=rounds,
    )
    assert run.history.accuracy[-1] > 0.9
    assert run.history.train_accuracy[-1] > 0.9
    assert run.history.accuracy[0] < 0.6


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("per", ["record", "round"])
def test_clipped_gradients_keep_within_their_bound(norm, per):
    clip = (gs.clip_l1 if norm == 1 else gs.clip_l2)(0.05, per)
    model, stream = cnn(clip=clip), stream_of_pictures(5, 6)
    memory = model.memory(stream.table, "latest", np.full(10, 6))
    memory.observe(stream.arrivals(0))
    found = memory.gradient(model.start(10, 0)).numpy()
    sizes = np.linalg.norm(found, norm, axis=1)
    assert (sizes <= 0.05 * (1 + 1e-14)).all()
    assert model.reach(None, norm) == (0.05, np.inf, 0.0, 0.0)


def test_per_record_clipping_is_the_mean_of_clipped_gradients():
    clip = gs.clip_l2(0.3)
    model, stream = cnn(clip=clip, dtype=torch.float64), stream_of_pictures(2, 5)
    memory = model.memory(stream.table, "latest", np.full(10, 5))
    batch = stream.arrivals(0)
    memory.observe(batch)
    theta = model.start(10, 3)
    found = memory.gradient(theta).numpy()
    module = model.module(theta[2])
    by_hand = np.zeros(model.size)
    for k in range(10, 15):  # learner 2's
        loss = model.loss(module(model.inputs(batch.rows[k : k + 1])), torch.tensor([int(batch.labels[k])]))
        each = torch.autograd.grad(loss, list(module.parameters()))
        g = torch.cat([p.reshape(-1) for p in each]).numpy()
        by_hand += g * min(1, 0.3 / np.linalg.norm(g)) / 5
    np.testing.assert_allclose(found[2], by_hand, atol=1e-12)


def test_batch_norm_is_refused_where_each_record_counts():
    def build():
        return resnet18(10, 1, norm="batch")

    with pytest.raises(gs.GossamerError, match="BatchNorm, which mixes the records"):
        NeuralNetwork(build, shape=(1, 28, 28), clip=gs.clip_l2(1.0))
    assert NeuralNetwork(build, shape=(1, 28, 28), clip=gs.clip_l2(1.0, per="round")).clip.per == "round"


def test_resnet18_has_its_size():
    assert sum(p.numel() for p in resnet18(10, 3).parameters()) == pytest.approx(11.17e6, rel=0.001)
    for norm in ("group", "batch"):
        for stem in ("cifar", "imagenet"):
            assert resnet18(7, 1, norm, stem)(torch.zeros(2, 1, 32, 32)).shape == (2, 7)


def test_source_noise_on_a_network_claims_its_budget_and_messages_claim_what_is_left():
    model = cnn(clip=gs.clip_l2(1.0))
    run = gs.simulate(
        gs.dsgd(decay(0.2, 0.6)), NET, stream_of_pictures(20, 2), model=model, steps=20, gradient="latest",
        privacy=gs.Gaussian.for_budget(4.0, 1e-5, where="source"),
    )  # fmt: skip
    assert run.claim.startswith("private")
    assert np.allclose([run.epsilon.spent, run.epsilon.for_ever], 4.0, atol=0.05)
    model = cnn(clip=gs.clip_l2(1.0), dtype=torch.float64)
    run = gs.simulate(
        gs.dsgd(decay(0.2, 0.6)), NET, stream_of_pictures(20, 2), model=model, steps=20, gradient="latest",
        privacy=gs.Gaussian(decay(5.0, 0.55), delta=1e-5),
    )  # fmt: skip
    assert (run.epsilon.spent > 1).all()
    assert np.isinf(run.epsilon.for_ever).all(), "without a Lipschitz constant nothing is proved for ever"


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_a_stopped_run_goes_on_exactly_buffers_included(tmp_path, norm):
    def build():
        middle = [nn.BatchNorm2d(4)] if norm == "batch" else []
        return nn.Sequential(nn.Conv2d(1, 4, 3), *middle, nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))

    def run(steps, resume=None):
        model = NeuralNetwork(build, shape=(1, 8, 8))
        algorithm = gs.ldp_gradient_tracking(decay(0.2, 0.7), decay(0.01, 0.6))
        return gs.simulate(
            algorithm,
            NET,
            stream_of_pictures(20, 3),
            model=model,
            steps=steps,
            gradient="latest",
            evaluate_every=5,
            resume=resume,
        )

    whole = run(20)
    half = gs.Record.load(run(10).save(tmp_path / "half")[0])
    again = run(20, half)
    for name, value in whole.state.items():
        np.testing.assert_array_equal(value, again.state[name], err_msg=name)
    np.testing.assert_array_equal(whole.history.accuracy, again.history.accuracy)


def test_a_diverging_run_names_the_round_the_learner_and_the_remedy():
    with pytest.raises(
        gs.GossamerError, match=r"learner \d has parameters that are not finite, .*at round \d+; use a smaller"
    ):
        gs.simulate(
            gs.dsgd(decay(1e30, 0.6)),
            NET,
            stream_of_pictures(20, 2),
            model=cnn(),
            steps=20,
            gradient="latest",
            evaluate_every=5,
        )


def test_a_device_that_is_not_there_is_refused():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(gs.GossamerError, match="torch sees no GPU"):
        cnn(device="cuda")


def test_channels_last_is_another_order_of_the_same_numbers():
    """The layout that a GPU gets: the same gradients, at other places of the row."""
    models = [cnn(dtype=torch.float64) for _ in range(2)]
    models[1].channels_last = True
    stream, found = stream_of_pictures(2, 5), []
    for model in models:
        memory = model.memory(stream.table, "latest", np.full(10, 5))
        memory.observe(stream.arrivals(0))
        theta = model.start(10, 3)
        rows = model.canonical(memory.gradient(theta))
        assert torch.equal(model.canonical(model.placed(rows)), rows)
        module = model.module(rows[2])  # a gradient looked at as a module's parameters
        found.append([p.detach().numpy() for p in module.parameters()])
    assert not torch.equal(models[0].start(1, 3), models[1].start(1, 3))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_learners_that_have_no_more_records_go_on_with_those_they_have():
    """Unequal lengths, all data so far: nobody's gradient becomes 0, and each round is clipped by itself."""
    table = dense_table(np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 2.0)
    order = [np.arange(0, 20), *(np.array([20 + k]) for k in range(9))]
    model = NeuralNetwork(
        lambda: OneOutput(4), shape=(4,), loss=binary_cross_entropy_with_logits, labels=torch.float64,
        dtype=torch.float64, clip=gs.clip_l2(1e-3, per="round"),
    )  # fmt: skip
    stream = OnePass(table, order, 4)
    memory = model.memory(table, "history", np.full(10, 20))
    for t in range(5):
        memory.observe(stream.arrivals(t))
    sizes = memory.gradient(model.start(10, 0)).norm(dim=1)
    assert (sizes > 1e-6).all()
    np.testing.assert_allclose(sizes[1:].numpy(), 1e-3, rtol=1e-6)  # one round each, clipped; not a fifth of it
    assert sizes[0] <= 1e-3


def test_private_messages_need_float64_and_no_state_of_unknown_kind():
    table, order, per_round = numbers()

    class Remembers(OneOutput):
        def __init__(self, n):
            super().__init__(n)
            self.register_buffer("seen", torch.zeros(n))

    def run(build, dtype, privacy):
        model = NeuralNetwork(
            build, shape=(4,), loss=binary_cross_entropy_with_logits, labels=dtype, dtype=dtype,
            clip=gs.clip_l1(1.0),
        )  # fmt: skip
        return gs.simulate(
            gs.ldp_gradient_tracking(decay(0.1, 0.8)), NET, OnePass(table, order, per_round), model=model,
            privacy=privacy, steps=3, gradient="latest",
        )  # fmt: skip

    with pytest.raises(gs.GossamerError, match="proved for states in float64"):
        run(lambda: OneOutput(4), torch.float32, gs.Laplace.for_budget(8.0))
    done = run(lambda: OneOutput(4), torch.float64, gs.Laplace.for_budget(8.0))
    assert any("is not noised" in note for note in done.notes)
    with pytest.raises(gs.GossamerError, match="may carry records"):
        run(lambda: Remembers(4), torch.float32, gs.Laplace.for_budget(8.0, where="source"))


def test_records_have_one_order_whatever_the_device_works_in(tmp_path):
    """Channels last, as on a GPU: the record says the same as without."""
    runs = []
    for last in (False, True):
        model = cnn(dtype=torch.float64)
        model.channels_last = last
        runs.append(
            gs.simulate(
                gs.ldp_gradient_tracking(decay(0.05, 0.8)),
                NET,
                stream_of_pictures(3, 5),
                model=model,
                steps=3,
                gradient="latest",
            )
        )
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, atol=1e-10)


def test_two_records_in_one_folder_do_not_touch_each_other(tmp_path):
    def record(steps):
        return gs.simulate(
            gs.ldp_gradient_tracking(decay(0.05, 0.8)), NET, stream_of_pictures(3, 5), model=cnn(), steps=steps,
            gradient="latest",
        )  # fmt: skip

    record(3).save(tmp_path / "mnist-private")
    record(2).save(tmp_path / "mnist")
    record(1).save(tmp_path / "mnist")
    assert gs.Record.load(tmp_path / "mnist-private").t == 3
    assert sorted(p.name for p in tmp_path.glob("*.safetensors")) == [
        "mnist-1.safetensors",
        "mnist-private-3.safetensors",
    ]
    (tmp_path / "mnist-1.safetensors").write_bytes((tmp_path / "mnist-private-3.safetensors").read_bytes())
    with pytest.raises(gs.GossamerError, match="is not the state that was saved with it"):
        gs.Record.load(tmp_path / "mnist")


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(10, 12, 8))
TWO = (ROWS[..., 0] > 0).astype(float)


def learnt(build, labels=TWO, rows=ROWS, shape=(8,), test=None, **given):
    stream = gs.streams.from_arrays(rows, labels, per_round=2, test=test)
    model = NeuralNetwork(build, shape=shape, **given)
    return gs.simulate(gs.dsgd(decay(0.1, 0.8)), NET, stream, model=model, steps=3, gradient="latest")


def line(outputs=2, features=8):
    return lambda: nn.Linear(features, outputs)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"build": line(), "shape": (7,)}, r"shape=\(7,\) has 7 numbers and a record 8 features: give a shape of 8"),
        ({"build": line(), "shape": (-1,)}, "expected whole numbers ≥ 1"),
        ({"build": line(2, 9)}, r"cannot take 2 records of shape \(8,\) at once \(mat1 and mat2"),
        ({"build": nn.Linear(8, 2)}, "build is a module, Linear, expected a function that makes one"),
        ({"build": 3}, "build is 3, expected a function"),
        ({"build": lambda: 3}, r"build\(\) gives a int, expected a torch module"),
        ({"build": lambda: nn.LazyLinear(2)}, "lazy layers"),
        ({"build": nn.Flatten}, "no parameters to learn"),
        ({"build": line(1)}, "label 1 and a module with 1 output: .* give the module 2"),
        ({"build": line(), "labels": TWO + 5}, "label [56] and a module with 2 outputs"),
        ({"build": line(), "labels": TWO - 1}, "label -1: expected a class, counted from 0"),
        ({"build": line(), "labels": TWO + 0.5}, r"label (0.5|1.5): expected a class"),
        ({"build": line(1), "loss": binary_cross_entropy_with_logits}, r"outputs of shape \(2, 1\) with labels"),
        ({"build": line(), "loss": nn.CrossEntropyLoss(reduction="none")}, r"the loss gives shape \(2,\)"),
        ({"build": lambda: nn.Linear(8, 2).requires_grad_(False)}, "depends on no parameter"),
        ({"build": lambda: nn.LSTM(8, 2)}, "gives a tuple, expected a tensor"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_in_a_sentence_before_the_first_round(given, said, monkeypatch):
    monkeypatch.setattr(OnePass, "arrivals", None)  # no round begins
    with pytest.raises(gs.GossamerError, match=said):
        learnt(**given)


def test_trying_a_network_out_leaves_no_trace():
    made = []

    def build():
        made.append(nn.Sequential(nn.Linear(8, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)))
        return made[-1]

    model, stream = NeuralNetwork(build, shape=(8,)), gs.streams.from_arrays(ROWS, TWO, per_round=2)
    torch.manual_seed(7)
    model.memory(stream.table, "latest", stream.room(1))
    after = torch.rand(3)
    torch.manual_seed(7)
    for _ in range(10):
        build()
    assert torch.equal(after, torch.rand(3)), "random numbers as if only the ten learners' modules had been made"
    for module in made:
        assert not module[1].running_mean.any()
        assert module[1].num_batches_tracked == 0


def test_features_that_are_all_0_or_1_reach_the_module_as_they_are():
    """They are stored as codes, which a module must not see."""
    rows = ROWS > 0
    model, stream = NeuralNetwork(line(), shape=(8,)), gs.streams.from_arrays(rows, TWO, per_round=2)
    assert stream.table.codebook is not None
    memory = model.memory(stream.table, "latest", stream.room(1))
    memory.observe(stream.arrivals(0))
    np.testing.assert_array_equal(memory._kept[3][0][0].numpy(), rows[3, :2])
    assert learnt(line(), rows=rows).history.accuracy[-1] > 0


def test_own_arrays_have_records_that_nobody_learns_from():
    test = ROWS[0, :3], np.array([1.0, 1.0, 1.0])
    run = learnt(line(), labels=np.zeros((10, 12)), test=test)
    assert run.history.accuracy[-1] * 3 == pytest.approx(round(run.history.accuracy[-1] * 30) / 10)
    assert not any("sample of the training records" in note for note in run.notes)
    assert run.history.accuracy[-1] < 0.5 < run.history.train_accuracy[-1]
    assert any("sample of the training records" in note for note in learnt(line()).notes)


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ((np.zeros((3, 7)), np.zeros(3)), "test has 7 features and X has 8"),
        ((np.zeros((3, 8)), np.zeros(2)), "test has 3 records and 2 labels"),
        ((np.zeros(8), np.zeros(3)), r"test X has shape \(8,\), expected \(k, n\)"),
        ((np.full((1, 8), 9.0), np.zeros(1)), "outside the declared range"),
    ],
)
def test_test_records_must_be_like_the_others(test, said):
    with pytest.raises(gs.GossamerError, match=said):
        gs.streams.from_arrays(np.zeros((2, 3, 8)), np.zeros((2, 3)), ranges=(-1, 1), test=test)


def test_no_run_goes_on_with_other_test_records():
    streams = [
        gs.streams.from_arrays(ROWS, TWO, test=test)
        for test in (None, (ROWS[0], TWO[0]), (ROWS[0], TWO[0]), (ROWS[1], TWO[1]))
    ]
    assert streams[1].description == streams[2].description
    assert streams[1].description not in (streams[0].description, streams[3].description)


def test_predictions_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    from gossamer.models import torch as module

    stream, model = stream_of_pictures(5, 6), cnn()
    memory, theta = model.memory(stream.table, "latest", stream.room(1)), model.start(10, 0)
    found = memory.predictions(theta, stream.table.rows)
    monkeypatch.setattr(module, "ON_CPU", 7)
    assert torch.equal(found, memory.predictions(theta, stream.table.rows))


def test_the_pages_own_module_learns(capsys):
    page = (Path(__file__).parents[1] / "docs" / "neural.md").read_text(encoding="utf-8")
    mnist, own = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    compile(mnist, "docs/neural.md", "exec")
    exec(own, {})
    assert float(capsys.readouterr().out.split()[1]) > 0.9
