"""Why a run ended where it did: real small runs, each spoiled in one way, and what the sentence says to change."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gossamer as gs
from gossamer.cli.words import in_command
from gossamer.report.verdict import CAUSES, verdict
from gossamer.simulate.evidence import Ran, facts_of, run_without_noise

NET = gs.Network.paper()


def records(informative=True, learners=10, each=200, test=2000):
    """Two classes, 7 : 3, that a straight line tells apart as well as noise allows."""
    rng = np.random.default_rng(3)
    w = np.array([4.0, -3.0, 2.0, 1.0, 0.0]) * informative

    def drawn(*shape):
        X = rng.uniform(-1, 1, size=(*shape, 5))
        X[..., 4] = 1.0
        return X, (rng.uniform(size=shape) < 1 / (1 + np.exp(-X @ w - 1.5))).astype(float)

    return gs.streams.from_arrays(*drawn(learners, each), per_round=2, ranges=(-1, 1), test=drawn(test))


STREAM = records()


def ended(step, steps=300, l2=1e-3, noise=None, epsilon=None, stream=STREAM, network=NET, quiet=False):
    """A run, and what is said of it."""
    model = gs.LogisticRegression(l2=l2)
    method = gs.ldp_gradient_tracking(step, noise=noise, strict=False)
    privacy = None if epsilon is None else gs.Gaussian.for_budget(epsilon, 1e-5, where="source")
    run = gs.simulate(method, network, stream, model=model, privacy=privacy, steps=steps)
    ran = Ran(method, network, stream, model, privacy, "history")
    without = float(run_without_noise(run, ran).history.accuracy[-1]) if quiet else None
    return run, verdict(facts_of(run, ran, without))


def test_nothing_is_said_of_a_run_that_ended_well():
    run, said = ended(gs.decay(3.0, 0.3))
    told = run.config["baselines"]
    assert told["optimum"] - run.history.accuracy[-1] < 0.03
    assert told["optimum"] > told["majority"] + 0.1, "there was something to learn"
    assert said is None
    assert ended(gs.decay(3.0, 0.3), noise=gs.decay(0.01, 0.5))[1] is None, "a little noise is no cause"


SPOILED = {
    "a step that is too short": ("step", "too short", {"step": gs.decay(1e-3, 0.3)}),
    "a step that is too long": ("step", "too long", {"step": gs.decay(300.0, 0.0)}),
    "steps that fade": ("step", "fade too early", {"step": gs.decay(30.0, 3.0)}),
    "too few rounds": ("rounds", "use steps=", {"step": gs.decay(1.0, 0.3), "steps": 8}),
    "too much noise": ("noise", "lower noise", {"step": gs.decay(3.0, 0.3), "noise": gs.decay(5.0, 0.1)}),
    "too small a budget": ("noise", "raise epsilon, or bring more records", {"step": "auto", "epsilon": 0.01}),
    "too large a penalty": ("l2", "use l2=0.03.", {"step": gs.decay(0.3, 0.3), "l2": 3.0}),
    "features that tell nothing": (
        "features", "No setting would help", {"step": gs.decay(3.0, 0.3), "stream": records(informative=False)},
    ),
}  # fmt: skip


def own_records(path, ranges):
    """x from 0 to 1 tells the classes apart."""
    rng = np.random.default_rng(4)
    x = rng.uniform(size=600)
    lines = [f"{a:.4f},{int(a + 0.1 * rng.normal() > 0.5)}" for a in x]
    path.write_text("x,y\n" + "\n".join(lines) + "\n")
    return gs.streams.from_csv(path, "y", 10, ranges={"x": ranges}, classes=["0", "1"]), x


def test_a_range_that_clips_most_of_a_column_is_named_however_the_run_ended(tmp_path):
    stream, x = own_records(tmp_path / "own.csv", (0.0, 0.25))
    said = ended(gs.decay(1.0, 0.3), 60, stream=stream)[1]
    assert said.cause == "range"
    assert f"{100 * np.mean(x > 0.25):.0f} % of its values lay outside" in said.sentence
    assert said.sentence.said(in_command).endswith("give one that holds them with --range.")
    stream, _ = own_records(tmp_path / "own.csv", (0.0, 0.75))
    assert getattr(ended(gs.decay(1.0, 0.3), 60, stream=stream)[1], "cause", None) != "range", (
        "a quarter may be clipped"
    )


def test_a_range_far_wider_than_its_values_is_named(tmp_path):
    stream, x = own_records(tmp_path / "own.csv", (-20.0, 20.0))
    run, said = ended(gs.decay(1.0, 0.3), 60, l2=1e-7, stream=stream)
    assert run.history.accuracy[-1] < run.config["baselines"]["optimum"] - 0.03
    assert said.cause == "range"
    assert f"it is {40 / np.ptp(x.round(4)):.3g} times what its values fill" in said.sentence
    stream, _ = own_records(tmp_path / "own.csv", (0.0, 1.0))
    assert getattr(ended(gs.decay(1e-3, 0.3), 60, stream=stream)[1], "cause", None) == "step", "another cause is named"


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_run_names_what_spoiled_it(how):
    cause, words, given = SPOILED[how]
    for _ in range(3 if "epsilon" in given else 1):  # noise of a budget has no seed, and may by chance point to θ*
        run, said = ended(**given)
        if said is not None:
            break
    told = run.config["baselines"]
    assert said is not None, (run, told)
    assert (said.cause, words in said.sentence) == (cause, True), said
    assert said.sentence.count(". ") == 0, "one sentence"


def test_a_quantity_is_judged_by_what_its_mean_leaves():
    """Far from 0, so that all but the mean is a small part of F: that it was learnt is no excuse for the rest."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(-1, 1, size=(10, 100, 3)), np.ones((10, 100, 1))], axis=2)
    y = X @ np.array([0.1, -0.05, 0.0, 0.8]) + 0.01 * rng.normal(size=(10, 100))
    stream, model, method = (
        gs.streams.from_arrays(X, y),
        gs.RidgeRegression(),
        gs.ldp_gradient_tracking(gs.decay(0.5, 0.5), strict=False),
    )
    run = gs.simulate(method, NET, stream, model=model, steps=40)
    assert run.history.optimality_gap[-1] < 0.01 * run.history.optimality_gap[0]
    assert run.history.accuracy[-1] < 0.9 < run.config["baselines"]["optimum"]
    facts = facts_of(run, Ran(method, NET, stream, model, None, "history"))
    assert facts.gain == pytest.approx(y.var() / 2 - np.square(y - X @ run.optimum).mean() / 2)
    assert verdict(facts).cause == "rounds"


def test_every_cause_has_a_run():
    with_own_records = {"range"}  # above
    assert {cause.name for cause in CAUSES} == {cause for cause, _, _ in SPOILED.values()} | with_own_records


def test_what_it_says_to_change_helps():
    few, said = ended(gs.decay(1.0, 0.3), steps=8)
    asked = int(said.sentence.split("steps=")[1].rstrip("."))
    assert asked > 8
    more, said = ended(gs.decay(1.0, 0.3), steps=asked)
    assert more.history.accuracy[-1] > few.history.accuracy[-1] + 0.03
    stiff, _ = ended(gs.decay(0.3, 0.3), l2=3.0)
    weak, _ = ended(gs.decay(0.3, 0.3), l2=0.03)
    assert weak.history.accuracy[-1] > stiff.history.accuracy[-1] + 0.03


def test_a_run_without_noise_decides_whether_noise_is_the_cause():
    _, said = ended(gs.decay(3.0, 0.3), noise=gs.decay(5.0, 0.1), quiet=True)
    assert said.cause == "noise"
    assert "the same run without it reaches 0.8" in said.sentence
    short = {"step": gs.decay(1e-3, 0.3), "noise": gs.decay(1e-4, 0.5)}
    assert ended(**short, quiet=True)[1].cause == "step", "without noise it ends as badly"


def test_learners_that_do_not_agree_are_told_so():
    """A long ring, and rounds in which news does not come round."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(40, 20, 3))
    y = (X[..., 0] + np.where(np.arange(40) < 20, 1.0, -1.0)[:, None] > 0).astype(float)
    stream = gs.streams.from_arrays(X, y, ranges=(-1, 1))
    facts = facts_of(
        gs.simulate(
            method := gs.ldp_gradient_tracking(gs.decay(2.0, 0.0), strict=False), ring := gs.Network.ring(40), stream,
            model=(model := gs.LogisticRegression(l2=1e-3)), steps=40,
        ),
        Ran(method, ring, stream, model, None, "history"),
    )  # fmt: skip
    assert facts.apart > 0.5
    said = verdict(facts._replace(step=0.5, falling=0.0, gap=[1.0, 0.5, 0.5, 0.5, 0.5]))
    assert "with more links" in said.sentence


def test_it_is_said_in_the_words_of_the_command():
    _, said = ended(gs.decay(1.0, 0.3), steps=8)
    assert "use --steps " in said.sentence.said(in_command)
    _, said = ended(gs.decay(1e-3, 0.3))
    assert "use a longer --step, or --step auto." in said.sentence.said(in_command)


def test_the_command_says_it_and_keeps_it(gossamer, tmp_path):
    code, out, _ = gossamer("run", "mushrooms", "--step", "1e-6,0.8", "--noise", 0, "--steps", 40, "--json", "a.json")
    assert code == 0
    assert "! The step is likely too short" in out
    told = json.loads((tmp_path / "a.json").read_text())
    assert told["verdict"]["cause"] == "step"
    code, out, _ = gossamer("run", "mushrooms", "--noise", 0, "--steps", 400, "--json", "b.json")
    assert "likely" not in out
    assert json.loads((tmp_path / "b.json").read_text())["verdict"] is None
