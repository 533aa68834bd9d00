"""`gossamer run --live`: what it serves is what the record has, and what it refuses it refuses in a sentence."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request

import pytest

pytest.importorskip("starlette", reason="needs the extra `live`")
pytest.importorskip("uvicorn", reason="needs the extra `live`")

from gossamer.cli import live
from gossamer.report import server

LIMIT = 300.0  # seconds, on a machine that is busy with other things


@pytest.fixture
def reader(monkeypatch):
    """Reads the stream of the page whose address the command prints: reader.events, once reader.join() is done."""
    said = []

    class Reader(threading.Thread):
        def run(self):
            page, _, query = self.url.partition("?")
            with urllib.request.urlopen(f"{page}events?{query}", timeout=LIMIT) as stream:
                for line in stream:
                    if line.startswith(b"data: "):
                        self.events.append(json.loads(line[6:]))

    one = Reader()

    def say(line):
        said.append(line)
        if line.startswith("Live: "):
            one.url = line.removeprefix("Live: ")
            one.start()

    monkeypatch.setattr(live, "say", say)
    one.said, one.events = said, []
    return one


def test_a_page_gets_every_evaluation_and_at_the_end_the_report(gossamer, reader, tmp_path):
    words = ("--steps", "200", "--evaluate-every", "10", "--epsilon", "3", "--learners", "4")
    code, out, err = gossamer("run", "mushrooms", *words, "--live", "--json", "run.json")
    assert (code, len(reader.said)) == (0, 1), err
    reader.join(LIMIT)
    record = json.loads((tmp_path / "run.json").read_text())
    last = reader.events[-1]
    assert last["ended"]
    assert last["said"] == "The run has ended."
    assert last["view"]["live"]["steps"] == 200
    told = [point for event in reader.events for point in points_of(event)]
    assert sorted({t for t, _ in told}) == record["history"]["t"]
    exact = dict(zip(record["history"]["t"], record["history"]["accuracy"], strict=True))
    assert all(y == float(f"{exact[t]:.7g}") for t, y in told)
    assert [row[1] for row in last["view"]["table"]["rows"]] == [one["accuracy"] for one in record["learners"]]
    assert "Live" not in out
    with pytest.raises(urllib.error.URLError):  # it is over
        urllib.request.urlopen(reader.url, timeout=LIMIT)


def points_of(event):
    """(round, accuracy) of all points in an event, whole views included."""
    view = event.get("view") or event
    charts = view.get("charts") or {}
    for chart in charts if isinstance(charts, list) else [{"id": name, **more} for name, more in charts.items()]:
        if chart["id"] == "accuracy":
            series = chart["series"]
            y = series[0]["y"] if isinstance(series, list) else series["mean over the learners"]
            yield from zip(chart["t"], y, strict=True)


def test_the_page_of_ones_own_records_asks_for_a_token(gossamer, reader, own_csv):
    code, _, err = gossamer("run", "--csv", own_csv, "--target", "ill", "--steps", 20, "--live")
    assert code == 0, err
    assert "/?token=" in reader.url
    reader.join(LIMIT)
    assert reader.events[-1]["ended"]


def test_a_run_that_fails_says_so_on_its_page(gossamer, reader):
    code, _, err = gossamer(
        "run", "mushrooms", "--steps", "200", "--step", "1e9,0", "--no-strict", "--noise", "0", "--live"
    )
    assert code == 2
    reader.join(LIMIT)
    assert reader.events[-1]["failed"]
    assert reader.events[-1]["said"].removeprefix("The run has failed: ") in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--live-stay",), "--live-stay keeps the page of --live: give --live, too."),
        (("--live-at", "x"), "--live-at x: expected PORT or HOST:PORT"),
        (("--live", "--repeat", "2"), "leave --live out"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(gossamer, words, sentence):
    code, _, err = gossamer("run", "mushrooms", *words)
    assert code == 2
    assert sentence in err


def test_without_the_extra_a_sentence_says_what_to_install(gossamer, monkeypatch):
    monkeypatch.setattr(server.importlib.util, "find_spec", lambda name: None)
    code, _, err = gossamer("run", "mushrooms", "--live")
    assert (code, err) == (2, "gossamer: --live needs Starlette and uvicorn: install gossamer-learning[live].\n")
