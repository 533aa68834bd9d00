"""The comparison with other software compares like with like, and says why it leaves something out."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def gradient(given, theta):
    """∇ of the mean over learners of mean log(1 + exp(a'θ)) − b a'θ + l2/2 ‖θ‖², record by record."""
    g = np.zeros_like(theta)
    for A, b in zip(given.X, given.y, strict=True):
        for a, label in zip(A, b, strict=True):
            g += (1 / (1 + np.exp(-a @ theta)) - label) * a / len(b)
    return g / len(given.X) + given.l2 * theta


def test_the_optimum_is_where_the_gradient_vanishes():
    from tracking import problem

    given = problem(gs.Network.ring(3))
    assert np.abs(gradient(given, given.optimum)).max() < 1e-15
    assert np.abs(gradient(given, given.optimum * 1.001)).max() > 1e-7


@pytest.mark.parametrize("name", ["algorithm_1", "push_pull"])
def test_our_methods_end_at_the_optimum_on_the_networks_that_are_compared(name):
    import tracking

    for net in (tracking.both_ways(gs.Network.paper()), gs.Network.paper_one_way(), gs.Network.ring(2)):
        given = tracking.problem(net)
        run = getattr(tracking, name)(given)
        given.check(name, run.theta)
        assert run.seconds > 0


def test_links_used_both_ways_have_metropolis_weights():
    from tracking import both_ways

    net = both_ways(gs.Network.paper())
    linked = np.asarray(gs.Network.paper().R) > 0
    linked |= linked.T
    degrees = linked.sum(axis=1)
    W = np.where(linked, 1 / (1 + np.maximum.outer(degrees, degrees)), 0.0)
    W -= np.diag(W.sum(axis=1))
    np.testing.assert_allclose(np.asarray(net.R), W, atol=1e-15)
    np.testing.assert_allclose(np.asarray(net.C), W, atol=1e-15)


def test_a_run_that_ends_elsewhere_has_no_row():
    from other_software import in_turns
    from tracking import NotTheSameProblem, Run, algorithm_1, problem

    given = problem(gs.Network.ring(3))
    there = np.tile(given.optimum, (3, 1))
    in_turns({"there": (given, lambda _: Run(1.0, there))}, 1)
    off = there.copy()
    off[2] *= 1 + 1e-7
    with pytest.raises(NotTheSameProblem, match=r"theirs ended .* from θ\*"):
        in_turns({"theirs": (given, lambda _: Run(1.0, off))}, 1)
    with pytest.raises(NotTheSameProblem, match="shape"):
        in_turns({"theirs": (given, lambda _: Run(1.0, off[:2]))}, 1)
    another = replace(given, l2=2 * given.l2)  # solved well, but not what was given
    with pytest.raises(NotTheSameProblem, match="theirs"):
        in_turns({"theirs": (given, lambda _: algorithm_1(another))}, 1)


def test_the_loop_written_by_hand_has_our_numbers():
    from other_software import against_a_loop

    (row, _) = against_a_loop(1)  # it compares the parameters, to 1e-10
    assert "×" in row[1]


def test_ratios_are_taken_turn_by_turn():
    from other_software import ratio

    assert ratio([2.0, 9.0, 40.0], [1.0, 3.0, 10.0]) == "3 × (2 to 4)"


def test_what_pip_says_becomes_one_sentence():
    from environments import reason

    assert reason("Collecting x\nERROR: No matching distribution found for x==1\n") == (
        "No matching distribution found for x==1."
    )
    versions = (
        "ERROR: Ignored the following versions that require a different python version: 0.3.0 Requires-Python >=3.13\n"
        "ERROR: No matching distribution found for decent-bench==0.3.0"
    )
    assert reason(versions).endswith("decent-bench==0.3.0: it asks for Python >=3.13, and none is on the PATH.")
    assert reason("") == "it said nothing."


def test_what_cannot_be_installed_is_skipped_with_its_reason(tmp_path, monkeypatch):
    import other_software
    from environments import Environment

    missing = tmp_path / "disropt-0-py3-none-any.whl"
    monkeypatch.setattr(other_software, "DISROPT", Environment("disropt", (str(missing),)))
    monkeypatch.setattr(Environment.python, "__defaults__", (tmp_path / "kept",))
    ((_, result, asked),) = other_software.against_disropt(1)
    assert result.startswith("skipped: disropt cannot be installed: ")
    assert missing.name in result
    assert asked == "≥ 3 ×"


def test_what_cannot_be_run_is_skipped_with_its_last_words(tmp_path):
    from environments import Skipped
    from other_software import waiting

    broken = [sys.executable, "-c", "raise ImportError('no array library')"]
    with (
        pytest.raises(Skipped, match="theirs cannot be run: ImportError: no array library"),
        waiting("theirs", broken, tmp_path),
    ):
        pass


def test_a_stand_in_for_an_interpreter_is_not_taken(tmp_path, monkeypatch):
    from environments import interpreter_of

    least = sys.version_info[0], sys.version_info[1] + 1
    stand_in = tmp_path / f"python{least[0]}.{least[1]}"
    stand_in.write_text("#!/bin/sh\nexit 127\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    assert interpreter_of(least) == sys.executable
    stand_in.write_text("#!/bin/sh\nexit 0\n")
    assert interpreter_of(least) == os.fspath(stand_in)
    assert interpreter_of((3, 0)) == sys.executable
