"""Images from the command: runs that resume exactly, comparisons that go on, and what fixed features give."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.algorithms import find_method
from gossamer.cli import watch
from gossamer.cli.commands import app
from gossamer.experiments import feature_words, features, picture_words, tasks
from gossamer.experiments.pictures import compare_pictures, picture_problem
from gossamer.experiments.runs import Runs
from gossamer.experiments.search import Choice
from gossamer.experiments.study import OURS, Case, Effort, Study, most
from gossamer.privacy import epsilons
from gossamer.spec import Spec
from gossamer.spec.rules import dataset_of, step_of

torch = pytest.importorskip("torch", reason="needs the extra `nn`")


@pytest.fixture
def data(folder, monkeypatch):
    monkeypatch.setenv("GOSSAMER_DATA", str(folder))
    for cached in (tasks._read, tasks.terms_of):
        cached.cache_clear()
    return folder


RUN = ("run", "mnist", "--model", "cnn", "--per-round", 4, "--step", "0.05,0.8", "--noise", "0.01,0.51:0.6")


def test_a_run_on_images_resumes_exactly(gossamer, data, tmp_path):
    code, out, err = gossamer(*RUN, "--steps", 6, "--evaluate-every", 2, "--out", "whole")
    assert code == 0, err
    assert "test accuracy" in out
    assert "ε = ∞: nothing bounds the gradient" in out.replace("\n", " ")
    assert gossamer(*RUN, "--steps", 4, "--evaluate-every", 2, "--out", "part")[0] == 0
    assert (tmp_path / "part" / "record-4.safetensors").exists()
    code, out, err = gossamer("run", "--resume", "part", "--steps", 6)
    assert code == 0, err
    assert not (tmp_path / "part" / "record-4.safetensors").exists(), "what is no longer named is gone"
    whole, part = (gs.Record.load(tmp_path / name / "record") for name in ("whole", "part"))
    assert set(whole.state) == set(part.state) >= {"theta", "s", "z"}
    for name in whole.state:
        np.testing.assert_array_equal(whole.state[name], part.state[name])
    np.testing.assert_array_equal(whole.history.learners_accuracy, part.history.learners_accuracy)
    about = json.loads((tmp_path / "whole" / "record.json").read_text())
    assert np.shape(about["history"]["learners_accuracy"]) == (4, 10), "every learner, at every evaluation"
    assert np.shape(about["history"]["learners_train_accuracy"]) == (4, 10)


def test_a_state_that_is_missing_is_named(gossamer, data, tmp_path):
    assert gossamer(*RUN, "--steps", 2, "--out", "lost")[0] == 0
    (tmp_path / "lost" / "record-2.safetensors").unlink()
    code, _, err = gossamer("run", "--resume", "lost", "--steps", 3)
    assert code != 0
    assert "record-2.safetensors" in err
    assert "Traceback" not in err


def test_what_a_crash_leaves_can_be_resumed(gossamer, data, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "KEPT_EVERY", 0.0)
    calls = []

    saved = gs.Record.save

    def save(self, path):
        files = saved(self, path)
        calls.append(self.t)
        if self.t == 3:
            raise SystemError  # as a crash would, right after
        return files

    monkeypatch.setattr(gs.Record, "save", save)
    words = [str(w) for w in (*RUN, "--steps", 6, "--evaluate-every", 2, "--out", "crashed")]
    with pytest.raises(SystemError):
        app(words, standalone_mode=False)
    assert calls == [1, 2, 3]
    monkeypatch.setattr(gs.Record, "save", saved)
    monkeypatch.setattr(watch, "KEPT_EVERY", 600.0)
    assert gossamer("run", "--resume", "crashed")[0] == 0
    assert gossamer(*RUN, "--steps", 6, "--evaluate-every", 2, "--out", "straight")[0] == 0
    crashed, straight = (gs.Record.load(tmp_path / name / "record") for name in ("crashed", "straight"))
    np.testing.assert_array_equal(crashed.theta, straight.theta)
    np.testing.assert_array_equal(crashed.history.t, straight.history.t)


def test_a_private_run_protects_an_image_or_a_round(gossamer, data):
    private = ("run", "mnist", "--per-round", 2, "--epsilon", 8, "--where", "source", "--steps", 2, "--clip", 1)
    code, out, err = gossamer(*private, "--model", "cnn", "--law", "gaussian")
    assert code == 0, err
    assert out.count("           8") >= 10
    assert "Private: exact gaussian noise at the source" in out
    code, _, err = gossamer(*private, "--clip-per", "record")
    assert code != 0
    assert "BatchNorm" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "mushrooms", "--bf16"), "--bf16 is for --model cnn or resnet18"),
        (("run", "mushrooms", "--model", "cnn"), "--model cnn is for cifar10 and mnist"),
        (("run", "mnist", "--model", "ridge"), "resnet18 or cnn"),
        (("run", "mnist", "--model", "cnn", "--norm", "group"), "--norm group is for --model resnet18"),
        (("run", "mnist", "--rows", "l1"), "--rows l1 is for mushrooms: leave it out"),
        (("run", "mnist", "--device", "nowhere"), "expected cpu, cuda"),
        (("run", "mnist", "--clip-per", "round"), "goes with --clip"),
        (("run", "mnist", "--model", "cnn", "--epsilon", 8, "--where", "source"), "give --clip C"),
        (("compare", "mnist", "--l2", 0.1), "--l2 is not for comparing on images"),
        (("compare", "mnist", "--epsilon", 3), "are not for images"),
        (("compare", "mushrooms", "--bf16"), "--bf16 is for --model cnn or resnet18"),
        (("frontier", "mnist", "--full"), "of images --quick, --jobs"),
        (("compare", "mnist", "--quick", "--norm", "group"), "--norm group is for --model resnet18"),
        (("run", "mnist", "--per-round", 1), "BatchNorm, which needs two images"),
        (("run", "mnist", "--device", "meta"), "expected cpu, cuda"),
        (
            ("run", "mnist", "--model", "cnn", "--epsilon", 8, "--clip", 1, "--where", "messages"),
            "narrower: use noise at the source (--where source)",
        ),
        (("run", "mnist", "--clip", 1, "--clip-per", "record"), "use --norm group, or --clip-per round, which"),
        (("budget", "mnist", "--clip", 1), "says what a run's noise would cost"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(gossamer, data, tmp_path, words, said):
    code, _, err = gossamer(*words)
    assert code != 0
    assert said in err.replace("\n", " ")
    assert "Traceback" not in err
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("gossamer-")]


def test_a_comparison_goes_on_and_says_what_it_found(gossamer, drawn, data, tmp_path):
    words = ("compare", "mnist", "--quick", "--steps", 2, "--seeds", 1, "--methods", f"{OURS},push_pull", "--out", "c")
    code, _, err = gossamer(*words)
    assert code == 0, err
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "c" / "runs").iterdir()}
    page = (tmp_path / "c" / "README.md").read_text()
    assert "Algorithm 1" in page
    assert "At the same ε" in page
    assert {"results.json", "test.png", "train.png"} <= {path.name for path in (tmp_path / "c").iterdir()}
    found = json.loads((tmp_path / "c" / "results.json").read_text())
    assert [(e["method"], e["which"]) for e in found["entries"]] == [
        (OURS, "best"), ("push_pull", "best"), (OURS, "published noise"), ("push_pull", "published noise"),
        (OURS, "published"), ("push_pull", "published"),
    ]  # fmt: skip
    for entry in found["entries"]:
        (run,) = entry["runs"]
        if entry["which"] == "best":
            np.testing.assert_allclose(run["epsilon"], found["epsilon"], rtol=1e-4)
        assert len(run["learners_accuracy"]) == 10
    assert gossamer(*words)[0] == 0
    assert kept == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "c" / "runs").iterdir()}


def study_of(effort, **settings):
    problem = picture_problem(Spec.of(dataset="mnist", model="cnn", **settings), quick=False)
    return Study(problem, effort, None, most("train_accuracy"))


def test_under_the_printed_noise_a_larger_step_costs_in_proportion(data):
    """With L = ∞ every gradient is charged in full, so ε is λ0 times a constant."""
    study = study_of(Effort(50, 1, (0.2, 0.6)), per_round=4)
    asked = (study.task(Case(OURS, None, "published", 0.01), Choice(step), 0) for step in study.effort.grid)
    one, three = (np.array(epsilons(tasks.terms_of(task, 50), 50, 0.0)) for task in asked)
    np.testing.assert_allclose(three / one, 3.0, rtol=1e-4)


def test_a_last_digit_of_epsilon_does_not_run_anything_again():
    task = study_of(Effort(10, 1, (0.1,))).task(Case(OURS, 1885.4295984506397), Choice(0.1), 0)
    next_one = repr(np.nextafter(1885.4295984506397, 2e3).item())
    assert task.key() == replace(task, spec=task.spec.but(epsilon=next_one)).key()
    assert task.key() != replace(task, spec=task.spec.but(epsilon="1885.5")).key()


def test_a_run_that_diverges_says_so_and_the_comparison_goes_on(data, tmp_path):
    problem = picture_problem(Spec.of(dataset="mnist", model="cnn", per_round=4, tested=10), quick=False).but(clip=1e30)
    effort = Effort(4, 1, (1e30,), tuning_rounds=4, evaluations=10)
    studied = compare_pictures(problem, Runs(tmp_path, 1), effort, (OURS,))
    assert any(entry.diverged for entry in studied.entries)
    assert any("iverge" in sentence for sentence in picture_words.list_findings(studied))


def test_features_are_bounded_found_once_and_learnt_by_a_line(data, monkeypatch):
    stream = gs.datasets.mnist(5, 0, "once", per_round=4, features="scattering")
    assert (np.linalg.norm(stream.table.rows, axis=1) <= 1).all()
    assert 1 <= stream.table.bounds.l2 <= 1 + 1e-6
    from gossamer.streams import scattering

    monkeypatch.setattr(scattering, "scattered", None)  # a second reading must not need it
    again = gs.datasets.mnist(5, 0, "once", per_round=4, features="scattering")
    np.testing.assert_array_equal(stream.table.rows, again.table.rows)
    with pytest.raises(gs.GossamerError, match="expected 'pixels' or 'scattering'"):
        gs.datasets.mnist(features="sift")


def test_the_study_of_features_spends_what_it_says(data, tmp_path):
    effort = Effort(None, 1, (1.0, 4.0), evaluations=1, epsilons=(2.0, None), per_round=(2,))
    problem = features.feature_problem("mnist", "iid").but(gradient="latest", l2=0.1)  # θ* is soon found
    studied = features.study_features(problem, Runs(tmp_path, 1), effort, (OURS, "dsgd"))
    assert len(studied.entries) == 4
    for entry in studied.entries:
        (run,) = entry.runs
        assert run["steps"] == 5, "ten images each, two a round"
        if entry.case.epsilon is not None:
            assert max(run["epsilon"]) == pytest.approx(2.0, rel=1e-3)
            # one image moves a mean of two by 2 c / 2 at most; the Gaussian mechanism's σ for that is known
            assert run["noise"][0] == pytest.approx(_sigma(2.0, 1e-5) * 2 * features.CLIP / 2, rel=0.01)
    assert find_method("dsgd").label in feature_words.tell_features(studied).markdown("a command")


def _sigma(epsilon, delta):
    """The analytic Gaussian mechanism's σ for a shift of 1 (Balle & Wang, ICML 2018), by bisection."""
    from scipy.stats import norm

    def spent(sigma):
        a, b = 1 / (2 * sigma), epsilon * sigma
        return norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b)

    low, high = 0.1, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) > delta else (low, middle)
    return high


def test_early_on_a_learners_weight_is_far_below_its_limit():
    """Why a large λ0 blows up in the first rounds: Algorithm 1 divides by m [z_i]_i, which dips before it settles."""
    network = gs.Network.paper()
    own = network.m * network.own_weights(200)
    assert own[0].min() == 10
    assert own[:10].min() < 0.1
    assert own[-1].min() > 0.3


def test_a_device_that_is_not_there_is_no_divergence(gossamer, data, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    code, _, err = gossamer("compare", "mnist", "--quick", "--device", "cuda", "--methods", OURS, "--out", "c")
    assert code != 0
    assert "--device cuda: torch sees no GPU here; use --device cpu." in err
    assert "Traceback" not in err
    assert not (tmp_path / "c" / "runs").exists()


def test_a_private_record_is_resumed_once(gossamer, data, tmp_path, monkeypatch):
    words = ("run", "mnist", "--model", "cnn", "--per-round", 2, "--epsilon", 8, "--where", "source", "--clip", 1)
    assert gossamer(*words, "--law", "gaussian", "--steps", 2, "--out", "p")[0] == 0
    from gossamer.cli import run as command

    def crash(*_):
        raise SystemError

    whole = command._run
    monkeypatch.setattr(command, "_run", crash)
    with pytest.raises(SystemError):
        app(["run", "--resume", "p", "--steps", "3"], standalone_mode=False)
    monkeypatch.setattr(command, "_run", whole)
    code, _, err = gossamer("run", "--resume", "p", "--steps", 3)
    assert code != 0
    assert "a second time" in err.replace("\n", " ")


def test_what_an_image_costs_is_said_by_arrival_where_images_come_again(gossamer, data):
    said = gossamer(*RUN, "--steps", 2, "--clip", 1, "--out", "r")[1]
    said = " ".join(said.split())
    assert "for one arrival of an image" in said
    said = gossamer(*RUN, "--steps", 2, "--clip", 1, "--draw", "once", "--out", "o")[1]
    said = " ".join(said.split())
    assert "for one image" in said


def test_a_cnn_has_a_step_of_its_own(gossamer, data, tmp_path):
    code, _, err = gossamer("run", "mnist", "--per-round", 2, "--steps", 1, "--model", "cnn", "--out", "r")
    assert code == 0, err
    assert gs.Record.load(tmp_path / "r").config["algorithm"]["step"].startswith("Decay(initial=0.06,")
    published = Spec.of(dataset="mnist")
    assert step_of(published, dataset_of(published)) == "0.6,0.6", "a ResNet's, as published"
    said = " ".join(gossamer("run", "--help")[1].split())
    assert "0.06,0.6 with --model cnn" in said
    assert "the default for mushrooms and images" in said


def test_what_cannot_be_resumed_is_named(gossamer, data, tmp_path):
    assert gossamer(*RUN, "--steps", 3, "--out", "done")[0] == 0
    code, _, err = gossamer("run", "--resume", "done", "--steps", 2)
    assert code != 0
    assert "--steps 2: 3 rounds are done; give more than 3." in err
    assert "its 3 rounds are done; ask for more with --steps" in gossamer("run", "--resume", "done")[2]
    with pytest.raises(gs.GossamerError, match=r"done/settings\.json is no run record, .*settings\.npz is not there"):
        gs.Record.load(tmp_path / "done" / "settings.json")


def test_a_log_shows_how_far_a_comparison_is(gossamer, data, monkeypatch):
    monkeypatch.setattr(watch, "LINE_EVERY", 0.0)
    words = ("compare", "mnist", "--quick", "--steps", 2, "--seeds", 1, "--methods", "ldol", "--out", "c")
    code, _, err = gossamer(*words)
    assert code == 0, err
    assert [f"compare: {k} of 2 runs done" in err for k in range(3)] == [True] * 3
