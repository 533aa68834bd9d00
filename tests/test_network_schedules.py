"""Schedules of networks from files and options: what they say, how `gossamer graph` judges them, and mistakes."""

from __future__ import annotations

import json
from itertools import count

import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer import NetworkSchedule
from gossamer.networks import read_schedule
from gossamer.networks.windows import windows_of

PAPER = gs.Network.paper_one_way()
RING = [(i, (i + 1) % 6) for i in range(6)]


def written(folder, text, name="changes.toml"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


# -- windows -----------------------------------------------------------------------------------------------------------


def up_in(schedule, t):
    """R's and C's links of a round, as sets, by the definitions alone."""
    now, found = schedule.at(t), {}
    network = schedule.network_of(now.phase)
    for over in ("R", "C"):
        found[over] = set()
        for j, i, _ in network.edges(over):
            if schedule.links:
                turn, way = schedule.links[now.phase], (i, j) if over == "C" and schedule.mirrored else (j, i)
                if way not in turn:
                    continue
            failed = schedule.fail(t, *(np.array([end]) for end in (j, i)))[0]
            if now.awake[j] and now.awake[i] and not failed:
                found[over].add((j, i))
    return found


def connected(rounds, m):
    """Over R's links everybody reaches everybody, and over C's somebody is reached by everybody."""
    graphs = []
    for over in ("R", "C"):
        graph = nx.DiGraph()
        graph.add_nodes_from(range(m))
        for links in rounds:
            graph.add_edges_from(links[over])
        graphs.append(graph)
    reached = any(len(nx.ancestors(graphs[1], root)) == m - 1 for root in range(m))
    return nx.is_strongly_connected(graphs[0]) and reached


@pytest.mark.parametrize(
    "schedule",
    [
        NetworkSchedule.of(PAPER),
        NetworkSchedule.of(PAPER, seed=1).failing(0.3),
        NetworkSchedule.of(PAPER, seed=1).sleeping(0.2).failing(0.2, both_ways=True),
        NetworkSchedule.turns(gs.Network.ring(6), [[link] for link in RING], every=2),
        NetworkSchedule.of([gs.Network.ring(6), gs.Network.complete(6)], every=3),
    ],
)
def test_the_worst_window_is_the_least_of_which_all_connect(schedule):
    rounds = 40
    each = [up_in(schedule, t) for t in range(rounds)]
    least = next(
        B for B in count(1) if all(connected(each[t : t + B], schedule.m) for t in range(rounds - B + 1))
    )  # fmt: skip
    seen = windows_of(schedule, rounds)
    assert seen.least == least
    links = len({link for k in range(schedule.phases) for link in [e[:2] for e in schedule.network_of(k).edges()]})
    assert seen.up == pytest.approx(sum(len(one["R"]) for one in each) / (rounds * links))


def test_rounds_that_do_not_suffice_are_said_not_to():
    slow = NetworkSchedule.turns(gs.Network.ring(6), [[link] for link in RING], every=10)
    assert windows_of(slow, 50).least is None
    assert windows_of(slow, 300).least == 51, "fifty rounds without some link, and one with it"


def test_windows_lie_between_changes_of_who_is_there():
    schedule = NetworkSchedule.of(gs.Network.exponential(10)).leaving(3, 20).joining(3, 30)
    assert windows_of(schedule, 40).least == 2, "who joins listens for a round before it is heard"


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_says_all_that_python_does(tmp_path):
    written(tmp_path, "0 1\n1 2\n2 3\n3 0\n0 2\n2 0\n", "a.txt")
    text = """
        networks = ["a.txt", "complete"]
        every = 12
        failures = 0.1
        both_ways = true
        lost = "kept"
        sleep = 0.05
        seed = 3
        leaves = [[1, 100]]
        joins = [[1, 200], [3, 50]]
    """
    schedule = read_schedule(written(tmp_path, text), lambda: PAPER, 4)
    nets = [gs.networks.read_network(str(tmp_path / "a.txt")), gs.Network.complete(4)]
    expected = NetworkSchedule.of(nets, every=12, seed=3).failing(0.1, both_ways=True, lost="kept").sleeping(0.05)
    expected = expected.leaving(1, 100).joining(1, 200).joining(3, 50)
    assert schedule.description == expected.description
    as_json = {
        "networks": ["a.txt", "complete"], "every": 12, "failures": 0.1, "both_ways": True, "lost": "kept",
        "sleep": 0.05, "seed": 3, "leaves": [[1, 100]], "joins": [[1, 200], [3, 50]],
    }  # fmt: skip
    again = read_schedule(written(tmp_path, json.dumps(as_json), "changes.json"), lambda: PAPER, 4)
    assert again.description == expected.description


def test_turns_are_of_the_runs_own_network(tmp_path):
    turns = [[list(link)] for link in RING]
    schedule = read_schedule(written(tmp_path, f"turns = {turns}\nevery = 2"), lambda: gs.Network.ring(6), 6, seed=9)
    assert (
        schedule.description == NetworkSchedule.turns(gs.Network.ring(6), [[link] for link in RING], 2, 9).description
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("failure = 0.1", "has no 'failure': perhaps failures is meant"),
        ("failures = 2", "failures = 2: expected a probability from 0 to below 1"),
        ("lost = 'sums'", "both_ways and lost are about failures"),
        ("networks = ['paper']\nturns = [[[0, 1]]]", "give one of them"),
        ("networks = 'paper'", "networks = 'paper': expected a list"),
        ("networks = ['ring']\nevery = 1.5", "every = 1.5: expected a whole number"),
        ("leaves = [[12, 3]]", "leaves or joins, learner = 12: expected one of the network's learners"),
        ("leaves = [[3, 0]]", "leaves or joins, round = 0: expected"),
        ("turns = []", r"turns = \[\]: expected a list of links for each turn"),
        ("networks = [3]", "expected the names or files of networks"),
        ("turns = [[[0]]]", r"expected pairs \[sender, receiver\]"),
        ("turns = [[[0, 5]]]", "the link 0→5, which the network has not"),
        ("leaves = [[3]]", r"expected pairs \[learner, round\]"),
        ("failures = ", "is not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_gets_one_sentence(tmp_path, text, says):
    with pytest.raises(gs.GossamerError, match=says) as error:
        read_schedule(written(tmp_path, text), lambda: PAPER, 10)
    assert "\n" not in str(error.value)
    assert "changes.toml" in str(error.value)
    with pytest.raises(gs.GossamerError, match="no schedule"):
        read_schedule(tmp_path / "absent.toml", lambda: PAPER, 10)


# -- the command -------------------------------------------------------------------------------------------------------

RUN = ("run", "mushrooms", "--algorithm", "push_pull", "--step", "0.3,0.6", "--noise", "0", "--steps", 30)


def test_a_run_over_a_network_that_changes_says_so_and_goes_on(gossamer, tmp_path):
    written(tmp_path, "failures = 0.2\nboth_ways = true\n")
    code, out, _ = gossamer(*RUN, "--sleep", 0.1, "--schedule", "changes.toml", "--seed", 4, "--out", "mine")
    assert code == 0
    assert "none of them is claimed" in " ".join(out.split())
    record = json.loads((tmp_path / "mine" / "record.json").read_text())
    changes = record["config"]["network"]["changes"]
    assert (changes["failures"], changes["both_ways"], changes["sleep"], changes["seed"]) == (0.2, True, 0.1, 4)
    assert gossamer("run", "--resume", "mine", "--steps", 40)[0] == 0
    assert json.loads((tmp_path / "mine" / "record.json").read_text())["t"] == 40
    written(tmp_path, "failures = 0.3\nboth_ways = true\n")
    code, _, err = gossamer("run", "--resume", "mine", "--steps", 50)
    assert code == 2
    assert "start anew" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "mushrooms", "--sleep", "0.1"], "use --algorithm push_pull"),
        ([*RUN, "--failures", "1"], "--failures 1: expected a probability from 0 to below 1"),
        ([*RUN, "--failures", "0.1", "--schedule", "changes.toml"], "says failures = 0.2 already; say it once"),
        ([*RUN, "--schedule", "absent.toml"], "no schedule absent.toml"),
        ([*RUN, "--graph", "changes.toml"], "give it as --schedule changes.toml"),
        (["run", "mushrooms", "--failures", "0.1", "--epsilon", "3", "--where", "messages"], "one network in all"),
        ([*RUN, "--failures", "0.1", "--engine", "mpi", "-n", "2"], "in one process: leave --engine mpi out"),
        (["tune", "mushrooms", "--failures", "0.1"], "--failures"),
        (["peers", "init", "run", "--graph", "changes.toml"], "says how a network changes"),
        (["compare", "own.toml"], "[network] failures is not for this command"),
        (["graph", "paper", "--largest-component"], "is for a network's file"),
        (["graph", "paper", "--sleep", "-1"], "--sleep"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_sentence(gossamer, tmp_path, words, says):
    written(tmp_path, "failures = 0.2\n")
    written(tmp_path, '[data]\ndataset = "mushrooms"\n[network]\nfailures = 0.1\n', "own.toml")
    code, _, err = gossamer(*words)
    assert code == 2
    assert says in " ".join(err.split())
    assert not (tmp_path / "gossamer-run").exists()


def test_graph_judges_a_network_that_changes(gossamer, tmp_path):
    written(tmp_path, f"turns = {[[list(link)] for link in RING]}\n")
    code, out, _ = gossamer("graph", "ring", "--learners", 6, "--schedule", "changes.toml", "--json", "net.json")
    assert code == 0
    told = json.loads((tmp_path / "net.json").read_text())
    assert told["worst_window"] == 6
    assert told["up"] == pytest.approx(1 / 6)
    assert "any 6 rounds in a row connect everybody (B = 6)." in " ".join(out.split())
    code, out, _ = gossamer("graph", "paper", "--failures", 0.1, "--rounds", 50)
    assert code == 0
    assert "so that no B is certain" in " ".join(out.split())
    assert "do not connect everybody" in gossamer("graph", "ring", "--learners", 6, "--schedule", "changes.toml",
                                                  "--rounds", 4)[1]  # fmt: skip


def test_check_says_that_theorems_are_about_one_network(gossamer):
    code, out, _ = gossamer("check", "mushrooms", "--step", "1,0.8", "--failures", "0.1", "--json")
    told = json.loads(out)
    assert code in (0, 1)
    assert all("on a network that changes" in one["why"] for one in told["theorems"])
