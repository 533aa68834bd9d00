"""Parties that standardise their numbers: the simulator's own steps, through crashes, with and without noise."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.models.standard import Standardise
from gossamer.privacy import PrivateBoundary, Unproved
from gossamer.privacy.releases import Releases
from gossamer.setting import setting_of
from gossamer.standardising import looks_of

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.peers.config import Config, DataPlan, ModelPlan, PartyPlan, Plan, PrivacyPlan, RecordsPlan, Run
from gossamer.peers.feed import Records
from gossamer.peers.journal import Journal
from gossamer.peers.node import Node
from gossamer.peers.party import Party
from gossamer.peers.turns import rounds_kept
from gossamer.streams.schema import Schema
from test_peers import METHODS, STEPS, M, N, Own, Team, records

ABOUT = Standardise((0, 1, 2), width=4.0)
SIZE = N + ABOUT.extra
PRIVATE = gs.Gaussian.for_budget(50.0, 1e-5, where="source", releases=Releases(2, 14, head=4, pause=3))
NET = gs.Network.paper_one_way()


def model_of(private):
    return gs.LogisticRegression(0.1, gs.clip_l2(0.5) if private else None, intercept=True, standardise=ABOUT)


def drawn(t, value, row=slice(None)):
    return np.random.default_rng(t).normal(size=(M, value.shape[1]))[row]


def noised(self, t, value, times=1.0):
    return self.clamped_to_grid(t, value, times) + drawn(t, value, getattr(self, "row", slice(None))) * self._scale(t)


class Standardised(Team):
    """The parties of a run whose numbers are standardised."""

    def __init__(self, folder, private, **given):
        self.private, self.algorithm = private, METHODS["ldp_gradient_tracking"].build(0.3)
        super().__init__(folder, network=NET, **given)

    def boundary(self, i):
        if not self.private:
            return Unproved(None)
        setting = setting_of(self.algorithm, NET, self.stream, model_of(True), "history", self.steps)
        whole = PRIVATE.over(self.steps).bind(setting)
        own = PrivateBoundary(whole.mechanism, [whole.ledgers[i]], self.steps)
        own.row = [i]
        return own

    def start(self, i):
        kept = rounds_kept(SIZE, "f8", 0)
        self.journals[i] = Journal(self.folder / f"{i}.db", "run", i, "settings", "process", kept)
        model, boundary = model_of(self.private), self.boundary(i)
        memory = model.memory(self.stream.table, "history", np.array([self.steps]))
        memory.prepare(looks_of(memory, boundary, None, self.steps, NET))
        self.parties[i] = Party(
            i, self.algorithm, NET, Own(self.stream, i), memory, boundary, self.journals[i], size=SIZE,
            steps=self.steps, ridge=model.ridge(N),
        )  # fmt: skip
        self.boxes[i] = self.hub.of(i)
        self.nodes[i] = Node(self.parties[i], self.boxes[i], "run", self.journals[i].epoch, self.hook)


@pytest.mark.parametrize("private", [False, True], ids=["without noise", "private"])
@pytest.mark.parametrize("crashes", [0, 20])
def test_parties_find_what_the_simulator_finds_through_crashes(monkeypatch, tmp_path, private, crashes):
    monkeypatch.setattr(PrivateBoundary, "_noised", noised)
    team = Standardised(tmp_path, private)
    run = gs.simulate(
        team.algorithm, NET, records(), model=model_of(private), privacy=PRIVATE if private else None, steps=STEPS
    )
    assert np.abs(run.state["seen.running"]).max() > 0
    np.testing.assert_allclose(team.run(crashes), run.state["theta"], rtol=1e-9, atol=1e-9)


SCHEMA = RecordsPlan("ill", ("no", "yes"), {"age": (0.0, 100.0)})
LINES = "age,ill\n" + "".join(f"{20 + k},{'yes' if k % 3 else 'no'}\n" for k in range(12))


def plan_of(folder, *, records=None, gradient="history", follow=False):
    (folder / "records.csv").write_text(LINES)
    config = Config(
        Run("run", 3, 40, gradient=gradient), SCHEMA, PartyPlan(0, "127.0.0.1:1"),
        DataPlan("records.csv", records, follow=follow), ModelPlan(0.01, 0.5, True),
        PrivacyPlan(epsilon=3.0, law="gaussian", delta=1e-5, where="source"),
    )  # fmt: skip
    return Plan(config, folder, gs.Network.ring(3))


def test_a_journal_rests_on_how_many_records_there_are(tmp_path):
    """Noise is found for that number, and rounds are booked by it: with another one it must not be gone on."""
    settings = {plan_of(tmp_path, records=count).own_settings for count in (None, 10, 12)}
    assert len(settings) == 3


def test_a_file_that_is_followed_has_all_of_its_last_rounds(tmp_path):
    (tmp_path / "records.csv").write_text(LINES)
    schema = Schema("ill", ("no", "yes"), {"age": (0, 100)}, {})
    feed = Records(tmp_path / "records.csv", "csv", schema, 5, True, 12)
    assert [feed.here(t) for t in range(5)] == [True] * 5
    assert [len(feed.arrivals(t).labels) for t in range(5)] == [5, 5, 2, 0, 0]
    longer = Records(tmp_path / "records.csv", "csv", schema, 5, True, 13)
    assert [longer.here(t) for t in range(4)] == [True, True, False, False]


def test_the_latest_records_alone_are_not_standardised(tmp_path):
    plan = plan_of(tmp_path, gradient="latest")
    with pytest.raises(gs.GossamerError, match="history"):
        plan.model().memory(plan.schema.table(), "latest", np.array([1]))
