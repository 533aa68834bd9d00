"""A user's own file, with nothing said but what is needed: what is learnt, and how near that is to the best."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy

import gossamer as gs
from gossamer.spec import Spec
from gossamer.spec.build import build
from gossamer.spec.rules import small_delta

SIZES = {"a": 2000, "b": 700, "c": 150, "d": 12}


def write(path: Path, sizes: dict[str, int], quantity: bool = False, seed: int = 0) -> None:
    """Numbers that fill a small part of their ranges, far from the middle: what a plain gradient method is slow on."""
    rng = np.random.default_rng(seed)
    lines = ["site,income,level,colour,y"]
    for site, count in sizes.items():
        income, level = rng.lognormal(10, 0.6, count), rng.normal(80, 3, count)
        colour = rng.choice(["red", "green"], count)
        margin = 2.0 * (np.log(income) - 10) / 0.6 - 1.5 * (level - 80) / 3 + (colour == "red")
        y = margin + rng.normal(size=count) if quantity else rng.random(count) < 1 / (1 + np.exp(-margin))
        columns = zip(income, level, colour, y, strict=True)
        lines += [f"{site},{i:.0f},{v:.2f},{c},{b:.3f}" if quantity else f"{site},{i:.0f},{v:.2f},{c},{int(b)}"
                  for i, v, c, b in columns]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")


DECLARED = {"range": ("income=0:400000,level=0:150",), "categories": ("colour=red|green",)}


def ran(path: Path, **more: object) -> gs.Record:
    parts = build(Spec.of(csv=str(path), target="y", **more))
    return gs.simulate(
        parts.algorithm, parts.network, parts.stream, model=parts.model, privacy=parts.mechanism, steps=parts.steps,
        gradient="history", evaluate_every=parts.steps,
    )  # fmt: skip


def test_defaults_without_noise_reach_the_optimum(tmp_path):
    write(tmp_path / "own.csv", {"a": 3000})
    record = ran(tmp_path / "own.csv", drop=("site",))
    assert record.claim.startswith("not private")
    assert record.history.optimality_gap[-1] < 1e-4
    assert record.history.optimality_gap[0] > 0.2
    assert record.history.accuracy[-1] > 0.8
    assert record.learners.consensus_error.max() < 1e-2


def test_defaults_with_a_budget_lose_little_where_ranges_are_wide(tmp_path):
    write(tmp_path / "own.csv", {"a": 20000})
    said = {"drop": ("site",), "classes": "0,1", **DECLARED}
    best = ran(tmp_path / "own.csv", **said).history.accuracy[-1]
    private = ran(tmp_path / "own.csv", epsilon="3", **said)
    assert private.history.accuracy[-1] > best - 0.03
    assert private.epsilon.for_ever.max() <= 3
    plain = ran(tmp_path / "own.csv", epsilon="3", standardise=False, **said)
    assert plain.history.accuracy[-1] < private.history.accuracy[-1] - 0.02, "without looking at moments first"


def test_a_quantity_needs_no_clipper_of_its_own(tmp_path):
    write(tmp_path / "own.csv", {"a": 20000}, quantity=True)
    said = {"drop": ("site",), "range": ("income=0:400000,level=0:150,y=-20:20",), "categories": ("colour=red|green",)}
    best = ran(tmp_path / "own.csv", **said).history.accuracy[-1]
    private = ran(tmp_path / "own.csv", epsilon="3", **said)
    assert best > 0.7
    assert private.history.accuracy[-1] > best - 0.03


@pytest.mark.parametrize("weight", ["records", "equal"])
def test_learners_of_unlike_size_learn_what_their_weights_say(tmp_path, weight):
    write(tmp_path / "own.csv", SIZES)
    parts = build(Spec.of(csv=str(tmp_path / "own.csv"), target="y", split_by="site", weight=weight, l2=0.05))
    assert parts.stream.room(2**40).tolist() == list(SIZES.values()), "all records are read, whoever has few"
    assert parts.stream.rounds <= parts.steps // 2
    assert any("12 to 2,000 records" in note for note in parts.stream.notes)
    record = gs.simulate(
        parts.algorithm, parts.network, parts.stream, model=parts.model, steps=parts.steps, evaluate_every=parts.steps
    )
    X, y = parts.stream.table.rows, parts.stream.table.labels
    owner = np.repeat(np.arange(4), list(SIZES.values()))
    order = np.concatenate([np.flatnonzero(site_of(tmp_path / "own.csv") == name) for name in SIZES])
    share = np.empty(len(y))
    share[order] = (1 / len(y)) if weight == "records" else 1 / (4 * np.array(list(SIZES.values()))[owner])
    where = list(parts.model.standardise.columns)
    spread = np.ones(X.shape[1])
    spread[where] = share @ (X[:, where] - share @ X[:, where]) ** 2
    spread[-1] = 0.0  # the intercept

    def loss(theta):
        return share @ np.logaddexp(0, -(2 * y - 1) * (X @ theta)) + 0.025 * spread @ theta**2

    def slope(theta):
        p = scipy.special.expit(X @ theta)
        return X.T @ (share * (p - y)) + 0.05 * spread * theta

    best = scipy.optimize.minimize(loss, np.zeros(X.shape[1]), jac=slope, method="L-BFGS-B", options={"gtol": 1e-9})
    for theta in record.theta:
        assert loss(theta) - best.fun < 2e-4


def test_weights_are_as_said_at_a_pace_of_ones_own(tmp_path):
    write(tmp_path / "own.csv", SIZES)
    said = {"csv": str(tmp_path / "own.csv"), "target": "y", "split_by": "site", "per_round": 3}
    assert build(Spec.of(**said)).stream.weights is None
    stream = build(Spec.of(**said, weight="records")).stream
    sizes = np.array(list(SIZES.values()))
    np.testing.assert_allclose(stream.weights, sizes / sizes.mean())
    assert stream.arrivals(0).counts.tolist() == [3] * 4


def site_of(path: Path) -> np.ndarray:
    return np.array([line.split(",")[0] for line in path.read_text().splitlines()[1:]])


def test_delta_is_below_one_in_as_many_records():
    for records in (10, 49_999, 50_001, 99_999, 10**6, 3 * 10**7):
        assert small_delta(records) <= min(1e-5, 0.5 / records)
    assert small_delta(1000) == 1e-5


def test_peers_init_decides_as_run_does(gossamer, tmp_path):
    pytest.importorskip("msgspec", reason="needs the extra `peers`")
    from gossamer.peers.config import read_config

    write(tmp_path / "own.csv", {"a": 900})
    words = ("--csv", "own.csv", "--target", "y", "--classes", "0,1", "--range", DECLARED["range"][0],
             "--categories", DECLARED["categories"][0], "--epsilon", "3")  # fmt: skip
    assert gossamer("peers", "init", "all", *words, "--learners", "3")[0] == 0
    parts = build(Spec.of(csv=str(tmp_path / "own.csv"), target="y", drop=("site",), classes="0,1", epsilon="3",
                          learners=3, **DECLARED))  # fmt: skip
    config = read_config(tmp_path / "all" / "learner-0").config
    assert (config.run.steps, config.data.records, config.run.per_round) == (parts.steps, 300, 1)
    assert config.model.standardise is True
    assert config.model.l2 == parts.model.l2
    assert config.model.clip == parts.model.clip.c
    assert (config.privacy.law, config.privacy.where) == ("gaussian", "source")


def test_parties_that_go_on_over_their_records_do_as_a_simulation(gossamer, tmp_path):
    pytest.importorskip("msgspec", reason="needs the extra `peers`")
    pytest.importorskip("grpc", reason="needs the extra `peers`")
    from test_transport import run_by_hand

    write(tmp_path / "own.csv", {"a": 90})
    words = ("--csv", "own.csv", "--target", "y", "--classes", "0,1", "--range", DECLARED["range"][0],
             "--categories", DECLARED["categories"][0])  # fmt: skip
    assert gossamer("peers", "init", "all", *words, "--noise", "0", "--learners", "3", "--steps", "60")[0] == 0
    run_by_hand(tmp_path / "all", 3)
    assert gossamer("peers", "collect", "all", "--out", "collected")[0] == 0
    theta = gs.Record.load(tmp_path / "collected").theta
    assert gossamer("run", *words, "--drop", "site", "--learners", "3", "--steps", "60", "--out", "run")[0] == 0
    alike = gs.Record.load(tmp_path / "run")
    assert json.loads((tmp_path / "run/record.json").read_text())["config"]["stream"]["per_round"] == [1, 1, 1]
    np.testing.assert_allclose(theta, alike.theta, rtol=1e-9, atol=1e-9)
    assert np.abs(theta).max() > 0.1


@pytest.mark.parametrize(("numbers", "head"), [(False, False), (True, True)])
def test_moments_are_released_only_where_there_are_numbers(tmp_path, numbers, head):
    """Categories are not standardised: no budget and no rounds go into their moments."""
    rng = np.random.default_rng(0)
    lines = [f"{c},{k / 400},{int(rng.random() < (0.8 if c == 'red' else 0.2))}"
             for k, c in enumerate(rng.choice(["red", "green"], 400))]  # fmt: skip
    (tmp_path / "own.csv").write_text("\n".join(["colour,x,y", *lines]) + "\n")
    said = {"range": ("x=0:1",)} if numbers else {"drop": ("x",)}
    spec = {"classes": "0,1", "categories": ("colour=red|green",), "learners": 4, **said}
    private = ran(tmp_path / "own.csv", epsilon="8", **spec)
    assert private.history.accuracy[-1] > 0.7
    assert all(("head" in releases) == head for releases in private.config["releases"])
    if not numbers:
        quiet = ran(tmp_path / "own.csv", steps=100, **spec)
        assert quiet.history.accuracy[-1] > 0.75
