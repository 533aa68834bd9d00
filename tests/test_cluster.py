"""A run on ranks of MPI: the numbers of one process, its budgets, and an end for all where one fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cluster_cases
import gossamer as gs
from gossamer.cluster.engine import refuse_unshared
from gossamer.records import Batch
from gossamer.run_record import Record
from gossamer.setting import setting_of

pytest.importorskip("mpi4py", reason="the extra `mpi` is not installed")
TESTS = Path(__file__).parent
CHANGING = gs.NetworkSchedule.of(cluster_cases.NETWORKS["directed"]).failing(0.1)
CASES = dict(cluster_cases.cases())
MPIEXEC = Path(sys.executable).with_name("mpiexec")
PATIENCE = 300.0  # seconds; ranks wait for each other on a busy machine


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what four ranks, and two, made of every case."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [MPIEXEC, "-n", "4", sys.executable, TESTS / "cluster_cases.py", folder]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def arrays(played: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for rank in (0, 2):
        with np.load(played / f"{rank}.npz") as stored:
            found |= {name: stored[name] for name in stored.files}
    return found


@pytest.mark.parametrize("name", CASES)
def test_ranks_have_the_numbers_of_one_process(name: str, arrays: dict[str, Any]) -> None:
    alone = cluster_cases.arrays_of(CASES[name](gs.simulate))
    for ranks in (4, 2):
        for key, value in alone.items():
            ours = arrays[f"{ranks} {name} {key}"]
            np.testing.assert_allclose(ours, value, rtol=1e-12, atol=1e-12, err_msg=f"{ranks} ranks, {key}")


def test_private_ranks_spend_what_one_process_spends(played: Path) -> None:
    ours, alone = Record.load(played / "private"), cluster_cases.private(gs.simulate)
    assert ours.epsilon is not None
    assert ours.claim == alone.claim
    assert ours.claim.startswith("private: exact laplace noise")
    for name in ("spent", "for_ever"):
        np.testing.assert_array_equal(ours.epsilon[name], alone.epsilon[name])
    assert ours.config["course"] == alone.config["course"]
    assert ours.config["noise"] == alone.config["noise"]
    assert set(ours.state) == set(alone.state)  # with the last messages of those whose budget is spent
    assert not np.array_equal(ours.theta, alone.theta)  # its noise is its own


def test_one_process_goes_on_with_what_ranks_began(played: Path) -> None:
    begun = Record.load(played / "quiet")
    longer = {"steps": 2 * cluster_cases.ROUNDS}
    ours = cluster_cases.quiet(gs.simulate, resume=begun, **longer)
    alone = cluster_cases.quiet(gs.simulate, **longer)
    for key, value in cluster_cases.arrays_of(alone).items():
        np.testing.assert_allclose(cluster_cases.arrays_of(ours)[key], value, rtol=1e-12, atol=1e-12, err_msg=key)
    spent = Record.load(played / "private")
    on = cluster_cases.private(gs.simulate, resume=spent, steps=cluster_cases.ROUNDS + 1)
    assert (on.epsilon.spent >= spent.epsilon.spent).all()  # type: ignore[union-attr]
    assert (on.epsilon.spent <= np.arange(1.0, cluster_cases.M + 1)).all()


@pytest.mark.parametrize(
    ("ranks", "change", "says"),
    [
        (1, {}, "expected 2 to 8 ranks for 9 learners"),
        (9, {}, "expected 2 to 8 ranks for 9 learners"),
        (2, {"network": CHANGING}, "a network that changes"),
        (2, {"privacy": gs.Gaussian.for_budget(3.0, 1e-5, where="source", secrets=gs.Secrets("complete", 1))}, "pairs"),
        (2, {"model": gs.LogisticRegression(l2=0.1, arrays=gs.tensors("cpu"))}, "in NumPy's arrays"),
    ],
    ids=["one", "all", "changes", "secrets", "tensors"],
)
def test_what_ranks_cannot_share_is_refused(ranks: int, change: dict[str, Any], says: str) -> None:
    given = {"network": cluster_cases.NETWORKS["directed"], "model": gs.LogisticRegression(l2=0.1), "privacy": None}
    with pytest.raises(gs.GossamerError, match=says):
        refuse_unshared(ranks, **(given | change))


def test_a_part_of_a_boundary_books_its_own_learners_alone() -> None:
    """And what it refuses names the learner as the run counts it."""
    records, model = cluster_cases.stream().within(None), gs.LogisticRegression(l2=0.01)
    method, net = gs.ldp_gradient_tracking(gs.decay(0.1, 0.8)), cluster_cases.NETWORKS["directed"]
    setting = setting_of(method, net, records, model, "history", 3)
    whole = gs.Laplace(gs.decay(1.0, 0.6)).bind(setting)
    some = np.array([2, 5])
    part = whole.part(some)
    for t in range(3):
        batch = records.part(some).arrivals(t)
        part.arrived(t, batch)
        part.charge(t)
    with pytest.raises(gs.NotProvable, match="learner 5 has 2 new records in round 0"):
        part.arrived(0, Batch(batch.rows[:1], batch.labels[:1], np.array([1, 2])))
    assert [ledger.rounds for ledger in whole.ledgers] == [3 * (i in some) for i in range(cluster_cases.M)]
    whole.book([3] * cluster_cases.M, clamped=4, cut=0, last={})
    alone = gs.Laplace(gs.decay(1.0, 0.6)).bind(setting)
    for t in range(3):
        alone.charge(t)
    np.testing.assert_array_equal(whole.budget().spent, alone.budget().spent)
    assert any(note.startswith("4 values were beyond") for note in whole.notes(3))
    with pytest.raises(gs.BudgetSpent):  # a budget that a rank went beyond would be found
        gs.Laplace.for_budget(1.0).bind(setting).book([4] * cluster_cases.M, 0, 0, {})
