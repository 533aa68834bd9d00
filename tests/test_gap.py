"""The spectral gap of every network: exact where that is quick, otherwise an estimate that says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.networks import network as network_module
from gossamer.networks.gap import Gap, estimated, gap_of
from gossamer.setting import quiet_rounds
from gossamer.simulate import metrics


def by_dense_algebra(net: gs.Network) -> float:
    R = np.zeros((net.m, net.m))
    for j, i, weight in net.edges():
        R[i, j] += weight
        R[i, i] -= weight
    return float(1 - np.sort(np.abs(np.linalg.eigvals(np.eye(net.m) + R)))[-2])


CLUSTERS = [(i, (i + k) % 40) for i in range(40) for k in (1, 3, 7)]
CLUSTERS += [(40 + j, 40 + i) for j, i in CLUSTERS] + [(0, 40), (60, 20)]
SMALL = {
    "paper": gs.Network.paper(),
    "ring": gs.Network.ring(40),  # λ₂ is complex
    "random": gs.Network.random(300, degree=3),
    "sparse": gs.Network.random(200, degree=2, seed=3),
    "exponential": gs.Network.exponential(100),
    "two clusters": gs.Network.from_edges(80, CLUSTERS, weight=0.2),
}


@pytest.mark.parametrize("name", SMALL)
def test_an_estimate_is_near_what_all_eigenvalues_say(name: str) -> None:
    net = SMALL[name]
    found, gap = estimated(net._R, net.perron), by_dense_algebra(net)
    assert found.known == "about"
    assert found.value == pytest.approx(gap, rel=0.06)  # two digits are kept
    assert net.gap == Gap(pytest.approx(gap))
    assert net.spectral_gap == net.gap.value


def test_learners_who_agree_at_once_have_a_gap_of_1() -> None:
    net = gs.Network(np.full((5, 5), 0.2) - np.eye(5))
    assert estimated(net._R, net.perron).value == 1
    assert net.spectral_gap == pytest.approx(1)


@pytest.mark.parametrize(
    ("m", "degree", "seed", "low", "high"),
    [(6000, 3, 0, 0.12, 0.15), (10_000, 3, 1, 0.12, 0.15), (10_000, 4, 1, 0.17, 0.21)],
)
def test_large_random_networks_have_a_gap_like_that_of_small_ones(m, degree, seed, low, high) -> None:
    """Their eigenvalues crowd at the edge of a disc, where iterations for one of them do not end."""
    net = gs.Network.random(m, degree=degree, seed=seed)
    assert low < net.spectral_gap < high
    assert net.gap.known == "about"
    assert 3 / high <= quiet_rounds(net) <= 3 / low + 1


def test_the_gap_of_a_long_ring_is_the_estimate_or_less() -> None:
    """λ₂ = 1 − ¼ + ¼ exp(2πi/m)."""
    net = gs.Network.ring(5000)
    assert net.gap.known == "at most about"
    assert 1 - abs(0.75 + 0.25 * np.exp(2j * np.pi / 5000)) < net.spectral_gap < 0.001
    assert str(net.gap).endswith("or less")
    assert quiet_rounds(net) > 1000  # so that a rule waits as long as it ever does


def test_an_eigenvalue_that_stands_alone_is_found_exactly() -> None:
    """Two halves of which each mixes well by itself, and few links between them."""
    half = [(j, i) for j, i, _ in gs.Network.random(1000, degree=8).edges()]
    other = [(1000 + j, 1000 + i) for j, i in half]
    across = [(j, 1000 + j) for j in range(40)] + [(1000 + j, j) for j in range(40)]
    net = gs.Network.from_edges(2000, half + other + across, weight=0.04)
    assert net.gap.exact
    assert net.spectral_gap == pytest.approx(estimated(net._R, net.perron).value, rel=0.06)
    assert str(net.gap) == f"{net.spectral_gap:.4f}"


@pytest.mark.parametrize("family", ["random", "ring"])
def test_many_learners_run_by_rule_and_the_record_says_that_the_gap_is_an_estimate(
    family, gossamer, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(metrics, "MOST_PREDICTIONS", 10**6)
    x = np.random.default_rng(0).normal(size=(5000, 2)).round(3)
    lines = [f"{a},{b},{'yes' if a + b > 0 else 'no'}" for a, b in x]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,y", *lines, ""]))
    words = ("--csv", "d.csv", "--target", "y", "--learners", 5000, "--graph", family, "--steps", 4, "--out", "kept")
    code, _, err = gossamer("run", *words, "--evaluate-every", 4, "--step", "1,0.8")
    assert code == 0, err
    (note,) = [one for one in gs.Record.load(tmp_path / "kept").notes if "spectral gap" in one]
    assert ("or less" in note) == (family == "ring")
    assert "is an estimate" in note
    assert "no ε rests on it" in note


def test_the_command_says_about(gossamer) -> None:
    code, out, _ = gossamer("graph", "random", "--learners", 6000, "--json", "told.json")
    assert code == 0
    assert "Spectral gap about 0.13: disagreement shrinks by about 13% a round." in out
    told = json.loads(Path("told.json").read_text())
    assert (told["spectral_gap"], told["spectral_gap_is"]) == (0.13, "about")
    assert "or less" in gossamer("graph", "ring", "--learners", 3000)[1]


def test_no_bound_is_told_from_an_estimate(gossamer, monkeypatch) -> None:
    """Theorem 4 needs a γ that is not below |λ₂|."""
    words = ("budget", "mushrooms", "--noise", "1,0.3", "--where", "messages", "--law", "laplace")
    assert "Theorem 4" in gossamer(*words)[1]
    monkeypatch.setattr(network_module, "gap_of", lambda R, u: Gap(gap_of(R, u).value, "about"))
    code, out, err = gossamer(*words)
    assert code == 0, err
    assert "Theorem 4" not in out
