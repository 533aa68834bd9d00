"""A learner's journal: what it must still know after a crash, committed before anything is sent.

Redrawing noise after a crash would release the same state twice. So a round's noisy bytes are drawn once, committed
together with all they follow from, and only then sent; whoever starts again sends the same bytes.

One transaction a round, one file (SQLite, write-ahead log):

    about    run, learner, settings' fingerprint, epoch: how many times this journal has been opened to run
    now      the newest round: state, gradient (with noise at the source it is what was released), rounds charged
    outbox   (round, channel) → bytes, for as long as a neighbour may still ask for them
    heard    the newest epoch and round of every neighbour that speaks to us: what an old copy of a journal contradicts

durability="process" survives the end of the process, kill -9 included; "power" also waits for the disk with every
commit, and survives the end of the machine.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from gossamer.types import Array, GossamerError

Durability = Literal["process", "power"]
SCHEMA = """
create table about (name text primary key, value blob not null) without rowid;
create table now (name text primary key, value blob not null) without rowid;
create table outbox (round integer, channel text, payload blob not null, primary key (round, channel)) without rowid;
create table heard (sender integer primary key, epoch integer not null, round integer not null);
"""
WAL_PAGES = 2000  # of 4 KiB, after which the log is written back


class Snapshot(NamedTuple):
    """A learner at the start of a round, after it has drawn what it sends in it."""

    round: int
    state: Mapping[str, Array]
    gradient: Array
    charged: int  # rounds in the ledger


class Journal:
    """One learner's file. Opened by one process at a time; a second one is refused."""

    def __init__(self, path: str | Path, run: str, learner: int, fingerprint: str, durability: Durability) -> None:
        if durability not in ("process", "power"):
            raise GossamerError(f"durability={durability!r}: expected 'process' or 'power'.")
        self.path = Path(path)
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=0, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        try:
            self._open(run, learner, fingerprint, durability)
        except sqlite3.Error as error:
            self._db.close()
            raise self._unusable(error) from None
        except GossamerError:
            self._db.close()
            raise

    def _open(self, run: str, learner: int, fingerprint: str, durability: Durability) -> None:
        """Take the file for this process, and count one life more."""
        self._db.execute("pragma locking_mode=exclusive")
        self._db.execute("pragma journal_mode=wal")
        self._db.execute(f"pragma synchronous={'full' if durability == 'power' else 'off'}")
        self._db.execute(f"pragma wal_autocheckpoint={WAL_PAGES}")
        self._db.execute("begin exclusive")
        if not self._db.execute("select 1 from sqlite_master where name = 'about'").fetchone():
            os.chmod(self.path, 0o600)  # it will hold what was not yet made private
            for statement in filter(None, map(str.strip, SCHEMA.split(";"))):
                self._db.execute(statement)
            about = {"run": run, "learner": str(learner), "fingerprint": fingerprint, "epoch": "0"}
            self._db.executemany("insert into about values (?, ?)", [(k, v.encode()) for k, v in about.items()])
        self._check(run, learner, fingerprint)
        self.epoch = int(self._about("epoch")) + 1
        self._db.execute("update about set value = ? where name = 'epoch'", (str(self.epoch).encode(),))
        self._db.execute("commit")

    def _unusable(self, error: Exception) -> GossamerError:
        if "locked" in str(error):
            return GossamerError(f"journal {self.path}: another process has it open; end that one first.")
        return GossamerError(
            f"journal {self.path} cannot be used ({error}): nothing was sent; free the disk or restore the file, and "
            "start again."
        )

    def _about(self, name: str) -> str:
        row = self._db.execute("select value from about where name = ?", (name,)).fetchone()
        if row is None:
            raise GossamerError(f"journal {self.path} has no {name!r}: it is damaged; restore it, or join a new run.")
        return bytes(row[0]).decode()

    def _check(self, run: str, learner: int, fingerprint: str) -> None:
        for name, wanted in (("run", run), ("learner", str(learner)), ("fingerprint", fingerprint)):
            stored = self._about(name)
            if stored != wanted:
                raise GossamerError(
                    f"journal {self.path} is of {name} {stored!r} and this is {wanted!r}: give the journal of this "
                    "run, or join with a new one."
                )

    def commit(self, now: Snapshot, outbox: Mapping[str, bytes], heard: Mapping[int, tuple[int, int]]) -> None:
        """Round `now.round`, all of it or nothing; may be called once for each round."""
        rows = {f"state.{name}": _stored(value) for name, value in now.state.items()}
        rows |= {"gradient": _stored(now.gradient)}
        rows |= {"round": str(now.round).encode(), "charged": str(now.charged).encode()}
        try:
            self._db.execute("begin immediate")
            self._db.executemany("insert or replace into now values (?, ?)", rows.items())
            self._db.executemany(
                "insert into outbox values (?, ?, ?)", [(now.round, channel, data) for channel, data in outbox.items()]
            )
            self._db.executemany(
                "insert or replace into heard values (?, ?, ?)", [(sender, *seen) for sender, seen in heard.items()]
            )
            self._db.execute("commit")
        except (sqlite3.Error, OSError) as error:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise self._unusable(error) from None

    def forget(self, before: int) -> None:
        """Messages of rounds that every neighbour has used; they go with the next commit's pages, not at once."""
        try:
            self._db.execute("delete from outbox where round < ?", (before,))
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def latest(self) -> Snapshot | None:
        rows = {name: bytes(value) for name, value in self._db.execute("select name, value from now")}
        if not rows:
            return None
        try:
            state = {n.removeprefix("state."): _loaded(v) for n, v in rows.items() if n.startswith("state.")}
            return Snapshot(int(rows["round"]), state, _loaded(rows["gradient"]), int(rows["charged"]))
        except (KeyError, ValueError, msgspec.MsgspecError) as error:
            raise GossamerError(f"journal {self.path} is damaged ({error}): restore it, or join a new run.") from None

    def outbox(self) -> dict[int, dict[str, bytes]]:
        """Everything that may have to be sent again, by round and channel."""
        found: dict[int, dict[str, bytes]] = {}
        for round_, channel, payload in self._db.execute("select round, channel, payload from outbox order by round"):
            found.setdefault(round_, {})[channel] = bytes(payload)
        return found

    def heard(self) -> dict[int, tuple[int, int]]:
        return {sender: (epoch, round_) for sender, epoch, round_ in self._db.execute("select * from heard")}

    def close(self) -> None:
        self._db.close()


def _stored(value: Array) -> bytes:
    value = np.ascontiguousarray(value, dtype="<f8")
    return msgspec.msgpack.encode((value.shape, value.tobytes()))


def _loaded(data: bytes) -> Array:
    shape, raw = msgspec.msgpack.decode(data, type=tuple[tuple[int, ...], bytes])
    return np.frombuffer(raw, dtype="<f8").astype(float).reshape(shape)
