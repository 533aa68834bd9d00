"""The estimators learn what the simulator learns, keep what they claim, and behave as scikit-learn's users expect."""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

pytest.importorskip("sklearn", reason="needs the extra `sklearn`")

import joblib
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import gossamer as gs
from gossamer.estimator.ongoing import _GONE_ON
from gossamer.estimator.unprotected import NotPrivateWarning
from gossamer.spec import Spec
from gossamer.spec.build import build
from gossamer.streams import OnePass

ROOT = Path(__file__).parents[1]
VISITS = ROOT / "examples/visits.csv"
DECLARED = {
    "bounds": {"age": (18, 100), "dose": (0, 12), "temperature": (36, 42)},
    "categories": {"ward": ["emergency", "surgery", "outpatients"], "sex": ["f", "m"]},
}
QUICK = {"learners": 3, "steps": 40, "network": "complete"}
LIMIT = 300.0  # seconds, on a machine that is busy with other things


@pytest.fixture(scope="module")
def visits():
    return pd.read_csv(VISITS)


@pytest.fixture(scope="module")
def rows(visits):
    """Three hundred visits without who had them, and which were ill."""
    some = visits[:300]
    return some.drop(columns=["ill", "hospital"]), some["ill"]


def numbers(count, columns=3, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, size=(count, columns))
    return X, (X @ np.arange(1.0, columns + 1) > 0).astype(int)


def run_of(spec, read=None):
    parts = build(spec, read)
    return gs.simulate(
        parts.algorithm,
        parts.network,
        parts.stream,
        model=parts.model,
        privacy=parts.mechanism,
        steps=parts.steps,
        gradient=parts.spec.algorithm.gradient,
        seed=parts.spec.length.seed,
    )


# -- the same numbers as the simulator ---------------------------------------------------------------------------------


def test_fit_is_the_run_that_the_command_makes_of_the_same_file(visits, tmp_path):
    visits = visits[::8]
    visits.to_csv(tmp_path / "visits.csv", index=False)
    spec = Spec.of(
        csv=str(tmp_path / "visits.csv"), target="ill", split_by="hospital", classes="no,yes", steps=60,
        range=("age=18:100,dose=0:12,temperature=36:42",),
        categories=("ward=emergency|surgery|outpatients", "sex=f|m"),
    )  # fmt: skip
    model = gs.PrivateDecentralizedClassifier(math.inf, steps=60, classes=["no", "yes"], **DECLARED)
    model.fit(visits.drop(columns=["ill", "hospital"]), visits["ill"], learner=visits["hospital"])
    np.testing.assert_allclose(model.record_.theta, run_of(spec).theta, rtol=1e-12, atol=1e-12)


def streamed(X, y, owners, pace, schema_range=(-1, 1)):
    """The same records as a stream that brings `pace` of every learner's a round, in the order in which they came."""
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    frame["target"] = y.astype(str) if y.dtype.kind == "i" else y
    classes = None if y.dtype.kind == "f" else ["0", "1"]
    ranges = {name: schema_range for name in frame.columns if name.startswith("x")}
    ranges |= {} if classes else {"target": (-6.0, 6.0)}
    read = gs.streams.from_frame(frame, "target", classes=classes, ranges=ranges, regression=classes is None)
    order = [np.flatnonzero(owners == k) for k in range(owners.max() + 1)]
    about = {name: read.description[name] for name in ("target", "columns", "classes", "schema")}
    weight = "equal" if len(set(pace)) == 1 else "records"
    return OnePass(read.table, order, pace, about, weight=weight)


@pytest.mark.parametrize("pace", [(2, 2, 2), (1, 2, 3)])
def test_calls_of_partial_fit_are_the_simulators_run_on_all_records_together(pace):
    steps, X_all = 30, numbers(30 * sum(pace))[0]
    y = (X_all @ [1.0, -2.0, 0.5] > 0.2).astype(int)
    owners = np.random.default_rng(1).permutation(np.repeat(np.arange(3), np.multiply(pace, steps)))
    first = sum(pace) * 10  # the first call says who learns, and how many records of each make a round
    head = np.concatenate([np.flatnonzero(owners == k)[: 10 * n] for k, n in enumerate(pace)])
    order = np.concatenate([head, np.setdiff1d(np.arange(len(y)), head)])
    X, y, owners = X_all[order], y[order], owners[order]
    by_rule = len(set(pace)) > 1
    model = gs.PrivateDecentralizedClassifier(
        math.inf, bounds=(-1, 1), steps=steps, network="complete", per_round=None if by_rule else pace[0]
    )
    for some in np.split(np.arange(len(y)), [first, first + 7, first + 60]):
        model.partial_fit(X[some], y[some], classes=[0, 1], learner=owners[some])
    spec = Spec.of(csv="X", target="target", model="logistic", classes="0,1", per_round=1, step="auto", steps=steps)
    whole = run_of(spec.but(graph="complete"), streamed(X, y, owners, pace))
    assert model.record_.t == steps
    np.testing.assert_allclose(model.record_.theta, whole.theta, rtol=1e-12, atol=1e-12)


def test_a_regressors_calls_are_the_simulators_run_too():
    X, _ = numbers(120)
    y = X @ [1.0, -2.0, 0.5] + 1
    model = gs.PrivateDecentralizedRegressor(
        math.inf, bounds=(-1, 1), target_bounds=(-6, 6), clip=5.0, steps=20, per_round=2, learners=3, network="ring"
    )
    for some in np.array_split(np.arange(120), 7):
        model.partial_fit(X[some], y[some])
    spec = Spec.of(csv="X", target="target", model="ridge", per_round=2, step="auto", steps=20, graph="ring", clip=5.0)
    from gossamer.spec.rules import MODELS, Learnt

    parts = build(spec, streamed(X, y, np.arange(120) % 3, (2, 2, 2)), Learnt(MODELS.find("ridge"), 1))
    whole = gs.simulate(parts.algorithm, parts.network, parts.stream, model=parts.model, steps=20)
    np.testing.assert_allclose(model.record_.theta, whole.theta, rtol=1e-12, atol=1e-12)


def test_rows_without_a_learner_are_dealt_by_the_seed_and_each_once():
    X, y = numbers(90)
    made = {seed: gs.PrivateDecentralizedClassifier(math.inf, random_state=seed, **QUICK).fit(X, y) for seed in (1, 2)}
    again = gs.PrivateDecentralizedClassifier(math.inf, random_state=1, **QUICK).fit(X, y)
    assert (made[1].coef_ == again.coef_).all()
    assert (made[1].coef_ != made[2].coef_).all()
    assert made[1].record_.config["stream"]["records"] == 90
    assert made[1].network_.m == 3


# -- budgets -----------------------------------------------------------------------------------------------------------


def test_with_a_budget_what_is_not_declared_is_refused_and_the_sentence_says_what_to_declare(rows):
    X, y = rows
    with pytest.raises(gs.NotProvable) as refused:
        gs.PrivateDecentralizedClassifier(3.0, **QUICK).fit(X, y)
    said = str(refused.value)
    offered = re.search(r"declare them with (bounds=.*?) \(as", said)[1]
    remedy = eval(f"dict({offered})")
    assert set(remedy) == {"bounds", "categories"}
    assert said.endswith("declare them with classes=['no', 'yes'].")
    model = gs.PrivateDecentralizedClassifier(3.0, classes=["no", "yes"], **remedy, **QUICK).fit(X, y)
    assert model.claim_.startswith("private: exact gaussian noise at the source")


def test_a_quantitys_bounds_are_asked_for_in_a_parameter_of_their_own():
    X, _ = numbers(60)
    with pytest.raises(gs.NotProvable, match=r"the ranges of target were .* declare them with target_bounds=\(-"):
        gs.PrivateDecentralizedRegressor(3.0, bounds=(-1, 1), **QUICK).fit(X, X.sum(axis=1))


def test_a_budget_is_kept_by_every_learner_and_told():
    X, y = numbers(300)
    model = gs.PrivateDecentralizedClassifier([1.0, 2.0, 4.0], bounds=(-1, 1), classes=[0, 1], **QUICK).fit(X, y)
    np.testing.assert_allclose(model.record_.epsilon.spent, [1, 2, 4], rtol=1e-3)
    assert model.epsilon_ == model.record_.epsilon.spent.max() <= 4


def test_without_a_budget_nothing_is_claimed_and_somebody_is_warned():
    X, y = numbers(60)
    with pytest.warns(NotPrivateWarning, match="not private"):
        model = gs.PrivateDecentralizedClassifier(**QUICK).fit(X, y)
    assert (model.epsilon_, model.claim_) == (math.inf, "not private: no noise")
    assert any("classes were read off y" in note for note in model.notes_)
    assert any("bounds={'x0':" in note for note in model.notes_)


def test_partial_fit_keeps_a_budget_for_ever_and_books_what_the_simulator_books():
    X, y = numbers(3 * 80)
    model = gs.PrivateDecentralizedClassifier(
        2.0, bounds=(-1, 1), classes=[0, 1], steps=40, per_round=1, learners=3, network="complete"
    )
    spent = []
    for some in np.array_split(np.arange(len(y)), 6):
        model.partial_fit(X[some], y[some])
        spent.append(model.epsilon_)
    assert model.record_.t == 80  # twice as many rounds as were planned
    assert 0 == spent[0] < spent[2] < spent[-1] < 2
    np.testing.assert_allclose(model.record_.epsilon.for_ever, 2.0, rtol=1e-3)
    spec = Spec.of(csv="X", target="target", model="logistic", classes="0,1", per_round=1, steps=40, graph="complete")
    half = streamed(X[:120], y[:120], np.arange(120) % 3, (1, 1, 1))
    whole = run_of(spec.but(epsilon="2", delta=1e-5, horizon="inf"), half)
    np.testing.assert_allclose(spent[2], whole.epsilon.spent, rtol=1e-9)
    for name in ("noise", "releases", "against"):  # and what is booked is what is drawn
        assert model.record_.config[name] == whole.config[name]


def test_a_run_that_diverges_is_refused():
    X, y = numbers(90)
    model = gs.PrivateDecentralizedClassifier(math.inf, bounds=(-1, 1), per_round=1, **QUICK).partial_fit(X, y)
    model._run._state = model._run._state._replace(theta=model._run._state.theta + np.inf)
    with pytest.raises(gs.Diverged, match="parameters are not finite at round 31"):
        model.partial_fit(X[:3], y[:3])


def test_a_plan_that_ends_refuses_what_comes_after():
    X, y = numbers(60)
    model = gs.PrivateDecentralizedClassifier(
        2.0, bounds=(-1, 1), classes=[0, 1], steps=20, horizon=20, per_round=1, learners=3, network="complete"
    ).partial_fit(X, y)
    with pytest.raises(gs.GossamerError, match=r"the 20 rounds that this run was planned for are done"):
        model.partial_fit(X[:3], y[:3])


def test_a_copy_goes_on_to_the_same_numbers_and_of_a_private_run_only_one_does():
    X, y = numbers(120)
    made = gs.PrivateDecentralizedClassifier(math.inf, bounds=(-1, 1), per_round=2, **QUICK)
    whole = clone(made).partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    half = clone(made).partial_fit(X[:60], y[:60])
    copy = pickle.loads(pickle.dumps(half)).partial_fit(X[60:], y[60:])
    np.testing.assert_allclose(copy.record_.theta, whole.record_.theta, rtol=1e-12, atol=1e-14)
    private = clone(made).set_params(epsilon=2.0, classes=[0, 1]).partial_fit(X[:60], y[:60])
    copy = pickle.loads(pickle.dumps(private))
    assert copy.epsilon_ == private.epsilon_
    private.partial_fit(X[60:], y[60:])
    with pytest.raises(gs.GossamerError, match="a copy of this private run has gone on from round"):
        copy.partial_fit(X[60:], y[60:])
    _GONE_ON.clear()  # as in another process, where the file is the only copy
    copy.partial_fit(X[60:], y[60:])
    np.testing.assert_allclose(copy.record_.epsilon.spent, private.record_.epsilon.spent, rtol=1e-12)


# -- frames, names and units -------------------------------------------------------------------------------------------


def test_frames_of_pandas_and_polars_and_declared_arrays_give_the_same_model(rows):
    X, y = rows
    made = gs.PrivateDecentralizedClassifier(math.inf, **DECLARED, **QUICK)
    one = clone(made).fit(X, y)
    other = clone(made).fit(pl.from_pandas(X), pl.Series("ill", y.tolist()))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert list(one.feature_names_in_) == list(X.columns) == list(other.feature_names_in_)
    assert one.record_.config["stream"]["target"] == "ill"
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(pl.from_pandas(X)))
    by_number = {"bounds": {0: (18, 100), 1: (0, 12), 2: (36, 42)}}
    by_number["categories"] = {3: DECLARED["categories"]["ward"], 4: DECLARED["categories"]["sex"]}
    third = clone(made).set_params(**by_number).fit(X.to_numpy(dtype=object), y)
    np.testing.assert_allclose(third.coef_, one.coef_, rtol=1e-12)


def test_coefficients_are_in_the_units_and_the_order_of_the_columns(rows):
    X, y = rows
    model = gs.PrivateDecentralizedClassifier(math.inf, **DECLARED, **QUICK).fit(X.assign(always=7.0), y)
    assert model.coef_names_[:3] == ["age", "dose", "temperature"]
    assert model.coef_names_[3:] == ["ward=emergency", "ward=surgery", "ward=outpatients", "sex=f", "sex=m", "always"]
    assert model.coef_[0, -1] == 0
    table = np.column_stack(
        [X[name] if "=" not in name else X[name.split("=")[0]] == name.split("=")[1] for name in model.coef_names_[:-1]]
    ).astype(float)
    margins = table @ model.coef_[0, :-1] + model.intercept_
    np.testing.assert_allclose(model.predict_proba(X.assign(always=7.0))[:, 1], 1 / (1 + np.exp(-margins)), rtol=1e-9)
    assert any("Left out, because every record has the same value there: always" in note for note in model.notes_)


def test_what_is_missing_is_refused_or_taken_for_what_was_said():
    X, y = numbers(90)
    X[3, 1] = np.nan
    made = gs.PrivateDecentralizedClassifier(math.inf, bounds=(-1, 1), **QUICK)
    with pytest.raises(ValueError, match="NaN"):
        clone(made).fit(X, y)
    with pytest.raises(gs.GossamerError, match=r"X, row \(from 0\) 3: no value in column 'b'.*missing='mean-of-range'"):
        clone(made).fit(pd.DataFrame(X, columns=list("abc")), y)
    middle = clone(made).set_params(missing="mean-of-range").fit(X, y)
    np.testing.assert_allclose(middle.predict_proba(X)[3], middle.predict_proba(np.nan_to_num(X))[3], rtol=1e-12)
    own = clone(made).set_params(missing="category").fit(X, y)
    assert own.coef_names_ == ["x0", "x0 missing", "x1", "x1 missing", "x2", "x2 missing"]


def test_a_regressor_finds_the_line_in_its_own_units():
    X = np.random.default_rng(0).uniform(0, 50, size=(200, 11))  # x10 comes before x2 in the schema
    line = np.arange(-5.0, 6.0)
    y = 1000 + X @ line
    model = gs.PrivateDecentralizedRegressor(math.inf, steps=600, l2=0.0, learners=4, network="complete").fit(X, y)
    np.testing.assert_allclose(model.coef_, line, atol=0.05)
    assert model.score(X, y) > 0.999
    assert model.intercept_ == pytest.approx(1000, abs=5)


def test_classes_may_be_what_they_like_and_are_told_in_order():
    X = np.random.default_rng(0).uniform(-1, 1, size=(240, 2))
    y = np.array(["10", "2", "other"])[np.digitize(X[:, 0], [-0.3, 0.3])]
    model = gs.PrivateDecentralizedClassifier(math.inf, steps=100, learners=3, network="complete").fit(X, y)
    assert model.classes_.tolist() == ["10", "2", "other"]
    assert model.coef_.shape == (3, 2)
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


# -- what scikit-learn's users do --------------------------------------------------------------------------------------


def test_it_works_in_a_pipeline_and_in_a_search():
    X, y = numbers(120)
    search = GridSearchCV(
        make_pipeline(MinMaxScaler(), gs.PrivateDecentralizedClassifier(math.inf, bounds=(0, 1), **QUICK)),
        {"privatedecentralizedclassifier__l2": [1e-3, 10.0]},
        cv=2,
    ).fit(X, y)
    assert search.best_params_ == {"privatedecentralizedclassifier__l2": 1e-3}
    assert search.score(X, y) > 0.85
    whose = np.arange(120) % 4
    made = gs.PrivateDecentralizedClassifier(math.inf, steps=20)
    assert GridSearchCV(made, {"l2": [1e-3]}, cv=2).fit(X, y, learner=whose).best_estimator_.network_.m == 4
    assert made.__sklearn_tags__().non_deterministic is False
    assert clone(made).set_params(epsilon=[1.0, 2.0]).__sklearn_tags__().non_deterministic is True


def test_a_model_is_saved_and_comes_back(rows, tmp_path):
    X, y = rows
    model = gs.PrivateDecentralizedClassifier(math.inf, **DECLARED, **QUICK).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    back = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.get_params() == model.get_params()
    model.record_.save(tmp_path / "run")
    record = gs.Record.load(tmp_path / "run")
    assert (record.predict(X) == model.predict(X)).all()
    model.record_.export(tmp_path / "model.json")
    np.testing.assert_allclose(gs.load_model(tmp_path / "model.json").predict_proba(X), model.predict_proba(X))
    going = gs.PrivateDecentralizedClassifier(math.inf, **DECLARED, **QUICK).partial_fit(X, y)
    going.record_.save(tmp_path / "going")
    assert (gs.Record.load(tmp_path / "going").predict(X) == going.predict(X)).all()


def test_a_network_of_ones_own_decides_how_many_learn():
    X, y = numbers(60)
    made = gs.PrivateDecentralizedClassifier(math.inf, network=gs.Network.ring(4), steps=20)
    assert clone(made).fit(X, y).network_.m == 4
    with pytest.raises(gs.GossamerError, match="there are 3 learners"):
        made.fit(X, y, learner=np.arange(60) % 3)


def test_few_rows_make_a_short_run_and_many_the_commands():
    X, y = numbers(40)
    assert gs.PrivateDecentralizedClassifier(math.inf).fit(X, y).record_.t == 100
    asked = gs.PrivateDecentralizedClassifier(math.inf)
    asked.classes_, asked._read_off = np.array([0, 1]), None
    assert [asked._asked().steps_for(n) for n in (10, 400, 10**6)] == [100, 400, 1000]


MISTAKES = [
    ({"bounds": 3}, {}, r"bounds=3: expected \(low, high\)"),
    ({"bounds": ([0, 0], 1)}, {}, r"expected \(low, high\), each a number or one for each of 3 columns"),
    ({"bounds": {"age": (0, 1)}}, {}, r"X has no column 'age'"),
    ({"bounds": {7: (0, 1)}}, {}, r"bounds=7: expected a column's number up to 2"),
    ({"epsilon": "many"}, {}, r"epsilon='many': expected a number above 0"),
    ({"epsilon": -1.0, "bounds": (-1, 1), "classes": [0, 1]}, {}, r"epsilon='-1.0': expected a finite number above 0"),
    ({"delta": 1e-5, "epsilon": None}, {}, r"delta goes with epsilon"),
    ({"classes": [0, 2]}, {}, r"y has the class 1, expected one of \[0, 2\]"),
    ({"steps": 2.5}, {}, r"steps=2.5: expected a whole number"),
    ({"algorithm": "ldp_gradient"}, {}, r"perhaps ldp_gradient_tracking is meant"),
    ({"learners": 50}, {}, r"X has 40 records for 50 learners"),
    ({"learners": 2}, {"learner": np.arange(40) % 3}, r"learners=2 and learner= names 3: leave learners out"),
    ({}, {"learner": ["a"] * 40}, r"must name at least two learners"),
    ({}, {"learner": ["a"] * 39}, r"X has 40 rows and learner 39"),
    ({}, {"learner": "clinic"}, r"learner='clinic' is one word.* give learner=X\['clinic'\]"),
    ({}, {"learner": 3}, r"learner has 0 dimensions, expected one name or number for each row"),
    ({}, {"learner": ["a", None] * 20}, r"learner has no name for 20 rows: say whose each is"),
    ({}, {"learner": [None, *"ab" * 19, "a"]}, r"learner has no name for 1 row: say whose each is"),
]


@pytest.mark.parametrize(("parameters", "given", "said"), MISTAKES)
def test_a_mistake_gets_one_sentence(parameters, given, said):
    X, y = numbers(40)
    with pytest.raises(gs.GossamerError, match=said):
        gs.PrivateDecentralizedClassifier(**({"epsilon": math.inf, "steps": 10} | parameters)).fit(X, y, **given)


def test_a_word_among_numbers_is_told_in_the_estimators_words(rows):
    X, y = rows
    X = X.astype({"age": object})
    X.iloc[50, list(X.columns).index("age")] = "old"
    with pytest.raises(gs.GossamerError) as error:
        gs.PrivateDecentralizedClassifier(math.inf, **DECLARED, **QUICK).fit(X, y)
    assert str(error.value) == (
        "X, row (from 0) 50: 'old' in column 'age' is not a finite number; correct it, use "
        "categories={'age': ['A', 'B']} for categories, or learner=X['age'] if it names the learners, "
        "or X.drop(columns=['age'])."
    )


def test_many_labels_are_a_quantity_unless_they_are_named():
    X, y = numbers(60)[0], np.arange(60) % 51
    for labels in (y, y.astype(float), y.astype(str)):
        with pytest.raises(gs.GossamerError, match=r"y has 51 distinct labels.* use PrivateDecentralizedRegressor"):
            gs.PrivateDecentralizedClassifier(math.inf, **QUICK).fit(X, labels)
    with pytest.warns(UserWarning, match="number of unique classes"):  # scikit-learn's own
        gs.PrivateDecentralizedClassifier(math.inf, classes=range(51), **QUICK).fit(X, y)


def test_partial_fit_says_what_it_cannot_do(rows):
    X, y = rows
    made = gs.PrivateDecentralizedClassifier(math.inf, **DECLARED, **QUICK)
    with pytest.raises(gs.GossamerError, match=r"partial_fit after fit: .* on a clone"):
        clone(made).fit(X, y).partial_fit(X, y)
    going = clone(made).set_params(learners=None).partial_fit(X, y, learner=["a", "b", "c"] * 100)
    with pytest.raises(gs.GossamerError, match="learner 'd' was not there in the first call, which had a, b, c"):
        going.partial_fit(X, y, learner=["d"] * 300)
    with pytest.raises(gs.GossamerError, match="say whose each row is"):
        going.partial_fit(X, y)
    before = going.record_.t
    going.partial_fit(X[:50], y[:50], learner=["b"] * 50)
    assert going.record_.t == before
    assert any(note.startswith("Records that wait until all learners have a round's: b 5") for note in going.notes_)


# -- how it is loaded and shown ----------------------------------------------------------------------------------------


def in_a_fresh_interpreter(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    return done.stdout + done.stderr


def test_nothing_is_loaded_before_it_is_used_and_a_missing_extra_is_one_sentence():
    told = in_a_fresh_interpreter(
        "import sys, gossamer as gs\n"
        "print([name for name in ('sklearn', 'river', 'numpy') if name in sys.modules])\n"
        "sys.modules['sklearn'] = sys.modules['river'] = None\n"
        "for name in ('PrivateDecentralizedClassifier', 'PrivateDecentralizedRegressor', 'LearnerNetwork'):\n"
        "    try: getattr(gs, name)\n"
        "    except gs.GossamerError as error: print(error)\n"
    )
    assert told.splitlines() == [
        "[]",
        *["an estimator needs scikit-learn: pip install 'gossamer-learning[sklearn]'."] * 2,
        "river's learners need river: pip install 'gossamer-learning[river]'.",
    ]


def test_twelve_lines_make_a_private_model_that_is_saved_comes_back_and_predicts(tmp_path, monkeypatch):
    """The page's first block, exactly; tests/test_pages.py runs all others."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/estimator.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    names: dict[str, object] = {}
    exec(code, names)
    new = pd.read_csv(ROOT / "examples/new-visits.csv")
    assert (names["predicted"] == new["ill"]).mean() > 0.8
    assert 2.9 < names["model"].epsilon_ <= 3
    assert (tmp_path / "private.joblib").exists()
