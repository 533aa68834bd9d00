"""One mistake, said to everybody in his own words: arguments in Python, options in the command; and typed errors."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.cli.words import in_command
from gossamer.errors import AT_SOURCE, AnyOf, Argument, BadValue, GossamerError, Sentence
from gossamer.networks.files import read_network

PYTHON_WORDS = re.compile(r"\b[a-z_]\w*=|clip_l[12]|\bper_round\b")
COMMAND_WORDS = re.compile(r"--[a-z]")
RNG = np.random.default_rng(0)
DATA = gs.streams.from_arrays(RNG.normal(size=(3, 40, 2)), RNG.integers(0, 2, (3, 40)))
DECLARED = gs.streams.from_arrays(RNG.uniform(-1, 1, (3, 40, 2)), RNG.integers(0, 2, (3, 40)), ranges=(-1, 1))
RING = gs.Network.ring(3)
STEP = gs.decay(1.0, 0.8)


def simulated(algorithm=None, stream=DATA, model=None, steps=4, **arguments):
    algorithm = algorithm or gs.ldp_gradient_tracking(STEP)
    return gs.simulate(algorithm, RING, stream, model=model or gs.LogisticRegression(l2=0.1), steps=steps, **arguments)


def private(**arguments):
    return simulated(gs.ldp_gradient_tracking(STEP), privacy=gs.Laplace.for_budget(8.0), **arguments)


def refused(mistake) -> GossamerError:
    with pytest.raises(GossamerError) as caught:
        mistake()
    return caught.value


def mushrooms(steps: int, step: gs.schedules.Decay = STEP, **arguments):
    stream = gs.datasets.mushrooms(learners=10, draw=arguments.pop("draw", "random"))
    algorithm = gs.ldp_gradient_tracking(step, strict=arguments.pop("strict", True))
    return gs.simulate(
        algorithm, gs.Network.paper(), stream, model=gs.LogisticRegression(1e-2), steps=steps, **arguments
    )


MISTAKES = {
    "steps": lambda: simulated(steps=0),
    "seed": lambda: simulated(seed=-1),
    "evaluate_every": lambda: simulated(evaluate_every=0),
    "gradient": lambda: simulated(gradient="newest"),
    "no new record": lambda: simulated(gradient="latest", steps=50),
    "privacy": lambda: simulated(privacy=3),
    "resume": lambda: simulated(resume=3),
    "strict": lambda: gs.ldp_gradient_tracking(gs.decay(1.0, 0.2)),
    "over": lambda: gs.dsgd(STEP, over="C"),
    "clip": lambda: gs.clip_l1(0.0),
    "clip_per": lambda: gs.clip_l2(1.0, per="year"),
    "clipping per round": lambda: simulated(model=gs.LogisticRegression(clip=gs.clip_l1(1.0, per="round"))),
    "l2": lambda: gs.LogisticRegression(l2=-1.0),
    "classes": lambda: gs.SoftmaxRegression(classes=1),
    "unbounded": lambda: private(),
    "unbounded square": lambda: private(stream=DECLARED, model=gs.RidgeRegression()),
    "wrong clip": lambda: private(model=gs.LogisticRegression(clip=gs.clip_l2(1.0))),
    "no recursion": lambda: simulated(
        replace(gs.dsgd(STEP), dynamics=None), stream=DECLARED, privacy=gs.Laplace.for_budget(8.0)
    ),
    "initial": lambda: gs.decay(-1.0, 0.6),
    "exponent": lambda: gs.decay(1.0, 1000.0),
    "not a number": lambda: gs.decay("one", 0.6),
    "ratio": lambda: gs.geometric(1.0, 2.0),
    "degree": lambda: gs.Network.random(5, degree=0),
    "edges": lambda: gs.Network([[-0.5, 0.4], [0.5, -0.5]]),
    "beyond m": lambda: gs.Network.from_edges(2, [(0, 1), (1, 2)]),
    "lonely": lambda: gs.Network.from_edges(3, [(0, 1), (1, 0)]),
    "learners": lambda: read_network("paper", 7),
    "rounds": lambda: gs.audit(
        gs.ldp_gradient_tracking(STEP), RING, gs.LogisticRegression(), gs.Laplace(1.0), "latest", rounds=2
    ),
    "separable": lambda: gs.models.Objective(gs.LogisticRegression(), SEPARABLE.population).minimiser(),
    "diverged": lambda: simulated(gs.dsgd(gs.decay(1e200, 0.0), strict=False), model=gs.RidgeRegression(), steps=9),
}
SEPARABLE = gs.streams.from_arrays(np.array([[[1.0], [-1.0]]] * 2), np.array([[1, 0]] * 2))


@pytest.mark.parametrize("name", MISTAKES)
def test_no_sentence_has_the_words_of_two_worlds(name):
    error = refused(MISTAKES[name])
    assert not COMMAND_WORDS.search(str(error))
    named = {part.name for part in error.parts if isinstance(part, Argument)}
    of_python_alone = name in ("resume", "wrong clip")  # no option leads to these
    if all(in_command(Argument(argument)) for argument in named) and not of_python_alone:
        assert not PYTHON_WORDS.search(error.said(in_command)), "an option exists for everything in it"
    for sentence in (str(error), error.said(in_command)):
        assert sentence.endswith(".")
        assert "\n" not in sentence


@pytest.mark.parametrize("name", MISTAKES)
def test_an_error_stays_what_it_is_on_its_way_out_of_a_process(name):
    error = refused(MISTAKES[name])
    same = pickle.loads(pickle.dumps(error))
    assert type(same) is type(error)
    assert (str(same), same.said(in_command)) == (str(error), error.said(in_command))
    if isinstance(error, BadValue):
        assert (same.argument, same.requirement, same.remedy) == (error.argument, error.requirement, error.remedy)


@pytest.mark.parametrize(
    ("mistake", "words", "in_python", "as_options"),
    [
        (
            lambda: mushrooms(2000, draw="once", gradient="latest"),
            "--steps 2000 --draw once --gradient latest --no-strict",
            "has no new record in round 1999, which gradient='latest' needs: use fewer steps, or gradient='history'.",
            "has no new record in round 1999, which --gradient latest needs: use fewer --steps, or --gradient history.",
        ),
        (
            lambda: mushrooms(2000, evaluate_every=2**50),
            f"--no-strict --evaluate-every {2**50}",
            "evaluate_every=1125899906842624: expected a whole number from 1 to 1099511627776.",
            "--evaluate-every 1125899906842624: expected a whole number from 1 to 1099511627776.",
        ),
        (
            lambda: mushrooms(10, step=gs.decay(1.0, 0.3)),
            "--step 1,0.3 --noise 0",
            "convergence is not proved. Change the schedules, or say strict=False to run all the same.",
            "convergence is not proved. Change the schedules, or say --no-strict to run all the same.",
        ),
        (
            lambda: read_network("paper", 7),
            "--graph paper --learners 7",
            "the network paper has 10 learners and the run has 7: use learners=10, or another network.",
            "the network paper has 10 learners and the run has 7: use --learners 10, or another --graph.",
        ),
        (
            lambda: mushrooms(9, step=gs.decay(1e250, -100.0), strict=False),
            "--step 1e250,-100 --noise 0 --no-strict --steps 9",
            "or a network in which learners keep more of their own.",
            "or a network in which learners keep more of their own.",
        ),
    ],
    ids=["no new record", "evaluate_every", "strict", "learners", "diverged"],
)
def test_the_same_mistake_in_python_and_in_the_command(gossamer, mistake, words, in_python, as_options):
    error = refused(mistake)
    assert str(error).endswith(in_python)
    assert error.said(in_command).endswith(as_options)
    code, out, err = gossamer("run", "mushrooms", *words.split())
    last = err.splitlines()[-1]  # a run that diverges has shown its progress before
    assert (code, out) == (2, "")
    assert last.startswith("gossamer: ")
    assert last.endswith(as_options)


def test_a_bad_value_carries_argument_value_requirement_and_remedy():
    error = BadValue("device", "cuda", "torch sees no GPU here", ("use ", Argument("device", "cpu")))
    assert (error.argument, error.value) == ("device", "cuda")
    assert (error.requirement, error.remedy) == (("torch sees no GPU here",), ("use ", Argument("device", "cpu")))
    assert str(error) == "device='cuda': torch sees no GPU here; use device='cpu'."
    assert error.said(in_command) == "--device cuda: torch sees no GPU here; use --device cpu."


@pytest.mark.parametrize(
    ("argument", "python", "option"),
    [
        (Argument("steps", 5), "steps=5", "--steps 5"),
        (Argument("per_round"), "per_round", "--per-round"),
        (Argument("gradient", "latest"), "gradient='latest'", "--gradient latest"),
        (Argument("strict", False), "strict=False", "--no-strict"),
        (Argument("strict", True), "strict=True", "--strict"),
        (Argument("drop", ["a", "b"]), "drop=['a', 'b']", "--drop a,b"),
        (Argument("dataset", "mnist"), "dataset='mnist'", "mnist"),
        (Argument("clip", "C", python="clip=clip_l1(c)"), "clip=clip_l1(c)", "--clip C"),
        (Argument("columns", python="feature ranges"), "feature ranges", "columns (--range, --categories)"),
        (Argument("seed", np.int64(3)), "seed=np.int64(3)", "--seed 3"),
    ],
    ids=str,
)
def test_an_argument_in_both_languages(argument, python, option):
    assert str(GossamerError(argument)) == python == repr(argument)
    assert GossamerError(argument).said(in_command) == option
    assert pickle.loads(pickle.dumps(argument)) == argument


def test_a_remedy_is_left_out_for_those_who_do_not_have_it():
    narrow = Argument("dtype", python="dtype=torch.float64")
    error = gs.NotProvable("use ", AnyOf(narrow, AT_SOURCE), ".")
    assert str(error) == "use dtype=torch.float64, or noise at the source (where='source')."
    assert error.said(in_command) == "use noise at the source (--where source)."
    assert GossamerError(AnyOf(narrow)).said(in_command) == "dtype=torch.float64", "better than nothing"


def test_a_sentence_within_a_sentence_keeps_its_arguments():
    why = Sentence("with ", Argument("split", "by-class"), " labels decide.")
    assert why == "with split='by-class' labels decide."
    assert pickle.loads(pickle.dumps(why)).parts == why.parts
    error = gs.NotProvable("not proved: ", why)
    assert str(error) == "not proved: with split='by-class' labels decide."
    assert error.said(in_command) == "not proved: with --split by-class labels decide."
    assert why.capitalised.said(in_command) == "With --split by-class labels decide."


@pytest.mark.parametrize("kind", [gs.BadValue, gs.Diverged, gs.NotProvable, gs.BudgetSpent])
def test_every_kind_is_a_mistake_that_can_be_caught_as_one(kind):
    assert issubclass(kind, gs.GossamerError)
    assert issubclass(kind, ValueError)


def test_a_run_that_diverges_says_so_by_its_class_and_other_mistakes_do_not():
    for steps in (9, 300):
        with pytest.raises(gs.Diverged, match="diverged"):
            simulated(gs.dsgd(gs.decay(1e200, 0.0), strict=False), model=gs.RidgeRegression(), steps=steps)
    for name in set(MISTAKES) - {"diverged"}:
        assert not isinstance(refused(MISTAKES[name]), gs.Diverged)


def test_networks_diverge_by_the_same_class():
    torch = pytest.importorskip("torch")
    from gossamer.models.torch import NeuralNetwork

    model = NeuralNetwork(lambda: torch.nn.Linear(2, 2), shape=(2,))
    with pytest.raises(gs.Diverged, match="parameters that are not finite"):
        simulated(gs.dsgd(gs.decay(1e30, 0.0), strict=False), model=model, gradient="latest", steps=20)


@pytest.mark.parametrize("name", ["unbounded", "unbounded square", "wrong clip", "no recursion"])
def test_a_claim_that_is_not_proved_says_so_by_its_class(name):
    assert isinstance(refused(MISTAKES[name]), gs.NotProvable)


def test_values_of_any_kind_are_said():
    assert in_command(Argument("epsilon", (1.5, math.inf))) == "--epsilon 1.5,inf"
    assert in_command(Argument("epsilon", np.array([1.0, 2.0]))) == "--epsilon 1,2"


def test_the_command_matches_no_patterns_over_sentences():
    sources = Path(gs.__file__).parent.joinpath("cli").glob("*.py")
    for source in sources:
        assert not re.search(r"^\s*(import re\b|from re import)", source.read_text(), re.MULTILINE), source.name
