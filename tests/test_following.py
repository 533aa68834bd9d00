"""A simulation as its live page is told of it: all deltas together are the report's curves, and no ε comes too soon."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gossamer as gs
from gossamer.report.feed import Feed
from gossamer.report.live import starting_view
from gossamer.simulate.following import Follower


def simulated(callback, m=4, steps=60, tested=False, privacy=None, resume=None, **more):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(m, 60, 3))
    y = (X @ [2.0, -1.0, 0.5] > 0).astype(float)
    test = (X[0, :20], y[0, :20]) if tested else None
    return gs.simulate(
        gs.ldp_gradient_tracking(gs.decay(0.5, 0.8)), gs.Network.ring(m),
        gs.streams.from_arrays(X, y, ranges=(-1, 1), test=test), model=gs.LogisticRegression(l2=1e-2),
        privacy=privacy, steps=steps, callback=callback, resume=resume, evaluate_every=3, **more,
    )  # fmt: skip


def follow(every, **run):
    """The record of a run, and the view of whoever looked after so many rounds, again and again."""
    follower, feed = Follower(), Feed(dict(starting_view("run", "", "")))

    def look():
        delta = follower.take()
        if delta is not None:
            feed.push(delta)
        return delta

    def callback(progress):
        follower(progress)
        if progress.t % every == 0:
            look()

    record = simulated(callback, **run)
    while look() is not None:
        pass
    return record, json.loads(feed.whole().text)


@pytest.mark.parametrize("every", [1, 7, 1000])
@pytest.mark.parametrize("run", [{}, {"m": 14, "tested": True}, {"tested": True, "progressive": True}])
def test_all_that_is_told_is_what_the_report_draws(every, run):
    record, view = follow(every, **run)
    assert view["charts"] == json.loads(json.dumps(record.view()["charts"]))
    assert view["live"]["t"] == view["live"]["steps"] == 60
    assert view["facts"][0] == record.view()["facts"][0]
    assert view["table"] is None  # which is of the end


def test_a_run_that_goes_on_has_its_past_on_the_page():
    half = simulated(lambda progress: progress.t == 31)
    record, view = follow(7, resume=half)
    assert view["charts"] == json.loads(json.dumps(record.view()["charts"]))


def at_rounds(epsilon, rounds):
    """ε of these rounds alone: a page has it of more, where it stands still."""
    at = [epsilon["t"].index(t) for t in rounds]
    learners = [{**one, "y": [one["y"][k] for k in at]} for one in epsilon["learners"]]
    return {**epsilon, "t": list(rounds), "learners": learners}


def test_epsilon_is_told_for_rounds_that_are_done_and_ends_as_it_is_booked():
    told, follower = [], Follower()

    def callback(progress):
        follower(progress)
        delta = follower.take()
        more = (delta.get("view") or delta).get("epsilon")
        if more is not None:
            told.append((progress.t, more["t"]))

    privacy = gs.Gaussian.for_budget([1.0, 2.0, 3.0, 4.0], 1e-5, where="source")
    record, view = follow(5, privacy=privacy)
    known = view["epsilon"]
    assert at_rounds(known, record.view()["epsilon"]["t"]) == json.loads(json.dumps(record.view()["epsilon"]))
    assert view["facts"][-1]["value"] == "1 to 4"
    assert view["private"]
    simulated(callback, privacy=privacy)
    assert all(max(rounds) <= t for t, rounds in told)
    every = [t for _, rounds in told for t in rounds]
    assert every == sorted(set(every))
    assert set(every) >= set(known["t"])


def test_before_the_first_release_epsilon_is_nothing_up_to_the_round_that_is_done():
    follower, told, facts = Follower(), [], {}

    def callback(progress):
        follower(progress)
        delta = follower.take()
        shown = delta.get("view") or delta
        more = shown.get("epsilon")
        if more is not None:
            first = more["learners"][0]
            told.extend(zip(more["t"], first["y"] if isinstance(first, dict) else first, strict=True))
        if "facts" in shown:
            facts[progress.t] = shown["facts"][-1]

    releases = gs.every(5, after=40)
    simulated(callback, privacy=gs.Gaussian.for_budget(3.0, 1e-5, where="source", horizon=60, releases=releases))
    rounds = [t for t, _ in told]
    assert rounds == sorted(set(rounds))
    assert {t for t, _ in told} >= set(range(2, 41))
    assert [y for t, y in told if t <= 40] == [0] * len([t for t in rounds if t <= 40])
    assert all(y > 0 for t, y in told if t > 40)
    assert (facts[30]["name"], facts[30]["value"]) == ("ε by round 30", "0")
    assert (facts[60]["name"], facts[60]["value"]) == ("ε by round 60", "3")


def test_a_round_costs_the_run_next_to_nothing():
    """Not a record, nor a number: what is kept of a round is which one it is, and of an evaluation itself."""
    made = []
    follower = Follower()

    def callback(progress):
        follower(progress._replace(record=lambda: made.append(progress.t) or progress.record()))

    simulated(callback)
    assert made == [1]
