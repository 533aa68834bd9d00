"""Assumption 1 is checked completely, and errors name the culprit and the remedy."""

from __future__ import annotations

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from conftest import networks
from gossamer import GossamerError, Network
from gossamer.networks import read_network


def test_the_papers_graph_has_the_known_perron_vector_and_gap():
    net = Network.paper()
    np.testing.assert_allclose(net.perron, [1.82, 0.76, 0.72, 0.68, 2.05, 1.14, 0.38, 0.76, 0.80, 0.91], atol=0.006)
    assert 1 - net.spectral_gap == pytest.approx(0.744, abs=5e-4)
    assert net.m == 10
    np.testing.assert_array_equal(net.C, net.R.T)
    assert net.R[3, 0] == 0.25, "1→4 in the paper's count: learner 3 hears learner 0"
    assert net.R[0, 3] == 0


@given(networks())
def test_perron_and_gap_agree_with_powers_of_the_matrix(net):
    power = np.linalg.matrix_power(np.eye(net.m) + net.R, 2**14)
    np.testing.assert_allclose(net.perron, net.m * power.mean(axis=0), rtol=1e-7)
    assert net.perron.sum() == pytest.approx(net.m)
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(np.eye(net.m) + net.R)))
    assert net.spectral_gap == pytest.approx(1 - eigenvalues[-2])


@given(networks())
def test_rows_agree_at_the_settling_round_and_not_much_before(net):
    def spread(t):
        power = np.eye(net.m)
        for _ in range(t):
            power = (np.eye(net.m) + net.R) @ power  # as z does
        return (np.ptp(power, axis=0) / power.max(axis=0)).max()

    assert spread(int(net.settles)) <= 2.0**-46
    assert net.settles < 4 or spread(int(0.9 * net.settles) - 2) > 2.0**-48


@pytest.mark.parametrize("family", [Network.ring, Network.exponential, Network.complete, Network.random])
@pytest.mark.parametrize("m", [2, 3, 10, 33])
def test_families_satisfy_assumption_1(family, m):
    net = family(m)
    P = np.eye(m) + net.R
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_allclose((np.eye(m) + net.C).sum(axis=0), 1)
    assert nx.is_strongly_connected(net.to_networkx())


def test_large_networks_are_sparse_and_agree_with_dense_algebra():
    net = Network.random(1500, degree=4, seed=3)
    assert net.R.nnz < 10 * net.m
    u = net.perron
    np.testing.assert_allclose(net.R.T @ u, 0, atol=1e-10)
    assert (u > 0).all()
    assert u.sum() == pytest.approx(1500)
    values = np.abs(np.linalg.eigvals(net.R.toarray() + np.eye(1500)))
    assert net.spectral_gap == pytest.approx(1 - np.sort(values)[-2], abs=1e-6)
    assert net.settles == math.inf


def test_networkx_in_and_out():
    graph = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")])
    graph.add_edge("a", "c", weight=0.4)
    net = Network.from_networkx(graph)
    assert net.edges() == [(2, 0, 0.25), (0, 1, 0.25), (0, 2, 0.4), (1, 2, 0.25)]
    np.testing.assert_array_equal(Network.from_networkx(net.to_networkx()).R, net.R)
    both_ways = Network.from_networkx(nx.path_graph(3))
    assert len(both_ways.edges()) == 4


def test_C_may_have_links_of_its_own():
    net = Network.from_edges(3, [(0, 1), (1, 2), (2, 0)], C_edges=[(1, 0), (2, 0, 0.5), (0, 1)])
    assert net.C[0, 2] == 0.5
    assert net.C[2, 2] == -0.5
    assert net.R[0, 2] == 0.25


def test_C_needs_only_a_spanning_tree():
    R = Network.ring(3).R
    push = np.array([[-0.5, 0.25, 0.5], [0.5, -0.5, 0], [0, 0.25, -0.5]])  # strongly connected
    assert Network(R, push).m == 3
    # learners 2 and 3 push into the pair {0, 1}, which keeps all: a tree of Cᵀ rooted there
    pair = np.zeros((4, 4))
    pair[0, 1] = pair[1, 0] = pair[0, 2] = pair[1, 3] = 0.5
    assert Network(Network.ring(4).R, pair - np.diag(pair.sum(axis=0))).C[0, 2] == 0.5


RING3 = [[-0.25, 0, 0.25], [0.25, -0.25, 0], [0, 0.25, -0.25]]


def changed(*entries):
    R = np.array(RING3)
    for i, j, value in entries:
        R[i, j] = value
    return R


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Network(changed((0, 2, -0.25), (0, 0, 0.25))), r"R\[0, 2\] = -0.25 is negative.*edge 2→0"),
        (lambda: Network(changed((1, 0, np.nan))), r"R\[1, 0\] = nan is not a finite number"),
        (lambda: Network(changed((1, 1, -0.5))), r"R has row sums up to -0.25 \(row 1\), expected 0"),
        (lambda: Network(RING3, np.array(RING3) + np.eye(3)), r"C has column sums up to 1"),
        (lambda: Network(changed((2, 1, 1.0), (2, 2, -1.0))), r"learner 2 has R\[2, 2\] = -1 .* below 1/1"),
        (lambda: Network.from_edges(6, Network.complete(6).to_networkx().edges), "5 in-edges.*1/5 = 0.2"),
        (lambda: Network.from_edges(3, [(0, 1), (1, 0), (2, 0)]), "learner 2 receives nothing over R.*add an edge j→2"),
        (
            lambda: Network.from_edges(4, [(0, 1), (1, 0), (2, 3), (3, 2)]),
            "not strongly connected: learner 2 cannot be reached from learner 0; add an edge such as 0→2",
        ),
        (
            lambda: Network.from_edges(4, [(0, 1), (1, 0), (2, 3), (3, 2), (0, 2)]),
            "learner 2 cannot reach learner 0; add an edge such as 2→0",
        ),
        (
            lambda: Network.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0)], C_edges=[(0, 1), (1, 0), (2, 3), (3, 2)]),
            "G_Cᵀ has no spanning tree.*learner 0 to learner 2.*add an edge such as 0→2 to C",
        ),
        (lambda: Network.from_edges(3, [(0, 1), (1, 3)]), "edge 1→3: expected learners 0 to 2"),
        (lambda: Network.from_edges(3, [(0, 0)]), "edge 0→0"),
        (lambda: Network.from_edges(3, [(0, 1), (0, 1)]), "0→1 is given twice"),
        (lambda: Network.from_edges(3, [(0, 1, -1.0)]), "0→1 has weight -1"),
        (lambda: Network.from_edges(3, []), "without edges"),
        (lambda: Network.from_edges(3, [(0, 1, 2, 3)]), "expected .sender, receiver"),
        (lambda: Network([[0.0]]), "at least 2"),
        (lambda: Network(np.zeros((2, 3))), r"shape \(2, 3\), expected \(m, m\)"),
        (lambda: Network("R"), "not a matrix of numbers"),
        (lambda: Network(RING3, Network.ring(4).C), "expected one size"),
        (lambda: Network.ring(1), "at least 2"),
        (lambda: Network.random(5, degree=0), "at least 1 link"),
    ],
)
def test_an_error_says_which_learner_or_edge_and_how_to_mend_it(make, says):
    with pytest.raises(GossamerError, match=says):
        make()


def test_networks_are_immutable():
    with pytest.raises(ValueError, match="read-only"):
        Network.paper().R[0, 0] = 1


def test_networks_from_files(tmp_path):
    edges = tmp_path / "edges.txt"
    edges.write_text("# a ring\n0 1\n1 2 0.5\n2, 0  # comma is fine\n")
    assert read_network(str(edges)).edges() == [(2, 0, 0.25), (0, 1, 0.25), (1, 2, 0.5)]
    matrices = tmp_path / "net.json"
    matrices.write_text(f'{{"R": {RING3}, "C": {np.array(RING3).T.tolist()}}}')
    np.testing.assert_array_equal(read_network(str(matrices)).R, RING3)
    listed = tmp_path / "list.json"
    listed.write_text('{"edges": [[0, 1], [1, 0, 0.5]]}')
    assert read_network(str(listed)).m == 2


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.txt", "0 1 x\n", "line 1"),
        ("a.txt", "0 1\n\n2\n", "line 3"),
        ("a.txt", "# nothing\n", "holds no edges"),
        ("a.json", "{", "not valid JSON"),
        ("a.json", "[]", 'neither "R" nor "edges"'),
        ("a.json", '{"edges": [[0]]}', "edges"),
    ],
)
def test_a_bad_network_file_gets_one_sentence(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(GossamerError, match=says):
        read_network(str(tmp_path / name))
    with pytest.raises(GossamerError, match="no network"):
        read_network(str(tmp_path / "absent"))
    with pytest.raises(GossamerError, match="has 10 learners and the run has 7"):
        read_network("paper", 7)


def stationary_by_rationals(R):
    """u with uᵀR = 0 in exact arithmetic, by Gaussian elimination on fractions."""
    m = len(R)
    rows = [[Fraction(R[j][i]) for j in range(m)] for i in range(m - 1)] + [[Fraction(1)] * m]
    for i in range(m):  # the diagonal is minus the sum of the others, exactly, whatever floats made of it
        for k in range(m - 1):
            if i == k:
                rows[k][i] = -sum(Fraction(R[i][j]) for j in range(m) if j != i)
    right = [Fraction(0)] * (m - 1) + [Fraction(m)]
    for k in range(m):
        pivot = next(r for r in range(k, m) if rows[r][k])
        rows[k], rows[pivot], right[k], right[pivot] = rows[pivot], rows[k], right[pivot], right[k]
        for r in range(m):
            if r != k and rows[r][k]:
                f = rows[r][k] / rows[k][k]
                rows[r] = [a - f * b for a, b in zip(rows[r], rows[k], strict=True)]
                right[r] -= f * right[k]
    return np.array([float(right[k] / rows[k][k]) for k in range(m)])


@pytest.mark.parametrize("weak", [1e-3, 1e-8, 1e-12, 1e-15])
def test_the_perron_vector_of_a_nearly_disconnected_network_is_exact(weak):
    net = Network.from_edges(6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3, weak), (5, 0, 2 * weak)])
    np.testing.assert_allclose(net.perron, stationary_by_rationals(net.R.tolist()), rtol=1e-12)


def test_the_perron_vector_has_full_relative_precision_in_its_smallest_entries():
    chain = [(i, i + 1, 0.6) for i in range(29)] + [(i + 1, i, 0.1) for i in range(29)]
    net = Network.from_edges(30, chain)
    np.testing.assert_allclose(net.perron, stationary_by_rationals(net.R.tolist()), rtol=1e-12)
    assert net.perron.min() > 0


def test_a_long_ring_mixes_slowly_and_says_how_slowly():
    net = Network.ring(1100)
    assert net.spectral_gap == pytest.approx(1 - abs(1 - 0.25 + 0.25 * np.exp(2j * np.pi / 1100)), rel=1e-5)
    np.testing.assert_allclose(net.perron, 1, rtol=1e-8)


def test_sums_are_checked_relative_to_the_weights():
    with pytest.raises(GossamerError, match="row sums"):
        Network([[-1e-12, 1e-10], [1e-10, -1e-10]])


def test_learners_are_whole_numbers_and_their_number_is_checked_before_anything_is_built():
    with pytest.raises(GossamerError, match="whole numbers"):
        Network.from_edges(2, [(0.5, 1), (1, 0)])
    with pytest.raises(GossamerError, match="learner 1 receives nothing"):
        Network.from_edges(10**30, [(0, 2), (2, 0)])


def test_large_networks_are_immutable_too():
    with pytest.raises(ValueError, match="read-only"):
        Network.random(200).R.data[:] = 7


def test_own_weights_are_the_diagonals_of_the_powers():
    net = Network.paper()
    P = np.eye(10) + net.R
    powers = np.array([np.diag(np.linalg.matrix_power(P, t)) for t in range(300)])
    np.testing.assert_allclose(net.own_weights(300), powers, atol=1e-14)
    np.testing.assert_allclose(net.own_weights(5), powers[:5], atol=1e-14)
