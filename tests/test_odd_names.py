"""Columns of any Unicode name, and days that no calendar has, from the command to a feed."""

from __future__ import annotations

import csv
import io
import json
import tomllib

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers.config import Config, DataPlan, PartyPlan, RecordsPlan, Run, read_config, to_toml
from gossamer.peers.feed import Records
from gossamer.spec.files import toml_value

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
ODD = [
    "größe 😀",
    "年齢",
    "a\u2028b",
    "x\x7f",
    'q"uote',
    "back\\slash",
    "a.b",
    "[t]",
    "#h",
    "e\u0301",
    "עברית",
    "\x00",
    "=",
    "\u0085",
]


@given(st.lists(NAMES, min_size=3, max_size=3, unique=True))
@example(ODD[:3])
@example(ODD[3:6])
@example(["x\x7f", "\x7f", "\U0010ffff"])
@settings(max_examples=100)
def test_a_configuration_comes_back_from_its_file_as_it_was(names):
    target, number, word = names
    config = Config(
        run=Run(id=target, learners=2, steps=3),
        records=RecordsPlan(
            target=target, classes=(number, word), ranges={number: (0.0, 1.0)}, categories={word: names}
        ),
        party=PartyPlan(learner=0, listen="localhost:1"),
        data=DataPlan(path=word),
    )
    text = to_toml(config).encode().decode()
    assert msgspec.convert(tomllib.loads(text), type=Config) == msgspec.convert(
        msgspec.to_builtins(config), type=Config
    )


def test_what_is_no_text_gets_a_sentence():
    with pytest.raises(gs.GossamerError, match="no text that a file can have"):
        toml_value("\udcff")


@pytest.mark.parametrize("name", ODD)
def test_a_feed_finds_a_column_of_any_name(tmp_path, name):
    schema = RecordsPlan(target="y", ranges={name: (0.0, 9.0), "y": (0.0, 9.0)}).schema()
    said = io.StringIO()
    csv.writer(said, lineterminator="\n").writerows([[name, "y"], [1, 2], [3, 4]])
    (tmp_path / "r.csv").write_text(said.getvalue(), encoding="utf-8")
    rows = [json.dumps({name: k, "y": k + 1}, ensure_ascii=False) for k in (1, 3)]
    (tmp_path / "r.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    if name.strip() == name:
        assert len(Records(tmp_path / "r.csv", "csv", schema, 1, follow=False)) == 2
    assert len(Records(tmp_path / "r.jsonl", "jsonl", schema, 1, follow=False)) == 2


def test_init_makes_folders_for_a_column_of_any_name(tmp_path, gossamer):
    name = "größe 😀"
    (tmp_path / "all.csv").write_text(
        f"{name},y\n" + "".join(f"{k % 10},{k % 7}\n" for k in range(60)), encoding="utf-8"
    )
    words = ("--learners", 3, "--target", "y", "--range", f"{name}=0:10,y=0:10", "--clip", 1, "--graph", "complete")
    code, _, err = gossamer("peers", "init", "run", "--csv", "all.csv", *words)
    assert code == 0, err
    plan = read_config(tmp_path / "run/learner-0")
    assert plan.schema.column_names == [name, "intercept"]
    assert len(Records(plan.folder / "records.csv", "csv", plan.schema, 1, follow=False)) == 20


@pytest.mark.parametrize("days", [10**9, 10**30, 36_501, 0, -1])
def test_days_that_no_calendar_has_get_a_sentence(tmp_path, gossamer, days):
    code, _, err = gossamer("peers", "init", "run", "--days", days)
    assert code == 2
    assert err.startswith("gossamer: --days ")
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()
