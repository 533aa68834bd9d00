"""A feed that keeps few of its records gives what one gives that keeps them all, and takes little memory."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.streams.schema import Schema

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.peers import blocks, sources
from gossamer.peers.feed import Records

SCHEMA = Schema("y", ("no", "yes"), {"a": (-1.0, 1.0), "b": (0.0, 9.0)}, {"ward": ("n", "s", "w")})
COLUMNS = 2 + 3 + 1
KINDS = ["csv", "jsonl", "parquet"]


@pytest.fixture
def small(monkeypatch):
    """Pieces of a few records, of which a feed keeps a few."""
    for name, value in (("CHUNK", 200), ("ROWS", 7)):
        monkeypatch.setattr(sources, name, value)
    for name, value in (("CHUNK", 200), ("KEPT", 20 * COLUMNS), ("NEWEST", 5)):
        monkeypatch.setattr(blocks, name, value)
    monkeypatch.setattr("gossamer.peers.feed.DIGESTED", 3)


def some_records(rng, count):
    return [
        {"a": float(rng.uniform(-1.2, 1.2)), "b": int(rng.integers(10)), "ward": str(rng.choice(["n", "s", "w"])),
         "y": str(rng.choice(["no", "yes"]))}
        for _ in range(count)
    ]  # fmt: skip


def text_of(records, kind, rng, first=True):
    if kind == "jsonl":
        return "".join(json.dumps(record) + "\n" * int(rng.integers(1, 3)) for record in records)
    lines = [f'{r["a"]!r},{r["b"]},{r["y"]},"{r["ward"]}"' if rng.random() < 0.3 else
             f'{r["a"]!r},{r["b"]},{r["y"]},{r["ward"]}' for r in records]  # fmt: skip
    return "\n".join([*(["a,b,y,ward"] if first else []), *lines, ""])


def write(path, records, kind, rng):
    if kind != "parquet":
        path.write_text(text_of(records, kind, rng))
        return
    arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    tables = pytest.importorskip("pyarrow.parquet")
    columns = {name: [record[name] for record in records] for name in ("a", "b", "y", "ward")}
    tables.write_table(arrow.table(columns), path, row_group_size=int(rng.integers(5, 40)))


def wanted(records):
    """Features and labels, written out from what was declared: a and b on −1 … 1, a ward's place, a one."""
    rows = [
        [np.clip((r["a"] + 1) / 2 * 2 - 1, -1, 1), r["b"] / 9 * 2 - 1, *(float(r["ward"] == w) for w in "nsw"), 1.0]
        for r in records
    ]
    return np.array(rows).reshape(-1, COLUMNS), np.array([float(r["y"] == "yes") for r in records])


def digest_of(rows, labels):
    whole = hashlib.blake2b(digest_size=16)
    for row, label in zip(rows, labels, strict=True):
        whole.update(row.tobytes() + np.float64(label).tobytes())
    return f"{len(labels)} records {whole.hexdigest()}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_rounds_get_the_records_that_they_got_when_all_were_kept(small, tmp_path, kind, seed):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    count, per_round = int(rng.integers(1, 300)), int(rng.integers(1, 50))
    records, path = some_records(rng, count), tmp_path / f"records.{kind}"
    write(path, records, kind, rng)
    X, y = wanted(records)
    feed = Records(path, kind, SCHEMA, per_round, follow=False)
    assert (len(feed), feed.rounds) == (count, count // per_round)
    assert feed.clipped["a"] == sum(abs(r["a"]) > 1 for r in records)
    kept = 0
    for t in range(count // per_round + 2):
        before, upto = t * per_round, min(count, (t + 1) * per_round)
        batch = feed.arrivals(t)
        np.testing.assert_allclose(batch.rows, X[before:upto], rtol=0, atol=1e-15)
        np.testing.assert_array_equal(batch.labels, y[before:upto])
        if t % 3:  # and not every round of the last life was booked here
            feed.read(t)
        for some in (3, 5, 40):
            np.testing.assert_allclose(feed.newest(some)[0], X[max(0, count - some) :], rtol=0, atol=1e-15)
            np.testing.assert_array_equal(feed.newest(some)[1], y[max(0, count - some) :])
        kept = max(kept, sum(len(block.labels) for block in feed._blocks._held))
    assert kept < 20 + 5 + 3 * 40, "that many lie in no more than three pieces beyond what is to be kept"
    assert feed.read(count) == digest_of(feed.newest(count)[0], y)
    assert feed.clipped["a"] == sum(abs(r["a"]) > 1 for r in records), "nothing is counted twice"


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("seed", range(6))
def test_so_do_rounds_on_a_file_that_grows(small, tmp_path, kind, seed):
    rng = np.random.default_rng([seed, KINDS.index(kind), 1])
    records, path, per_round = some_records(rng, 150), tmp_path / "records", int(rng.integers(1, 9))
    X, y = wanted(records)
    text = text_of(records, kind, rng).encode()
    feed, t, cuts = Records(path, kind, SCHEMA, per_round, follow=True), 0, sorted(rng.integers(0, len(text), 40))
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        with path.open("ab") as file:
            file.write(text[start:end])
        while rng.random() < 0.8 and feed.here(t):
            batch = feed.arrivals(t)
            np.testing.assert_allclose(batch.rows, X[t * per_round : (t + 1) * per_round], rtol=0, atol=1e-15)
            np.testing.assert_array_equal(batch.labels, y[t * per_round : (t + 1) * per_round])
            feed.read(t)
            t += 1
    while feed.here(t):
        np.testing.assert_array_equal(feed.arrivals(t).labels, y[t * per_round : (t + 1) * per_round])
        t += 1
    assert t == 150 // per_round
    again = Records(path, kind, SCHEMA, per_round, follow=True)
    for k in range(t):
        again.arrivals(k)
        again.read(k)
    held = Records(path, kind, SCHEMA, t * per_round, True).arrivals(0)
    assert again.read(t - 1) == feed.read(t - 1) == digest_of(held.rows, held.labels)
    assert len(feed._blocks._blocks) < 100, "single records are joined"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_another_when_it_is_read_again_is_refused(small, tmp_path, kind):
    records, path = some_records(np.random.default_rng(0), 200), tmp_path / "records"
    write(path, records, kind, np.random.default_rng(1))
    feed = Records(path, kind, SCHEMA, 10, follow=False)
    assert feed.arrivals(0).labels.tolist() == wanted(records)[1][:10].tolist()
    records[100]["b"] = 9 - records[100]["b"]
    write(path, records, kind, np.random.default_rng(1))
    with pytest.raises(gs.GossamerError, match="others than when they were first read") as caught:
        any(feed.arrivals(t) is None for t in range(20))
    assert "\n" not in str(caught.value)
    if kind != "parquet":
        path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(gs.GossamerError, match="has become shorter"):
            feed.arrivals(15)
    path.unlink()
    with pytest.raises(gs.GossamerError, match="no file"):
        Records(path, kind, SCHEMA, 1, follow=False)


def test_whether_a_comma_is_a_decimal_one_does_not_depend_on_what_came_together(small, tmp_path):
    path, schema = tmp_path / "records.csv", Schema("y", ("0", "1"), {"a": (0.0, 9.0)}, {})
    lines = ["a;y", *["1,5;0"] * 100]
    for odd in ("1.5;1", "2;1"):
        path.write_text("\n".join([*lines, odd, ""]))
        if odd == "2;1":
            assert len(Records(path, "csv", schema, 1, follow=False)) == 101
            continue
        for follow in (False, True):
            with pytest.raises(gs.GossamerError, match="decimal comma"):
                Records(path, "csv", schema, 1, follow=follow)
    path.write_text("\n".join([*lines, ""]))
    feed = Records(path, "csv", schema, 1, follow=True)
    with path.open("a") as file:
        file.write("1.5;1\n")
    with pytest.raises(gs.GossamerError, match="decimal comma in some records and a point in others"):
        feed.here(100)


MILLION = """
import sys
from pathlib import Path
from gossamer.peers.feed import Records
from gossamer.streams.schema import Schema
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
schema = Schema("y", ("0", "1"), {f"x{k}": (0.0, 1.0) for k in range(4)}, {})
Records(Path(sys.argv[1]).with_name("few"), sys.argv[2], schema, 500, False)  # loads what is needed: Arrow has 50 MB
Path("/proc/self/clear_refs").write_text("5")
before = peak()
feed = Records(Path(sys.argv[1]), sys.argv[2], schema, 500, follow=sys.argv[3] == "follow")
for t in range(len(feed) // 500):
    feed.arrivals(t)
    feed.read(t)
print(len(feed), t, peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize(("kind", "follow"), [("csv", "whole"), ("csv", "follow"), ("parquet", "whole")])
def test_a_million_records_take_no_more_memory_than_some(tmp_path, kind, follow):
    """Packed they take 48 MB; a feed that had all of them at once took seventeen times that."""
    arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    tables = pytest.importorskip("pyarrow.parquet")
    n = 1_000_000
    for name, count in (("few", 10_000), ("records", n)):
        if kind == "csv":
            block = "".join(f"0.{j % 97},0.{j % 89},0.{j % 83},0.{j % 79},{j % 2}\n" for j in range(10_000))
            (tmp_path / name).write_text("x0,x1,x2,x3,y\n" + block * (count // 10_000))
        else:
            k = np.arange(count)
            columns = {f"x{j}": (k % (97 - j)) / 100 for j in range(4)} | {"y": k % 2}
            tables.write_table(arrow.table(columns), tmp_path / name, row_group_size=count // 4)
    done = subprocess.run(
        [sys.executable, "-c", MILLION, str(tmp_path / "records"), kind, follow],
        capture_output=True,
        text=True,
        check=True,
    )
    count, last, grown = map(int, done.stdout.split())
    assert (count, last) == (n, n // 500 - 1)
    packed = n * (4 + 2) * 8
    assert grown < 0.6 * packed
