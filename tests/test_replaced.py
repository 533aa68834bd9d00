"""A followed file that is replaced or written anew while it is followed is refused; one that grows is not."""

from __future__ import annotations

import os
import threading
import time

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers import replaced
from gossamer.peers.config import RecordsPlan
from gossamer.peers.feed import Records
from gossamer.peers.replaced import digest_of
from test_operations import edit, wait_until
from test_processes import LIMIT, make

SCHEMA = RecordsPlan(target="y", classes=("0", "1"), ranges={"x": (0.0, 9.0)}).schema()
HEAD, SOME = "x,y\n", "".join(f"{k % 9},{k % 2}\n" for k in range(3000))


@pytest.fixture
def followed(tmp_path):
    path = tmp_path / "records.csv"
    path.write_text(HEAD + SOME)
    feed = Records(path, "csv", SCHEMA, 10, follow=True)
    feed.check()
    assert len(feed) == 3000
    return path, feed


def swap(path, text):
    """Another file in its place, as editors and copying programs do it."""
    fresh = path.with_name("fresh")
    fresh.write_text(text)
    os.replace(fresh, path)


def test_a_file_that_grows_is_read_on(followed):
    path, feed = followed
    for _ in range(3):
        with path.open("a") as file:
            file.write("1,0\n")
        feed.check()
        feed.poll()
    assert len(feed) == 3003


def test_another_file_that_begins_with_the_same_bytes_is_the_same(followed):
    path, feed = followed
    swap(path, HEAD + SOME + "1,0\n")
    feed.check()
    feed.poll()
    assert len(feed) == 3001


@pytest.mark.parametrize("at", [1, 1500, 2998])
def test_another_file_with_one_other_record_is_refused(followed, at):
    path, feed = followed
    lines = SOME.splitlines()
    lines[at] = "7,1" if lines[at] != "7,1" else "6,1"
    swap(path, HEAD + "\n".join(lines) + "\n1,0\n")
    with pytest.raises(gs.GossamerError, match=r"anew: its first \d+ bytes, which were used, are o"):
        feed.check()
    with pytest.raises(gs.GossamerError, match="was replaced"):
        feed.poll()


def write_at(path, offset, data):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    later = time.time_ns() + 10**9
    os.utime(path, ns=(later, later))


@pytest.mark.parametrize("at", [0, 2000, 2999])
def test_a_file_that_was_written_anew_in_its_place_is_refused(followed, at):
    path, feed = followed
    write_at(path, len(HEAD) + 4 * at, b"8")
    with pytest.raises(gs.GossamerError, match="was replaced or written anew"):
        feed.check()


def noticed(feed, change=lambda: None):
    """Whether it is refused; a file that has grown is read whole now and then, and not with every look."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        change()
        try:
            feed.check()
        except gs.GossamerError as error:
            return "was replaced or written anew" in str(error)
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("at_once", [replaced.AT_ONCE, 0], ids=["here", "in a thread"])
@pytest.mark.parametrize("grows", [0, 1, 400])
def test_a_change_in_the_middle_of_a_file_that_has_grown_is_noticed(followed, monkeypatch, at_once, grows):
    """As `cp corrected.csv records.csv` makes it: other bytes far from both ends, and more lines behind them."""
    monkeypatch.setattr(replaced, "AT_ONCE", at_once)
    monkeypatch.setattr(replaced, "ENDS", 64)
    path, feed = followed
    lines = SOME.splitlines(keepends=True)
    lines[1500] = "7,1\n" if lines[1500] != "7,1\n" else "6,1\n"
    with path.open("r+") as file:
        file.write(HEAD + "".join(lines) + "1,0\n" * grows)
    assert noticed(feed)


def test_a_change_in_the_middle_is_noticed_while_the_file_goes_on_growing(followed, monkeypatch):
    monkeypatch.setattr(replaced, "AT_ONCE", 0)
    path, feed = followed
    write_at(path, len(HEAD) + 4 * 1500, b"8")

    def grow():
        with path.open("a") as file:
            file.write("1,0\n")

    assert noticed(feed, grow)


def test_looks_at_all_of_a_file_that_grows_cost_little(followed, monkeypatch):
    """After each as much time passes as makes it 2 %."""
    path, feed = followed
    now, looks = [time.monotonic()], []
    monkeypatch.setattr(replaced.time, "monotonic", lambda: now[0])
    used = feed._source._used
    begin = used._begin_look

    def slow(few):
        looks.append(now[0])
        begin(few)
        used._due = now[0] + replaced.SPACED * 3.0

    monkeypatch.setattr(used, "_begin_look", slow)
    used._due = 0.0
    for _ in range(600):
        now[0] += 1.0
        with path.open("a") as file:
            file.write("1,0\n")
        feed.check()
    assert 3.0 * len(looks) <= 0.02 * 600 + 3.0
    assert len(looks) > 3


def test_nothing_is_read_while_a_file_is_in_doubt(followed, monkeypatch):
    """It was replaced: whether what follows follows upon what was used is known once all of that was looked at."""
    monkeypatch.setattr(replaced, "AT_ONCE", 0)
    path, feed = followed
    begun = threading.Event()
    monkeypatch.setattr(replaced, "digest_of", lambda file, count: (begun.wait(LIMIT), digest_of(file, count))[1])
    swap(path, HEAD + SOME + "1,0\n")
    for _ in range(3):
        feed.poll()
        assert len(feed) == 3000
    begun.set()
    until = time.monotonic() + LIMIT
    while len(feed) == 3000:
        assert time.monotonic() < until
        feed.poll()
    assert len(feed) == 3001


def test_a_file_that_nobody_touches_is_not_read_again(followed, monkeypatch):
    path, feed = followed
    later = time.time_ns() + 10**9
    os.utime(path, ns=(later, later))
    monkeypatch.setattr(replaced, "SETTLED", -(10**11))  # as if it had been so for long
    feed.check()
    monkeypatch.setattr(replaced, "digest_of", lambda *_: pytest.fail("read again"))
    feed._source._used._due = 0.0
    for _ in range(9):
        feed.check()


def test_a_file_that_was_cut_and_grew_again_is_refused(followed):
    path, feed = followed
    path.write_text(HEAD + "8,1\n" * 4000)
    with pytest.raises(gs.GossamerError, match="was replaced or written anew"):
        feed.poll()


def test_a_file_that_became_shorter_is_refused_and_one_that_is_away_is_waited_for(followed):
    path, feed = followed
    path.unlink()
    feed.check()
    feed.poll()
    path.write_text(HEAD + SOME[:400])
    with pytest.raises(gs.GossamerError, match="has become shorter"):
        feed.check()


def test_a_learner_whose_records_are_replaced_says_so_while_it_runs(tmp_path, fleet_of):
    """It waits for nobody but itself: all its records came long ago."""
    make(tmp_path / "run", 5000, gs.Network.complete(3), m=3)
    place = tmp_path / "run/learner-1"
    edit(place, "[data]\n", "[data]\nfollow = true\n")
    fleet = fleet_of(tmp_path / "run", m=3)
    fleet.start(1)
    until = time.monotonic() + LIMIT
    while "round" not in fleet.status(1):
        assert time.monotonic() < until
        time.sleep(0.02)
    text = (place / "records.csv").read_text().splitlines()
    text[3], text[4] = text[4], text[3]
    swap(place / "records.csv", "\n".join(text) + "\n")
    while fleet.code(1) is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert fleet.code(1) == 2
    assert "was replaced or written anew" in fleet.status(1)["why"]


def test_a_learner_says_while_it_runs_that_a_record_in_the_middle_was_changed(tmp_path, fleet_of):
    """Written over in its place, with more behind it: no restart is needed to find out."""
    make(tmp_path / "run", 5000, gs.Network.complete(3), m=3)
    place = tmp_path / "run/learner-1"
    edit(place, "[data]\n", "[data]\nfollow = true\n")
    fleet = fleet_of(tmp_path / "run", m=3)
    fleet.start(1)
    wait_until(lambda: "round" in fleet.status(1), lambda: fleet.status(1))
    lines = (place / "records.csv").read_text().splitlines(keepends=True)
    lines[2500] = lines[2501]
    with (place / "records.csv").open("r+") as file:
        file.write("".join([*lines, *lines[1:9]]))
    wait_until(lambda: fleet.code(1) is not None, lambda: fleet.status(1))
    assert fleet.code(1) == 2
    assert "was replaced or written anew" in fleet.status(1)["why"]
