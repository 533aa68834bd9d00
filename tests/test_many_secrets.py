"""Pair secrets of very many learners: closed forms and bounds against dense algebra, and no m × m numbers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import gossamer as gs
from gossamer.errors import GossamerError, NotProvable
from gossamer.privacy import secret_graphs, secrets, simulated
from gossamer.privacy.secret_graphs import connectivity_of, connectivity_of_circle, laplacian_of, root_of
from gossamer.privacy.secrets import MOST_PAIRS, Pairs, bounded
from gossamer.privacy.simulated import PairLaw
from test_pair_accounting import random_edges, worst_by_hand

MANY = 20_000


@pytest.fixture
def no_squares(monkeypatch):
    """As if 4 learners were very many, and with whatever is m × m refused."""

    def refused(*args):
        raise AssertionError("a Laplacian was made")

    kept = (connectivity_of, root_of, secrets._left, secrets._left_on_rule, secrets._usual_share)
    for one in kept:
        one.cache_clear()
    monkeypatch.setattr(secret_graphs, "SQUARE_UP_TO", 4)
    monkeypatch.setattr(secrets, "MOST_WORK", 0)
    for module in (secrets, secret_graphs):
        monkeypatch.setattr(module, "laplacian_of", refused)
    yield
    for one in kept:
        one.cache_clear()


@pytest.mark.parametrize(
    ("degree", "m"), [(2, 7), (2, 300), (3, 8), (4, 9), (5, 6), (6, 14), (7, 64), (12, 50), (49, 50), (40, 301)]
)
def test_how_well_a_circle_is_connected(degree: int, m: int) -> None:
    dense = np.linalg.eigvalsh(laplacian_of(gs.Secrets(degree).edges(m), m))
    assert connectivity_of_circle(degree, m) == pytest.approx(dense[1], rel=1e-9)


def test_a_long_circle_loses_no_digits() -> None:
    assert connectivity_of_circle(2, 10**6) == pytest.approx(4 * np.sin(np.pi / 10**6) ** 2, rel=1e-14)


@pytest.mark.parametrize(("graph", "m", "q"), [("complete", 8, 2), ("4-regular", 9, 0), ("5-regular", 8, 1)])
def test_partners_and_pairs_are_counted_without_a_list(graph: str, m: int, q: int) -> None:
    given = gs.Secrets(graph, q)
    edges = given.edges(m)
    assert given.pairs(m) == len(edges)
    assert (given.partners(m) == np.bincount(np.ravel(edges))).all()
    own = gs.Secrets(Pairs(m, edges), q)
    assert own.pairs(m) == len(edges)
    assert (own.partners(m) == given.partners(m)).all()


@pytest.mark.parametrize("colluders", [0, 1])
def test_a_circle_of_many_is_bounded_as_dense_algebra_bounds_it(colluders: int) -> None:
    m, r = 700, np.array([0.25, 4.0])
    given = gs.Secrets("40-regular", colluders)
    dense = bounded(given.partners(m), connectivity_of(given.edges(m), m), r, colluders)
    for share, expected in zip((0.5, 2.0), dense, strict=True):
        assert given.left(m, share) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_what_bounds_a_large_graph_of_ones_own_is_above_every_honest_subset(seed: int, no_squares) -> None:
    rng = np.random.default_rng(seed)
    m, share = int(rng.integers(5, 9)), float(2 ** rng.uniform(-3, 3))
    edges = by_hand_edges(m, rng)
    for colluders in range(3):
        worst = worst_by_hand(np.ones(m), edges, share, colluders)
        left = gs.Secrets(Pairs(m, edges), colluders).left(m, share)
        assert (left >= worst * (1 - 1e-12)).all()
        kept, r = np.bincount(np.ravel(edges)) - colluders, share**2
        assert left == pytest.approx((1 + 1 / r) / (kept + 1 + 1 / r))  # its star


def by_hand_edges(m: int, rng: np.random.Generator) -> tuple[tuple[int, int], ...]:
    """As `random_edges`, which tests connectedness by a Laplacian: a wheel is connected."""
    wheel = {(0, j) for j in range(1, m)} | {(min(j, j % (m - 1) + 1), max(j, j % (m - 1) + 1)) for j in range(1, m)}
    more = {(i, j) for i in range(m) for j in range(i + 1, m) if rng.random() < 0.3}
    return tuple(sorted(wheel | more))


def test_twenty_thousand_learners_take_a_few_numbers_each() -> None:
    circle = gs.Secrets("4-regular").edges(MANY)
    tracemalloc.start()
    for given in (gs.Secrets("4-regular"), gs.Secrets(Pairs(MANY, circle))):
        share = given.share_for(MANY, 400, 1.0)
        left = given.left(MANY, share)
        assert left == pytest.approx(np.full(MANY, (1 + share**-2) / (4 + share**-2)))  # three of four partners kept
    assert tracemalloc.get_traced_memory()[1] < MANY * MANY  # bytes: an eighth of m × m numbers
    tracemalloc.stop()


def test_more_than_is_proved_or_can_be_listed_is_refused() -> None:
    with pytest.raises(NotProvable, match="fewer than 8,000 learners, or fewer than 4,000 partners"):
        gs.Secrets("complete").left(8000, 1.0)
    with pytest.raises(NotProvable, match="4,000 partners"):
        gs.Secrets("4000-regular").check(MANY)
    gs.Secrets("3998-regular").check(MANY)
    gs.Secrets("complete").check(7999)
    with pytest.raises(GossamerError, match="12,497,500 pairs, each with a key, expected at most"):
        gs.Secrets("complete").edges(5000)
    assert gs.Secrets("complete").pairs(4096) == MOST_PAIRS


def test_no_eigenvalue_is_above_what_the_proof_allows() -> None:
    """λ ≤ min(m, 2 D), which decides what is refused."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        m = int(rng.integers(4, 12))
        edges = random_edges(m, rng, least=1)
        most = np.linalg.eigvalsh(laplacian_of(edges, m))[-1]
        assert most <= min(m, 2 * np.bincount(np.ravel(edges)).max()) + 1e-9


def test_the_noise_of_many_pairs_is_by_pairs_and_cancels(no_squares) -> None:
    m, n, edges = 9, 5_000, gs.Secrets("4-regular").edges(9)
    weights = tuple(np.linspace(0.5, 2.0, m))
    noise = simulated(gs.decay(0.0, 0.0), law="gaussian", pairs=PairLaw(edges, gs.decay(0.7, 0.0), weights))
    drawn = noise.noise("gradient", 3, (m, n))
    weighed = drawn * np.array(weights)[:, None]
    assert abs(weighed.sum(axis=0)).max() < 1e-12
    law = np.zeros((m, m))
    for i, j in edges:
        law[[i, j], [i, j]] += 0.49
        law[[i, j], [j, i]] -= 0.49
    assert weighed @ weighed.T / n == pytest.approx(law, abs=0.15)
    some = np.array([7, 2])
    assert (noise.noise("gradient", 3, (m, n), some) == drawn[some]).all()


@pytest.mark.parametrize("graph", ["4-regular", "exponential"])
def test_a_private_run_by_rule_makes_no_square(graph: str, no_squares, gossamer, tmp_path) -> None:
    x = np.random.default_rng(0).normal(size=(200, 2)).round(3).clip(-4, 4)
    lines = [f"{a},{b},{'yes' if a + b > 0 else 'no'}" for a, b in x]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,y", *lines, ""]))
    words = ("--csv", "d.csv", "--target", "y", "--range", "a=-4:4,b=-4:4", "--classes", "yes,no", "--steps", 30)
    code, _, err = gossamer(
        "run", *words, "--epsilon", 3, "--delta", 1e-3, "--secrets", graph, "--learners", 10, "--json", "told.json"
    )
    assert code == 0, err


def test_the_command_says_what_secrets_of_twenty_thousand_are_worth(gossamer) -> None:
    code, out, err = gossamer("graph", "exponential", "--learners", MANY, "--secrets", "4-regular")
    assert code == 0, err
    assert f"{MANY} learners, {2 * MANY} pairs" in out
