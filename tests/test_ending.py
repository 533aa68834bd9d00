"""What the end of a run says: errors and accuracies with test records, what to read them beside, and repetitions."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

import gossamer as gs
from gossamer.cli.ending import Ended, show, told
from gossamer.report import draw_curves

NET = gs.Network.ring(3)


def records(classes=2, seed=0, test=300):
    """Unlike learners, of whom the first has most records; and test records with other shares of the classes."""
    rng = np.random.default_rng(seed)

    def drawn(n, shift):
        X = rng.normal(size=(n, 4)) + shift
        score = X @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.5 * rng.normal(size=n)
        return X, score if classes == 0 else np.digitize(score, np.linspace(-1, 1, classes - 1)).astype(float)

    parts = [drawn(n, shift) for n, shift in ((60, 0.0), (20, 0.3), (30, -0.4))]
    tested = None if not test else drawn(test, 0.2)
    return gs.streams.from_arrays([X for X, _ in parts], [y for _, y in parts], test=tested), parts, tested


def run(stream, model, **given):
    method = gs.ldp_gradient_tracking(gs.decay(0.5, 0.6), noise=given.pop("noise", None), strict=False)
    return gs.simulate(method, NET, stream, model=model, steps=given.pop("steps", 80), **given)


def predicted(theta, X):
    margins = X @ theta.reshape(X.shape[1], -1)
    return margins.argmax(axis=1) if margins.shape[1] > 1 else (margins[:, 0] > 0).astype(int)


MODELS = {2: gs.LogisticRegression(l2=0.1), 3: gs.SoftmaxRegression(3, l2=0.1), 0: gs.RidgeRegression(l2=0.1)}


@pytest.mark.parametrize("classes", [2, 3])
def test_test_records_leave_the_errors_against_the_optimum_as_they_are(classes):
    with_test, parts, (X, y) = records(classes)
    without, *_ = records(classes, test=0)
    tested, plain = run(with_test, MODELS[classes]), run(without, MODELS[classes])
    np.testing.assert_array_equal(tested.optimum, plain.optimum)
    for name in ("tracking_error", "optimality_gap", "consensus_error"):
        np.testing.assert_array_equal(tested.history[name], plain.history[name])
    np.testing.assert_array_equal(tested.history.train_accuracy, plain.history.accuracy)
    on_test = [np.mean(predicted(theta, X) == y) for theta in tested.theta]
    np.testing.assert_allclose(tested.learners.accuracy, on_test)
    assert tested.history.accuracy[-1] == pytest.approx(np.mean(on_test)), "each learner counts as much as another"
    alike = [[np.mean(predicted(theta, X) == y) for X, y in parts] for theta in tested.theta]
    np.testing.assert_allclose(tested.learners.train_accuracy, np.mean(alike, axis=1)), "as F weighs them"


@pytest.mark.parametrize("classes", [2, 3])
def test_what_an_accuracy_is_read_beside(classes):
    stream, parts, (X, y) = records(classes)
    record = run(stream, MODELS[classes])
    beside, counts = record.config["baselines"], np.array(record.config["confusion"])
    shares = np.mean([np.bincount(y.astype(int), minlength=classes) / len(y) for _, y in parts], axis=0)
    assert beside["majority"] == pytest.approx(np.mean(y == shares.argmax())), "of those who were learned from"
    assert beside["optimum"] == pytest.approx(np.mean(predicted(record.optimum, X) == y))
    assert (beside["records"], beside["learnt_from"], beside["tested"]) == (300, 110, True)
    by_hand = np.zeros((classes, classes))
    for theta in record.theta:
        np.add.at(by_hand, (y.astype(int), predicted(theta, X)), 1 / 3)
    np.testing.assert_allclose(counts, by_hand, atol=1e-9)
    assert np.trace(counts) / 300 == pytest.approx(record.history.accuracy[-1])


def test_a_quantity_has_its_mean_for_a_majority_and_no_confusion():
    stream, _, (X, y) = records(0)
    record = run(stream, MODELS[0])
    assert record.config["baselines"]["majority"] == 0
    r2 = 1 - np.sum((X @ record.optimum - y) ** 2) / np.sum((y - y.mean()) ** 2)
    assert record.config["baselines"]["optimum"] == pytest.approx(r2)
    assert "confusion" not in record.config


def test_records_of_many_classes_have_no_confusion_table():
    rng = np.random.default_rng(0)
    stream = gs.streams.from_arrays(rng.normal(size=(3, 40, 2)), rng.integers(0, 11, size=(3, 40)).astype(float))
    record = run(stream, gs.SoftmaxRegression(11, l2=0.1), steps=3)
    assert "confusion" not in record.config
    assert record.config["baselines"]["majority"] < 0.3


def test_a_record_with_test_records_is_saved_loaded_and_resumed(tmp_path):
    stream, *_ = records()
    part = run(stream, MODELS[2], steps=80, callback=lambda progress: progress.t == 33)
    part.save(tmp_path / "part")
    back = gs.Record.load(tmp_path / "part")
    assert back.config["baselines"] == part.config["baselines"]
    np.testing.assert_array_equal(run(stream, MODELS[2], resume=back).theta, run(stream, MODELS[2]).theta)


def shown(ended):
    console = Console(file=io.StringIO(), width=200)
    show(console, ended)
    return console.file.getvalue()


def test_the_lines_say_on_which_records_and_how_the_mean_is_taken():
    stream, *_ = records()
    record = run(stream, MODELS[2], progressive=True)
    quiet = run(stream, MODELS[2], steps=40)
    out = shown(Ended(record, [], 0.0, None, quiet))
    beside = record.config["baselines"]
    for line in (
        f"accuracy {record.history.accuracy[-1]:.3f} on 300 records nobody learned from; mean over the learners\n",
        f"majority class {beside['majority']:.3f}\n",
        f"central fit without noise (θ*) {beside['optimum']:.3f}\n",
        f"the same run without noise {quiet.history.accuracy[-1]:.3f}\n",
        f"progressive {record.history.progressive[-1]:.3f}: each record before it was learned from; mean over the rec",
    ):
        assert line in out
    assert "test accuracy" in out
    assert "training accuracy" in out
    stream, *_ = records(test=0)
    assert "on the 110 records learned from" in shown(Ended(run(stream, MODELS[2]), [], 0.0))


def test_a_private_record_says_which_of_its_numbers_are_not_noised():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3, 60, 2))
    stream = gs.streams.from_arrays(X, (X[..., 0] > 0).astype(float), ranges=(-1, 1))
    private = gs.Gaussian.for_budget(1.0, 1e-5, where="source")
    record = run(stream, gs.LogisticRegression(l2=0.1), privacy=private, steps=60)
    sentence = next(note for note in record.notes if note.startswith("ε is of what is sent"))
    for number in ("θ*", "errors", "accuracies", "majority class", "confusion table"):
        assert number in sentence
    assert told(Ended(record, [], 1e-5))["baselines"]["majority"] == pytest.approx(
        max(np.mean(stream.table.labels), 1 - np.mean(stream.table.labels))
    )


def test_repetitions_have_seeds_of_their_own_and_a_spread(gossamer, tmp_path):
    words = ("run", "mushrooms", "--steps", 30, "--step", "0.5,0.8", "--noise", "0.2,0.55")
    code, out, _ = gossamer(*words, "--seed", 4, "--repeat", 3, "--json", "all.json", "--out", "runs")
    assert code == 0
    runs = json.loads((tmp_path / "all.json").read_text())
    assert [one["config"]["seed"] for one in runs] == [4, 5, 6]
    accuracies = [one["final"]["accuracy"] for one in runs]
    assert len(set(accuracies)) == 3
    for label, number in (("mean", np.mean), ("least", min), ("greatest", max)):
        assert re.search(rf"{label} +{number(accuracies):.4f} ", out), out
    for k, seed in enumerate((4, 5, 6)):
        assert gs.Record.load(tmp_path / "runs" / f"seed-{seed}").history.accuracy[-1] == accuracies[k]
        assert (tmp_path / "runs" / f"seed-{seed}" / "report.html").stat().st_size > 1000
    gossamer(*words, "--seed", 5, "--out", "alone")
    np.testing.assert_array_equal(
        gs.Record.load(tmp_path / "alone").theta, gs.Record.load(tmp_path / "runs" / "seed-5").theta
    )


def test_each_repetition_of_a_private_run_costs_again(gossamer, own_csv, tmp_path):
    declared = ("--drop", "clinic,ward", "--range", "age=0:120,dose=0:5", "--classes", "no,yes", "--learners", 2)
    words = ("run", "--csv", own_csv, "--target", "ill", *declared, "--epsilon", 2, "--steps", 40)
    code, out, _ = gossamer(*words, "--repeat", 3, "--json", "all.json")
    said = " ".join(out.split())
    assert code == 0, out
    assert "Each of the 3 repetitions draws other noise and costs its ε again" in said
    spent = sum(max(one["epsilon"]) for one in json.loads((tmp_path / "all.json").read_text()))
    assert f"together cost ε = {spent:.3g}, δ = 3e-05, by composition" in said
    assert spent == pytest.approx(6, rel=0.01)


def test_the_same_run_without_noise_takes_the_same_steps(gossamer, own_csv, tmp_path):
    declared = ("--drop", "clinic,ward", "--range", "age=0:120,dose=0:5", "--classes", "no,yes", "--learners", 2)
    words = ("run", "--csv", own_csv, "--target", "ill", *declared, "--steps", 60)
    code, out, _ = gossamer(*words, "--epsilon", 1e5, "--also-without-noise", "--json", "a.json")
    assert code == 0, out
    one = json.loads((tmp_path / "a.json").read_text())
    assert one["without_noise"]["tracking_error"] == pytest.approx(one["final"]["tracking_error"], rel=0.05), (
        "little noise"
    )
    assert f"the same run without noise {one['without_noise']['accuracy']:.3f}" in out
    code, _, err = gossamer(*words, "--noise", 0, "--also-without-noise")
    assert code == 2
    assert "--also-without-noise: this run has no noise: leave it out." in err


def test_a_private_run_is_kept_before_it_is_compared(gossamer, own_csv, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise gs.GossamerError("no more")

    monkeypatch.setattr("gossamer.cli.run.run_without_noise", stopped)
    declared = ("--drop", "clinic,ward", "--range", "age=0:120,dose=0:5", "--classes", "no,yes", "--learners", 2)
    words = ("--target", "ill", *declared, "--steps", 40, "--epsilon", 2, "--also-without-noise", "--out", "kept")
    code, _, err = gossamer("run", "--csv", own_csv, *words)
    assert code == 2
    assert "no more" in err
    assert gs.Record.load(tmp_path / "kept").finished, "what was sent is spent, whatever happens next"


@pytest.mark.parametrize("other", [("--plot", "a.png"), ("--resume", "there")])
def test_repeat_refuses_what_belongs_to_one_run(gossamer, other):
    code, _, err = gossamer("run", "mushrooms", "--repeat", 2, *other)
    assert code == 2
    assert f"leave {other[0]} out" in err


def test_own_data_are_validated_progressively(gossamer, own_csv, tmp_path):
    words = ("--target", "ill", "--categorical", "ward", "--split-by", "clinic", "--noise", 0, "--steps", 100)
    _, out, _ = gossamer("run", "--csv", own_csv, *words, "--step", "5,0.55", "--json", "a.json")
    value = json.loads((tmp_path / "a.json").read_text())["progressive"]
    assert 0.5 < value < 1
    assert f"progressive {value:.3f}: each record before it was learned from" in out
    names = re.search(r"predicted +(\S+) +(\S+)\n", out)
    assert names.groups() == ("no", "yes"), "the confusion table names the classes"


def picture(accuracy, errors=None, **given):
    history = {"t": np.arange(len(accuracy)), "accuracy": accuracy}
    history |= dict.fromkeys(
        ("tracking_error", "optimality_gap", "consensus_error"), accuracy if errors is None else errors
    )
    figure = draw_curves(history, score="accuracy", title="t", **given)
    FigureCanvasAgg(figure).draw()
    return figure


def test_a_spike_is_cut_off_and_marked():
    errors = np.linspace(2.0, 1.0, 100)
    errors[50] = 1e9
    left = picture(np.linspace(0.5, 0.8, 100), errors).axes[0]
    assert left.get_ylim()[1] < 10, "the spike does not decide the axis"
    assert left.get_yscale() == "linear", "no decades are spanned"
    assert "1e+09" in [text.get_text() for text in left.texts], "it is said how far it goes"
    marked = [line for line in left.get_lines() if line.get_marker() == "^"]
    assert marked[0].get_xdata().tolist() == [50]
    left = picture(np.linspace(0.5, 0.8, 100), np.logspace(0, -6, 100)).axes[0]
    assert left.get_yscale() == "log"
    assert left.get_ylim()[0] <= 1e-6, "a fall over decades is no spike"


def test_a_picture_names_the_data_and_draws_what_needs_no_learning(gossamer, own_csv, tmp_path):
    words = ("--target", "ill", "--categorical", "ward", "--split-by", "clinic", "--noise", 0, "--steps", 30)
    gossamer("run", "--csv", own_csv, *words, "--plot", "a.svg", "--json", "a.json")
    drawn, beside = (tmp_path / "a.svg").read_text(), json.loads((tmp_path / "a.json").read_text())["baselines"]
    assert "<!-- own.csv, ill: ldp_gradient_tracking, 3 learners -->" in drawn
    assert f"<!-- majority class {beside['majority']:.3f} -->" in drawn
    assert f"<!-- central fit without noise (θ*) {beside['optimum']:.3f} -->" in drawn
    right = picture(np.full(50, 0.7), baselines={"majority": 0.2, "optimum": 0.9}).axes[1]
    low, high = right.get_ylim()
    assert low < 0.2 < 0.9 < high, "the baselines are always seen"


def test_a_run_that_is_far_below_the_mean_is_drawn_and_told_in_few_digits():
    accuracy = -np.logspace(0, 100, 60)
    right = picture(accuracy).axes[1]
    assert right.get_ylim()[0] > -2
    assert right.texts[-1].get_text() == "-1.0e+100"
