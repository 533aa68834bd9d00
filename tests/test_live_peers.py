"""Learners' processes on a live page: who is late, who was ended, and what is its owner's alone."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")
pytest.importorskip("starlette", reason="needs the extra `live`")

import gossamer as gs
from browsing import open_page, wait_for
from gossamer.cli import live, peers_up
from gossamer.peers.config import PrivacyPlan
from gossamer.peers.folders import learners_in
from gossamer.peers.following import Following
from gossamer.peers.standing import standings
from gossamer.report.server import Address
from test_processes import make

LIMIT = 300.0  # seconds, on a machine that is busy with other things
NOW = 1000.0


def status(i, state="running", **more):
    return {"folder": f"learner-{i}", "learner": i, "state": state, "round": 7, "updated": NOW, "pid": 100 + i, **more}


def test_who_waits_is_not_to_blame_and_who_is_waited_for_is():
    chain = [status(0, "waiting", waits_for=[1]), status(1, "waiting", waits_for=[2]), status(2), status(3)]
    found = standings(chain, now=NOW)
    assert [one["state"] for one in found] == ["waiting", "waiting", "late", "running"]
    assert found[0]["said"] == "waits for learner 1"
    assert found[2]["said"] == "learner 1 waits for it"


def test_a_learner_is_seen_as_soon_as_its_process_is_gone():
    killed = standings([status(0), status(1, life=2)], {"learner-0": 555, "learner-1": 101}, now=NOW)
    assert killed[0] == {"state": "stopped", "t": 7, "said": "was ended, and is started again"}
    assert killed[1] == {"state": "running", "t": 7, "said": "started 2 times"}
    gone = standings([status(0), status(1, "done")], {}, now=NOW)
    assert [(one["state"], one["said"]) for one in gone] == [("stopped", "was ended"), ("done", "")]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ({"folder": "learner-0", "state": "not started"}, ("waiting", "starting")),
        (status(0, "waiting for records"), ("waiting", "waiting for records")),
        (status(0, "waiting for records", file="a.csv"), ("waiting", "waiting for records in a.csv")),
        (status(0, updated=NOW - 9), ("late", "silent for 9 s")),
        (status(0, "done", updated=NOW - 9), ("done", "")),
        (status(0, "stopped", updated=NOW - 9), ("stopped", "in round 7")),
        (status(0, "failed", why="the disk is full."), ("failed", "the disk is full.")),
        (status(0, "waiting", differs={"1": "…"}, waits_for=[1]), ("waiting", "settings differ")),
        (status(0, "put out", differs={"1": "…"}, waits_for=[1]), ("waiting", "is told that it was put out")),
    ],
)
def test_what_is_said_of_a_learner(one, expected):
    (found,) = standings([one], now=NOW)
    assert (found["state"], found["said"]) == expected


@pytest.fixture
def told(tmp_path):
    """Three learners' folders, in which they have said how they stand: told(round, …) -> the run's folder."""
    make(tmp_path / "run", 50, gs.Network.ring(3), PrivacyPlan(epsilon=8.0), m=3)

    def write(t, **more):
        for i in range(3):
            about = status(i, updated=time.time(), steps=50, claim="private: noise", against="against all", budget=8.0)
            about |= {"round": t + i, "epsilon": [t / 10 + i, 8.0], "errors": {"loss": 0.5 + i, "accuracy": t / 100}}
            (tmp_path / "run" / f"learner-{i}" / "status.json").write_text(json.dumps(about | more.get(f"of_{i}", {})))
        return tmp_path / "run"

    return write


def test_points_are_of_the_round_that_all_have_reached_and_links_of_those_who_went_on(told):
    folder = told(3)
    following = Following(folder)
    assert [one["state"] for one in following.first_view()["live"]["learners"]] == ["unknown"] * 3
    view = following.take()["view"]
    assert view["claim"] == "Private: noise."
    score, loss = view["charts"]
    assert score["t"] == loss["t"] == view["epsilon"]["t"] == [3]
    assert [one["y"] for one in loss["series"]] == [[0.5], [1.5], [2.5]]
    assert [one["y"] for one in view["epsilon"]["learners"]] == [[0.3], [1.3], [2.3]]
    assert view["epsilon"]["budget"] == [8.0] * 3
    following.take()
    assert following.take() is None  # nothing is new
    told(3, of_2={"round": 9})
    delta = following.take()
    assert "charts" not in delta
    edges = view["network"]["edges"]
    assert {edges[k][1] for k in delta["messages"]} == {2}
    told(6)
    delta = following.take()
    assert delta["t"] == 6
    assert delta["charts"]["score"] == {"t": [6], "series": {f"learner {i}": [0.06] for i in range(3)}}
    assert delta["epsilon"] == {"t": [6], "learners": [[0.6], [1.6], [2.6]]}


def test_on_a_page_that_others_can_reach_own_figures_are_their_owners_choice(told):
    folder = told(3)
    config = folder / "learner-1" / "party.toml"
    config.write_text(config.read_text().replace("[party]\n", "[party]\nshow_errors = true\n"))
    following = Following(folder, own_errors=False)
    view = following.take()["view"]
    assert [one["name"] for one in view["charts"][0]["series"]] == ["learner 1"]
    assert "show_errors" in view["notes"][0]
    told(6)
    assert following.take()["charts"]["loss"]["series"] == {"learner 1": [1.5]}
    config.write_text(config.read_text().replace("show_errors = true\n", ""))
    assert Following(folder, own_errors=False).take()["view"]["charts"] == []


def test_a_partys_own_page_tells_nothing_of_the_others(told):
    folder = told(3, of_1={"state": "waiting", "waits_for": [0]})
    following = Following(folder / "learner-1")
    delta = following.take()
    assert [one["name"] for one in delta["view"]["charts"][0]["series"]] == ["learner 1"]
    assert [one["name"] for one in delta["view"]["epsilon"]["learners"]] == ["learner 1"]
    assert [one["state"] for one in delta["learners"]] == ["late", "waiting", "unknown"]
    assert delta["learners"][0] == {"state": "late", "t": None, "said": "this party waits for it"}


def test_a_partys_page_is_for_its_owner_on_a_shared_machine_too(told, gossamer, monkeypatch):
    """`gossamer peer run FOLDER --live` asks for its token on localhost; it has no option to listen elsewhere."""
    folder, said, seen = told(3), [], []

    def learn(plan, quiet):
        for address in (said[0].partition("?")[0], said[0]):
            try:
                with urllib.request.urlopen(address.removeprefix("Live: "), timeout=LIMIT) as answer:
                    seen.append(answer.status)
            except urllib.error.HTTPError as refused:
                seen.append(refused.code)
                refused.close()
        return 0

    monkeypatch.setattr(live, "say", said.append)
    monkeypatch.setattr("gossamer.peers.process.run_learner", learn)
    assert gossamer("peer", "run", folder / "learner-1", "--live")[0] == 0
    assert seen == [403, 200]
    assert said[0].startswith("Live: http://127.0.0.1:")
    assert gossamer("peer", "run", folder / "learner-1", "--live-at", "0.0.0.0:8000")[0] == 2


class Forked:
    """A learner's process as `peers up` has one, forked by the zygote: starting an interpreter takes seconds."""

    def __init__(self, zygote, place):
        self._zygote = zygote
        self.pid = zygote.ask(start=str(place), fault=None, tap=None, known=False)["pid"]

    def poll(self):
        return self._zygote.ask(poll=self.pid)["code"]

    def send_signal(self, number):
        os.kill(self.pid, number)

    def wait(self, seconds):
        until = time.monotonic() + LIMIT
        while self.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_a_learner_that_is_killed_is_seen_on_the_page_of_peers_up(tmp_path, browser, zygote, monkeypatch):
    make(tmp_path / "run", 3000, gs.Network.ring(3), m=3)
    state = "document.querySelector('#live li[data-learner=\"1\"]').dataset.state"
    started = []

    def start(fleet, place):
        if place in started:  # it was killed: nobody starts it again before the page has shown that
            wait_for(browser, f"{state} === 'stopped'", LIMIT)
        started.append(place)
        fleet._running[place] = Forked(zygote, place)

    monkeypatch.setattr(peers_up.Fleet, "_start", start)
    said = []
    monkeypatch.setattr(live, "say", said.append)
    fleet = peers_up.Fleet(learners_in(tmp_path / "run"), restarts=1)

    def until(condition):
        """Go on as `peers up` does until the page shows it."""
        last = time.monotonic() + LIMIT
        while not browser.execute_script(f"return {condition}"):
            assert fleet.look(), "all have ended"
            assert time.monotonic() < last, condition
            time.sleep(0.05)

    try:
        with peers_up._live(tmp_path / "run", fleet, live.Wanted(Address(), stay=False)):
            assert "?token=" in said[0]
            open_page(browser, said[0].removeprefix("Live: "))
            until(f"{state} === 'running' && gossamerLive.live.t > 0")
            os.kill(fleet.pids()["learner-1"], signal.SIGKILL)
            how = f"{state.removesuffix('.dataset.state')}.children[2].textContent"
            until(f"{how}.includes('started 2 times') && {state} === 'running'")
            assert len(started) == 4
            fleet.stop()
        wait_for(browser, "gossamerLive.live.ended")
        assert browser.execute_script(f"return {state}") == "stopped"
    finally:
        fleet.stop()
