"""The live page in a real browser: it ends with the record's numbers, whatever happened to its connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra `live`")
pytest.importorskip("uvicorn", reason="needs the extra `live`")

import gossamer as gs
from browsing import complaints, open_page, wait_for
from gossamer.report.feed import Feed
from gossamer.report.html import page
from gossamer.report.live import starting_view
from gossamer.report.server import Address, Server
from gossamer.simulate.following import Follower

LIMIT = 300.0  # seconds, on a machine that is busy with other things
CURVES = """Object.fromEntries([...gossamer.charts()].map(([id, chart]) =>
    [id, {t: chart.t, y: Object.fromEntries(chart.columns.map(column => [column.name, column.values]))}]))"""
ROWS = "[...document.querySelectorAll('#table tbody tr')].map(r => [...r.cells].map(c => c.dataset.value))"
SPENT = "[...document.querySelectorAll('.budgets tbody tr')].map(r => Number(r.cells[1].dataset.value))"


class Gates:
    """A run that waits at some rounds until it is let on."""

    def __init__(self, *rounds):
        self.at = {t: threading.Event() for t in rounds}
        self.on = {t: threading.Event() for t in rounds}

    def __call__(self, progress):
        if progress.t in self.at:
            self.at[progress.t].set()
            assert self.on[progress.t].wait(LIMIT)


class Cable:
    """A connection to a server that can be pulled out: all of it ends, and nothing gets through until it is back."""

    def __init__(self, port):
        self._port, self._open, self._whole = port, [], True
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                ours, _ = self._listening.accept()
            except OSError:
                return
            if not self._whole:
                ours.close()
                continue
            theirs = socket.create_connection(("127.0.0.1", self._port))
            self._open += [ours, theirs]
            for one, other in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            end.close()

    def cut(self):
        self._whole = False
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open = []

    def mend(self):
        self._whole = True

    def close(self):
        self.cut()
        self._listening.close()


def small_run(callback, steps, privacy=None):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4, steps, 3))
    y = (X @ [2.0, -1.0, 0.5] > 0).astype(float)
    return gs.simulate(
        gs.ldp_gradient_tracking(gs.decay(0.5, 0.8)), gs.Network.ring(4), gs.streams.from_arrays(X, y, ranges=(-1, 1)),
        model=gs.LogisticRegression(l2=1e-2), privacy=privacy, steps=steps, evaluate_every=1, callback=callback,
    )  # fmt: skip


@pytest.fixture
def followed(browser):
    """A run in a thread, with a page that follows it over a cable."""
    made = []

    def start(gates, steps, **more):
        follower = Follower(command="gossamer run")
        ended = {}

        def callback(progress):
            follower(progress)
            gates(progress)

        def run():
            ended["record"] = record = small_run(callback, steps, **more)
            server.close({"ended": True, "said": "over", "view": record.view()})

        feed = Feed(dict(starting_view("run", "a run", "preparing")))
        server = Server(feed, follower.take, lambda view: page(view, live=True), Address())
        cable = Cable(urlsplit(server.start()).port)
        running = threading.Thread(target=run)
        made.append((server, cable, gates, running))
        running.start()
        return f"http://localhost:{cable.port}/", cable, running, ended

    yield start
    for server, cable, gates, running in made:
        for gate in gates.on.values():
            gate.set()
        running.join(LIMIT)
        server.close()
        cable.close()


def as_shown(values):
    """Numbers as a page has them: to seven digits."""
    return [float(f"{value:.7g}") for value in values]


def test_reload_and_a_cut_connection_lose_nothing_and_the_end_is_the_records(browser, followed):
    gates = Gates(40, 80, 120)
    privacy = gs.Gaussian.for_budget([1.0, 2.0, 3.0, 4.0], 1e-5, where="source")
    url, cable, running, ended = followed(gates, 160, privacy=privacy)
    assert gates.at[40].wait(LIMIT)
    open_page(browser, url)
    wait_for(browser, "gossamerLive.live.t === 40 && gossamer.charts().get('accuracy').t.length === 41")
    assert browser.execute_script("return document.querySelector('#live').dataset.state") == "running"
    gates.on[40].set()
    assert gates.at[80].wait(LIMIT)
    open_page(browser, url)  # reloaded in the middle
    wait_for(browser, "gossamerLive.live.t === 80 && gossamer.charts().get('accuracy').t.length === 81")
    cable.cut()
    wait_for(browser, "document.querySelector('#live').dataset.state === 'lost'")
    gates.on[80].set()
    assert gates.at[120].wait(LIMIT)
    cable.mend()
    wait_for(browser, "gossamerLive.live.t === 120 && gossamer.charts().get('accuracy').t.length === 121")
    shown, spent = browser.execute_script(f"return [{CURVES}, document.querySelector('.budgets .after').textContent]")
    assert shown["accuracy"]["t"] == shown["errors"]["t"] == list(range(121))
    assert shown["epsilon"]["t"][-1] <= 120
    assert spent == f"spent by round {shown['epsilon']['t'][-1]}"
    gates.on[120].set()
    wait_for(browser, "gossamerLive.live.ended")
    running.join(LIMIT)
    record = ended["record"]
    assert shown["accuracy"]["y"]["mean over the learners"] == as_shown(record.history.accuracy[:121])
    assert shown["errors"]["y"]["excess loss F(θ) − F(θ*)"] == as_shown(record.history.optimality_gap[:121])
    final = browser.execute_script(f"return [{CURVES}, {ROWS}, {SPENT}]")
    assert final[0]["accuracy"]["y"]["mean over the learners"] == as_shown(record.history.accuracy)
    assert [float(row[1]) for row in final[1]] == record.learners.accuracy.tolist()
    assert final[2] == record.epsilon.spent.tolist()
    said = browser.execute_script("return document.querySelector('#live .state').textContent")
    assert said == "Ended"
    assert [text for text in complaints(browser) if "ERR_" not in text] == []  # a cut connection is said so


def test_messages_move_along_edges_unless_motion_is_unwanted(browser, followed):
    gates = Gates(10, 60)
    url, _, _, _ = followed(gates, 61)
    assert gates.at[10].wait(LIMIT)
    still = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    open_page(browser, url)
    gates.on[10].set()
    wait_for(browser, "gossamerLive.messages > 0 || gossamerLive.live.t === 60")
    wait_for(browser, "gossamerLive.live.t === 60")
    moved = browser.execute_script("return document.querySelectorAll('.network .link[data-edge]').length")
    assert moved == 4
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": still})
    wait_for(browser, "gossamerLive.messages === 0")
    browser.execute_script("gossamerLive.carry('all')")
    assert browser.execute_script("return gossamerLive.messages") == 0
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.execute_script("gossamerLive.carry('all')")
    assert browser.execute_script("return gossamerLive.messages") == 4
    wait_for(browser, "document.querySelectorAll('.network .message').length === 0")


def test_a_hundred_thousand_points_stay_smooth(browser):
    """Ten curves of ten thousand points, to which more come five times a second."""
    names, length = [f"learner {i}" for i in range(10)], 10_000
    rng = np.random.default_rng(0)
    curves = np.cumsum(rng.normal(size=(10, length + 1000)), axis=1).round(3)
    view = starting_view("run", "many points", "", t=length, steps=2 * length, seconds=0.0)
    series = [{"name": n, "y": y[:length].tolist(), "group": "learner"} for n, y in zip(names, curves, strict=True)]
    view["charts"] = [{"id": "score", "title": "Score", "unit": "", "log": False, "t": list(range(length)), "lines": [],
                       "series": series}]  # fmt: skip
    at = length

    def take():
        nonlocal at
        if at >= length + 1000:
            return None
        new = slice(at, at + 50)
        at += 50
        more = {
            "t": list(range(length + 1000))[new],
            "series": {n: y[new].tolist() for n, y in zip(names, curves, strict=True)},
        }
        return {"t": at, "seconds": at / 250, "charts": {"score": more}}

    server = Server(Feed(dict(view)), take, lambda shown: page(shown, live=True), Address())
    try:
        open_page(browser, server.start())
        browser.execute_script(
            "window.frames_ = []; let last = performance.now();"
            "const look = (now) => { frames_.push(now - last); last = now; requestAnimationFrame(look); };"
            "requestAnimationFrame(look);"
        )
        wait_for(browser, f"gossamer.charts().get('score').t.length === {length + 1000}")
        frames = browser.execute_script("return frames_")
    finally:
        server.close()
    assert len(frames) > 20
    assert np.median(frames) < 200, sorted(frames)[-10:]  # milliseconds; 17 with nobody beside
    assert np.mean(np.array(frames) > 1000) < 0.05, sorted(frames)[-10:]
