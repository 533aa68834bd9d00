"""What somebody else has written into a party's folder, or sends it: one sentence, and nothing that moves a cursor."""

from __future__ import annotations

import io
import json
import re
import zipfile

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers.config import PrivacyPlan
from gossamer.peers.outcome import collect_outcomes
from gossamer.peers.outcome_file import OUTCOME, OWN, read_outcome
from test_processes import make

M = 3
BUDGET = PrivacyPlan(epsilon=2.0, law="gaussian", where="source")
CLEAR = r"\u001b[2J\u001b]0;mine\u0007\u202e"
ZERO, MANY = r"a\u0000b", "9" * 400


@pytest.fixture
def place(tmp_path):
    make(tmp_path / "run", 20, gs.Network.ring(M), BUDGET, m=M)
    return tmp_path / "run" / "learner-1"


def set_to(place, table, name, value):
    """One value of party.toml, whether it is there or not."""
    path = place / "party.toml"
    text = path.read_text()
    head, found, tail = text.partition(f"[{table}]\n")
    tail = re.sub(rf"^{name} = .*\n", "", tail, count=1, flags=re.M) if found else ""
    path.write_text(f"{head}[{table}]\n{name} = {value}\n{tail}")


def checked(gossamer, place):
    """What `peer check` says; it ends with a sentence and not with a traceback, or SystemExit would not be raised."""
    code, out, err = gossamer("peer", "check", place)
    assert not [letter for letter in out + err if not letter.isprintable() and letter not in "\n\t\u00a0"]
    return code, " ".join((out + err).split())


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("run", "id", f'"{CLEAR}"'),
        ("run", "method", f'"{CLEAR}"'),
        ("records", "classes", f'["{CLEAR}", "1"]'),
        ("party", "listen", f'"{CLEAR}:7400"'),
        ("party", "metrics", f'"{CLEAR}:9400"'),
        ("party", "journal", f'"../{CLEAR}"'),
        ("privacy", "law", f'"{CLEAR}"'),
        ("neighbours.0", "address", f'"{CLEAR}:7400"'),
        ("party", f'"{CLEAR}"', "1"),
    ],
)
def test_nothing_in_a_folder_moves_the_cursor_of_who_looks_at_it(place, gossamer, table, name, value):
    """Or it could write over NOT PRIVATE, and over what must be mended."""
    set_to(place, table, name, value)
    checked(gossamer, place)


@pytest.mark.parametrize(
    ("table", "name", "value", "said"),
    [
        ("run", "steps", MANY, "[run] steps"),
        ("run", "learners", MANY, "[run] learners"),
        ("run", "learners", str(10**15), "the network"),
        ("run", "per_round", MANY, "[run] per_round"),
        ("model", "remember", MANY, "[model] remember"),
        ("run", "graph", f'"{ZERO}"', "graph"),
        ("party", "journal", f'"{ZERO}"', "journal"),
        ("party", "key", f'"{ZERO}"', "key"),
        ("party", "authority", f'"{ZERO}"', "authority"),
        ("data", "path", f'"{ZERO}"', "path"),
        ("neighbours.0", "certificate", f'"{ZERO}"', "certificate"),
        ("neighbours." + "9" * 5000, "address", '"a:1"', "expected a learner's number"),
        ("run", "method", '"os:abort"', "cannot be read"),
    ],
)
def test_a_value_that_cannot_be_gets_a_sentence(place, gossamer, table, name, value, said):
    set_to(place, table, name, value)
    code, words = checked(gossamer, place)
    assert code in (1, 2)
    assert said in words


@pytest.mark.parametrize("weight", ["1" + "0" * 400, "9" * 5000], ids=["no float", "too many digits"])
def test_a_graph_with_numbers_that_nobody_writes_gets_a_sentence(place, gossamer, weight):
    (place / "graph.json").write_text(f'{{"R": [[{weight}, 0, 0], [0, 0, 0], [0, 0, 0]], "C": null}}')
    code, words = checked(gossamer, place)
    assert code == 1
    assert "graph.json" in words


def test_names_that_no_machine_has_end_a_start_in_a_sentence(place, gossamer):
    set_to(place, "party", "metrics", '"a..b:9400"')
    code, _, err = gossamer("peer", "run", place, "--quiet")
    assert code == 2
    assert "[party] metrics = 'a..b:9400' names no machine" in err


METHOD = """
import pathlib
import gossamer as gs
pathlib.Path(__file__).with_suffix(".ran").touch()
def own(step, strict=True):
    return gs.ldp_gradient_tracking(step, strict=strict)
"""


def test_an_owner_is_told_of_a_neighbours_word_that_is_not_taken(place, gossamer):
    set_to(place, "neighbours.2", "believe", "false")
    about = json.loads(gossamer("peer", "check", place, "--json")[1])
    assert any("[neighbours.2] believe = false" in one for one in about["warnings"]), about


def test_code_that_comes_with_a_folder_is_not_run(place, gossamer, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend("")  # as python -m has it
    (place / "method_beside.py").write_text(METHOD)
    set_to(place, "run", "method", '"method_beside:own"')
    for words in (["check", place], ["run", place, "--quiet"]):
        code, out, err = gossamer("peer", *words)
        assert code != 0
        assert "nothing of this folder is imported" in " ".join((out + err).split())
    assert not (place / "method_beside.ran").exists()


def test_code_that_was_installed_is_run_and_its_owner_told(place, gossamer, monkeypatch, tmp_path):
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "method_of_theirs.py").write_text(METHOD)
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    set_to(place, "run", "method", '"method_of_theirs:own"')
    about = json.loads(gossamer("peer", "check", place, "--json")[1])
    assert any("runs a module of that name" in one for one in about["warnings"]), about
    assert (tmp_path / "installed" / "method_of_theirs.ran").exists()


# -- outcomes that others have sent ---------------------------------------------------------------------------------

ABOUT = {
    "learner": 1, "round": 20, "run": "test:0", "theta": OWN, "claim": "private", "epsilon": [2.0, 2.0],
    "late": [[3, 0]], "against": "against all", "model": "LogisticRegression(l2=0.1)", "columns": ["a", "b"],
    "schema": {}, "course": {"t": [0, 20], "epsilon": [[0.0, 2.0]], "budget": [2.0], "delta": 1e-5},
}  # fmt: skip
THETA = np.zeros((1, 2))


def leave(place, about, theta=THETA, save=np.savez):
    with (place / OUTCOME).open("wb") as file:
        save(file, theta=theta, about=np.frombuffer(json.dumps(about).encode(), np.uint8))


@pytest.mark.parametrize("value", [None, 5, -1, 10**30, "x", "\x1b[2J", [1], [[1]], {"a": 1}, True])
@pytest.mark.parametrize("name", ABOUT)
def test_an_outcome_that_no_learner_writes_is_refused_or_collected(place, name, value):
    for i in range(M):
        leave(place.parent / f"learner-{i}", ABOUT | {"learner": i})
    collect_outcomes(place.parent)
    leave(place, ABOUT | {name: value})
    try:
        read_outcome(place).fitted()
    except gs.GossamerError as error:
        assert OUTCOME in str(error) or "schema" in str(error)  # noqa: PT017
    try:
        record = collect_outcomes(place.parent)
    except gs.GossamerError:
        return
    assert "\x1b" not in f"{record.claim} {record.notes} {record.config.get('against')}"


@pytest.mark.parametrize("name", ["learner", "round", "run", "theta", "claim", "epsilon", "late", "model"])
def test_an_outcome_that_leaves_something_out_is_refused(place, name):
    leave(place, {key: value for key, value in ABOUT.items() if key != name})
    with pytest.raises(gs.GossamerError, match=f"{name} in it"):
        read_outcome(place)


@pytest.mark.parametrize(
    "theta", [np.zeros(2), np.zeros((2, 2)), np.zeros((1, 2, 1)), np.zeros((1, 2), complex), np.array([["a", "b"]])]
)
def test_a_model_of_another_kind_is_refused(place, theta):
    leave(place, ABOUT, theta)
    with pytest.raises(gs.GossamerError, match="its model is"):
        read_outcome(place)


def test_models_of_two_sizes_and_two_outcomes_of_one_learner_are_refused(place):
    for i in range(M):
        leave(place.parent / f"learner-{i}", ABOUT | {"learner": i}, np.zeros((1, 2 + (i == 2))))
    with pytest.raises(gs.GossamerError, match="the model of learner 2 has 3 numbers, and others 2"):
        collect_outcomes(place.parent)
    leave(place.parent / "learner-2", ABOUT | {"learner": 2})
    (place.parent / "learner-3").mkdir()  # of one that has joined
    leave(place.parent / "learner-3", ABOUT)
    with pytest.raises(gs.GossamerError, match="two outcomes are of one learner"):
        collect_outcomes(place.parent)


def test_an_outcome_that_would_unpack_to_gigabytes_is_not_unpacked(place):
    with zipfile.ZipFile(place / OUTCOME, "w", zipfile.ZIP_DEFLATED) as parts:
        for name in ("theta.npy", "about.npy"):
            inner = io.BytesIO()
            np.save(inner, np.zeros(1 << 20))
            parts.writestr(name, inner.getvalue())
    with pytest.raises(gs.GossamerError, match="unpack to more than it is"):
        read_outcome(place)


def test_a_document_of_a_kind_that_is_no_word_is_refused(place, gossamer):
    for kind in ([], {}, 5, None):
        (place / "it.json").write_text(json.dumps({"document": {"kind": kind, "run": "x"}, "signatures": []}))
        code, _, err = gossamer("peer", "accept", place, place / "it.json")
        assert code == 2
        assert "expected one of" in err
