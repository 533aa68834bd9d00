"""Two worlds that differ in one valid record differ in that record's row, in its own round, and in nothing else.

Privacy is proved for this. Were it a record's value that decides when others are used, or whether a run starts, every
message after it would tell of that record, and no budget would have paid for it.
"""

from __future__ import annotations

import importlib
import io
import itertools
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer import GossamerError, streams
from gossamer.datasets import images
from gossamer.experiments.tasks import data_of
from gossamer.records import features_of
from gossamer.spec import Spec
from gossamer.streams.growing import columns_of_rows
from gossamer.streams.schema import Schema

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.peers.boundary import boundary_of
from gossamer.peers.config import Config, DataPlan, ModelPlan, PartyPlan, Plan, PrivacyPlan, RecordsPlan, Run
from gossamer.peers.feed import Records, Spool

mushrooms_file = importlib.import_module("gossamer.datasets.mushrooms")  # the function has the same name
SCHEMAS = {
    "a header that is a record": Schema("2", ("0", "1", "2"), {"0": (0, 3), "1": (-2, 2)}, {}),
    "a quantity, and a header that is a record": Schema("1", (), {"0": (0, 3), "1": (0, 1)}, {}),
    "names that are values": Schema("t", ("t", "u"), {}, {"a": ("a", "b"), "b": ("b", "c", "none", "nan", "?")}),
    "numbers, words and classes": Schema("ill", ("no", "yes"), {"age": (0, 100)}, {"ward": ("north", "south")}),
    "what is missing": Schema("y", ("0", "1"), {"a": (-1, 1)}, {"w": ("u", "v", "na")}, missing="category"),
}
NOTES = st.text('ab",; \t\r\x00\x1c\u2028\u0663', max_size=4) | st.just(
    "note"
)  # of a column called note, which nobody reads


def columns_of(schema):
    return [*schema.features, schema.target]


def cells(schema, name):
    """Values that are declared, as people write them."""
    absent = ["", "NA", "?", "null"] if schema.missing == "category" else []
    if name in schema.categories:
        return st.sampled_from([*schema.categories[name], *absent])
    if name == schema.target and schema.classes:
        return st.sampled_from([*schema.classes, *(f"{one}.0" for one in schema.classes if one.isdigit())])
    low, high = schema.ranges[name]
    odd = ["0", "-0", "1e0", "+1", "1", "0_1", "\u0661", "1e-400", "-1e308", *absent]
    ends = st.sampled_from([f"{low}", f"{high}", *odd])
    return ends | st.floats(low, high).map(repr)


def records(schema):
    header = columns_of(schema)
    rows = st.tuples(*(cells(schema, name) for name in header)).map(list)
    try:
        schema.encode(columns_of_rows("header", header, [1], [header]))
    except GossamerError:
        return rows
    return rows | st.just(header)


@st.composite
def worlds(draw):
    """A schema, the records of one world, which of them is another in the second, and how many a round takes."""
    schema = SCHEMAS[draw(st.sampled_from(sorted(SCHEMAS)))]
    noted = st.tuples(records(schema), NOTES).map(lambda row: [*row[0], row[1]])
    rows = draw(st.lists(noted, min_size=2, max_size=7))
    k = draw(st.integers(0, len(rows) - 1))
    return schema, rows, [*rows[:k], draw(noted), *rows[k + 1 :]], k, draw(st.integers(1, 3))


def text_of(rows, header=None):
    """CSV as RFC 4180 has it; Python's own writer leaves a carriage return unquoted."""
    return "".join(",".join(map(quote, row)) + "\n" for row in [*([header] if header else []), *rows]).encode()


def quote(cell):
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set('",\r\n') else cell


def differences(one, other, rounds):
    """(round, place) of every record that is not the same, bit by bit; all else must be."""
    found = []
    for t in range(rounds):
        a, b = one.arrivals(t), other.arrivals(t)
        assert (a.rows.shape, a.rows.dtype) == (b.rows.shape, b.rows.dtype)
        np.testing.assert_array_equal(a.counts, b.counts)
        for place, rows in enumerate(zip(a.rows, b.rows, a.labels, b.labels, strict=True)):
            if rows[0].tobytes() != rows[1].tobytes() or rows[2] != rows[3]:
                found.append((t, place))
    return found


def same_but_one(feeds, k, per_round, count):
    one, other = feeds
    assert len(one) == len(other) == count, "no record vanishes"
    assert one.rounds == other.rounds
    assert [one.here(t) for t in range(9)] == [other.here(t) for t in range(9)]
    assert differences(one, other, count + 1) in ([], [(k // per_round, k % per_round)])


def from_file(folder, schema, rows, per_round, cuts):
    path = folder / "records.csv"
    path.write_bytes(text_of(rows, [*columns_of(schema), "note"]))
    return Records(path, "csv", schema, per_round, follow=False)


def followed(folder, schema, rows, per_round, cuts):
    path = folder / "records.csv"
    text = text_of(rows, [*columns_of(schema), "note"])
    feed = Records(path, "csv", schema, per_round, follow=True)
    places = [0, *sorted(int(cut * len(text)) for cut in cuts), len(text)]
    for since, upto in itertools.pairwise(places):
        with path.open("ab") as file:
            file.write(text[since:upto])
        feed.poll()
    return feed


def spooled(folder, schema, rows, per_round, cuts):
    path, header = folder / "records.csv", [*columns_of(schema), "note"]
    places = [0, *sorted(int(cut * len(rows)) for cut in cuts), len(rows)]
    for since, upto in itertools.pairwise(places):
        spool(text_of(rows[since:upto], header), path)
    return Records(path, "csv", schema, per_round, follow=True)


def spool(text, path, format_="csv"):
    """All of one start's standard input."""
    found = Spool(io.BytesIO(text), path, format_)
    until = time.monotonic() + 300
    while not found.ended and time.monotonic() < until:
        found.check()
        time.sleep(0.001)
    assert found.ended


def lines(folder, schema, rows, per_round, cuts):
    path, names = folder / "records.jsonl", [*columns_of(schema), "note"]
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    return Records(path, "jsonl", schema, per_round, follow=False)


def parquet(folder, schema, rows, per_round, cuts):
    arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    tables = pytest.importorskip("pyarrow.parquet")
    names = [*columns_of(schema), "note"]
    tables.write_table(arrow.table({n: [row[k] for row in rows] for k, n in enumerate(names)}), folder / "records")
    return Records(folder / "records", "parquet", schema, per_round, follow=False)


ZERO = SCHEMAS["a header that is a record"]
HEADER, PLAIN = ["0", "1", "2", "note"], ["3", "2", "1", ""]


@pytest.mark.parametrize("kind", [from_file, followed, spooled, lines, parquet], ids=lambda kind: kind.__name__)
@given(worlds(), st.lists(st.floats(0, 1), max_size=3))
@example((ZERO, [PLAIN, HEADER, PLAIN], [PLAIN] * 3, 1, 1), [])
@example((ZERO, [HEADER, PLAIN, PLAIN], [PLAIN] * 3, 0, 1), [0.0, 0.5])
@example((ZERO, [PLAIN, HEADER, PLAIN], [PLAIN] * 3, 1, 1), [0.4])
def test_a_feed_gives_every_record_its_round_whatever_it_holds(kind, drawn, cuts):
    schema, rows, others, k, per_round = drawn
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        feeds = [kind(Path(at), schema, each, per_round, cuts) for at, each in ((a, rows), (b, others))]
        same_but_one(feeds, k, per_round, len(rows))


@pytest.mark.parametrize("split_by", [None, "who"])
@settings(max_examples=60)
@given(worlds(), st.integers(2, 3))
@example((ZERO, [HEADER] * 2, [HEADER, PLAIN], 1, 1), 2)
@example(
    (SCHEMAS["names that are values"], [["a", "b", "t", ""]] * 2, [["a", "b", "t", ""], ["b", "?", "u", ""]], 1, 1), 2
)
@example((ZERO, [["0", "0", "0", ""]] * 2, [["0", "0", "0", ""], ["1.5", "0", "0", ""]], 1, 1), 2)
def test_a_csv_stream_gives_every_record_its_learner_and_round_whatever_it_holds(split_by, drawn, learners):
    schema, rows, others, k, per_round = drawn
    learners = min(learners, len(rows))
    declared = {"ranges": schema.ranges, "categories": schema.categories, "drop": ["note"], "per_round": per_round}
    declared |= {"classes": schema.classes} if schema.classes else {"regression": True}
    declared["missing"] = schema.missing
    names = [*columns_of(schema), "note", "who"]
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for each in (rows, others):
            path = Path(folder) / "own.csv"
            noted = [[*row[:-1], row[-1].replace(";", "\n")] for row in each]  # a quoted value may have several lines
            whose = [[*row, f"{i % learners}"] for i, row in enumerate(noted)]
            path.write_bytes(text_of(whose if split_by else noted, names if split_by else names[:-1]))
            made.append(streams.from_csv(path, schema.target, learners, split_by=split_by, **declared))
    same_streams(*made, {(k // learners // per_round, k % learners)})
    for stream in made:
        assert stream.table.undeclared == "", "privacy may be claimed"


def same_streams(one, other, at):
    """Two streams alike but for one record, of a learner in a round; as they are laid out, too."""
    assert (one.rounds, one.learners, one.table.bounds) == (other.rounds, other.learners, other.table.bounds)
    assert (one.table.codebook is None) == (other.table.codebook is None)
    if one.table.codebook is not None:
        for a, b in zip(one.table.codebook, other.table.codebook, strict=True):
            np.testing.assert_array_equal(a, b)
    found = set()
    for t, place in differences(one, other, one.rounds + 1):
        found.add((t, int(np.searchsorted(np.cumsum(one.arrivals(t).counts), place, side="right"))))
    assert found <= at
    assert len(differences(one, other, one.rounds + 1)) <= 1


@given(st.data())
def test_arrays_with_declared_ranges_do_so_too(data):
    kind = data.draw(st.sampled_from([float, int, bool]))
    some = {float: st.sampled_from([0.0, 1.0, 0.5]), int: st.integers(0, 1), bool: st.booleans()}[kind]
    m, T, n, per_round = (data.draw(st.integers(1, most)) for most in (3, 4, 3, 2))
    given_ = data.draw(st.lists(some, min_size=m * T * n, max_size=m * T * n))
    X, y = np.array(given_, dtype=kind).reshape(m, T, n), np.array(data.draw(st.integers(0, 1))) * np.ones((m, T))
    i, t = data.draw(st.integers(0, m - 1)), data.draw(st.integers(0, T - 1))
    X2, y2 = X.copy(), y.copy()
    X2[i, t], y2[i, t] = data.draw(st.lists(some, min_size=n, max_size=n)), data.draw(st.integers(0, 1))
    if data.draw(st.booleans()):
        X, X2 = list(map(list, X.tolist())), list(map(list, X2.tolist()))
    one, other = (streams.from_arrays(*world, per_round, ranges=(0, 1)) for world in ((X, y), (X2, y2)))
    same_streams(one, other, {(t // per_round, i)})


def test_whole_numbers_within_0_and_1_are_packed_by_their_type():
    X, y = np.random.default_rng(0).integers(0, 2, (2, 5, 13)), np.ones((2, 5))
    packed = streams.from_arrays(X, y, ranges=(0, 1)).table
    assert packed.codebook is not None
    assert packed.rows.nbytes < X.size
    np.testing.assert_array_equal(features_of(packed).toarray(), X.reshape(10, 13))
    assert streams.from_arrays(X.astype(float), y, ranges=(0, 1)).table.codebook is None
    assert streams.from_arrays(X, y, ranges=(0, 2)).table.codebook is None


def changed_mushroom(monkeypatch, k, row):
    cells = mushrooms_file.raw().copy()
    cells[k] = row
    monkeypatch.setattr(mushrooms_file, "raw", lambda: cells)
    mushrooms_file.load.cache_clear()


@pytest.mark.parametrize("draw", ["random", "once"])
def test_the_mushrooms_are_drawn_whatever_one_of_them_is(monkeypatch, draw):
    cells = mushrooms_file.raw()
    each = [np.unique(column, return_counts=True)[1].min() for column in cells.T]
    assert min(each) >= 2, "no mushroom is the only one of a category, so that none decides what the columns are"
    one = gs.datasets.mushrooms(10, 3, draw)
    changed_mushroom(monkeypatch, 77, cells[78 if (cells[77] != cells[78]).any() else 5000])
    other = gs.datasets.mushrooms(10, 3, draw)
    mushrooms_file.load.cache_clear()
    pools = "_pools" if draw == "random" else "_order"
    for a, b in zip(getattr(one, pools), getattr(other, pools), strict=True):
        np.testing.assert_array_equal(a, b)
    rows = (one.table.rows != other.table.rows).any(axis=1) | (one.table.labels != other.table.labels)
    np.testing.assert_array_equal(np.flatnonzero(rows), [77])


def private(stream, model, learners=2, **options):
    return gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.ring(learners), stream, model=model,
        privacy=gs.Laplace.for_budget(1.0), **({"steps": 2} | options),
    )  # fmt: skip


@pytest.mark.parametrize("draw", ["random", "once"])
def test_where_labels_decide_who_gets_what_nothing_is_claimed(folder, draw):
    by_class = gs.datasets.mushrooms(4, 0, draw, "by-class")
    with pytest.raises(GossamerError, match="privacy cannot be proved: with split='by-class' a record's label decides"):
        private(by_class, gs.LogisticRegression(), 4)
    private(gs.datasets.mushrooms(4, 0, draw), gs.LogisticRegression(l2=0.1), 4)
    for data in (images.mnist, images.cifar10):
        assert "use split='iid'" in data(4, 3, draw, "by-class", 1, folder).table.undeclared
        assert data(4, 3, draw, "iid", 1, folder).table.undeclared == ""


def test_a_target_that_names_the_learners_claims_nothing(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("x,y\n" + "1,a\n0,b\n" * 4)
    stream = streams.from_csv(path, "y", split_by="y", ranges={"x": (0, 1)}, classes=["a", "b"])
    with pytest.raises(GossamerError, match="a record's label decides whose it is"):
        private(stream, gs.LogisticRegression())


@pytest.mark.parametrize("last", ["0", "1"])
def test_labels_that_are_all_alike_start_a_run_like_others(tmp_path, last):
    path = tmp_path / "own.csv"
    path.write_text("x,y\n" + "0.5,0\n0.2,0\n" * 3 + f"0.1,0\n0.7,{last}\n")
    for model, declared in (
        (gs.LogisticRegression(l2=0.1), {"classes": ["0", "1"]}),
        (gs.SoftmaxRegression(3, l2=0.1), {"classes": ["0", "1", "2"]}),
        (gs.RidgeRegression(l2=0.1, clip=gs.clip_l1(1.0)), {"regression": True}),
    ):
        ranges = {"x": (0, 1)} | ({"y": (0, 1)} if "regression" in declared else {})
        run = private(streams.from_csv(path, "y", learners=2, ranges=ranges, **declared), model)
        assert run.claim.startswith("private")
        X, y = np.full((2, 4, 1), 0.5), np.zeros((2, 4))
        y[1, 3] = float(last)
        private(streams.from_arrays(X, y, ranges=(0, 1)), model)


@pytest.mark.parametrize("last", ["a", "b", "c"])
def test_more_classes_than_a_model_has_are_refused_whatever_the_records_are(tmp_path, last):
    path = tmp_path / "own.csv"
    path.write_text(f"x,y\n0.5,a\n0.2,b\n0.1,a\n0.7,{last}\n")
    stream = streams.from_csv(path, "y", learners=2, ranges={"x": (0, 1)}, classes=["a", "b", "c"])
    with pytest.raises(GossamerError, match="LogisticRegression found the label 2, expected 0 to 1"):
        private(stream, gs.LogisticRegression(l2=0.1))


def test_comparisons_price_simulated_noise_of_any_split():
    stream, _, _ = data_of(Spec.of(dataset="mushrooms", split="by-class"))
    assert stream.table.undeclared == ""
    assert gs.datasets.mushrooms(10, 0, split="by-class").table.undeclared, "elsewhere it stands"


STEPS = 12


def plan_of(folder):
    """Learner 0 of three, with columns that are called 0, 1 and 2, and noise at the source for ε = 1."""
    run = Run(id="attack", learners=3, steps=STEPS, gradient="latest")
    records = RecordsPlan(target="2", classes=("1", "2"), ranges={"0": (0.0, 1.0), "1": (0.0, 1.0)})
    config = Config(
        run=run, records=records, party=PartyPlan(learner=0, listen="127.0.0.1:1"), model=ModelPlan(l2=0.0),
        data=DataPlan(path="records.csv"), privacy=PrivacyPlan(epsilon=1.0, where="source"),
    )  # fmt: skip
    return Plan(config, folder, gs.Network.ring(3))


@pytest.mark.parametrize("follow", [False, True])
def test_a_record_that_reads_like_the_header_costs_no_more_than_its_epsilon(tmp_path, follow):
    """Records that alternate, of which one reads `0,1,2`: were it taken for the header, all later ones would move.

    Each moved record changes a gradient that is sent, and together these cost far more than the ε that is claimed.
    """
    plan, rows = plan_of(tmp_path), ["1,1,1", "0,0,2"] * (STEPS // 2) + ["1,1,1"]
    model = plan.model()
    size = plan.schema.columns * model.outputs
    boundary = boundary_of(plan, plan.algorithm(), model)
    assert boundary.claim.startswith("private")
    path, gradients = plan.folder / "records.csv", []
    for second in ("0,1,2", "1,0,2"):
        path.write_text("\n".join(["0,1,2", rows[0], second, *rows[2:], ""]))
        feed = Records(path, "csv", plan.schema, plan.config.run.per_round, follow)
        memory = model.memory(plan.schema.table(), "latest", np.array([1]))
        sent = []
        for t in range(STEPS):
            memory.observe(feed.arrivals(t))
            sent.append(memory.gradient(np.zeros((1, size))).copy())
        gradients.append(np.array(sent))
    apart = np.abs(gradients[0] - gradients[1]).sum(axis=(1, 2))
    np.testing.assert_array_equal(np.flatnonzero(apart), [1], "its own round, and no other")
    assert apart.sum() / boundary.ledgers[0].terms.initial <= 1.0
