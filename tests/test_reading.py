"""Files as people have them: separators, encodings, quotes, formats; one means the same however it is written."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from gossamer import GossamerError, streams
from gossamer.streams import files
from gossamer.streams.columns import Numbers, Words
from gossamer.streams.files import Reading, read_file
from gossamer.streams.growing import LABELS_AT_MOST

NAMES = ["größe", "ward", "ill"]
ROWS = [["1.5", "nörd", "no"], ["2.25", "a, b", "yes"], ["-3", 'he said "x"', "no"], ["4e1", "two\nlines", "yes"]]


def text_of(separator=",", rows=ROWS, names=NAMES):
    def quote(cell):
        return '"' + cell.replace('"', '""') + '"' if set(cell) & set('",;|\t\n') else cell

    return "".join(separator.join(map(quote, row)) + "\n" for row in [names, *rows])


def read(path, **how):
    return read_file(Reading(path, **how))


def same(columns):
    assert columns.header == NAMES
    np.testing.assert_array_equal(columns.numbers("größe"), [1.5, 2.25, -3, 40])
    for name, k in (("ward", 1), ("ill", 2)):
        words = columns.words(name)
        assert [words.names[code] for code in words.codes] == [row[k] for row in ROWS]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_file_means_the_same_however_it_is_written(tmp_path, separator, encoding, ends):
    path = tmp_path / "own.csv"
    text = text_of(separator).replace("\n", ends).replace(f"two{ends}lines", "two\nlines")
    path.write_bytes(text.encode(encoding))
    columns = read(path)
    same(columns)
    assert columns.lines.tolist() == [2, 3, 4, 5], "a record is where it begins"
    assert any("separated by" in note for note in columns.notes) == (separator != ",")
    assert any("cp1252" in note for note in columns.notes) == (encoding == "cp1252")
    same(read(path, separator=separator, encoding=encoding))


def test_the_ends_of_a_name_say_what_a_file_is(tmp_path):
    (tmp_path / "own.csv.gz").write_bytes(gzip.compress(text_of().encode()))
    same(read(tmp_path / "own.csv.gz"))
    lines = [json.dumps({"größe": float(row[0]), "ward": row[1], "ill": row[2]}) for row in ROWS]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    same(read(tmp_path / "own.jsonl"))
    arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    parquet = pytest.importorskip("pyarrow.parquet")
    values = {
        "größe": [float(row[0]) for row in ROWS],
        "ward": [row[1] for row in ROWS],
        "ill": [row[2] for row in ROWS],
    }
    parquet.write_table(arrow.table(values), tmp_path / "own.parquet")
    same(read(tmp_path / "own.parquet"))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_stream_is_the_same_from_any_of_them(tmp_path, kind):
    rows = [{"x": k / 3, "n": k, "ok": k % 2 == 0, "day": f"2020-01-{k + 1:02}", "y": k % 3} for k in range(9)]
    path = tmp_path / f"own.{kind}"
    if kind == "csv":
        path.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]))
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
        days = np.array([row["day"] for row in rows], dtype="datetime64[D]")
        columns = {name: [row[name] for row in rows] for name in rows[0]} | {"day": days}
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), path)
    stream = streams.from_csv(
        path, "y", 3, ranges={"x": (0, 4), "n": (0, 8), "day": ("2020-01-01", "2020-01-09")},
        categories={"ok": ["True", "False"]}, classes=["0", "1", "2"],
    )  # fmt: skip
    assert stream.description["columns"] == ["day", "n", "ok=True", "ok=False", "x", "intercept"]
    k = np.arange(9)
    wanted = [k / 4 - 1, k / 4 - 1, k % 2 == 0, k % 2 == 1, k / 6 - 1, np.ones(9)]
    np.testing.assert_allclose(stream.table.rows, np.array(wanted).T)
    np.testing.assert_array_equal(stream.table.labels, k % 3)
    assert stream.table.undeclared == ""


def test_many_numbers_are_those_that_numpy_reads(tmp_path):
    X = np.random.default_rng(0).normal(size=(20_000, 5)) * 10.0 ** np.arange(-2, 3)
    path = tmp_path / "own.csv"
    np.savetxt(path, X, delimiter=",", header="a,b,c,d,e", comments="")
    columns = read(path)
    for k, name in enumerate("abcde"):
        np.testing.assert_array_equal(columns.numbers(name), np.loadtxt(path, delimiter=",", skiprows=1)[:, k])


def test_a_word_that_comes_late_makes_the_whole_column_words(tmp_path):
    path, count = tmp_path / "own.csv", 200_000
    path.write_text("x,y\n" + "".join(f"00{k % 7},{k % 2}\n" for k in range(count)) + "none of these,1\n")
    column = read(path).column("x")
    assert isinstance(column, Words)
    assert set(column.names) == {*(f"00{k}" for k in range(7)), "none of these"}, "as they are written"
    with pytest.raises(GossamerError, match=f"line {count + 2}: 'none of these' in column 'x' is not a finite number"):
        streams.from_csv(path, "y")


def test_a_target_of_very_many_numbers_is_kept_as_numbers(tmp_path):
    path, count = tmp_path / "own.csv", LABELS_AT_MOST + 5
    path.write_text("x,y\n" + "".join(f"{k % 3},{k}\n" for k in range(count)))
    column = read(path, labels="y").column("y")
    assert isinstance(column, Numbers)
    np.testing.assert_array_equal(column.values, np.arange(count))
    assert isinstance(read(path, words=("y",)).column("y"), Words), "unless words are asked for"


def test_decimal_commas_are_numbers_where_commas_do_not_separate(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("a;b;y\n1,5;7;0\n-2,25;8;1\n3;9;1\n")
    np.testing.assert_array_equal(read(path).numbers("a"), [1.5, -2.25, 3])
    path.write_text("a;b;y\n1,5;7;0\n2.5;8;1\n")
    with pytest.raises(GossamerError, match=r"line 2: '1,5' in column 'a' has a decimal comma where others .* a point"):
        streams.from_csv(path, "y", 2)


def test_only_the_header_says_what_separates(tmp_path):
    """It is no record's: one record full of semicolons must not change how others are read."""
    path = tmp_path / "own.csv"
    path.write_text("x,w,y\n1,a;b;c;d;e;f,0\n2,b,1\n")
    assert read(path).header == ["x", "w", "y"]
    path.write_text('"a, in cm",y\n1,0\n2,1\n')
    assert read(path).header == ["a, in cm", "y"]
    path.write_text('"a, b, c";y\n1;0\n2;1\n')
    assert read(path).header == ["a, b, c", "y"]
    path.write_text("a,b;y\n1,0;1\n")
    assert read(path, separator=";").header == ["a,b", "y"]


def test_a_line_in_another_encoding_changes_no_other(tmp_path):
    path = tmp_path / "own.csv"
    for odd in ("ü".encode(), "ü".encode("cp1252"), b"\x81"):
        path.write_bytes("n,y\nÃ©é,0\n".encode() + odd + b",1\n" + "é,1\n".encode())
        words = read(path).words("n")
        assert [words.names[k] for k in words.codes][::2] == ["Ã©é", "é"]


@pytest.mark.parametrize(
    "quoted", ['"a', 'a"', '"a""', '""a"', '"a\nb"', '"a", "b"', "plain", '""', '"a,b"', '"a"b"c"']
)
def test_no_record_takes_another_one_in_whatever_it_quotes(tmp_path, quoted):
    """It is read by itself, or the file is refused; the others, which have quotes and line feeds too, stay theirs."""
    path = tmp_path / "own.csv"
    others = ['1,"x",0', '2,"u\nv",1', "3,,0", '4,",",1', '5,"""",0', '6,"\n",1']
    before = others[:2]
    path.write_text("\n".join(["a,w,y", *before, f"7,{quoted},1", *others[2:]]) + "\n")
    try:
        columns = read(path, words=("w",))
    except GossamerError:
        return  # refused as a whole
    np.testing.assert_array_equal(columns.numbers("a"), [1, 2, 7, 3, 4, 5, 6])
    words = columns.words("w")
    there = [words.names[k] for k in words.codes]
    assert there[:2] + there[3:] == ["x", "u\nv", "", ",", '"', ""]


def test_a_quote_that_is_not_closed_is_named_where_it_began(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text('a,w,y\n1,x,0\n2,"y,1\n' + "3,z,0\n" * 50_000)
    with pytest.raises(GossamerError, match=r"line 3: not read as CSV .a quote that begins there is not closed"):
        read(path)


@pytest.mark.parametrize(
    ("text", "how", "says"),
    [
        ("a,y\n1,0\n", {"separator": "x"}, "separator='x': expected one of , ; | and a tab"),
        ("a,y\n1,0\n", {"encoding": "klingon"}, "encoding='klingon': expected a name such as utf-8"),
        ("é,y\n1,0\n", {"encoding": "ascii"}, "cannot be read as CSV"),
        ("é,y\n1,0\n".encode("utf-16-le"), {}, "as UTF-16 text without a mark has: try encoding='utf-16-le'"),
        ("x,y\r1,0\r2,1\r", {}, "line 1: not read as CSV"),
    ],
)
def test_what_cannot_be_read_gets_a_sentence(tmp_path, text, how, says):
    path = tmp_path / "own.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GossamerError) as caught:
        read(path, **how)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [("[1]", "expected an object"), ("{", "not read as JSON"), ('{"a": [1], "y": 0}', "'a' holds")],
)
def test_a_line_of_json_that_is_no_record_is_named(tmp_path, line, says):
    path = tmp_path / "own.jsonl"
    path.write_text(f'{{"a": 1, "y": 0}}\n{line}\n')
    with pytest.raises(GossamerError, match=f"line 2: .*{says}"):
        read(path)


def test_a_file_is_read_once_in_a_run(tmp_path, gossamer, monkeypatch):
    path, opened = tmp_path / "own.csv", []
    path.write_text("x,y\n" + "".join(f"{k},{k % 2}\n" for k in range(40)))
    opens = files.open_bytes
    monkeypatch.setattr(files, "open_bytes", lambda one: opened.append(one) or opens(one))
    code, _, said = gossamer("run", "--csv", path, "--target", "y", "--steps", 1, "--noise", 0, "--out", "out")
    assert code == 0, said
    assert len(opened) == 1
    assert not files._kept, "and what was read is let go of"


def test_what_was_kept_of_a_file_is_not_used_once_it_has_changed(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("x,y\n1,0\n")
    read_file(Reading(path), keep=True)
    path.write_text("x,y\n1,0\n2,1\n")
    assert len(read(path)) == 2
