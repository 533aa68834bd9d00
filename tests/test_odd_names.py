"""Columns of any Unicode name, and days that no calendar has, from the command to a feed."""

from __future__ import annotations

import csv
import io
import json
import shlex
import tomllib

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer import streams
from gossamer.cli.words import in_command
from gossamer.peers.config import Config, DataPlan, PartyPlan, RecordsPlan, Run, read_config, to_toml
from gossamer.peers.feed import Records
from gossamer.quoting import typed, typed_list
from gossamer.spec.files import toml_value
from gossamer.spec.languages import class_names, column_categories, column_ranges
from gossamer.spec.languages import names as names_in

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


@given(st.lists(st.text(min_size=1, max_size=8) | st.text('",=|: a', min_size=1, max_size=8), min_size=2, unique=True))
@example(['"', '"x', 'x"', '""', '","', '"="', "a=b"])
@example(["weight, kg", 'the "real" age', "a|b", " a ", "it's", "--x"])
@settings(max_examples=100)
def test_a_list_of_names_comes_back_as_it_was_typed(names):
    assert names_in([typed_list(names)]) == class_names(typed_list(names)) == names
    assert column_ranges([",".join(f"{typed(name)}=-1:2" for name in names)]) == dict.fromkeys(names, (-1.0, 2.0))
    listed = "|".join(typed(name, "|") for name in names)
    assert column_categories([f"{typed(name)}={listed}" for name in names]) == dict.fromkeys(names, names)


def test_a_name_needs_quotes_only_where_it_would_be_read_otherwise():
    plain = {"age": "age", "größe": "größe", 'q"uote': 'q"uote', "a:b": "a:b", "a b": "a b", "a=b": '"a=b"'}
    assert {name: typed(name) for name in plain} == plain
    assert column_ranges(["a=b=0:9, c = 1:2"]) == {"a=b": (0, 9), "c": (1, 2)}
    assert column_categories(["op=<=|>="]) == {"op": ["<=", ">="]}
    assert names_in(["a, b", 'c"d,"e']) == ["a", "b", 'c"d', '"e'], "a quote that nobody closes is a letter"
    with pytest.raises(gs.GossamerError, match="where a name has a comma in it"):
        column_ranges(["weight, kg=0:120"])


TYPED = ["weight, kg", "a=b", '"q"', 'the "real" one', "a:b", "a|b", "Größe 年齢", "it's", "$HOME", "#"]


def test_what_the_note_prints_can_be_pasted_back(tmp_path, gossamer):
    """Names of columns, of categories and of classes."""
    said = io.StringIO()
    header = [*TYPED, "ward, no.", 'y="1"']
    rows = [[k + 1, *range(k, k + len(TYPED) - 1), 'a|b,"' if k % 3 else "=", "no, never" if k % 2 else "yes"]
            for k in range(60)]  # fmt: skip
    csv.writer(said, lineterminator="\n").writerows([header, *rows])
    (tmp_path / "odd.csv").write_text(said.getvalue(), encoding="utf-8")
    stream = streams.from_csv(tmp_path / "odd.csv", 'y="1"', learners=3)
    (note,) = [one for one in stream.notes if "read off the data" in one]
    pasted = shlex.split(note.said(in_command).partition(" declare them with ")[2].rpartition(" (as this")[0])
    given = dict(zip(pasted[::2], pasted[1::2], strict=True))
    ranges, categories = column_ranges([given["--range"]]), column_categories([given["--categories"]])
    assert set(ranges) == set(TYPED)
    assert categories == {"ward, no.": sorted(['a|b,"', "="])}
    words = ["--csv", "odd.csv", "--target", 'y="1"', "--learners", 3, *pasted]
    code, _, err = gossamer("peers", "init", "run", *words, "--clip", 1, "--graph", "complete")
    assert code == 0, err
    plan = read_config(tmp_path / "run/learner-0")
    assert set(plan.schema.features) == {*TYPED, "ward, no."}
    assert plan.schema.classes == ("no, never", "yes")
    assert len(Records(plan.folder / "records.csv", "csv", plan.schema, 1, follow=False)) == 20
    again = streams.from_csv(
        tmp_path / "odd.csv", 'y="1"', learners=3, ranges=ranges, categories=categories,
        classes=class_names(given["--classes"]),
    )  # fmt: skip
    assert again.table.undeclared == ""


@pytest.mark.parametrize("name", ["two\nlines", "two\r\nlines", "end\n", " before", "after "])
def test_init_refuses_a_name_that_a_learner_could_not_read(tmp_path, gossamer, name):
    said = io.StringIO()
    csv.writer(said, lineterminator="\n").writerows([[name, "y"], *([k % 10, k % 7] for k in range(60))])
    (tmp_path / "all.csv").write_text(said.getvalue(), newline="")
    words = ("--learners", 3, "--target", "y", "--range", f'"{name}"=0:10,y=0:10', "--clip", 1)
    for file in ((), ("--csv", "all.csv")):
        code, _, err = gossamer("peers", "init", "run", *file, *words)
        assert code == 2
        assert "has a line break in its name, or a space around it" in err
        assert "Traceback" not in err
        assert not (tmp_path / "run").exists()


def test_init_refuses_a_value_with_a_line_break(tmp_path, gossamer):
    words = ("--learners", 3, "--target", "y", "--classes", "0,1", "--categories", "ward=a\nb|c", "--clip", 1)
    code, _, err = gossamer("peers", "init", "run", *words)
    assert code == 2
    assert "may hold 'a\\nb', which has a line break" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("days", [10**9, 10**30, 36_501, 0, -1])
def test_days_that_no_calendar_has_get_a_sentence(tmp_path, gossamer, days):
    code, _, err = gossamer("peers", "init", "run", "--days", days)
    assert code == 2
    assert err.startswith("gossamer: --days ")
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()
