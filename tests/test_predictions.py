"""A model that a run has left: its predictions are those of the equations, in every form that rows come in."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.records import features_of
from gossamer.run_record import Record
from gossamer.streams.schema import Schema

RANGES = {"age": (20.0, 90.0), "dose": (0.0, 5.0)}
WARDS = ("a", "b", "c")
COLUMNS = ("age", "dose", "ward=a", "ward=b", "ward=c", "intercept")
LEVELS = ("low", "mid", "high")
TARGETS = {  # what each model is learned from: (classes, the target of a row with this score)
    "logistic": (("no", "yes"), lambda x: "yes" if x > 0 else "no"),
    "softmax": (LEVELS, lambda x: LEVELS[int(np.digitize(x, [-1, 1]))]),
    "ridge": ((), lambda x: round(130 + 12 * x, 3)),
}


def score_of(row):
    return 0.06 * (row["age"] - 55) - 0.8 * (row["dose"] - 2.5) + {"a": -0.4, "b": 0.0, "c": 0.9}[row["ward"]]


def make_rows(count, seed, kind):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        row = {
            "age": round(rng.uniform(20, 90), 2),
            "dose": round(rng.uniform(0, 5), 3),
            "ward": str(rng.choice(WARDS)),
        }
        rows.append(row | {"out": TARGETS[kind][1](score_of(row) + rng.normal() * 0.5)})
    return rows


def write_csv(path, rows, names=None, separator=","):
    names = names or list(rows[0])
    lines = [separator.join(names), *(separator.join(str(row[name]) for name in names) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def learn(path, kind):
    """A run of four learners on a CSV file, with all declared."""
    classes = TARGETS[kind][0]
    stream = gs.streams.from_csv(
        path, "out", 4, ranges=RANGES if classes else {**RANGES, "out": (60.0, 200.0)}, categories={"ward": WARDS},
        classes=classes or None, regression=not classes,
    )  # fmt: skip
    model = {
        "logistic": gs.LogisticRegression(l2=1e-3),
        "softmax": gs.SoftmaxRegression(3, l2=1e-3),
        "ridge": gs.RidgeRegression(l2=1e-3),
    }[kind]
    method = gs.ldp_gradient_tracking(step=gs.decay(0.3, 0.0), strict=False)
    return gs.simulate(method, gs.Network.exponential(4), stream, model=model, steps=60), stream


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    made, folder = {}, tmp_path_factory.mktemp("runs")
    for kind in TARGETS:
        made[kind] = learn(write_csv(folder / f"{kind}.csv", make_rows(160, 0, kind)), kind)
    return made


@pytest.fixture
def record(runs):
    return runs["logistic"][0]


def features(rows):
    """Written from what the documentation says: numbers on −1 … 1, a column a category, 1 at last."""
    X = []
    for row in rows:
        numbers = [
            2 * (min(max(row[name], low), high) - low) / (high - low) - 1 for name, (low, high) in RANGES.items()
        ]
        X.append([*numbers, *(float(row["ward"] == ward) for ward in WARDS), 1.0])
    return np.array(X)


def expected(kind, theta, rows):
    """Predictions and probabilities by the equations."""
    X = features(rows)
    if kind == "logistic":
        p = 1 / (1 + np.exp(-X @ theta))
        return np.where(p > 0.5, "yes", "no"), np.column_stack([1 - p, p])
    if kind == "softmax":
        e = np.exp(X @ theta.reshape(6, 3))
        p = e / e.sum(axis=1, keepdims=True)
        return np.array(TARGETS[kind][0])[p.argmax(axis=1)], p
    return 60 + (X @ theta + 1) / 2 * (200 - 60), None


def agree(got, wanted):
    if np.asarray(wanted).dtype.kind == "f":
        np.testing.assert_allclose(got, wanted, rtol=1e-10)
    else:
        assert got.tolist() == wanted.tolist()


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("learner", [None, "2", 2])
def test_predictions_are_those_of_the_equations(runs, kind, learner):
    run, rows = runs[kind][0], make_rows(50, 1, kind)
    theta = run.theta.mean(axis=0) if learner is None else run.theta[2]
    wanted, shares = expected(kind, theta, rows)
    agree(run.predict(rows, learner=learner), wanted)
    if shares is None:
        with pytest.raises(gs.GossamerError, match="a quantity, which has no probabilities: use predict"):
            run.predict_proba(rows)
    else:
        np.testing.assert_allclose(run.predict_proba(rows, learner=learner), shares, rtol=1e-10)
        assert len(set(wanted.tolist())) > 1, "the rows tell classes apart"


@pytest.mark.parametrize("kind", TARGETS)
def test_new_rows_get_the_features_that_learners_had(runs, kind, tmp_path):
    run, stream = runs[kind]
    path = write_csv(tmp_path / "same.csv", make_rows(160, 0, kind))
    X = run.fitted().read(path).X
    np.testing.assert_array_equal(X, np.asarray(features_of(stream.table)))


def test_a_record_carries_its_schema_through_a_file(record, tmp_path):
    record.save(tmp_path / "kept")
    kept = Record.load(tmp_path / "kept")
    schema = Schema.from_description(kept.config["stream"]["schema"])
    assert (schema.target, tuple(schema.classes), schema.features) == ("out", ("no", "yes"), ["age", "dose", "ward"])
    assert schema.ranges == RANGES
    assert schema.categories == {"ward": WARDS}
    assert tuple(schema.column_names) == COLUMNS
    assert json.loads(json.dumps(schema.described())) == schema.described()
    rows = make_rows(20, 3, "logistic")
    np.testing.assert_array_equal(kept.predict_proba(rows), record.predict_proba(rows))


def forms(rows, folder):
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    yield "dict of columns", columns
    yield "arrays", {name: np.array(values) for name, values in columns.items()}
    yield "array in the order of names", np.array([[r["age"], r["dose"], r["ward"]] for r in rows], dtype=object)
    yield "lists", [[r["age"], r["dose"], r["ward"]] for r in rows]
    yield "text", [{name: str(value) for name, value in row.items()} for row in rows]
    yield "CSV", write_csv(folder / "new.csv", rows)
    names = ["ward", "more", "dose", "age"]
    others = [row | {"more": f"x{k}"} for k, row in enumerate(rows)]
    yield "CSV in another order, more columns, no target", str(write_csv(folder / "other.csv", others, names))
    yield "CSV with semicolons", write_csv(folder / "semicolons.csv", rows, separator=";")
    (folder / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    yield "JSONL", folder / "new.jsonl"


def test_rows_come_in_many_forms(record, tmp_path):
    rows = make_rows(30, 4, "logistic")
    wanted = record.predict_proba(rows)
    for form, given in forms(rows, tmp_path):
        np.testing.assert_array_equal(record.predict_proba(given), wanted, err_msg=form)


def test_tables_of_pyarrow_and_parquet_files(record, tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = make_rows(30, 4, "logistic")
    table = arrow.Table.from_pylist(rows)
    parquet.write_table(table, tmp_path / "new.parquet")
    np.testing.assert_array_equal(record.predict_proba(table), record.predict_proba(rows))
    np.testing.assert_array_equal(record.predict_proba(tmp_path / "new.parquet"), record.predict_proba(rows))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(record, library):
    frames = pytest.importorskip(library)
    pytest.importorskip("narwhals", reason="needs the extra `frames`")
    rows = make_rows(30, 4, "logistic")
    np.testing.assert_array_equal(record.predict_proba(frames.DataFrame(rows)), record.predict_proba(rows))


@pytest.mark.parametrize("kind", TARGETS)
def test_coefficients_reproduce_predictions_of_raw_rows(runs, kind):
    run, rows = runs[kind][0], make_rows(50, 5, kind)
    theta = run.theta.mean(axis=0)
    wanted, shares = expected(kind, theta, rows)

    def margin(told):
        return np.array(
            [
                told["intercept"] + told["age"] * r["age"] + told["dose"] * r["dose"] + told[f"ward={r['ward']}"]
                for r in rows
            ]
        )

    told = run.coefficients()
    if kind == "ridge":
        np.testing.assert_allclose(margin(told), wanted, rtol=1e-10)
        assert told["age"] == pytest.approx(theta[0] * 2 / 70 * 70), "a year is 2/70 on the scale, and 1 there is 70"
    elif kind == "logistic":
        assert list(told) == ["yes"], "the odds of the second class over the first"
        np.testing.assert_allclose(1 / (1 + np.exp(-margin(told["yes"]))), shares[:, 1], rtol=1e-10)
    else:
        assert list(told) == ["low", "mid", "high"]
        e = np.exp(np.column_stack([margin(told[name]) for name in told]))
        np.testing.assert_allclose(e / e.sum(axis=1, keepdims=True), shares, rtol=1e-10)
    assert run.coefficients(learner=1) != told


@pytest.mark.parametrize("kind", TARGETS)
def test_a_model_file_gives_the_same_predictions(runs, kind, tmp_path):
    run, rows = runs[kind][0], make_rows(50, 6, kind)
    path = run.export(tmp_path / "model.json", learner="1")
    model = gs.load_model(path)
    assert model.predict(rows).tolist() == run.predict(rows, learner="1").tolist()
    assert model.whose == "learner 1"
    assert model.save(tmp_path / "again.json").read_bytes() == path.read_bytes()
    told = json.loads(path.read_text())
    assert told["coefficients"] == run.coefficients(learner="1")
    assert told["classes"] == list(TARGETS[kind][0])
    np.testing.assert_array_equal(np.ravel(told["theta"]), run.theta[1])
    assert any("intercept" in sentence for sentence in told["how_to_predict"])


def test_a_model_file_can_be_used_by_its_own_words(record, tmp_path):
    """A reader who has nothing but the file, and follows how_to_predict."""
    told = json.loads(record.export(tmp_path / "model.json").read_text())
    rows = [{"age": 300.0, "dose": -2.0, "ward": "b"}, {"age": 41.0, "dose": 1.5, "ward": "c"}]
    second = told["coefficients"][told["classes"][1]]
    wanted = []
    for row in rows:
        x = second["intercept"] + second[f"ward={row['ward']}"]
        for name, (low, high) in told["limits"].items():
            x += second[name] * min(max(row[name], low), high)
        wanted.append(1 / (1 + np.exp(-x)))
    np.testing.assert_allclose(record.predict_proba(rows)[:, 1], wanted, rtol=1e-10)


def test_values_outside_a_range_are_clipped_and_counted(record):
    inside = [{"age": 90, "dose": 0, "ward": "a"}] * 3
    outside = [
        {"age": 400, "dose": 0, "ward": "a"},
        {"age": 90, "dose": -1, "ward": "a"},
        {"age": 91, "dose": 0, "ward": "a"},
    ]
    np.testing.assert_array_equal(record.predict_proba(outside), record.predict_proba(inside))
    assert record.fitted().read(outside).clipped == {"age": 2, "dose": 1}
    assert record.fitted().read(inside).clipped == {}


def test_ranges_read_off_the_data_clip_where_learners_did(tmp_path):
    rows = make_rows(160, 0, "logistic")
    stream = gs.streams.from_csv(write_csv(tmp_path / "rows.csv", rows), "out", 4, categorical=["ward"])
    method = gs.ldp_gradient_tracking(step=gs.decay(0.3, 0.0), strict=False)
    run = gs.simulate(method, gs.Network.exponential(4), stream, model=gs.LogisticRegression(l2=1e-3), steps=20)
    far = [{"age": 1e6, "dose": 1.0, "ward": "b"}]
    _, high = run.fitted().limits()["age"]
    assert high > max(row["age"] for row in rows)
    np.testing.assert_allclose(run.predict_proba(far), run.predict_proba([far[0] | {"age": high}]), rtol=1e-12)
    assert (run.predict_proba([far[0] | {"age": 0.9 * high}]) != run.predict_proba(far)).all()
    x = run.coefficients()["yes"]
    odds = x["intercept"] + x["age"] * high + x["dose"] + x["ward=b"]
    np.testing.assert_allclose(run.predict_proba(far)[0, 1], 1 / (1 + np.exp(-odds)), rtol=1e-10)


ROW = {"age": 30, "dose": 1, "ward": "a"}
MISTAKES = {
    "no age": ([{"dose": 1, "ward": "a"}], "the rows: no column 'age', which the model needs"),
    "near": ([{"Age": 1, "dose": 1, "ward": "a"}], "perhaps Age is meant"),
    "unknown": ([ROW | {"ward": "z"}], "row 1: 'z' in column 'ward' is none of the declared categories a, b, c"),
    "word": ([ROW, ROW | {"age": "old"}], "row 2: 'old' in column 'age' is not a finite number"),
    "missing": ([ROW | {"age": None}], "row 1: no value in column 'age'"),
    "shape": (np.zeros((3, 2)), r"shape \(3, 2\), expected \(rows, 3\), the columns being age, dose, ward"),
    "scalar": ({"age": 3}, "column 'age' is 3, expected a list of values"),
    "lengths": ({"age": [1, 2], "dose": [1]}, "column 'dose' has 1 values and 'age' 2"),
    "kind": (7, "are a int|is a int"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence(record, mistake):
    rows, says = MISTAKES[mistake]
    with pytest.raises(gs.GossamerError, match=says) as caught:
        record.predict(rows)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "missing=" not in str(caught.value), "no remedy that only a run has"


def test_an_unknown_learner_is_refused_by_the_known_ones(record):
    with pytest.raises(gs.BadValue, match=r"learner='ward-9': expected one of 0, 1, 2, 3"):
        record.predict([], learner="ward-9")


def test_learners_by_name(tmp_path):
    rows = [row | {"site": ("north", "south")[k % 2]} for k, row in enumerate(make_rows(80, 0, "logistic"))]
    stream = gs.streams.from_csv(
        write_csv(tmp_path / "rows.csv", rows), "out", split_by="site", ranges=RANGES, categories={"ward": WARDS},
        classes=("no", "yes"),
    )  # fmt: skip
    method = gs.ldp_gradient_tracking(step=gs.decay(0.3, 0.0), strict=False)
    run = gs.simulate(method, gs.Network.complete(2), stream, model=gs.LogisticRegression(l2=1e-3), steps=3)
    wanted = expected("logistic", run.theta[1], rows)[1]
    np.testing.assert_allclose(run.predict_proba(rows, learner="south"), wanted, rtol=1e-10)
    assert run.fitted("south").whose == "learner south"


@pytest.mark.parametrize(("classes", "kind"), [((0, 1), int), ((False, True), bool), ((0.5, 1.5), float)])
def test_classes_that_are_numbers_or_booleans_come_back_as_such(tmp_path, classes, kind):
    rows = [row | {"out": classes[row["out"] == "yes"]} for row in make_rows(80, 0, "logistic")]
    stream = gs.streams.from_csv(
        write_csv(tmp_path / "rows.csv", rows), "out", 4, ranges=RANGES, categories={"ward": WARDS},
        classes=list(map(str, classes)),
    )  # fmt: skip
    method = gs.ldp_gradient_tracking(step=gs.decay(0.3, 0.0), strict=False)
    run = gs.simulate(method, gs.Network.exponential(4), stream, model=gs.LogisticRegression(l2=1e-3), steps=20)
    assert run.predict(rows).dtype == kind
    right = run.predict(rows) == np.array([row["out"] for row in rows])
    assert right.mean() > 0.7
    assert run.fitted().score(rows).value == right.mean()


@pytest.mark.parametrize("kind", TARGETS)
def test_scores_are_of_rows_with_a_target(runs, kind):
    run, rows = runs[kind][0], make_rows(60, 7, kind)
    rows[5]["out"] = ""
    wanted, _ = expected(kind, run.theta.mean(axis=0), rows)
    truth = np.array([row["out"] for row in rows if row["out"] != ""])
    wanted = np.delete(wanted, 5)
    score = run.fitted().score(rows)
    assert score.rows == 59
    if kind == "ridge":
        assert score.value == pytest.approx(1 - ((wanted - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
    else:
        assert score.value == (wanted == truth).mean()
        assert score.simplest == np.unique(truth, return_counts=True)[1].max() / 59


def test_a_model_of_plain_columns_takes_arrays_of_them():
    stream = gs.datasets.mushrooms(learners=4, seed=1)
    method = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.6))
    run = gs.simulate(method, gs.Network.exponential(4), stream, model=gs.LogisticRegression(l2=1e-2), steps=200)
    X = features_of(stream.table).toarray()
    wanted = (X @ run.theta.mean(axis=0) > 0).astype(int)
    assert run.predict(X).tolist() == wanted.tolist()
    assert (run.predict(X) == stream.table.labels).mean() > 0.9
    with pytest.raises(gs.GossamerError, match="no schema to read them by: expected a 2-D array of its 117 columns"):
        run.predict("new.csv")
    with pytest.raises(gs.GossamerError, match=r"shape \(2, 5\): expected a 2-D array of its 117 columns"):
        run.predict(np.zeros((2, 5)))


def test_a_softmax_of_plain_columns_numbers_its_classes():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (3, 50, 2)), rng.integers(0, 4, (3, 50)).astype(float)
    method = gs.ldp_gradient_tracking(step=gs.decay(0.3, 0.0), strict=False)
    model = gs.SoftmaxRegression(4)
    run = gs.simulate(method, gs.Network.complete(3), gs.streams.from_arrays(X, y), model=model, steps=50)
    wanted = (X[0] @ run.theta.mean(axis=0).reshape(2, 4)).argmax(axis=1)
    assert run.predict(X[0]).tolist() == wanted.tolist()
    assert set(run.coefficients()) == {"0", "1", "2", "3"}


def test_other_models_are_refused_with_what_to_do(record):
    other = replace(record, config={**record.config, "model": "small CNN"}, seal=None)
    with pytest.raises(gs.GossamerError, match=r"the run's model is small CNN, and only .* predict new rows"):
        other.predict([[1, 2, "a"]])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 99}, "of version 99, expected 1"),
        ({"format": "other"}, "is no model"),
        ({"theta": [[1.0]]}, "expected 6 rows of finite numbers"),
        ({"model": "forest"}, "is damaged"),
        ({"schema": {}}, "is damaged"),
    ],
)
def test_a_damaged_model_file_is_refused(record, tmp_path, change, says):
    path = record.export(tmp_path / "model.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(gs.GossamerError, match=says):
        gs.load_model(path)


@pytest.mark.parametrize("kind", TARGETS)
def test_a_scikit_learn_pipeline_says_the_same(runs, kind):
    pytest.importorskip("sklearn", reason="needs the extra `sklearn`")
    run, rows = runs[kind][0], make_rows(50, 8, kind)
    rows[0]["age"] = 500.0  # beyond its range, and clipped in both
    model, table = run.to_sklearn(), np.array([[r["age"], r["dose"], r["ward"]] for r in rows], dtype=object)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        agree(model.predict(table), run.predict(rows))
    if kind != "ridge":
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            np.testing.assert_allclose(model.predict_proba(table), run.predict_proba(rows), rtol=1e-9)
        assert model.classes_.tolist() == list(TARGETS[kind][0])


def test_a_scikit_learn_pipeline_fills_what_is_missing(tmp_path):
    pytest.importorskip("sklearn", reason="needs the extra `sklearn`")
    rows = [{"age": row["age"], "dose": row["dose"], "out": row["out"]} for row in make_rows(80, 0, "logistic")]
    path = write_csv(tmp_path / "rows.csv", rows)
    stream = gs.streams.from_csv(path, "out", 4, ranges=RANGES, classes=("no", "yes"), missing="mean-of-range")
    method = gs.ldp_gradient_tracking(step=gs.decay(0.3, 0.0), strict=False)
    run = gs.simulate(method, gs.Network.exponential(4), stream, model=gs.LogisticRegression(l2=1e-3), steps=20)
    table = np.array([[30.0, np.nan], [np.nan, 1.0], [500.0, 2.0]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_allclose(run.to_sklearn().predict_proba(table), run.predict_proba(table), rtol=1e-9)
    np.testing.assert_allclose(run.predict_proba(table)[:2], run.predict_proba([[30, 2.5], [55, 1]]), rtol=1e-9)


def test_a_scikit_learn_pipeline_finds_columns_by_name(record):
    pytest.importorskip("sklearn", reason="needs the extra `sklearn`")
    frames = pytest.importorskip("pandas")
    rows = make_rows(50, 8, "logistic")
    frame = frames.DataFrame(rows)[["ward", "out", "dose", "age"]]
    np.testing.assert_allclose(record.to_sklearn().predict_proba(frame), record.predict_proba(rows), rtol=1e-9)


def test_a_scikit_learn_pipeline_takes_categories_as_a_frame_has_them(tmp_path):
    pytest.importorskip("sklearn", reason="needs the extra `sklearn`")
    frames = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    rows = [
        {"age": row["age"], "code": (2, 1, 10)["abc".index(row["ward"])], "old": row["age"] > 55, "out": row["out"]}
        for row in make_rows(80, 0, "logistic")
    ]
    frame = frames.DataFrame(rows)
    stream = gs.streams.from_frame(frame, "out", 4, categories={"code": ["10", "2", "1"]}, categorical=["old"])
    method = gs.ldp_gradient_tracking(step=gs.decay(0.3, 0.0), strict=False)
    run = gs.simulate(method, gs.Network.exponential(4), stream, model=gs.LogisticRegression(l2=1e-3), steps=20)
    assert [c for c in run.coefficients()["yes"] if "code" in c] == ["code=10", "code=2", "code=1"]
    np.testing.assert_allclose(run.to_sklearn().predict_proba(frame), run.predict_proba(rows), rtol=1e-9)


def test_without_scikit_learn_a_sentence_says_what_to_install(record, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.pipeline", None)
    with pytest.raises(gs.GossamerError, match=r"install gossamer-learning\[sklearn\]"):
        record.to_sklearn()
