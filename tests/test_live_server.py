"""The live page's feed and server, without a browser: nothing is lost, nothing is changed, nobody else reads it."""

from __future__ import annotations

import copy
import http.client
import json
import os
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="needs the extra `live`")
pytest.importorskip("uvicorn", reason="needs the extra `live`")

from gossamer.errors import GossamerError
from gossamer.report import connections, server
from gossamer.report.feed import Feed
from gossamer.report.server import Address, Server, parse_address

LIMIT = 120.0  # seconds, on a machine that is busy with other things
ANYWHERE = Address()


def view():
    """Two curves of one chart, one budget, two learners."""
    return {
        "charts": [{"id": "score", "t": [0], "series": [{"name": "mean", "y": [0.5]}, {"name": "a", "y": [None]}]}],
        "epsilon": {"t": [0], "learners": [{"name": "a", "y": [0.0]}, {"name": "b", "y": [0.0]}]},
        "live": {"t": 0, "steps": 100, "learners": [{"name": "a", "state": "waiting"}, {"name": "b", "state": "late"}]},
    }


def delta(t, **more):
    return {
        "t": t,
        "charts": {"score": {"t": [t], "series": {"mean": [t / 7], "a": [None]}}},
        "epsilon": {"t": [t], "learners": [[t / 3], [t / 9]]},
        "learners": [{"state": "running", "t": t, "said": ""}, {"state": "running", "t": t, "said": "again"}],
        "messages": [0],
        **more,
    }


def followed(events):
    """What a page has of it all: the whole view, then every delta in turn, each once."""
    seen = None
    for event in events:
        content = json.loads(event.text)
        if event.kind == "view":
            seen = content
            continue
        chart, more = seen["charts"][0], content["charts"]["score"]
        chart["t"] += more["t"]
        for series in chart["series"]:
            series["y"] += more["series"][series["name"]]
        seen["epsilon"]["t"] += content["epsilon"]["t"]
        for learner, y in zip(seen["epsilon"]["learners"], content["epsilon"]["learners"], strict=True):
            learner["y"] += y
    return seen


def test_whenever_a_page_comes_back_it_has_every_point_once():
    feed = Feed(view(), kept=5)
    last = dict.fromkeys((1, 2, 5, 6, 30))  # pages that look again after so many deltas
    seen = {away: [] for away in last}
    for t in range(1, 61):
        feed.push(delta(t))
        for away in last:
            if t % away == 0:
                new = feed.after(last[away])
                assert len(new) == (1 if last[away] is None or away > 5 else away)
                seen[away] += new
                last[away] = new[-1].id
    expected = json.loads(feed.after(None)[0].text)
    assert expected["charts"][0]["t"] == list(range(61))
    assert expected["charts"][0]["series"][0]["y"] == [0.5, *(t / 7 for t in range(1, 61))]
    for away in last:
        known = followed(seen[away])
        assert known["charts"] == expected["charts"], away
        assert known["epsilon"] == expected["epsilon"], away
        assert feed.after(last[away]) == []


def test_the_id_of_another_feed_gets_the_whole_view():
    one, other = Feed(view()), Feed(view())
    for t in (1, 2):
        one.push(delta(t))
        other.push(delta(t))
    long = f"{other.after(None)[0].id.partition('.')[0]}.{'9' * 5000}"  # which Python would not read
    for strange in (one.after(None)[0].id, "", "x", "1", f"{other.after(None)[0].id}0", "é.²", long):
        assert [event.kind for event in other.after(strange)] == ["view"]


def test_what_learners_were_called_stays_and_how_they_stand_is_the_newest():
    feed = Feed(view())
    feed.push(delta(4))
    live = json.loads(feed.after(None)[0].text)["live"]
    assert live["learners"][1] == {"name": "b", "state": "running", "t": 4, "said": "again"}
    assert (live["t"], live["steps"], live["seq"]) == (4, 100, 1)


def test_nothing_comes_after_the_end_and_the_last_view_is_the_whole():
    feed = Feed(view())
    final = view() | {"title": "ended"}
    feed.push(delta(1))
    feed.push({"t": 2, "ended": True, "view": copy.deepcopy(final)})
    feed.push(delta(3))
    whole = feed.after(None)[0]
    assert whole.ended
    shown = json.loads(whole.text)
    assert shown["title"] == "ended"
    assert shown["charts"] == final["charts"]
    assert shown["live"]["ended"]
    assert feed.ended


def test_threads_may_push_and_read_at_once():
    feed, events = Feed(view(), kept=50), []

    def read():
        last = None
        while True:
            for event in feed.after(last):
                events.append(event)
                last = event.id
                if event.ended:
                    return

    reader = threading.Thread(target=read)
    reader.start()
    for t in range(1, 400):
        feed.push(delta(t))
    feed.push(delta(400, ended=True))
    reader.join(LIMIT)
    assert followed(events)["charts"][0]["t"] == list(range(401))


@pytest.fixture
def serve():
    """Starts servers, which end with the test: serve(…) -> Server."""
    made = []

    def start(feed=None, take=lambda: None, at=ANYWHERE, **more):
        one = Server(feed or Feed(view()), take, lambda shown: f"<p>{shown['live']['t']}</p>", at, **more)
        one.start()
        made.append(one)
        return one

    yield start
    for one in made:
        one.close()


def ask(one, path="/", method="GET", **headers):
    """(status, headers, body) of one request."""
    where = urlsplit(one.url)
    connection = http.client.HTTPConnection("127.0.0.1", where.port, timeout=LIMIT)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


class Stream:
    """An open stream of events."""

    def __init__(self, one, query="", **headers):
        self._connection = http.client.HTTPConnection("127.0.0.1", urlsplit(one.url).port, timeout=LIMIT)
        self._connection.request("GET", f"/events{query}", headers=headers)
        self.answer = self._connection.getresponse()

    def next(self):
        """The next event as {field: value}; None at the stream's end."""
        fields = {}
        while line := self.answer.readline().decode():
            if line == "\n" and "data" in fields:
                return fields
            name, _, value = line.rstrip("\n").partition(":")
            fields[name] = value.lstrip()
        return None

    def close(self):
        self.answer.close()
        self._connection.close()


def test_the_page_is_shown_and_says_what_a_browser_may_do_with_it(serve):
    one = serve()
    assert one.token is None
    status, headers, body = ask(one)
    assert (status, body) == (200, "<p>0</p>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert not [name for name in headers if name.lower().startswith("access-control")]


def test_it_can_only_be_read(serve):
    one = serve()
    assert {ask(one, method=method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH")} == {405}
    assert {ask(one, path)[0] for path in ("/view", "/events/1", "/../etc/passwd", "/docs")} == {404}


def test_another_name_for_this_machine_is_refused(serve):
    """A web page whose own name is made to lead here (DNS rebinding) reads nothing; a tunnel may have any port."""
    one = serve()
    for name in ("evil.example", "evil.example:7373", "127.0.0.1.evil.example", "localhost.", "", "[::2]"):
        for path in ("/", "/events"):
            status, headers, body = ask(one, path, Host=name)
            assert status == 403, name
            assert "localhost" in body
            assert headers["X-Content-Type-Options"] == "nosniff"
    for name in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:9"):
        assert ask(one, Host=name)[0] == 200, name


def test_a_token_is_asked_for_beyond_this_machine_and_where_figures_are_private(serve):
    wide, here = serve(at=Address("0.0.0.0", None)), serve(secret=True)
    assert wide.token != here.token
    for one in (wide, here):
        token = urlsplit(one.url).query
        assert token.startswith("token=")
        assert len(token) > 30
        assert ask(one, f"/?{token}")[0] == 200
        wrong = ("", "?token=", f"?{token}x", f"?{token[:-1]}", "?token=%ff")
        for path in ("/", "/events"):
            for query in wrong:
                status, _, body = ask(one, path + query)
                assert status == 403
                assert "token" in body


@pytest.fixture
def listen():
    """Opens streams, which end with the test."""
    made = []

    def start(*args, **headers):
        made.append(Stream(*args, **headers))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_a_stream_brings_deltas_and_ends_with_the_run(serve, listen):
    waiting = [delta(t) for t in (1, 2, 3)]
    feed = Feed(view())
    one = serve(feed, lambda: waiting.pop(0) if waiting else None)
    stream = listen(one)
    assert stream.answer.headers["Content-Type"].startswith("text/event-stream")
    first = stream.next()
    assert first["event"] == "view"
    t = json.loads(first["data"])["live"]["t"]
    while t < 3:
        event = stream.next()
        assert event["event"] == "delta"
        assert json.loads(event["data"])["t"] == t + 1
        t += 1
    last = stream_last(stream, lambda: one.close({"t": 4, "ended": True, "said": "done"}))
    assert json.loads(last["data"])["said"] == "done"
    assert stream.next() is None


def stream_last(stream, close):
    """Close, and take what comes meanwhile: closing waits for those who listen."""
    closing = threading.Thread(target=close)
    closing.start()
    last = stream.next()
    closing.join(LIMIT)
    return last


def test_a_stream_goes_on_after_the_event_that_was_seen_last(serve, listen):
    feed = Feed(view())
    one = serve(feed)
    for t in (1, 2, 3):
        feed.push(delta(t))
    newest = feed.after(None)[0].id
    seen = f"{newest.partition('.')[0]}.1"
    for stream in (listen(one, f"?after={seen}"), listen(one, **{"Last-Event-ID": seen})):
        events = [stream.next(), stream.next()]
        assert [json.loads(event["data"])["t"] for event in events] == [2, 3]
        assert events[-1]["id"] == newest


def test_a_page_hears_that_the_connection_stands_and_streams_are_limited(serve, listen, monkeypatch):
    monkeypatch.setattr(server, "BEAT", 0.01)
    monkeypatch.setattr(server, "STREAMS", 2)
    one = serve()
    streams = [listen(one), listen(one)]
    for stream in streams:
        assert [stream.next()["event"] for _ in range(3)] == ["view", "beat", "beat"]
    assert ask(one, "/events")[0] == 503
    streams[0].close()
    until = time.monotonic() + LIMIT
    while listen(one).answer.status != 200:  # until the server has noticed
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_page_that_went_away_does_not_hold_up_the_end(serve, listen, monkeypatch):
    monkeypatch.setattr(server, "PATIENCE", 600.0)  # would be waited for in vain
    one = serve()
    gone = listen(one)
    gone.next()
    gone.close()
    one.close({"t": 1, "ended": True})
    assert not [thread for thread in threading.enumerate() if thread.name == "live page" and thread is one._thread]


def half_asked(one, count):
    """So many connections that begin a request and leave it there."""
    made = []
    for _ in range(count):
        made.append(socket.create_connection(("127.0.0.1", urlsplit(one.url).port), timeout=LIMIT))
        made[-1].sendall(b"GET / HT")
    return made


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="NOT TESTED: open descriptors, without /proc here")
def test_connections_that_ask_for_nothing_take_few_descriptors_and_nobodys_place(serve, listen):
    one = serve()
    stream = listen(one)
    stream.next()
    before = descriptors()
    idle = half_asked(one, 200)
    try:
        assert ask(one)[0] == 200, "the page still answers"
        until = time.monotonic() + LIMIT
        while descriptors() - before - len(idle) > connections.MOST:  # the server's share
            assert time.monotonic() < until
            time.sleep(0.02)
        one.push(delta(1))
        while (event := stream.next())["event"] == "beat":
            pass
        assert event["event"] == "delta", "and a page that is open stays"
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_who_does_not_ask_in_time_is_closed_also_after_a_first_request(serve, monkeypatch, first):
    monkeypatch.setattr(connections, "PATIENCE", 0.3)
    one = serve()
    with socket.create_connection(("127.0.0.1", urlsplit(one.url).port), timeout=LIMIT) as connection:
        connection.sendall(first)
        assert not first or connection.recv(9) == b"HTTP/1.1 "
        connection.sendall(b"GET / HT")
        try:
            while connection.recv(4096):
                pass
        except ConnectionResetError:
            pass  # which is an end, too


def test_a_page_that_cannot_be_served_is_refused_in_a_sentence(serve, monkeypatch):
    def fail(serving):
        serving.close()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(server.asyncio, "run", fail)
    with pytest.raises(GossamerError, match="leave --live out"):
        serve()


def test_a_mistake_in_following_ends_the_page_and_not_the_run(serve, listen):
    def take():
        raise ValueError("no such column")

    stream = listen(serve(take=take))
    event = stream.next()
    assert "no such column" in json.loads(event["data"]).get("live", json.loads(event["data"]))["said"]


def test_a_port_that_is_taken_is_refused_in_a_sentence_and_the_usual_ones_give_way(serve):
    one = serve()
    port = urlsplit(one.url).port
    with pytest.raises(GossamerError, match=rf"127\.0\.0\.1:{port} .*--live-at"):
        serve(at=Address(port=port))
    assert urlsplit(serve().url).port != port


def test_addresses():
    assert parse_address("8000", "--live-at") == ("127.0.0.1", 8000)
    assert parse_address("[::1]:80", "--live-at") == ("::1", 80)
    assert parse_address("example.org:80", "--live-at") == ("example.org", 80)
    for wrong in ("", "x", "0", "65536", ":80", "a:b", "1.5", "²"):
        with pytest.raises(GossamerError, match="expected PORT or HOST:PORT"):
            parse_address(wrong, "--live-at")
    local = {"127.0.0.1": True, "::1": True, "localhost": True, "127.9.9.9": True, "0.0.0.0": False, "10.0.0.1": False}
    assert {host: Address(host).local for host in local} == local
    assert not Address("example.org").local


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(server.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GossamerError, match=r"gossamer-learning\[live\]"):
        Server(Feed(view()), lambda: None, str, Address())
