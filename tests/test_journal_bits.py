"""Bits that flip in a journal: in its database, in SQLite's log, in the files of vectors and in the tables beside them.

Whatever flips, the journal is refused with one sentence, or what it says is what it said before, bit for bit.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers.journal import Journal, Snapshot
from gossamer.peers.journal_copy import InMemory
from gossamer.peers.journal_files import HEAD
from gossamer.peers.journal_place import OnDisk

ROUNDS, FLIPS = 7, 700
SENT = {"s": np.arange(7, dtype="<f4").tobytes(), "theta": b"12345678901"}


def opened(folder, fingerprint="f"):
    return Journal(folder / "j.db", "run", 0, fingerprint, "process", rounds=3)


def snapshot(t):
    state = {"s": np.arange(7.0)[None] + t, "theta": -np.ones((1, 7))}
    return Snapshot(t, state, np.full((1, 7), 0.3), t + 1, {2: (1, t), 3: (2, t - 1)}, f"{t} records")


def commit(journal, t):
    journal.commit(snapshot(t), SENT, used=max(0, t - 1), late=((t, 3),) if t % 2 else ())


def said(folder):
    """All that a journal says, once it is opened."""
    journal = opened(folder)
    try:
        now = journal.latest()
        state = {name: value.tobytes() for name, value in now.state.items()}
        numbers = now.round, now.charged, dict(now.heard), now.read, journal.epoch, journal.unused, journal.delivered
        return state, now.gradient.tobytes(), numbers, journal.messages(), journal.late(), journal.secret
    finally:
        journal.close()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A learner's journal as a crash leaves it, all of it in SQLite's log; and with the log written back."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "at work").mkdir()
    journal = opened(folder / "at work")
    journal.mark_used()
    journal.keep_secret(bytes(range(32)))
    for t in range(ROUNDS):
        commit(journal, t)
    shutil.copytree(folder / "at work", folder / "log")
    journal.close()
    shutil.copytree(folder / "at work", folder / "no log")
    return folder


@pytest.mark.parametrize("which", ["log", "no log"])
def test_any_bit_that_flips_anywhere_is_refused_or_changes_nothing(kept, which):
    files = {path.name: path.read_bytes() for path in (kept / which).iterdir() if path.stat().st_size}
    assert ("j.db-wal" in files) == (which == "log")
    rng, refused = random.Random(0), list[str]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)

        def put(changed=None, whole=b""):
            for path in folder.iterdir():
                path.unlink()
            for name, data in files.items():
                (folder / name).write_bytes(whole if name == changed else data)

        put()
        before = said(folder)
        for k in range(FLIPS):
            name = rng.choice(sorted(files)) if k % 2 else max(files, key=lambda one: len(files[one]))
            whole = bytearray(files[name])
            bit = rng.randrange(8 * len(whole))
            whole[bit // 8] ^= 1 << bit % 8
            put(name, bytes(whole))
            try:
                assert said(folder) == before, f"bit {bit} of {name}"
            except gs.GossamerError as error:
                refused.append(str(error))
    assert FLIPS / 20 < len(refused) < FLIPS
    assert not [sentence for sentence in refused if "\n" in sentence]


def frames(log):
    """Where the frames of SQLite's log begin, the last first."""
    page = int.from_bytes(log[8:12], "big") or 1 << 16
    return range(len(log) - page - 24, 0, -page - 24)


def test_a_round_that_the_log_has_lost_is_not_drawn_again(kept, tmp_path):
    """SQLite leaves out a frame with a wrong checksum, and all after it, without a word: the newest round is gone."""
    folder = shutil.copytree(kept / "log", tmp_path / "copy")
    before, log = said(shutil.copytree(kept / "log", tmp_path / "other")), bytearray((folder / "j.db-wal").read_bytes())
    log[frames(log)[0] + 100] ^= 1
    (folder / "j.db-wal").write_bytes(log)
    read = sqlite3.connect(shutil.copytree(folder, tmp_path / "read") / "j.db")
    assert read.execute("select max(round) from rounds").fetchone() == (ROUNDS - 2,)
    read.close()
    assert said(folder) == before
    journal = opened(folder)
    with pytest.raises(gs.GossamerError, match="cannot be used for round"):
        commit(journal, ROUNDS - 1)
    commit(journal, ROUNDS)
    journal.close()


def test_a_crash_between_the_file_and_the_row_gives_the_same_bytes(tmp_path, monkeypatch):
    journal = opened(tmp_path)
    for t in range(3):
        commit(journal, t)
    monkeypatch.setattr(journal, "_put", lambda row, late: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        commit(journal, 3)
    monkeypatch.undo()
    journal.close()
    journal = opened(tmp_path)
    assert journal.latest().round == 3
    assert journal.latest().charged == 4
    assert journal.messages()[3] == SENT
    assert journal.late() == [(1, 3), (3, 3)]
    journal.close()


@pytest.mark.parametrize("cut", [HEAD.size + 20, -1])
def test_a_file_that_was_not_written_to_its_end_was_never_sent_from(tmp_path, monkeypatch, cut):
    journal = opened(tmp_path)
    commit(journal, 0)
    monkeypatch.setattr(journal, "_put", lambda row, late: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        commit(journal, 1)
    monkeypatch.undo()
    journal.close()
    path = tmp_path / "j.db.1"
    path.write_bytes(path.read_bytes()[:cut])
    journal = opened(tmp_path)
    assert journal.latest().round == 0
    commit(journal, 1)
    journal.close()


def test_a_round_of_other_settings_is_nobodys(tmp_path):
    """Until a neighbour is welcome settings may be corrected, and what was drawn with the old ones is not taken."""
    journal = opened(tmp_path)
    commit(journal, 0)
    journal.close()
    journal = opened(tmp_path, "other")
    assert journal.latest() is None
    journal.close()


@pytest.mark.parametrize(
    "change",
    [
        "update late set sender = 2 where round = 1", "update late set round = 9 where round = 5",
        "delete from late where round = 3", "insert into late values (2, 3)",
    ],
)  # fmt: skip
def test_what_a_learner_went_on_without_is_what_the_newest_round_says(kept, tmp_path, change):
    """A few rows, which bits that flip at random seldom hit."""
    folder = shutil.copytree(kept / "no log", tmp_path / "copy")
    with contextlib.closing(sqlite3.connect(folder / "j.db", isolation_level=None)) as db:
        assert db.execute(change).rowcount == 1
    with pytest.raises(gs.GossamerError, match="what it went on without has changed on the disk"):
        opened(folder)


@pytest.mark.parametrize(
    "change",
    ["update changes set document = cast('{ }' as blob) where version = 1", "delete from changes where version = 1"],
)
def test_a_document_that_was_accepted_is_what_it_was(tmp_path, change):
    """Who takes part, and from which round on, is not to be changed by a disk."""
    journal = opened(tmp_path)
    for version in (1, 2):
        journal.keep_change(version, b"{}%d" % version)
    assert journal.changes() == [b"{}1", b"{}2"]
    journal.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "j.db", isolation_level=None)) as db:
        assert db.execute(change).rowcount == 1
    journal = opened(tmp_path)
    with pytest.raises(gs.GossamerError, match=r"change [12] is not what was accepted"):
        journal.changes()
    journal.close()


def test_a_release_without_the_digest_may_write_in_between(kept, tmp_path):
    """It counts its start and says nothing of the digest: what it has written is taken, and summed up anew."""
    folder = shutil.copytree(kept / "no log", tmp_path / "copy")
    db = sqlite3.connect(folder / "j.db", isolation_level=None)
    db.execute("update about set value = '2' where name = 'epoch'")
    db.execute("update about set value = ? where name = 'secret'", ("ab" * 32,))
    db.close()
    assert said(folder)[-1] == b"\xab" * 32
    db = sqlite3.connect(folder / "j.db", isolation_level=None)
    db.execute("update about set value = ? where name = 'secret'", ("ac" * 32,))
    db.close()
    with pytest.raises(gs.GossamerError, match="what it says of itself has changed"):
        opened(folder)
    db = sqlite3.connect(folder / "j.db", isolation_level=None)
    db.execute("delete from about where name = 'check'")
    db.close()
    assert said(folder)[-1] == b"\xac" * 32, "as every journal of a release before it"


def link_to_database(place):
    place.symlink_to(place.with_name("j.db"))


def second_name_of_database(place):
    os.link(place.with_name("j.db"), place)


@pytest.mark.parametrize("put", [link_to_database, second_name_of_database, os.mkfifo, os.mkdir])
@pytest.mark.parametrize("slot", [0, 2])  # one that has a round, and one that will
def test_what_is_no_file_of_a_round_in_its_place_is_refused_before_it_is_opened(tmp_path, put, slot):
    """A FIFO would be waited for; and closing a second descriptor of the database gives up SQLite's lock of it."""
    journal = Journal(tmp_path / "j.db", "run", 0, "f", "process")
    commit(journal, 0)
    journal.close()
    place = tmp_path / f"j.db.{slot}"
    place.unlink(missing_ok=True)
    put(place)
    for store in (OnDisk, InMemory):
        with pytest.raises(gs.GossamerError, match=rf"j.db.{slot} is no file of a round"):
            Journal(tmp_path / "j.db", "run", 0, "f", "process", store=store)
