"""Progressive validation: every record predicted before it is learned from, against a loop over rounds and records."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.records import features_of

NET = gs.Network.ring(3)
METHOD = gs.ldp_gradient_tracking(gs.decay(1.0, 0.6))


def records(kind, seed=0, lengths=(40, 25, 31)):
    rng = np.random.default_rng(seed)
    X = [rng.integers(0, 2, size=(n, 5)) if kind == "coded" else rng.normal(size=(n, 5)) for n in lengths]
    score = [x @ np.array([2.0, -1.0, 0.5, 0.0, 1.0]) for x in X]
    if kind == "quantity":
        return X, [s + 0.1 * rng.normal(size=len(s)) for s in score]
    if kind == "classes":
        return X, [np.digitize(s, [-1.0, 1.0]).astype(float) for s in score]
    return [x.astype(bool) for x in X] if kind == "coded" else X, [(s > 0.5).astype(float) for s in score]


MODELS = {
    "dense": gs.LogisticRegression(l2=1e-2),
    "coded": gs.LogisticRegression(l2=1e-2),
    "classes": gs.SoftmaxRegression(3, l2=1e-2),
    "quantity": gs.RidgeRegression(l2=1e-2),
}


def by_hand(stream, model, steps):
    """One record after another, with the θ that a run had before its round."""
    thetas = [np.zeros((3, model.theta_size(5)))]
    run(stream, model, steps, callback=lambda progress: thetas.append(progress.record().theta) is not None)
    seen, right, missed, spread, labels = 0, 0, 0.0, 0.0, []
    for t in range(min(steps, stream.rounds)):
        theta = thetas[t]
        batch = stream.arrivals(t)
        rows = features_of(gs.records.Table(batch.rows, batch.labels, stream.table.codebook, 5))
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        for row, label, i in zip(rows, batch.labels, np.repeat(range(3), batch.counts), strict=True):
            margins = row @ theta[i].reshape(5, -1)
            told = margins.argmax() if len(margins) > 1 else float(margins[0] > 0)
            right += told == label
            missed += (margins[0] - label) ** 2
            spread += (label - (np.mean(labels) if labels else 0.0)) ** 2
            labels.append(label)
            seen += 1
    return 1 - missed / spread if isinstance(model, gs.RidgeRegression) else right / seen


def run(stream, model, steps, **given):
    return gs.simulate(METHOD, NET, stream, model=model, steps=steps, **given)


@pytest.mark.parametrize("kind", MODELS)
def test_every_record_is_predicted_by_the_theta_that_has_not_learned_from_it(kind):
    stream = gs.streams.from_arrays(*records(kind), per_round=[2, 1, 3])
    assert (stream.table.codebook is not None) == (kind == "coded")
    told = run(stream, MODELS[kind], 30, progressive=True, evaluate_every=10)
    assert told.history.progressive[-1] == pytest.approx(by_hand(stream, MODELS[kind], 30), abs=1e-12)
    assert told.history.progressive[1] == pytest.approx(by_hand(stream, MODELS[kind], 10), abs=1e-12)
    assert np.isnan(told.history.progressive[0]), "no record had come"
    np.testing.assert_array_equal(told.theta, run(stream, MODELS[kind], 30).theta), "looking changes nothing"


def test_a_run_that_stopped_goes_on_counting():
    stream = gs.streams.from_arrays(*records("dense"))
    whole = run(stream, MODELS["dense"], 30, progressive=True, evaluate_every=10)
    part = run(
        stream, MODELS["dense"], 30, progressive=True, evaluate_every=10, callback=lambda progress: progress.t == 13
    )
    on = run(stream, MODELS["dense"], 30, resume=part)
    np.testing.assert_array_equal(on.history.progressive, whole.history.progressive)
    plain = run(stream, MODELS["dense"], 13)
    assert "progressive" not in run(stream, MODELS["dense"], 30, resume=plain, progressive=True).history.dtype.names


def test_nothing_is_said_where_nothing_had_been_learnt():
    stream = gs.streams.from_arrays(*records("dense"))
    late = gs.privacy.simulated(gs.decay(0.0, 0.0), where="source", releases=gs.privacy.every(1, after=35))
    told = gs.simulate(METHOD, NET, stream, model=MODELS["dense"], steps=60, privacy=late, progressive=True)
    assert np.isnan(told.history.progressive).all()
    assert told.summary()["final"]["accuracy"] > 0.7
    assert "most records came before anything had been learnt" in " ".join(told.notes)


def test_networks_have_no_margins_to_look_at():
    class Other(gs.LogisticRegression):
        pass

    stream = gs.streams.from_arrays(*records("dense"))
    assert run(stream, Other(l2=0.1), 5, progressive=True).history.progressive[-1] >= 0
    torch = pytest.importorskip("torch")
    network = gs.NeuralNetwork(lambda: torch.nn.Linear(5, 2), shape=(5,))
    with pytest.raises(gs.GossamerError, match=r"progressive=True: .* linear models only"):
        run(stream, network, 5, gradient="latest", progressive=True)
