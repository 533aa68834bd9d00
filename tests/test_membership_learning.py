"""What is learnt by a run that parties join and leave: the simulator's numbers, and the optimum of those who stay."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.algorithms import METHODS as REGISTRY
from gossamer.peers.membership import document_of, read_change
from gossamer.peers.signed import Signed
from membership_runs import ALGORITHM_1, MODEL, PUSH_PULL, STEPS, M, change_of, records, teams


@pytest.fixture
def team_of(tmp_path):
    with teams(tmp_path) as made:
        yield made


def restricted(network, members):
    """The network's links between some of its learners, as NetworkSchedule plays it when the others are away."""
    place = {number: k for k, number in enumerate(members)}

    def links(over):
        return [(place[j], place[i], w) for j, i, w in network.edges(over) if j in place and i in place]

    return gs.Network.from_edges(len(members), links("R"), C_edges=links("C"))


@pytest.mark.parametrize("name", ["push_pull", "robust_push_pull"])
def test_leaves_and_joins_are_those_of_the_simulator(team_of, name):
    """From round 0 to the end, to 1e-12: the simulator knows of the changes beforehand, and plays the same."""
    whole, at = gs.Network.exponential(M + 1), 17
    algorithm = REGISTRY.entries()[name].build(0.1)
    start = restricted(whole, range(M))
    team = team_of(algorithm, start)
    members = [i for i in range(M + 1) if i != 3]
    joined = restricted(whole, members)
    document = Signed(document_of("run", 1, at, members, joined, leaves=[3], joins=[10]))
    team.reach(4)
    team.accept(0, document)
    team.until(lambda: all(party.history.version for party in team.parties.values()))
    team.start(10, files=[document])
    team.greet()
    team.finish()
    X, y = records(STEPS)
    stream = gs.streams.from_arrays(X[: M + 1], y[: M + 1])
    schedule = gs.NetworkSchedule.of(whole).leaving(3, at).joining(10, at)
    run = gs.simulate(algorithm, schedule, stream, model=MODEL, steps=STEPS, gradient="history")
    for i in members:
        np.testing.assert_allclose(team.parties[i].state.theta[0], run.theta[i], rtol=0, atol=1e-12)
    np.testing.assert_allclose(team.parties[3].state.theta[0], run.theta[3], rtol=0, atol=1e-12)


def test_algorithm_1_after_a_change_is_the_simulators_on_the_new_graph_from_the_state_it_left(team_of):
    """z is what it tends to, 1 uᵀ/p, which (I+R) leaves as it is: then the fixed network's equations are played."""
    team = team_of()
    document = change_of(team, 17, leaves=[3])
    team.reach(4)
    team.accept(0, document)
    team.finish()
    change = read_change(document)
    members, network = list(change.members), change.network
    X, y = records(STEPS)
    stream = gs.streams.from_arrays(X[members], y[members])
    rows = network.rows()._replace(settles=np.inf)
    state = ALGORITHM_1.init(rows, np.zeros((len(members), X.shape[2])))
    parts = {name: np.vstack([getattr(team.states[i, 17], name) for i in members]) for name in ("s", "theta")}
    state = state._replace(**parts, z=np.tile(network.perron / network.m, (network.m, 1)))
    memory = MODEL.memory(stream.table, "history", np.full(len(members), STEPS))
    for t in range(STEPS):
        memory.observe(stream.arrivals(t))
        if t >= 17:
            grad = memory.gradient(state.theta) + MODEL.l2 * state.theta
            sent = ALGORITHM_1.emit(state, grad, rows, t)
            got = {channel: network.off_diagonal(out.over) @ out.value for channel, out in sent.items()}
            state = ALGORITHM_1.step(state, got, grad, rows, t)
            there = np.vstack([team.states[i, t + 1].theta for i in members])
            np.testing.assert_allclose(there, state.theta, rtol=0, atol=1e-12)


@pytest.mark.parametrize("algorithm", [gs.ldp_gradient_tracking(gs.decay(6.0, 0.6), strict=False), PUSH_PULL])
def test_those_who_stay_find_the_optimum_of_those_who_stay(team_of, algorithm):
    """What was written off displaces the mean once, and no later round carries it on."""
    from scipy.optimize import minimize

    steps = 200
    team = team_of(algorithm, gs.Network.exponential(M), steps=steps)
    team.reach(6)
    team.dead.add(3)
    document = change_of(team, 40, lost=[3])
    team.accept(0, document)
    team.finish()
    stays = [i for i in range(M) if i != 3]
    X, y = records(steps)
    A, b = X[stays].reshape(-1, X.shape[2]), y[stays].ravel()

    def loss(theta):
        margins = A @ theta
        return np.mean(np.logaddexp(0, margins) - b * margins) + MODEL.l2 / 2 * theta @ theta

    optimum = minimize(loss, np.zeros(A.shape[1]), tol=1e-12).x
    theta = np.vstack([team.parties[i].state.theta for i in stays])
    assert np.abs(theta - optimum).max() < 0.05 * np.abs(optimum).max()


@pytest.mark.parametrize("name", [name for name, one in REGISTRY.entries().items() if one.build(0.1).over_time])
@pytest.mark.parametrize("kind", ["leaves", "lost"])
def test_every_method_that_knows_networks_that_change_gets_over_one(team_of, name, kind):
    algorithm = REGISTRY.entries()[name].build(0.1)
    team = team_of(algorithm, gs.Network.exponential(M))
    document = change_of(team, 20, **{kind: [3]}, joins=[10])
    team.reach(4)
    if kind == "lost":
        team.dead.add(3)
    team.accept(0, document)
    team.until(lambda: all(party.history.version for i, party in team.parties.items() if i not in team.dead))
    team.start(10, files=[document])
    team.greet()
    team.finish()
    members = read_change(document).members
    assert all(np.isfinite(team.parties[i].state.theta).all() for i in members)
    if algorithm.over_time.hands_over:
        (field,) = algorithm.over_time.pushed.values()
        total = sum(getattr(team.states[i, STEPS], field)[0] for i in members)
        np.testing.assert_allclose(total, 0, atol=1e-12)
