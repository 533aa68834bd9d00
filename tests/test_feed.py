"""A party's own records: files, files that grow, standard input."""

from __future__ import annotations

import dataclasses
import io
import json
import time

import numpy as np
import pytest

import gossamer as gs
from gossamer.streams.schema import Schema

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.peers.config import Config, DataPlan, PartyPlan, Plan, RecordsPlan, Run
from gossamer.peers.feed import Records, Spool
from gossamer.peers.logs import log

SCHEMA = Schema("ill", ("no", "yes"), {"age": (0.0, 100.0)}, {"ward": ("north", "south")})
ROWS = [(20, "north", "no"), (50, "south", "yes"), (100, "north", "yes"), (0, "south", "no")]
FEATURES = [[-0.6, 1, 0, 1], [0.0, 0, 1, 1], [1.0, 1, 0, 1], [-1.0, 0, 1, 1]]


def csv(rows, header=True):
    return "\n".join([*(["age,ward,ill"] if header else []), *(",".join(map(str, row)) for row in rows), ""])


def jsonl(rows):
    return "".join(json.dumps(dict(zip(("age", "ward", "ill"), row, strict=True))) + "\n" for row in rows)


def parquet(path, rows):
    arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    tables = pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(("age", "ward", "ill"), map(list, zip(*rows, strict=True)), strict=True))
    tables.write_table(arrow.table(columns), path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_file_brings_records_round_by_round(tmp_path, kind):
    path = tmp_path / "records"
    if kind == "parquet":
        parquet(path, ROWS)
    else:
        path.write_text(csv(ROWS) if kind == "csv" else jsonl(ROWS))
    feed = Records(path, kind, SCHEMA, 2, follow=False)
    assert (len(feed), feed.rounds) == (4, 2)
    for t in range(2):
        batch = feed.arrivals(t)
        np.testing.assert_allclose(batch.rows, FEATURES[2 * t : 2 * t + 2])
        np.testing.assert_array_equal(batch.labels, [[0, 1], [1, 0]][t])
    assert feed.here(7)
    assert not len(feed.arrivals(7).labels), "a file that does not grow has run out"


def test_a_file_that_grows_is_followed_line_by_line(tmp_path):
    path = tmp_path / "records.csv"
    feed = Records(path, "csv", SCHEMA, 1, follow=True)
    assert not feed.here(0)
    with path.open("a") as file:
        for text, rounds in (
            ("age,wa", 0),
            ("rd,ill\n20,north,no", 0),
            ("\n50,south,yes\n10", 2),
            ("0,north,yes\n", 3),
        ):
            file.write(text)
            file.flush()
            assert [feed.here(t) for t in range(4)] == [t < rounds for t in range(4)]
    np.testing.assert_allclose([feed.arrivals(t).rows[0] for t in range(3)], FEATURES[:3])
    assert feed.rounds is None


def test_what_was_read_is_compared_after_a_restart(tmp_path):
    path = tmp_path / "records.csv"
    path.write_text(csv(ROWS))
    read = [Records(path, "csv", SCHEMA, 1, follow=True).read(t) for t in (0, 2, 3)]
    assert len(set(read)) == 3
    path.write_text(csv([*ROWS, (30, "north", "no")]))
    assert Records(path, "csv", SCHEMA, 1, follow=True).read(3) == read[2], "records were only added"
    path.write_text(csv([*ROWS[:2], (99, "north", "yes"), ROWS[3]]))
    assert Records(path, "csv", SCHEMA, 1, follow=True).read(3) != read[2]


def test_standard_input_is_kept_before_it_is_used(tmp_path):
    path = tmp_path / "records.csv"
    Spool(io.BytesIO(csv(ROWS[:2]).encode()), path)
    feed = Records(path, "csv", SCHEMA, 1, follow=True)
    until = time.monotonic() + 300
    while not feed.here(1) and time.monotonic() < until:
        time.sleep(0.01)
    assert path.stat().st_mode & 0o077 == 0
    Spool(io.BytesIO(csv(ROWS[2:]).encode()), path)  # whoever pipes starts anew, and says the header again
    again = Records(path, "csv", SCHEMA, 1, follow=True)
    while not again.here(3) and time.monotonic() < until:
        time.sleep(0.01)
    np.testing.assert_allclose([again.arrivals(t).rows[0] for t in range(4)], FEATURES)


MISTAKES = {
    "none of the declared categories": csv([(20, "east", "no")]),
    "none of the declared classes": csv([(20, "north", "maybe")]),
    "is not a finite number": csv([("old", "north", "no")]),
    "no value in column": csv([("", "north", "no")]),
    "2 values for 3 columns": "age,ward,ill\n20,north\n",
    "has no column 'ward'": "age,ill\n20,no\n",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_wrong_record_is_named(tmp_path, words):
    path = tmp_path / "records.csv"
    path.write_text(MISTAKES[words])
    with pytest.raises(gs.GossamerError, match=words):
        Records(path, "csv", SCHEMA, 1, follow=False)


def test_what_lies_outside_is_clipped_and_counted_or_refused(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(log, "propagate", caplog.handler not in log.handlers)  # pytest puts it there if a test before
    # has logged to a file, and a message would be seen twice
    path = tmp_path / "records.csv"
    path.write_text(csv([(120, "north", "no"), (20, "south", "yes"), (-1, "south", "yes")]))
    feed = Records(path, "csv", SCHEMA, 3, follow=False)
    np.testing.assert_allclose(feed.arrivals(0).rows[:, 0], [1.0, -0.6, -1.0])
    assert feed.clipped == {"age": 2}
    assert [(one.getMessage(), one.column) for one in caplog.records] == [
        ("values outside of their range are clipped", "age")
    ]
    with pytest.raises(gs.GossamerError, match="line 2: 120 in column 'age' lies outside the declared range 0:100"):
        Records(path, "csv", dataclasses.replace(SCHEMA, outside="refuse"), 3, follow=False)


def test_parties_bring_semicolons_dates_and_holes_as_declared(tmp_path):
    path = tmp_path / "records.csv"
    plan = RecordsPlan(
        target="ill", classes=("no", "yes"), ranges={"day": ("2020-01-01", "2020-01-09"), "dose": (0.0, 4.0)},
        missing="category",
    )  # fmt: skip
    path.write_text("day;ill;dose\n2020-01-05;yes;1,5\n2020-01-09 00:00;no;\n")
    feed = Records(path, "csv", plan.schema(), 2, follow=True)
    assert plan.schema().column_names == ["day", "day missing", "dose", "dose missing", "intercept"]
    np.testing.assert_array_equal(feed.arrivals(0).rows, [[0, 0, -0.25, 0, 1], [1, 0, 0, 1, 1]])


def test_parties_that_scale_or_fill_otherwise_are_of_another_run(tmp_path, monkeypatch):
    def name(**changes):
        records = RecordsPlan(target="ill", classes=("no", "yes"), ranges={"age": (0, 100)}, **changes)
        config = Config(
            run=Run(id="one", learners=3, steps=5), records=records, data=DataPlan(path="records.csv"),
            party=PartyPlan(learner=0, listen="127.0.0.1:1"),
        )  # fmt: skip
        return Plan(config, tmp_path, gs.Network.ring(3)).run_name

    named = [name(), name(missing="category"), name(outside="refuse")]
    monkeypatch.setattr("gossamer.peers.config.SCALED_TO", (0.0, 1.0))
    assert len({*named, name()}) == 4


def test_a_line_is_what_ends_with_a_line_feed(tmp_path):
    """Letters that some call line ends, in a column that nobody reads, make no second record."""
    path = tmp_path / "records.csv"
    odd = "\u2028\x85\x0c\x1e"
    path.write_bytes(f"age,ward,ill,note\r\n20,north,no,a{odd}b\r\n50,south,yes,c\r\n".encode())
    feed = Records(path, "csv", SCHEMA, 1, follow=False)
    assert len(feed) == 2
    path.write_text("age,ward,ill,age\n")
    with pytest.raises(gs.GossamerError, match="two columns called 'age'"):
        Records(path, "csv", SCHEMA, 1, follow=False)
    path.write_text("age,ward,ill,note\n20,north,no," + "x" * 200_000 + "\n")
    assert len(Records(path, "csv", SCHEMA, 1, follow=False)) == 1, "no value is too long for one"


def spooled(text, path, format_="csv"):
    """One start's standard input, to its end; what the file then holds."""
    spool, until = Spool(io.BytesIO(text), path, format_), time.monotonic() + 300
    while not spool.ended and time.monotonic() < until:
        spool.check()
        time.sleep(0.001)
    assert spool.ended
    return path.read_bytes()


HEADER = b"age,ward,ill\n"


@pytest.mark.parametrize(
    ("before", "comes", "after"),
    [
        (HEADER + b"20,north,no\n5", HEADER + b"50,south,yes\n", HEADER + b"20,north,no\n50,south,yes\n"),
        (HEADER + b"20,north,no\n", b"", HEADER + b"20,north,no\n"),
        (HEADER, HEADER, HEADER),
        (HEADER, HEADER + HEADER, HEADER + HEADER),  # a second header in one start is a record, or refused as one
        (b"", HEADER + b"20,north,no\n", HEADER + b"20,north,no\n"),
        (b"age,wa", HEADER + b"20,north,no\n", HEADER + b"20,north,no\n"),  # a crash within the first header
        (HEADER[:-1], HEADER + b"20,north,no\n", HEADER + b"20,north,no\n"),
        (b"", b"age,wa", b""),  # whoever brings them ended within the header
        (HEADER, b"age,wa", HEADER),
        (HEADER, HEADER[:-1], HEADER),
        (HEADER, HEADER + b"20,north,no", HEADER + b"20,north,no\n"),
        (b"\n" + HEADER, b"\r\n  \n" + HEADER + b"20,north,no\n", b"\n" + HEADER + b"20,north,no\n"),
        (b"\xef\xbb\xbf" + HEADER, b'\xef\xbb\xbf"age", ward,ill\r\n20,north,no\n',
         b"\xef\xbb\xbf" + HEADER + b"20,north,no\n"),
    ],
)  # fmt: skip
def test_a_header_is_the_first_line_of_a_start_and_is_kept_once(tmp_path, before, comes, after):
    path = tmp_path / "records.csv"
    path.write_bytes(before)
    assert spooled(comes, path) == after


@pytest.mark.parametrize(
    "comes", [b"20,north,no\n", b"ward,age,ill\n20,north,no\n", b"age\n", b'"age,ward,ill\n', b"\xff\n"]
)
def test_a_start_without_the_header_is_refused_and_nothing_of_it_kept(tmp_path, comes):
    path = tmp_path / "records.csv"
    path.write_bytes(HEADER + b"20,north,no\n")
    with pytest.raises(gs.GossamerError, match="header") as caught:
        spooled(comes, path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == HEADER + b"20,north,no\n"


def test_a_folder_where_standard_input_is_to_be_kept_gets_a_sentence(tmp_path):
    (tmp_path / "records.csv").mkdir()
    with pytest.raises(
        gs.GossamerError, match=r"records.csv, where what comes on standard input is kept, cannot be opened"
    ):
        Spool(io.BytesIO(csv(ROWS).encode()), tmp_path / "records.csv")


def test_jsonl_on_standard_input_has_no_header(tmp_path):
    path, text = tmp_path / "records.jsonl", jsonl(ROWS[:1]).encode()
    for k in (1, 2, 3):
        assert spooled(b"\xef\xbb\xbf" + text, path, "jsonl") == k * text
    assert len(Records(path, "jsonl", SCHEMA, 1, follow=True)) == 3


@pytest.mark.parametrize("follow", [False, True])
def test_a_header_that_comes_again_is_a_record_or_is_refused(tmp_path, follow):
    path = tmp_path / "records.csv"
    path.write_text(csv(ROWS) + csv(ROWS))
    with pytest.raises(gs.GossamerError, match="line 6: 'age' in column 'age' is not a finite number"):
        Records(path, "csv", SCHEMA, 1, follow)
    path.write_text("0,1\n0,1\n1,0\n0,1\n")
    feed = Records(path, "csv", Schema("1", ("0", "1"), {"0": (0, 1)}, {}), 1, follow)
    np.testing.assert_array_equal([feed.arrivals(t).labels[0] for t in range(3)], [1, 0, 1])


@pytest.mark.parametrize("line", ['20,north,no,"a', '20,north,no,"a"b', "20,north,no,a\rb", '"20,north,no,a'])
def test_a_quote_that_is_not_closed_takes_no_other_record_in(tmp_path, line):
    path = tmp_path / "records.csv"
    path.write_text(f'age,ward,ill,note\n{line}\n50,south,yes,b"\n', newline="")
    with pytest.raises(gs.GossamerError, match="line 2: not read as CSV"):
        Records(path, "csv", SCHEMA, 1, follow=False)


ODD = ['"1_0"', '"\u0663"', "1e1", '" 10 "', "10.0", '"1e999"', "1e999", "NaN", "Infinity", '"nan"', "true", "null",
       "9" * 5000, '"' + "9" * 5000 + '"', '""', "[]", '"\\ud800"', '"0x1"']  # fmt: skip


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_numbers_are_read_by_themselves_or_refused_in_a_sentence(tmp_path, value):
    path = tmp_path / "records.jsonl"
    for name, other in (("age", '"ill": "no"'), ("ill", '"age": 20')):
        path.write_text(f'{jsonl(ROWS[:1])}{{"{name}": {value}, "ward": "north", {other}}}\n{jsonl(ROWS[1:2])}')
        said = ""
        try:
            assert len(Records(path, "jsonl", SCHEMA, 1, follow=False)) == 3
        except gs.GossamerError as error:
            said = str(error)
        assert not said or "line 2" in said
        assert "\n" not in said


def test_a_folder_of_parquet_files_has_no_order(tmp_path):
    """Its files' names may hold values, and would decide which come first."""
    pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    for ward in ("north", "south"):
        (tmp_path / "all" / f"ward={ward}").mkdir(parents=True)
        parquet(tmp_path / "all" / f"ward={ward}" / "0.parquet", ROWS)
    with pytest.raises(gs.GossamerError, match="cannot be read as Parquet"):
        Records(tmp_path / "all", "parquet", SCHEMA, 1, follow=False)
    assert len(Records(tmp_path / "all" / "ward=north" / "0.parquet", "parquet", SCHEMA, 1, follow=False)) == 4


def test_a_learner_ends_with_a_sentence_where_its_input_starts_without_the_header(tmp_path, gossamer, monkeypatch):
    made = gossamer(
        "peers", "init", "run", "--learners", 3, "--target", "ill", "--classes", "no,yes", "--range", "age=0:100",
        "--steps", 5, "--clip", 1,
    )  # fmt: skip
    assert made[0] == 0
    party = tmp_path / "run" / "learner-0" / "party.toml"
    party.write_text(party.read_text().replace('path = "records.csv"\nfollow = true', 'path = "-"'))
    (party.parent / "records.csv").write_text("age,ill\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"20,no\n")))
    code, _, said = gossamer("peer", "run", "run/learner-0")
    assert code == 2
    assert "expected the header of" in " ".join(said.split())
    assert (party.parent / "records.csv").read_text() == "age,ill\n"


def test_other_mistakes_get_a_sentence(tmp_path):
    with pytest.raises(gs.GossamerError, match="put the records there"):
        Records(tmp_path / "none.csv", "csv", SCHEMA, 1, follow=False)
    with pytest.raises(gs.GossamerError, match="does not grow"):
        Records(tmp_path / "a.parquet", "parquet", SCHEMA, 1, follow=True)
    path = tmp_path / "records.jsonl"
    for text in ("[1]\n", '{"age": 3}\n', "nonsense\n", '{"age": 3, "ward": null, "ill": "no"}\n'):
        path.write_text(text)
        with pytest.raises(gs.GossamerError, match=r"line 1: expected an object with ill, age, ward"):
            Records(path, "jsonl", SCHEMA, 1, follow=False)
    path.write_text(jsonl(ROWS))
    feed = Records(path, "jsonl", SCHEMA, 1, follow=True)
    path.write_text(jsonl(ROWS[:1]))
    with pytest.raises(gs.GossamerError, match="has become shorter"):
        feed.here(9)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("y", (), {"a": (0, 1)}, {}), "neither classes nor a range"),
        (("y", ("0", "1"), {}, {}), "no feature columns"),
        (("y", ("0", "1"), {"a": (1, 1)}, {}), "the lower below the upper"),
        (("y", ("1", "1.0"), {"a": (0, 1)}, {}), "at least two names, all unlike"),
        (("y", ("0", "0"), {"a": (0, 1)}, {}), "at least two names, all unlike"),
        (("y", ("0", "1"), {"a": (0, 1)}, {"a": ("u", "v")}), "declare one of the two"),
    ],
)
def test_a_schema_that_declares_too_little_is_refused(given, words):
    with pytest.raises(gs.GossamerError, match=words):
        Schema(*given)


def test_two_parties_that_declare_in_another_order_mean_the_same_by_their_theta(tmp_path):
    """They have one fingerprint, which says that they learn the same, and used to lay their features out unlike."""
    ranges, categories = [("weight", (0, 200)), ("age", (0, 100))], [("ward", ("n", "s")), ("Clinic", ("b", "a"))]
    plans = []
    for way in (iter, reversed):
        records = RecordsPlan(
            target="ill", classes=("no", "yes"), ranges=dict(way(ranges)), categories=dict(way(categories))
        )
        config = Config(
            run=Run(id="one", learners=3, steps=5), records=records, data=DataPlan(path="records.csv"),
            party=PartyPlan(learner=0, listen="127.0.0.1:1"),
        )  # fmt: skip
        plans.append(Plan(config, tmp_path, gs.Network.ring(3)))
    one, other = plans
    assert one.fingerprint == other.fingerprint
    columns = ["Clinic=b", "Clinic=a", "age", "ward=n", "ward=s", "weight", "intercept"]
    assert one.schema.column_names == other.schema.column_names == columns
    (tmp_path / "records.csv").write_text("weight,ward,ill,Clinic,age\n50,n,yes,a,20\n")
    for plan in plans:
        feed = Records(tmp_path / "records.csv", "csv", plan.schema, 1, follow=False)
        np.testing.assert_array_equal(feed.arrivals(0).rows, [[0, 1, -0.6, 1, 0, -0.5, 1]])


def test_a_file_means_the_same_to_a_party_as_to_the_simulator(tmp_path):
    path = tmp_path / "records.csv"
    path.write_text("ward,ill,age\nsouth,yes,50\nnorth,no,20\n")
    stream = gs.streams.from_csv(
        path, "ill", 2, classes=SCHEMA.classes, ranges=SCHEMA.ranges, categories=SCHEMA.categories
    )
    np.testing.assert_array_equal(Records(path, "csv", SCHEMA, 2, follow=False).arrivals(0).rows, stream.table.rows)
    assert stream.description["columns"] == SCHEMA.column_names
    assert stream.table.bounds == SCHEMA.table().bounds


def test_a_quantity_is_scaled_like_a_feature(tmp_path):
    path = tmp_path / "records.csv"
    path.write_text("a,y\n5,10\n10,20\n")
    feed = Records(path, "csv", Schema("y", (), {"a": (0, 10), "y": (0, 20)}, {}, intercept=False), 2, follow=False)
    np.testing.assert_allclose(feed.arrivals(0).rows, [[0.0], [1.0]])
    np.testing.assert_allclose(feed.arrivals(0).labels, [0.0, 1.0])


def test_an_open_quote_moves_no_other_record_when_records_are_dealt(gossamer, tmp_path):
    """One record's note used to swallow the next line, and every later record went to another learner."""
    rows = [f"{20 + k},north,{'no' if k % 2 else 'yes'},n{k}" for k in range(12)]
    options = ("--target", "ill", "--classes", "no,yes", "--range", "age=0:120", "--categories", "ward=north|south")
    for k, note in (("plain", "plain"), ("open", '"open'), ("closed", 'b"')):
        rows[4] = f"24,north,yes,{note}"
        (tmp_path / f"{k}.csv").write_text("age,ward,ill,note\n" + "\n".join(rows) + "\n")
    made = ("peers", "init", "demo", "--learners", 3, "--csv")
    assert gossamer(*made, "plain.csv", *options)[0] == 0
    code, _, err = gossamer("peers", "init", "other", "--learners", 3, "--csv", "open.csv", *options)
    assert code == 2
    assert "line 6: not read as CSV" in " ".join(err.split())
