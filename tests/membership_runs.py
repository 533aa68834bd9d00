"""Learners of one process whose run others join and leave, and the same rounds written out from the equations."""

from __future__ import annotations

import contextlib
import random

import numpy as np

import gossamer as gs
from gossamer.networks import Network
from gossamer.peers.journal import Journal
from gossamer.peers.membership import document_of, read_change
from gossamer.peers.node import Node
from gossamer.peers.party import Party
from gossamer.peers.passing_on import restored
from gossamer.peers.release import OWN_RELEASE
from gossamer.peers.signed import Signed
from gossamer.peers.turns import rounds_kept
from gossamer.peers.wire import Part, split_frames, unpack
from gossamer.privacy import Unproved
from gossamer.records import dense_table
from gossamer.streams.stream import OnePass
from peers_hub import Hub
from test_peers import Own

M, MOST, N, L2, STEPS = 10, 12, 4, 0.1, 30
STEP = gs.decay(0.3, 0.6)
ALGORITHM_1, PUSH_PULL = gs.ldp_gradient_tracking(STEP, strict=False), gs.push_pull(gs.decay(0.1, 0.0))
ONE_WAY = gs.Network.paper_one_way()
MODEL = gs.LogisticRegression(l2=L2)


def records(steps):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(MOST, steps, N))
    y = (X @ rng.normal(size=N) + rng.normal(size=(MOST, steps)) > 0).astype(float)
    return X, y


def without(network, numbers, gone, joins=()):
    """Links between those who stay, and of every j of `joins` with the first two and the last of them."""
    stays = [i for i in numbers if i not in gone]
    members = sorted([*stays, *joins])
    ends = [stays[0], stays[1], stays[-1]]
    new = [(j, i, 0.1) for j in joins for i in ends] + [(i, j, 0.1) for j in joins for i in ends]

    def links(over):
        kept = [(numbers[a], numbers[b], w) for a, b, w in network.edges(over)]
        ring = list(zip(stays, [*stays[1:], stays[0]], strict=True))  # so that they stay connected, whoever is gone
        have = {(a, b) for a, b, _ in kept}
        kept += [(a, b, 0.1) for a, b in ring if (a, b) not in have]
        return [(members.index(a), members.index(b), w) for a, b, w in [*kept, *new] if not {a, b} & set(gone)]

    return members, Network.from_edges(len(members), links("R"), C_edges=links("C"))


class Members:
    """The parties of a run that are there, one hub, and what was accepted in which round by whom."""

    def __init__(self, folder, algorithm, network, steps, faults=None, seed=0, late=0, capable=lambda i: True):
        self.folder, self.algorithm, self.network, self.steps = folder, algorithm, network, steps
        self.late, self.capable = late, capable
        self.rng, self.hub = random.Random(seed), Hub(faults, seed, self.tapped)
        X, y = records(steps)
        rows = np.arange(MOST * steps).reshape(MOST, -1)
        self.stream = OnePass(dense_table(X.reshape(-1, N), y.ravel()), list(rows), 1)
        self.nodes, self.parties, self.journals, self.boxes = {}, {}, {}, {}
        self.accepted, self.states, self.sent, self.crashes, self.ended = {}, {}, {}, set(), 0
        self.dead = set()
        for i in range(network.m):
            self.start(i)

    def start(self, i, files=()):
        kept = rounds_kept(N, "f8", self.late)
        self.journals[i] = journal = Journal(self.folder / f"{i}.db", "run", i, "settings", "process", kept)
        if not journal.changes():
            if files:
                journal.begin_at(read_change(files[-1]).at)
            for k, signed in enumerate(files):
                journal.keep_change(k + 1, signed.encoded())
        memory = MODEL.memory(self.stream.table, "history", np.array([self.steps]))
        self.parties[i] = Party(
            i, self.algorithm, self.network, Own(self.stream, i), memory, Unproved(None), journal, size=N,
            steps=self.steps, ridge=L2, late=self.late, lateness=self.late, changes=restored(journal),
        )  # fmt: skip
        self.boxes[i] = self.hub.of(i)
        self.nodes[i] = node = Node(
            self.parties[i], self.boxes[i], "run", journal.epoch, lambda moment: self.hook(i, moment),
            verify=lambda signed, change, history: None,
        )  # fmt: skip
        for j in range(MOST):
            if j != i and self.capable(j):
                node.met_release(j, OWN_RELEASE)
        self.keep(i)

    def keep(self, i):
        self.states.setdefault((i, self.parties[i].round), self.parties[i].state)

    def hook(self, i, moment):
        if moment == "accepted":
            self.accepted.setdefault(i, []).append(self.parties[i].round)
        if moment == "committed":
            self.keep(i)
        now = (i, moment, self.parties[i].round)
        if now in self.crashes:
            self.crashes.remove(now)
            raise SystemError(moment)

    def tapped(self, sender, to, data):
        for frame in map(unpack, split_frames(data)):
            if isinstance(frame.header, Part):
                key = (sender, frame.header.round, frame.header.channel)
                self.sent.setdefault(key, set()).add(bytes(frame.payload))

    def accept(self, i, signed):
        self.working(i, lambda i: self.nodes[i].accept(signed))

    def working(self, i, work):
        try:
            return work(i)
        except SystemError:
            self.ended += 1
            self.journals[i].close()
            self.start(i)
            self.nodes[i].greet()
            return True

    def sweep(self):
        there = [i for i in self.nodes if i not in self.dead]
        moved = [
            self.working(i, lambda i: self.boxes[i].turn(self.nodes[i].take))
            for i in self.rng.sample(there, len(there))
        ]
        for i in () if any(moved) else there:
            self.working(i, lambda i: self.nodes[i].greet())

    def until(self, done, limit=40_000):
        for _ in range(limit):
            if done():
                return
            self.sweep()
        rounds = {i: (p.round, p.missing()[:3], p.slow()) for i, p in self.parties.items() if i not in self.dead}
        raise AssertionError(f"still waiting: {rounds}, {[node.differences for node in self.nodes.values()]}")

    def greet(self):
        for i in self.nodes:
            self.nodes[i].greet()

    def reach(self, t, who=None):
        self.until(lambda: all(self.parties[i].round >= t for i in who or self.parties if i not in self.dead))

    def finish(self):
        self.until(lambda: all(node.done for i, node in self.nodes.items() if i not in self.dead))

    def close(self):
        for journal in self.journals.values():
            journal.close()


@contextlib.contextmanager
def teams(folder):
    """team_of(algorithm, network, steps, …): runs that have said hello, and whose journals are closed at the end."""
    made = []

    def team_of(algorithm=ALGORITHM_1, network=ONE_WAY, steps=STEPS, **given):
        place = folder / str(len(made))
        place.mkdir()
        made.append(Members(place, algorithm, network, steps, **given))
        made[-1].greet()
        return made[-1]

    yield team_of
    for team in made:
        team.close()


def change_of(team, at, before=(), **given):
    """A document, not signed; `before` are those that it follows."""
    members, network = list(range(team.network.m)), team.network
    if before:
        last = read_change(before[-1])
        members, network = list(last.members), last.network
    gone = {*given.get("leaves", ()), *given.get("lost", ())}
    members, network = without(network, members, gone, given.get("joins", ()))
    digest = before[-1].digest if before else ""
    return Signed(document_of("run", len(before) + 1, at, members, network, before=digest, **given))


# -- the same from the equations ----------------------------------------------------------------------------------


def gradient(i, theta, t, X, y):
    """∇f_{i,t}(θ): the mean over the records so far, with the ridge."""
    A, b = X[i, : t + 1], y[i, : t + 1]
    return A.T @ (1 / (1 + np.exp(-A @ theta)) - b) / (t + 1) + L2 * theta


def whole(network, numbers):
    """R and C between learners' numbers."""
    at = np.ix_(numbers, numbers)
    R, C = np.zeros((MOST, MOST)), np.zeros((MOST, MOST))
    R[at], C[at] = network.R, network.C
    return R, C


def leave_out(R, C, gone, acts):
    """What is not pulled stays with who would have pulled, what is not pushed with who would have pushed."""
    for i in acts:
        for j in gone:
            R[i, i], R[i, j] = R[i, i] + R[i, j], 0.0
            C[i, i], C[j, i] = C[i, i] + C[j, i], 0.0
            C[i, j] = 0.0


def by_hand(kind, network, steps, step, documents=(), accepted=None):
    """The state of everybody at the start of every round: {(i, t): {"s" or "w": …, "theta": …}}, and Σ of trackers.

    accepted[i]  in which round learner i took the document of who is lost
    """
    X, y = records(steps)
    changes, members, net = [read_change(one) for one in documents], list(range(network.m)), network
    R0, C0 = whole(network, members)
    theta, x, z = np.zeros((MOST, N)), np.zeros((MOST, N)), np.eye(MOST)
    share, p, found, added = None, network.m, {}, {}
    for t in range(steps + 1):
        joining = set()
        for change in changes:
            if change.at != t:
                continue
            if kind == "push_pull" and change.lost:
                x[:] = 0
            elif kind == "push_pull":
                stays = sorted(set(change.members) - change.joins)
                given = x.copy()
                for j in change.leaves:
                    weights = C0[stays, j] / C0[stays, j].sum()
                    x[stays] += weights[:, None] * given[j]
                    x[j] = 0
            members, net, joining = list(change.members), change.network, set(change.joins)
            R0, C0 = whole(net, members)
            share, p = np.full(MOST, np.nan), len(members)
            share[members] = net.perron / p
            for j in joining:
                x[j], theta[j] = 0, 0
        for i in members:
            found[i, t] = {"x": x[i].copy(), "theta": theta[i].copy()}
        if t == steps:
            return found, added
        R, C, acts = R0.copy(), C0.copy(), [i for i in members if i not in joining]
        leave_out(R, C, joining, acts)
        for change in changes:
            for i in acts:
                if change.at > t and (accepted or {}).get(i, change.at) <= t and i not in change.gone:
                    leave_out(R, C, change.lost, [i])
        g = np.zeros((MOST, N))
        for i in acts:
            g[i] = gradient(i, theta[i], t, X, y)
        for j in joining:  # it listens
            R[j] = np.where(np.isin(np.arange(MOST), acts), R0[j], 0.0)
            R[j, j], R[j] = 0.0, R[j] / R[j].sum()
            R[j, j], C[j, :], C[:, j] = -1.0, 0.0, 0.0
        off = C - np.diag(np.diag(C))
        I = np.eye(MOST)  # noqa: E741
        if kind == "algorithm_1":
            new = (I + C) @ x + step(t) * g
            counts = np.diag(z) * p if share is None else share * p
            moved = np.zeros_like(x)
            moved[members] = (new - x)[members] / counts[members][:, None]
            theta, added[t] = (I + R) @ theta - moved, step(t) * g[acts].sum(axis=0)
            x = np.where(np.isin(np.arange(MOST), members)[:, None], new, x)
            z = z + whole(network, list(range(network.m)))[0] @ z
        else:
            tracker = x + g
            theta = (I + R) @ theta - step(t) * np.where(np.isin(np.arange(MOST), acts)[:, None], tracker, 0.0)
            x = (np.diag(np.diag(C)) + I) @ tracker + off @ tracker - g
            x[list(joining)] = 0.0


def compare(team, found, atol=1e-12):
    """All states that parties had, against those by hand."""
    assert team.states
    for (i, t), state in team.states.items():
        if (i, t) in found:
            by = found[i, t]
            np.testing.assert_allclose(state[0 if "s" in state._fields else 1][0], by["x"], rtol=0, atol=atol)
            np.testing.assert_allclose(state.theta[0], by["theta"], rtol=0, atol=atol)
