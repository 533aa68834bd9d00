"""Edge lists as others publish them: any ids, comments, links given again, the largest component, and quickly."""

from __future__ import annotations

import gzip
import json
import time

import numpy as np
import pytest

import gossamer as gs
from gossamer.networks import read_network
from gossamer.networks.checks import BrokenNetwork
from gossamer.networks.files import read_graph


def write(folder, text, name="edges.txt"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_ids_are_learners_in_ascending_order_and_what_is_given_again_is_left_out(tmp_path):
    path = write(
        tmp_path,
        "# Directed graph (each unordered pair of nodes is saved once)\n# FromNodeId\tToNodeId\n"
        "30\t7\n7\t1412\n\n1412\t30  # and back\n30 7\n7\t7\n 7 , 30\n",
    )
    graph = read_graph(path)
    assert graph.ids.tolist() == [7, 30, 1412]
    assert (graph.given, graph.again, graph.own) == (3, 1, 1)
    assert sorted(graph.network.edges()) == [(0, 1, 0.25), (0, 2, 0.25), (1, 0, 0.25), (2, 1, 0.25)]


def test_ids_may_be_as_large_as_they_like(tmp_path):
    for least, most in ((0, 999_999_999), (-(2**63), 2**63 - 1)):
        graph = read_graph(write(tmp_path, f"{least} {most}\n{most} {least}\n"))
        assert graph.ids.tolist() == [least, most]
    assert read_graph(write(tmp_path, f"0 {2**64}\n{2**64} 0\n")).ids.tolist() == ["0", str(2**64)]


def test_ids_may_be_texts(tmp_path):
    graph = read_graph(write(tmp_path, "zürich oslo\noslo rom\nrom zürich\n"))
    assert graph.ids.tolist() == ["oslo", "rom", "zürich"]
    assert sorted(graph.network.edges()) == [(0, 1, 0.25), (1, 2, 0.25), (2, 0, 0.25)]


@pytest.mark.parametrize(("one", "other"), [("1_11", "11_1"), ("01", "1"), ("+1", "1"), ("-0", "0"), ("١", "1")])
def test_ids_that_are_written_otherwise_are_other_learners(tmp_path, one, other):
    """Python reads each pair as the same number."""
    assert int(one) == int(other)
    text = "".join(f"{a} {b}\n" for a, b in [(one, "x"), ("x", other), (other, one)])
    assert sorted(read_graph(write(tmp_path, text)).ids.tolist()) == sorted([one, other, "x"])
    numbers = "".join(f"{a} {b}\n" for a, b in [(one, 7), (7, other), (other, one)])
    assert read_graph(write(tmp_path, numbers)).network.m == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 1 nan\n1 0\n", r"line 1: \['0', '1', 'nan'\], expected 'sender receiver \[weight\]'"),
        (f"{'a' * 3000} b\nb c\n", "an id of 3000 characters"),
        ("0 1\n", "learner 0 receives nothing"),
    ],
)
def test_what_is_no_list_is_refused_in_a_sentence(tmp_path, text, says):
    with pytest.raises(gs.GossamerError, match=says) as refused:
        read_graph(write(tmp_path, text))
    assert "the 1 learners" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text"), [("list.txt", "# a\n0 1\n1 0\n"), ("list.json", '{"edges": [[0, 1], [1, 0]]}')]
)
def test_a_packed_file_is_read_as_it_is_unpacked(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_graph(packed).network.edges() == read_graph(tmp_path / name).network.edges()
    for broken in (packed.read_bytes()[:-9], text.encode(), packed.read_bytes()[:12] + b"\xff" * 20):
        packed.write_bytes(broken)
        with pytest.raises(gs.GossamerError, match="cannot be read"):
            read_graph(packed)


def test_numbers_without_gaps_are_the_learners_themselves(tmp_path):
    edges = [(j, i) for j, i, _ in gs.Network.paper().edges()]
    path = write(tmp_path, "".join(f"{j} {i}\n" for j, i in edges))
    assert read_network(str(path)).fingerprint == gs.Network.paper().fingerprint


def test_who_hears_many_takes_less_of_each_where_no_weight_is_given(tmp_path):
    path = write(tmp_path, "".join(f"{j} {i}\n" for i in range(6) for j in range(6) if i != j))
    np.testing.assert_allclose(np.asarray(read_network(str(path)).R), (np.ones((6, 6)) - 6 * np.eye(6)) / 6)


def test_with_weights_a_list_is_taken_at_its_word(tmp_path):
    path = write(tmp_path, "0 1 0.5\n1 0\n")
    assert sorted(read_network(str(path)).edges()) == [(0, 1, 0.5), (1, 0, 0.25)]
    for text, says in (("0 1 0.5\n1 0\n0 1 0.1\n", "0→1 is given twice"), ("0 0 0.5\n0 1\n1 0\n", "no link to itself")):
        with pytest.raises(gs.GossamerError, match=says):
            read_network(str(write(tmp_path, text)))


TAILS = "a b\nb c\nc a\nc d\nd e\ne d\nx a\n"


def test_the_largest_component_is_kept_where_asked_and_named_where_not(tmp_path):
    path = write(tmp_path, TAILS)
    with pytest.raises(
        BrokenNetwork, match=r"edge such as a→[dx], or keep the 3 learners of the .* with largest=True\.$"
    ) as error:
        read_network(str(path))
    assert error.value.R.shape == (6, 6), "which `gossamer check` judges"
    graph = read_graph(path, largest=True)
    assert graph.ids.tolist() == ["a", "b", "c"]
    assert graph.given == 6
    assert sorted(graph.network.edges()) == [(0, 1, 0.25), (1, 2, 0.25), (2, 0, 0.25)]
    weighted = read_graph(write(tmp_path, "a b .3\nb c .2\nc a .1\nc d .4\n"), largest=True)
    assert sorted(weighted.network.edges()) == [(0, 1, 0.3), (1, 2, 0.2), (2, 0, 0.1)]
    with pytest.raises(gs.GossamerError, match="no two of its 3 learners reach one another"):
        read_graph(write(tmp_path, "a b\nb c\n"), largest=True)
    with pytest.raises(gs.GossamerError, match="is no edge list"):
        read_graph(write(tmp_path, json.dumps({"edges": [[0, 1], [1, 0]]}), "net.json"), largest=True)


def scale_free(m, edges, seed=0):
    """Links whose ends are chosen by a power law, as (sender, receiver) ids with gaps."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(m) * 7 + 13
    ranks = (rng.pareto(1.2, size=(edges, 2)) * m / 50).astype(int) % m
    return ids[ranks]


def reached(start, next_of):
    seen, open_ = {start}, [start]
    while open_:
        for other in next_of.get(open_.pop(), ()):
            if other not in seen:
                seen.add(other)
                open_.append(other)
    return seen


def test_a_hundred_thousand_links_are_read_in_seconds_and_rightly(tmp_path):
    """A directed graph as SNAP has them, against a small reference written with dictionaries and sets."""
    pairs = scale_free(30_000, 100_000)
    path = write(tmp_path, "# FromNodeId\tToNodeId\n" + "\n".join(f"{j}\t{i}" for j, i in pairs.tolist()))
    began = time.process_time()
    graph = read_graph(path, largest=True)
    took = time.process_time() - began
    assert took < 10, "0.4 s on a quiet machine; the bound is generous"

    links = {(int(j), int(i)) for j, i in pairs if j != i}
    out, back = {}, {}
    for j, i in links:
        out.setdefault(j, []).append(i)
        back.setdefault(i, []).append(j)
    hub = max(out, key=lambda node: len(out[node]))
    kept = sorted(reached(hub, out) & reached(hub, back))  # the component of the busiest, which is the largest
    assert len(kept) > 1000
    assert graph.ids.tolist() == kept
    assert graph.given == len({int(one) for pair in pairs for one in pair})
    number = {node: k for k, node in enumerate(kept)}
    inner = [(number[j], number[i]) for j, i in links if j in number and i in number]
    heard = np.bincount([i for _, i in inner])
    expected = {(j, i): min(0.25, 1 / (heard[i] + 1)) for j, i in inner}
    found = {(j, i): w for j, i, w in graph.network.edges()}
    assert found.keys() == expected.keys()
    assert max(abs(found[link] - expected[link]) for link in found) < 1e-15


def test_the_command_reads_them(gossamer, tmp_path):
    write(tmp_path, TAILS)
    code, out, _ = gossamer("graph", "edges.txt", "--largest-component")
    assert code == 0
    assert "3 learners, 3 links" in out
    assert "Left out: 3 learners outside of the largest component." in out
    assert "0 (a)" in out
    code, _, err = gossamer("graph", "edges.txt")
    assert code == 2
    assert "learner x cannot be reached from learner a; add an edge such as a→x, or keep" in err
    csv = "".join(f"{i / 30},{i % 2}\n" for i in range(30))
    (tmp_path / "rows.csv").write_text("x,y\n" + csv)
    words = ["run", "--csv", "rows.csv", "--target", "y", "--graph", "edges.txt", "--steps", 5, "--json", "out.json"]
    assert gossamer(*words)[0] == 2
    assert gossamer(*words, "--largest-component")[0] == 0
    assert json.loads((tmp_path / "out.json").read_text())["config"]["network"]["learners"] == 3
    assert gossamer("run", "mushrooms", "--largest-component")[0] == 2
