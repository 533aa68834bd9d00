"""Records arrive where, when and as often as a stream says."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from gossamer import GossamerError, datasets, streams
from gossamer.records import dense_table, features_of
from gossamer.streams.stream import Draws, OnePass

mushrooms_file = importlib.import_module("gossamer.datasets.mushrooms")  # the function has the same name


def test_arrays_arrive_one_a_round():
    X, y = np.arange(24.0).reshape(2, 4, 3), np.arange(8.0).reshape(2, 4)
    stream = streams.from_arrays(X, y)
    assert (stream.learners, stream.rounds) == (2, 4)
    for t in range(4):
        batch = stream.arrivals(t)
        np.testing.assert_array_equal(batch.rows, X[:, t])
        np.testing.assert_array_equal(batch.labels, y[:, t])
        np.testing.assert_array_equal(batch.counts, [1, 1])


def test_learners_may_have_different_numbers_and_run_out():
    X = [np.arange(5.0)[:, None] + 10, np.arange(2.0)[:, None] + 20, np.arange(9.0)[:, None] + 30]
    stream = streams.from_arrays(X, [x[:, 0] for x in X], per_round=[2, 1, 4])
    assert stream.rounds == 3
    seen = [stream.arrivals(t) for t in range(4)]
    assert [b.labels.tolist() for b in seen] == [
        [10, 11, 20, 30, 31, 32, 33],
        [12, 13, 21, 34, 35, 36, 37],
        [14, 38],
        [],
    ]
    assert [b.counts.tolist() for b in seen] == [[2, 1, 4], [2, 1, 4], [1, 0, 1], [0, 0, 0]]
    np.testing.assert_array_equal(stream.room(2), [4, 2, 8])
    # every learner's mean counts alike in F, however many records it has
    share = stream.population.share
    assert [share[:5].sum(), share[5:7].sum(), share[7:].sum()] == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("X", "y", "per_round", "says"),
    [
        (np.zeros((2, 3)), np.zeros((2, 3)), 1, r"X\[0\] has shape \(3,\)"),
        ([np.zeros((2, 3))], [np.zeros(3)], 1, "2 records in X and 3 labels"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], [np.zeros(2)] * 2, 1, r"X\[1\] has 4 features"),
        ([np.zeros((2, 3))] * 2, [np.zeros(2)], 1, "2 learners and y for 1"),
        ([np.zeros((2, 3)), np.zeros((0, 3))], [np.zeros(2), np.zeros(0)], 1, "learner 1 has no records"),
        ([[[1.0, np.nan]]], [[0.0]], 1, r"X\[0\]\[0, 1\] = nan"),
        ([[["a", "b"]]], [[0.0]], 1, "not a number"),
        ([np.ones((2, 1))], [np.zeros(2)], 0, "per_round=0"),
        ([np.ones((2, 1))], [np.zeros(2)], [1, 1], "per_round"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(X, y, per_round, says):
    with pytest.raises(GossamerError, match=says):
        streams.from_arrays(X, y, per_round)


def test_the_mushrooms_are_the_uci_ones():
    table = mushrooms_file.load()
    X = features_of(table)
    assert X.shape == (8124, 117)
    assert (X.sum(axis=1) == 22).all(), "one of each of 22 categories"
    assert table.labels.sum() == 3916, "poisonous ones, as the repository counts them"
    assert mushrooms_file.load(stalk_root=False).columns == 112
    odor = X.toarray()[:, 6 + 4 + 10 + 2 : 6 + 4 + 10 + 2 + 9]
    assert odor.sum() == 8124
    assert odor[:, 2].sum() == 2160, "foul-smelling ones"
    assert table.labels[odor[:, 2] == 1].all(), "and all of them are poisonous"


def test_a_damaged_file_is_refused(monkeypatch):
    mushrooms_file.load.cache_clear()
    mushrooms_file.raw.cache_clear()
    monkeypatch.setattr(mushrooms_file, "SHA256", "0" * 64)
    with pytest.raises(GossamerError, match="damaged"):
        datasets.mushrooms()
    mushrooms_file.load.cache_clear()
    mushrooms_file.raw.cache_clear()


def test_drawing_once_is_one_pass_over_different_mushrooms():
    stream = datasets.mushrooms(learners=10, seed=3, draw="once")
    assert stream.rounds == 812
    ids = np.concatenate(stream._order)
    assert len(set(ids.tolist())) == 8120
    other = datasets.mushrooms(learners=10, seed=4, draw="once")
    assert (np.concatenate(other._order) != ids).any()


def test_drawing_at_random_repeats_and_depends_on_seed_and_round_alone():
    stream, again = (datasets.mushrooms(learners=10, seed=3) for _ in range(2))
    late = stream.arrivals(5000)
    early = [stream.arrivals(t) for t in range(600)]
    assert stream.rounds is None
    np.testing.assert_array_equal(again.arrivals(5000).rows, late.rows)
    np.testing.assert_array_equal(again.arrivals(0).rows, early[0].rows)
    rows = np.concatenate([b.rows for b in early])
    assert len(np.unique(rows, axis=0)) < len(rows), "with replacement"
    # a tenth of the draws is each learner's; the class mixture is the whole's to within 4 standard errors
    poisonous = np.concatenate([b.labels for b in early]).mean()
    assert abs(poisonous - 3916 / 8124) < 4 * 0.5 / np.sqrt(6000)


@pytest.mark.parametrize("draw", ["random", "once"])
@pytest.mark.parametrize("learners", [2, 5, 7, 10])
def test_by_class_gives_each_learner_mostly_one_class(draw, learners):
    stream = datasets.mushrooms(learners=learners, draw=draw, split="by-class")
    rounds = stream.rounds or 800
    labels = np.array([stream.arrivals(t).labels for t in range(min(rounds, 800))])
    poisonous = labels.mean(axis=0)
    edible_ones = (learners + 1) // 2
    assert (poisonous[:edible_ones] < 0.25).all()
    assert (poisonous[edible_ones:] > 0.75).all()


def test_by_class_says_that_labels_decide():
    """And the order of an iid stream is the same for any labels."""
    assert "a record's label decides whose it is" in datasets.mushrooms(split="by-class").table.undeclared
    assert datasets.mushrooms(split="iid").table.undeclared == ""
    assert mushrooms_file.load().undeclared == "", "what is kept for others is not touched"


@pytest.mark.parametrize("given", [{"learners": 1}, {"learners": 9000}, {"draw": "twice"}, {"split": "none"}], ids=str)
def test_options_of_mushrooms_are_checked(given):
    with pytest.raises(GossamerError, match="expected"):
        datasets.mushrooms(**given)


def test_seeds_do_not_collide_with_later_rounds_of_other_seeds():
    one, other = datasets.mushrooms(seed=5 + 7 * 2**32), datasets.mushrooms(seed=5)
    assert any((one.arrivals(t).rows != other.arrivals(1792 + t).rows).any() for t in range(20))
    for seed in (-1, 2**64, 0.5):
        with pytest.raises(GossamerError, match="seed"):
            datasets.mushrooms(seed=seed)


@pytest.mark.parametrize("kind", ["one pass", "draws", "draws of many"])
def test_a_part_of_a_stream_brings_its_learners_what_the_whole_does(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "draws of many":
        monkeypatch.setattr(Draws, "_NUMBERS", 100)  # so that all learners of a few rounds are drawn at once
    rng = np.random.default_rng(0)
    table = dense_table(rng.normal(size=(30, 2)), rng.normal(size=30))
    pools = np.array_split(rng.permutation(30), 5)
    whole = OnePass(table, pools, [1, 2, 1, 3, 1]) if kind == "one pass" else Draws(table, pools, seed=4, per_round=3)
    some = np.array([1, 3])
    part = whole.part(some)
    assert len(part.table) == sum(len(pools[i]) for i in some)  # nobody else's records
    assert part.learners == 2
    for t in [0, 1, 5, 300, 2]:
        batch, alone = whole.arrivals(t), part.arrivals(t)
        np.testing.assert_array_equal(alone.counts, batch.counts[some])
        mine = np.isin(np.repeat(np.arange(5), batch.counts), some)
        np.testing.assert_array_equal(alone.rows, batch.rows[mine])
        np.testing.assert_array_equal(alone.labels, batch.labels[mine])
    np.testing.assert_array_equal(part.room(4), whole.room(4)[some])


def test_draws_are_places_drawn_pool_by_pool() -> None:
    """A block of 256 rounds after the other, each learner's from one generator, as the first release drew them."""
    pools = [np.array([7, 3]), np.array([0]), np.arange(300) + 10]
    table = dense_table(np.arange(400.0)[:, None], np.zeros(400))
    stream = Draws(table, pools, seed=5, per_round=2)
    for t in (0, 255, 256, 300):
        rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(t // 256,)))
        expected = np.hstack([pool[rng.integers(0, len(pool), size=(256, 2))] for pool in pools])[t % 256]
        np.testing.assert_array_equal(stream.arrivals(t).rows[:, 0], expected)
