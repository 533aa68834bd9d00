"""What a party's owner is told before the first start, and what does not start without the owner's word."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import get_args

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import msgspec

import gossamer as gs
from gossamer.peers.certificates import issue_certificate, make_authority
from gossamer.peers.compared import BYTES, digest_of, words_of
from gossamer.peers.config import Config, Plain, PrivacyPlan, read_config
from gossamer.peers.declaration import declare, reach_of
from gossamer.peers.spoken import WORDS, spoken
from test_operations import edit
from test_processes import make

M = 3
RING = gs.Network.ring(M)
BUDGET = PrivacyPlan(epsilon=2.0, law="gaussian", where="source")


@pytest.fixture
def place(tmp_path):
    """A party's folder as a coordinator may have sent it, private."""
    make(tmp_path / "run", 20, RING, BUDGET, m=M)
    return tmp_path / "run" / "learner-1"


def found(gossamer, place, *words):
    code, out, err = gossamer("peer", "check", place, "--json", *words)
    assert not err, err
    return code, json.loads(out)


def contents(place):
    return {path.name: (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns) for path in place.iterdir()}


def test_all_that_an_owner_must_know_is_there_and_nothing_is_changed(place, gossamer):
    before = contents(place)
    code, about = found(gossamer, place)
    facts = about["facts"]
    assert code == 0
    assert about["mend"] == []
    assert facts["claim"].startswith("private: exact gaussian noise at the source")
    assert (facts["budget"], facts["delta"], facts["horizon"]) == (2.0, 1e-5, 20)
    assert facts["against"] == "against all others together"
    assert facts["agreement"] == read_config(place).agreement
    assert facts["fingerprint"] == words_of(read_config(place))
    assert facts["listen"].endswith("for this machine alone")
    assert facts["metrics"] == "nowhere"
    assert "to learners 0, 2" in facts["leaves"][0]
    assert facts["records"].startswith("20 in ")
    assert contents(place) == before
    shown = gossamer("peer", "check", place)[1]
    assert all(" ".join(facts["fingerprint"].split()[k : k + 4]) in shown for k in (0, 4, 8))


def test_records_that_no_round_takes_are_counted(place, gossamer):
    assert not [one for one in found(gossamer, place)[1]["warnings"] if "never used" in one]
    lines = (place / "records.csv").read_text().splitlines()
    (place / "records.csv").write_text("\n".join([*lines, *lines[1:], lines[1]]) + "\n")
    warnings = found(gossamer, place)[1]["warnings"]
    said = (
        "21 of the 41 records are never used: 20 rounds take 1 each. All are used with per_round = 3, or in 41 rounds"
    )
    assert [one for one in warnings if one.startswith(said)]


def test_a_file_that_is_to_grow_and_is_not_there_is_a_warning(place, gossamer):
    (place / "records.csv").unlink()
    follow(place)
    code, about = found(gossamer, place)
    assert code == 0
    missing = f"{place / 'records.csv'} is not there"
    assert [one for one in about["warnings"] if missing in one]


def follow(place):
    text = (place / "party.toml").read_text()
    assert "[data]" in text
    before, after = text.split("[data]", 1)
    after = "\n".join(line for line in after.splitlines() if not line.startswith("follow"))
    (place / "party.toml").write_text(f"{before}[data]\nfollow = true{after}\n")


def test_a_run_without_a_budget_needs_its_owners_word(tmp_path, gossamer):
    make(tmp_path / "run", 20, RING, PrivacyPlan(), m=M)
    place = tmp_path / "run" / "learner-1"
    for words in (["peer", "run", place], ["peers", "up", tmp_path / "run"]):
        code, _, said = gossamer(*words)
        assert code == 2
        assert "has no budget" in said
        assert "--not-private" in said
        assert "[privacy]" in said
    assert not (place / "journal.db").exists()
    code, about = found(gossamer, place)
    assert code == 1
    assert "has no budget" in about["mend"][0]
    assert about["warnings"][0].startswith("NOT PRIVATE")
    assert about["facts"]["private"] is False
    assert "WITHOUT NOISE" in about["facts"]["leaves"][0]
    code, about = found(gossamer, place, "--not-private")
    assert code == 0
    assert about["warnings"][0].startswith("NOT PRIVATE")


def test_with_the_word_it_starts(place, gossamer, monkeypatch):
    edit(place, "epsilon = 2.0", "")
    started = []
    monkeypatch.setattr("gossamer.peers.process.run_learner", lambda plan, quiet: started.append(plan.learner) or 0)
    assert gossamer("peer", "run", place)[0] == 2
    assert gossamer("peer", "run", place, "--not-private")[0] == 0
    assert started == [1]


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize(("mode", "whose"), [(0o644, "everybody"), (0o640, "its group"), (0o602, "everybody")])
def test_a_key_that_others_can_read_ends_the_start(place, gossamer, mode, whose):
    key = place / "key.pem"
    key.chmod(mode)
    code, about = found(gossamer, place)
    assert code == 1
    assert whose in about["mend"][0]
    assert about["mend"][0].endswith(f"chmod 600 {key}.")
    code, _, said = gossamer("peer", "run", place, "--quiet")
    assert code == 2
    assert f"chmod 600 {key}" in said
    assert not (place / "journal.db").exists()
    key.chmod(0o600)
    assert found(gossamer, place)[0] == 0


def test_what_a_folder_may_hide_is_named(place, gossamer, tmp_path):
    edit(place, "[party]\n", f'[party]\nmetrics = "0.0.0.0:9400"\nshow_errors = true\njournal = "{tmp_path}/j.db"\n')
    edit(place, "127.0.0.1", "0.0.0.0")
    code, about = found(gossamer, place)
    said = " ".join(about["warnings"])
    assert code == 0, "its owner may want all of it"
    assert "metrics = '0.0.0.0:9400' is for whoever reaches this machine" in said
    assert "show_errors" in said
    assert f"journal is {tmp_path}/j.db, outside of this folder" in said
    assert about["facts"]["listen"].endswith("for whoever reaches this machine")
    leaves = " ".join(about["facts"]["leaves"])
    assert "NOT noised, to whoever reaches this machine" in leaves


def changed_certificate(place, days):
    signer = make_authority("another", 30)
    own = issue_certificate(signer, 1, days=days)
    (place / "authority.pem").write_bytes(signer.certificate)
    (place / "certificate.pem").write_bytes(own.certificate)
    (place / "key.pem").write_bytes(own.key)


MEND = {
    "the key is not the certificate's": lambda place: (place / "certificate.pem").write_bytes(
        (place / "../learner-0/certificate.pem").read_bytes()
    ),
    "have a new one signed": lambda place: changed_certificate(place, -1),
    "put it there": lambda place: (place / "authority.pem").unlink(),
    "put the records there": lambda place: (place / "records.csv").unlink(),
    "is not a finite number": lambda place: (place / "records.csv").write_text(
        (place / "records.csv").read_text().replace("\n0.", "\no.", 1)
    ),
    "has no address": lambda place: edit(place, "[neighbours.2]\naddress", "[neighbours.2]\n#"),
}


@pytest.mark.parametrize("words", MEND)
def test_what_a_start_would_refuse_is_said_before_it(place, gossamer, words):
    MEND[words](place)
    code, about = found(gossamer, place)
    assert code == 1
    assert any(words in sentence for sentence in about["mend"]), about["mend"]
    assert "claim" in about["facts"] or words == "put it there", "the rest is looked at all the same"


def test_a_certificate_near_its_end_is_a_warning(place, gossamer):
    changed_certificate(place, 5)
    code, about = found(gossamer, place)
    assert code == 0
    assert any("The certificate ends on" in sentence for sentence in about["warnings"])


def test_another_budget_than_the_journal_has_begun_with_is_named(place, gossamer):
    (place / "journal.db").touch(mode=0o600)
    for budget, said in ((2.0, False), (3.0, True)):
        (place / "status.json").write_text(json.dumps({"state": "stopped", "steps": 20, "round": 4, "budget": budget}))
        warnings = found(gossamer, place)[1]["warnings"]
        assert any("has begun with ε = 3" in one for one in warnings) == said


def test_records_that_are_too_few_for_the_first_round_are_named(place, gossamer):
    """A learner listens from when it has them, and its neighbours wait until then."""
    edit(place, "[data]", "[data]\nfollow = true")
    lines = (place / "records.csv").read_text().splitlines(keepends=True)
    for kept, said in ((1, True), (3, False)):
        (place / "records.csv").write_text("".join(lines[:kept]))
        warnings = found(gossamer, place)[1]["warnings"]
        assert any("waits for records before it listens: 1 are needed, 0 are there" in one for one in warnings) == said


def test_who_can_come_to_a_place():
    assert {reach_of(where) for where in ("127.0.0.1:1", "localhost:1", "[::1]:1")} == {"this machine alone"}
    assert {reach_of(where) for where in ("0.0.0.0:1", "[::]:1")} == {"whoever reaches this machine"}
    assert reach_of("b.example.org:7400") == "whoever reaches b.example.org"


def test_a_start_states_what_the_check_has_said(tmp_path, fleet_of):
    make(tmp_path / "run", 3, RING, BUDGET, m=M)
    fleet = fleet_of(tmp_path / "run", m=M)
    fleet.start()
    fleet.finish()
    lines = (fleet.place(1) / "log.jsonl").read_text().splitlines()
    (started,) = [one for one in map(json.loads, lines) if one["event"] == "started"]
    facts = declare(read_config(fleet.place(1))).facts
    names = ("claim", "private", "budget", "delta", "against", "fingerprint", "listen", "metrics", "leaves")
    assert {name: started[name] for name in names} == {name: facts[name] for name in names}


def test_the_words_are_short_and_far_from_each_other():
    assert len(set(WORDS)) == len(WORDS) == 256
    assert all(word.isascii() and word.isalpha() and word.islower() and 3 <= len(word) <= 8 for word in WORDS)
    assert len({word[:4] for word in WORDS}) == 256
    assert not [(a, b) for a in WORDS for b in WORDS if a != b and b.startswith(a)]
    assert min(distance(a, b) for k, a in enumerate(WORDS) for b in WORDS[:k]) >= 3
    assert spoken(bytes([0, 255, 7])) == "acorn zodiac avocado", "their order is fixed for good"


def distance(a, b):
    """How many letters must be put in, taken out or changed."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
    return row[-1]


def test_the_words_are_the_same_at_all_and_others_where_anything_is(tmp_path):
    make(tmp_path / "run", 20, RING, BUDGET, m=M)
    places = [tmp_path / "run" / f"learner-{i}" for i in range(M)]
    assert len({words_of(read_config(place)) for place in places}) == 1
    edit(places[0], "epsilon = 2.0", "epsilon = 3.0")  # its own business
    assert words_of(read_config(places[0])) == words_of(read_config(places[1]))
    edit(places[0], "steps = 20", "steps = 21")
    (places[2] / "authority.pem").write_bytes(make_authority("test").certificate)  # somebody between two parties
    assert len({words_of(read_config(place)) for place in places}) == 3
    known = digest_of("a" * 64, "b", {0: "c", 1: "d"})
    others = [("x" * 64, "b", {0: "c", 1: "d"}), ("a" * 64, "x", {0: "c", 1: "d"}), ("a" * 64, "b", {0: "c", 1: "x"})]
    assert len(known) == BYTES
    assert len({known, *(digest_of(*one) for one in others), digest_of("a" * 64, "b", {})}) == 5


def test_every_key_of_party_toml_is_in_the_manual():
    """Table by table: a key that nobody can look up is one that nobody sets."""
    manual = (Path(__file__).parents[1] / "docs" / "peers.md").read_text()
    manual = manual[manual.index("## party.toml") : manual.index("## Rounds")]
    for table in msgspec.structs.fields(Config):
        kinds = [one for one in (table.type, *get_args(table.type)) if isinstance(one, type) and issubclass(one, Plain)]
        part = manual[manual.index(f"| **[{table.name}") :]
        part = part[: part.find("| **[", 5)] if "| **[" in part[5:] else part
        for key in msgspec.structs.fields(kinds[0]):
            assert f"| `{key.name}` |" in part, (table.name, key.name)
