"""`gossamer predict` and `gossamer export`: from a user's own files to predictions of new rows, and every mistake."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.run_record import Record
from test_predictions import make_rows, write_csv

DECLARED = ("--range", "age=20:90,dose=0:5", "--categories", "ward=a|b|c")
SHORT = ("--learners", 4, "--noise", 0, "--step", "0.3,0", "--no-strict", "--steps", 40, "--out", "run")


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the first test's run is kept for the others."""
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def visits(gossamer, tmp_path, kept):
    """A run in the folder `run`, and new rows of which the rule is known."""
    write_csv(tmp_path / "visits.csv", make_rows(200, 0, "logistic"))
    words = ("run", "--csv", "visits.csv", "--target", "out", "--classes", "no,yes", *DECLARED, *SHORT)
    if not kept.exists():
        assert gossamer(*words)[0] == 0
        shutil.copytree("run", kept)
    else:
        shutil.copytree(kept, "run")
    rows = [{"id": f"{k:03}", "name": f"Ms, {k}"} | row for k, row in enumerate(make_rows(60, 1, "logistic"))]
    quoted = [row | {"name": f'"{row["name"]}"'} for row in rows]
    write_csv(tmp_path / "new.csv", quoted, ["name", "ward", "dose", "id", "age", "out"])
    return rows


def test_predictions_in_the_order_of_the_rows(gossamer, tmp_path, visits):
    code, out, err = gossamer(
        "predict", "run", "new.csv", "--out", "predictions.csv", "--proba", "--keep", "id,name"
    )  # fmt: skip
    assert (code, err) == (0, "")
    run = Record.load(tmp_path / "run")
    wanted, shares = run.predict(visits), run.predict_proba(visits)
    told = read_csv(tmp_path / "predictions.csv")
    assert list(told[0]) == ["id", "name", "prediction", "P(no)", "P(yes)"]
    assert [(row["id"], row["name"]) for row in told] == [(row["id"], row["name"]) for row in visits]
    assert [row["prediction"] for row in told] == wanted.tolist()
    np.testing.assert_array_equal([[float(row["P(no)"]), float(row["P(yes)"])] for row in told], shares)
    truth = np.array([row["out"] for row in visits])
    assert f"Accuracy {(wanted == truth).mean():.4f} on the 60 rows with a value of 'out'" in out
    assert f"the most frequent class alone has {max((truth == 'no').mean(), (truth == 'yes').mean()):.4f}" in out
    assert (wanted == truth).mean() > 0.75


def test_without_out_the_table_is_all_that_is_on_standard_output(gossamer, tmp_path, visits):
    code, out, err = gossamer("predict", "run/record.npz", "new.csv", "--learner", 2)
    assert code == 0
    wanted = Record.load(tmp_path / "run").predict(visits, learner=2).tolist()
    assert out.split("\n") == ["prediction", *wanted, ""]
    assert err.startswith("Accuracy")


def test_a_model_file_predicts_the_same(gossamer, tmp_path, visits):
    code, out, _ = gossamer("export", "run", "model.json")
    assert (code, out) == (0, "Model of the mean of 4 learners: model.json\n")
    assert json.loads((tmp_path / "model.json").read_text())["privacy"].startswith("not private")
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    _, by_file, _ = gossamer("predict", "model.json", "new.csv", "--proba")
    _, by_run, _ = gossamer("predict", "elsewhere", "new.csv", "--proba")
    assert by_file == by_run
    code, _, err = gossamer("predict", "model.json", "new.csv", "--learner", 1)
    assert (code, "leave it out, or export that learner's" in err) == (2, True)


def test_a_quantity_in_its_own_units(gossamer, tmp_path):
    rows = make_rows(200, 0, "ridge")
    write_csv(tmp_path / "rows.csv", rows)
    words = ("run", "--csv", "rows.csv", "--target", "out", "--model", "ridge", "--range", "out=60:200")
    assert gossamer(*words, *DECLARED, *SHORT)[0] == 0
    code, out, _ = gossamer("predict", "run", "rows.csv", "--out", "p.csv")
    assert code == 0
    got = np.array([float(row["prediction"]) for row in read_csv(tmp_path / "p.csv")])
    truth = np.array([row["out"] for row in rows])
    r2 = 1 - ((got - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    assert r2 > 0.5
    assert f"R² {r2:.4f} on the 200 rows" in out
    assert "outside" not in out, "all lie within the range"
    truth[:5] += 300.0
    write_csv(tmp_path / "far.csv", [row | {"out": value} for row, value in zip(rows, truth, strict=True)])
    _, out, _ = gossamer("predict", "run", "far.csv", "--out", "far-p.csv")
    learnt = truth.clip(60, 200)
    plain, taken = (1 - ((got - a) ** 2).sum() / ((a - a.mean()) ** 2).sum() for a in (truth, learnt))
    assert f"R² {plain:.4f} on the 200 rows with a value of 'out'; 5 lie outside 60:200" in out
    assert f"taken so, R² is {taken:.4f}." in out
    assert taken > plain + 0.1
    code, _, err = gossamer("predict", "run", "rows.csv", "--proba")
    assert (code, "has no probabilities" in err) == (2, True)


def test_rows_without_a_target_are_not_scored_and_clipped_values_are_said(gossamer, tmp_path, visits):
    rows = [{name: row[name] for name in ("age", "dose", "ward")} for row in visits]
    rows[3]["age"], rows[4]["age"], rows[9]["dose"] = 130, 10, 77
    write_csv(tmp_path / "bare.csv", rows)
    code, out, err = gossamer("predict", "run", "bare.csv", "--out", "p.csv")
    assert (code, out) == (0, "60 rows: p.csv\n")
    assert "2 values of age lay outside 20:90 and were clipped" in err
    assert "1 value of dose lay outside 0:5 and was clipped" in err


def test_a_column_with_a_comma_in_its_name_is_kept_as_it_is_dropped(gossamer, tmp_path, visits):
    rows = (tmp_path / "new.csv").read_text().replace("name,", '"family, ""first""",', 1)
    (tmp_path / "new.csv").write_text(rows)
    named = '"family, ""first""", id'
    assert gossamer("predict", "run", "new.csv", "--out", "predictions.csv", "--keep", named)[0] == 0
    assert list(read_csv(tmp_path / "predictions.csv")[0]) == ['family, "first"', "id", "prediction"]
    (tmp_path / "few.csv").write_text(rows.replace("age", "years", 1))
    code, _, err = gossamer("predict", "run", "few.csv")
    assert code == 2
    assert 'only "family, ""first""",' in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing-here", "new.csv"], "there is no nothing-here: give a run's folder"),
        (["run", "absent.csv"], "no file absent.csv"),
        (["run", "new.csv", "--out", "new.csv"], "new.csv is read here and would be written over"),
        (["run", "new.csv", "--out", "link.csv"], "link.csv is read here and would be written over"),
        (["run", "new.csv", "--out", "run/settings.json"], "run/settings.json is a file of the run"),
        (["run", "new.csv", "--out", "run"], "run is a folder, expected the name of a file"),
        (["run", "new.csv", "--keep", "idd"], "--keep idd: new.csv has no such column; perhaps id is meant"),
        (["run", "new.csv", "--learner", "x"], "--learner x: expected one of 0, 1, 2, 3"),
        (["run", "few.csv"], "few.csv: no column 'age', which the model needs"),
        (["run", "odd.csv"], "odd.csv, line 3: 'z' in column 'ward' is none of the declared categories a, b, c"),
        (["run", "old.csv"], "old.csv, line 2: 'old' in column 'age' is not a finite number; correct that row"),
        (["empty", "new.csv"], "there is no run in empty"),
        (["broken.json", "new.csv"], "broken.json cannot be read as JSON"),
    ],
)
def test_a_mistake_gets_one_sentence(gossamer, tmp_path, visits, words, says):
    (tmp_path / "link.csv").symlink_to(tmp_path / "new.csv")
    (tmp_path / "few.csv").write_text("dose,ward\n1,a\n")
    (tmp_path / "odd.csv").write_text("age,dose,ward\n30,1,a\n30,1,z\n")
    (tmp_path / "old.csv").write_text("age,dose,ward\nold,1,a\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{")
    before = (tmp_path / "new.csv").read_bytes()
    code, out, err = gossamer("predict", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert err.startswith("gossamer: ")
    assert err.count("\n") == 1
    assert (tmp_path / "new.csv").read_bytes() == before


def test_a_run_without_a_schema_says_what_to_do(gossamer, tmp_path):
    assert gossamer("run", "mushrooms", "--steps", 3, "--out", "run")[0] == 0
    (tmp_path / "new.csv").write_text("a,b\n1,2\n")
    code, _, err = gossamer("predict", "run", "new.csv")
    assert code == 2
    assert "in Python, give record.predict an array of its 117 columns" in err


def test_export_writes_json_and_no_file_of_the_run(gossamer, tmp_path, visits):
    for name, says in (
        ("run/record.json", "is a file of the run"),
        ("model.pkl", "expected a name that ends in .json"),
    ):
        code, _, err = gossamer("export", "run", name)
        assert (code, says in err) == (2, True)
    assert Record.load(tmp_path / "run").intact
    code, _, err = gossamer("export", "run/record", "run/record.json")
    assert (code, "would be written over" in err) == (2, True)


def test_a_party_uses_its_outcome_and_whoever_collects_uses_all(gossamer, tmp_path):
    pytest.importorskip("msgspec", reason="needs the extra `peers`")
    pytest.importorskip("grpc", reason="needs the extra `peers`")
    from test_processes import make, records
    from test_transport import run_by_hand

    m, steps = 4, 30
    network = gs.Network.exponential(m)
    make(tmp_path / "run", steps, network, m=m)
    code, _, err = gossamer("predict", "run/learner-1", "new.csv")
    assert (code, "has no outcome yet" in err) == (2, True)
    run_by_hand(tmp_path / "run", m)

    X = records(steps, m)[0][0]
    names = [f"x{k:04}" for k in range(X.shape[1])]
    write_csv(tmp_path / "new.csv", [dict(zip(names, row, strict=True)) for row in X.tolist()], names[::-1])
    assert gossamer("peers", "collect", "run", "--out", "all")[0] == 0
    theta = Record.load(tmp_path / "all").theta
    A = np.column_stack([X, np.ones(len(X))])  # all are declared to lie on −1 … 1
    for words, own in (
        (["all"], theta.mean(axis=0)),
        (["all", "--learner", 2], theta[2]),
        (["run/learner-1"], theta[1]),
        (["run/learner-1/outcome.npz"], theta[1]),
        (["run/learner-1/own-model.npy"], theta[1]),
    ):
        code, out, _ = gossamer("predict", words[0], "new.csv", "--proba", *words[1:])
        assert code == 0
        told = list(csv.DictReader(out.splitlines()))
        np.testing.assert_allclose([float(row["P(1)"]) for row in told], 1 / (1 + np.exp(-A @ own)), rtol=1e-10)
        assert [row["prediction"] for row in told] == [str(int(x > 0)) for x in A @ own]
    code, _, err = gossamer("predict", "run", "new.csv")
    assert (code, "gossamer peers collect run" in err) == (2, True)
    code, _, err = gossamer("predict", "run/learner-1", "new.csv", "--learner", 2)
    assert (code, "holds the model of learner 1; leave it out" in err) == (2, True)


def test_noise_on_messages_is_in_what_a_party_hands_on_and_said(gossamer, tmp_path):
    pytest.importorskip("msgspec", reason="needs the extra `peers`")
    pytest.importorskip("grpc", reason="needs the extra `peers`")
    from gossamer.peers.config import PrivacyPlan
    from test_processes import make, records
    from test_transport import run_by_hand

    m, steps = 4, 10
    make(tmp_path / "run", steps, gs.Network.exponential(m), PrivacyPlan(epsilon=5.0), m=m)
    run_by_hand(tmp_path / "run", m)
    X = records(steps, m)[0][0]
    names = [f"x{k:04}" for k in range(X.shape[1])]
    write_csv(tmp_path / "new.csv", [dict(zip(names, row, strict=True)) for row in X.tolist()])
    _, sent, err = gossamer("predict", "run/learner-0", "new.csv", "--proba")
    assert "with their noise: only messages are private; the owner's own are in run/learner-0/own-model.npy" in err
    _, own, err = gossamer("predict", "run/learner-0/own-model.npy", "new.csv", "--proba")
    assert (err, sent != own) == ("", True)


def test_the_pages_examples_run(gossamer, tmp_path):
    """docs/own-data.md, its commands (tests/test_pages.py runs its Python), on a file with a ward for every learner."""
    page = (Path(__file__).parents[1] / "docs" / "own-data.md").read_text(encoding="utf-8")
    rows = make_rows(120, 0, "logistic")
    named = [row | {"site": f"ward-{row['ward']}", "id": k, "name": f"n{k}"} for k, row in enumerate(rows)]
    write_csv(tmp_path / "visits.csv", named, ["age", "dose", "site", "out"])
    write_csv(tmp_path / "new.csv", named)
    words = ("run", "--csv", "visits.csv", "--target", "out", "--split-by", "site", "--noise", 0, "--steps", 20)
    assert gossamer(*words)[0] == 0
    shown = [
        line.split()[1:]
        for line in page.splitlines()
        if line.startswith(("    gossamer predict", "    gossamer export"))
    ]
    shown += [line.split()[1:] for line in re.findall(r"`(gossamer (?:predict|export) [^`]* [^`]*)`", page)]
    assert len(shown) >= 3
    for command in shown:
        assert gossamer(*command)[0] == 0, command
