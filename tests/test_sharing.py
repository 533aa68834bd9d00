"""Shares of a network and the rows that go between them, against what their definitions say."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.cluster.halo import halo_of
from gossamer.cluster.mixer import _layout
from gossamer.cluster.sharing import partition
from gossamer.networks import Network


def shuffled(graph: nx.Graph, seed: int = 0, weight: float = 0.02) -> Network:
    """A network with the graph's links both ways, whose learners' numbers tell nothing of where they are."""
    order = np.random.default_rng(seed).permutation(len(graph))
    place = {node: int(k) for node, k in zip(graph.nodes, order, strict=True)}
    links = [(place[a], place[b]) for a, b in graph.edges]
    return Network.from_edges(len(graph), [*links, *((b, a) for a, b in links)], weight)


@settings(max_examples=40, deadline=None)
@given(m=st.integers(3, 60), degree=st.integers(1, 4), seed=st.integers(0, 5), ranks=st.integers(2, 9))
def test_every_learner_has_a_rank_and_shares_are_even(m: int, degree: int, seed: int, ranks: int) -> None:
    net = Network.random(m, degree, seed)
    if ranks > m:
        with pytest.raises(gs.BadValue, match=f"at most one rank for each learner|expected 1 to {m}"):
            partition(net, ranks)
        return
    found = partition(net, ranks)
    assert found.owner.shape == (m,)
    assert set(found.owner) == set(range(ranks))
    assert found.sizes.max() - found.sizes.min() <= max(2, 0.04 * m / ranks)
    assert found.cut <= found.unsorted
    np.testing.assert_array_equal(found.owner, partition(net, ranks).owner)
    cut, rows = 0, set()
    for over, M in (("R", net.off_diagonal("R")), ("C", net.off_diagonal("C"))):
        for i, j in zip(*np.nonzero(scipy.sparse.csr_array(M).toarray()), strict=True):
            if found.owner[i] != found.owner[j]:
                cut += 1
                rows.add((over, int(j), int(found.owner[i])))
    assert (found.cut, found.halo) == (cut, len(rows))


@pytest.mark.parametrize(
    ("graph", "ranks", "best"),
    [
        (nx.grid_2d_graph(40, 40), 2, 40),  # a straight line across
        (nx.grid_2d_graph(40, 40), 4, 80),  # and one along
        (nx.connected_caveman_graph(24, 12), 4, 4),  # whole caves
        (nx.planted_partition_graph(4, 100, 0.2, 0.002, seed=1), 4, None),
    ],
    ids=["halves", "quarters", "caves", "planted"],
)
def test_shares_follow_the_graph(graph: nx.Graph, ranks: int, best: int | None) -> None:
    """Within twice the best cut that is known, where chance would cut 1 − 1/ranks of all links."""
    if best is None:  # what was planted
        best = sum(a // 100 != b // 100 for a, b in graph.edges)
    found = partition(shuffled(graph), ranks, ("R",))
    assert found.cut <= 2 * 2 * best  # a link goes both ways
    assert found.unsorted > 0.9 * (1 - 1 / ranks) * found.links


def test_a_hundred_thousand_learners_are_shared_out() -> None:
    side = 300
    grid = np.arange(side * side).reshape(side, side)
    order = np.random.default_rng(1).permutation(side * side)
    pairs = [(grid, np.roll(grid, 1, axis)) for axis in (0, 1)]
    links = np.concatenate([order[np.column_stack([a.ravel(), b.ravel()])] for a, b in pairs])
    weights = np.full(2 * len(links), 0.1)
    ends = np.concatenate([links, links[:, ::-1]])
    R = scipy.sparse.csr_array((weights, (ends[:, 1], ends[:, 0])), shape=(side * side, side * side))
    net = Network(R - scipy.sparse.diags_array(R.sum(axis=1)))
    found = partition(net, 4, ("R",))
    assert found.sizes.max() <= 1.03 * found.sizes.min()
    assert found.cut / found.links < 0.03  # chance: 0.75
    assert "4 ranks play" in found.notes[0]
    assert f"{found.cut:,} of {found.links:,} links" in found.notes[0]


@settings(max_examples=40, deadline=None)
@given(m=st.integers(3, 25), ranks=st.integers(1, 5), seed=st.integers(0, 1000), over=st.sampled_from(["R", "C", "W"]))
def test_halo_rows_are_all_that_a_rank_needs(m: int, ranks: int, seed: int, over: str) -> None:
    """Any shares, even or not: what each rank makes of its own rows and its halo is the dense product's part."""
    rng = np.random.default_rng(seed)
    net = Network.random(m, min(3, m - 1), seed)
    matrix = scipy.sparse.csr_array(net.off_diagonal(over))  # type: ignore[arg-type]
    owner = rng.integers(0, ranks, m)
    sent, dense = rng.normal(size=(m, 2)), matrix.toarray()
    parts = [halo_of(matrix, owner, rank, ranks) for rank in range(ranks)]
    for rank, part in enumerate(parts):
        own = np.flatnonzero(owner == rank)
        shape = (len(own), len(own) + len(part.halo))
        local = scipy.sparse.csr_array((part.weights, part.columns, part.starts), shape=shape)
        got = local @ np.concatenate([sent[own], sent[part.halo]])
        np.testing.assert_allclose(got, dense[own] @ sent, atol=1e-14)
        needed = np.flatnonzero((dense[own] != 0).any(axis=0) & (owner != rank))
        assert sorted(part.halo) == needed.tolist()
        for other, theirs in enumerate(parts):
            at = np.cumsum(theirs.receivers) - theirs.receivers
            to_me = theirs.sent[at[rank] : at[rank] + theirs.receivers[rank]]
            from_it = part.halo[owner[part.halo] == other]
            np.testing.assert_array_equal(np.flatnonzero(owner == other)[to_me], from_it)


def test_a_buffer_has_rank_by_rank_what_each_channel_sends() -> None:
    places, sizes = _layout([np.array([0, 2, 1]), np.array([3, 1, 0])], [4, 2])
    np.testing.assert_array_equal(sizes, [6, 10, 4])
    np.testing.assert_array_equal(places[0], [6, 10, 16])
    np.testing.assert_array_equal(places[1], [0, 2, 4, 14])
