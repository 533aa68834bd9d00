"""Who is which learner: ids of a network's file beside the names that the data have."""

from __future__ import annotations

import json

import pytest

from gossamer.networks import read_network

NAMES = ("east", "harbour", "north", "south")
RUN = ("run", "--csv", "rows.csv", "--target", "y", "--steps", 5)


@pytest.fixture
def run(gossamer, tmp_path):
    """Runs rows of the named learners over a ring of ids: run(ids, names) -> (exit code, output, errors)."""

    def go(ids, names=NAMES, *options, split=True):
        rows = "".join(f"{i / 48},{i % 2},{names[i % len(names)]}\n" for i in range(48))
        (tmp_path / "rows.csv").write_text("x,y,who\n" + rows)
        links = zip(ids, [*ids[1:], ids[0]], strict=True)
        (tmp_path / "links.txt").write_text("".join(f"{a} {b}\n" for a, b in links))
        whose = ["--split-by", "who"] if split else ["--drop", "who"]
        code, out, err = gossamer(*RUN, "--graph", "links.txt", *whose, *options)
        return code, " ".join(out.split()), err

    return go


@pytest.mark.parametrize("ids", [("north", "harbour", "south", "east"), ("0", "2", "1", "3")])
def test_names_that_are_the_same_have_their_own_places(run, tmp_path, ids):
    names = NAMES if ids[0] == "north" else ids
    code, out, _ = run(ids, names, "--json", "out.json")
    assert code == 0
    assert "links.txt" not in out
    listed = json.loads((tmp_path / "out.json").read_text())["config"]["stream"]["names"]
    links = {(listed[a], listed[b]) for a, b, _ in read_network(str(tmp_path / "links.txt")).edges()}
    assert links == set(zip(ids, [*ids[1:], ids[0]], strict=True))


@pytest.mark.parametrize("ids", [("Zorth", "east", "south", "Harbour"), ("north", "east", "south", "Harbour", "more")])
def test_names_that_are_not_the_same_are_refused(run, ids):
    code, _, err = run(ids)
    assert code == 2
    assert "links.txt and the data do not name the same learners, 'Harbour' there has no records and 'harbour'" in err
    assert "correct the file, or number its ids from 0 on" in err


def test_where_one_side_has_names_it_is_said_who_is_who(run):
    code, out, _ = run(range(4))
    assert code == 0
    assert "learner east is 0, learner harbour is 1, learner north is 2, learner south is 3." in out
    code, out, _ = run("abcd", split=False)
    assert code == 0
    assert "In links.txt, whose ids are taken in ascending order, learner 0 is a, learner 1 is b" in out
    assert "links.txt" not in run(range(4), split=False)[1], "where nobody has a name"


def test_texts_of_digits_are_in_the_order_of_their_numbers(run):
    ids = ["01", "02", "9", "10"]
    code, out, _ = run(ids, ids)
    assert code == 0
    assert "links.txt" not in out


def test_parties_are_told_which_learner_is_which_id_and_requests_in_another_order_are_refused(gossamer, tmp_path):
    (tmp_path / "links.txt").write_text("beta gamma\ngamma alpha\nalpha beta\n")
    words = ["--learners", 3, "--target", "ill", "--classes", "no,yes", "--range", "age=0:100", "--graph", "links.txt"]
    code, out, _ = gossamer("peers", "init", "study", "--own-keys", *words)
    assert code == 0
    assert "learner 0 is alpha, learner 1 is beta, learner 2 is gamma." in " ".join(out.split())
    for name in ("alpha", "beta", "gamma"):
        assert gossamer("party", "new", name, "--name", name, "--address", "127.0.0.1:7400")[0] == 0
    code, _, err = gossamer("peers", "sign", "study", "alpha/request.json", "gamma/request.json", "beta/request.json")
    assert code == 2
    assert "the request of 'gamma' would be learner 1's, which the network's file calls 'beta'" in err
    assert "say --learner 2" in err
    assert gossamer("peers", "sign", "study", "gamma/request.json", "--learner", 2)[0] == 0
    assert gossamer("peers", "sign", "study", "alpha/request.json", "beta/request.json")[0] == 0
