"""A learner's journal: what it must still know after a crash, committed before anything is sent.

Redrawing noise after a crash would release the same state twice. So a round's noisy bytes are drawn once, committed
together with all they follow from, and only then sent; whoever starts again sends the same bytes.

One transaction a round (SQLite, write-ahead log):

    about    run, learner, settings' fingerprint, and epoch: how many times this journal was opened (life, in logs);
             release, which last wrote to it;
             unused, until a neighbour is welcome: till then nothing is sent, and settings may still be corrected;
             begins, the first round of a learner that joined;
             let go 3, for every listener that has left and has used all that it was sent;
             secret, the key of noise that is shared with others: see gossamer.peers.pair_keys
    rounds   the newest round, and those before it that a neighbour may still ask for: where its vectors lie, how many
             rounds were charged, what was heard of whom, how far the records were read
    late     (round, sender) of every message that the learner went on without
    changes  every document of membership that was accepted, by version: here before anybody else has it from here

A round's vectors (state, gradient, messages as they travel) lie beside it, in one of a few files that are used in
turn, JOURNAL.0, JOURNAL.1, … (gossamer.peers.journal_files): written before the row that names them, and not
overwritten while that row is there. Written through SQLite's log they would cost seven times as much. A tag at both
ends tells whether file and row belong together. A file's head also says of which run and round it is: a database that
is more than one round behind its files was lost or put back, and is refused. A message that is a field of the state, as
with noise at the source, is not written a second time: it is that field in the numbers in which it travels, on every
machine. Releases before this one cannot go on from such a row.

A database that is one round behind its files is what a crash between the two leaves. It may also have lost its newest
row: SQLite leaves out all of its log from a page on whose checksum is wrong, without a word, so one bit can take back a
round that was sent. Nobody can tell the two apart. So that round is not drawn again in either case: its file has the
row, too, behind its end, and if it is whole the round is taken from there. If it is not, a round was never sent from
it, since a file is whole before its row, and a row there before anything is sent.

A checksum of 16 bytes (gossamer.peers.journal_sums) tells whether row and file are still what they were. Of the table
`about` there is a digest in it, and of the table `late` a sum in the newest row; a release before these leaves the life
in the digest behind its own, and then the digest is made anew. Rows from before the checksum have a sum of the messages
alone, and are read as they were written.

durability="process" survives the end of the process, kill -9 included; "power" also waits for the disk with every
commit, and survives the end of the machine. It waits twice a round, first for the vectors and then for the row, and
neither can be left out. Without the first a row could name vectors that are gone, though they were sent. Without the
second a round could be sent that the database does not know after a loss of power; it would be one behind its files, as
after a crash before the row, and its noise would be drawn again. Of the vectors only the data is waited for: their
files keep their lengths, and nothing else of a file's record is needed to read it.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from gossamer.errors import BadValue, GossamerError
from gossamer.peers.journal_files import TAG, About, Files, Row, Same, damaged
from gossamer.peers.journal_place import OnDisk, Store, check_place, no_journal
from gossamer.peers.journal_sums import checksum_of, digest_of_rows, late_word
from gossamer.peers.wire import encode
from gossamer.types import Array
from gossamer.version import __version__

Durability = Literal["process", "power"]
SCHEMA = """
create table about (name text primary key, value text not null) without rowid;
create table rounds (
    slot integer primary key, round integer not null, tag blob not null, about blob not null, checksum blob
);
create table late (round integer, sender integer, primary key (round, sender)) without rowid;
"""
CHANGES = "create table if not exists changes (version integer primary key, document blob not null, checksum blob)"
LET_GO = "let go "
WAL_PAGES = 1000  # of 4 KiB, after which the log is written back
COLUMNS = "round, slot, tag, about, checksum"
Payload = bytes | bytearray | memoryview


class InUse(GossamerError):
    """Another process has the journal open: the folder's log and status are that one's."""


class Snapshot(NamedTuple):
    """A learner at the start of a round, after it has drawn what it sends in it."""

    round: int
    state: Mapping[str, Array]
    gradient: Array
    charged: int  # rounds in the ledger
    heard: Mapping[int, tuple[int, int]] = {}  # the newest epoch and the newest round used, of every neighbour
    read: str = ""  # how far the records were read, in the feed's own words


class Journal:
    """One learner's file, opened by one process at a time; `rounds` is how many it may have to keep at once.

    `store` is where it is: on the disk, or a copy in memory that is looked at (gossamer.peers.journal_copy).
    """

    def __init__(
        self, path: str | Path, run: str, learner: int, fingerprint: str, durability: Durability, rounds: int = 3,
        store: type[Store] = OnDisk,
    ) -> None:  # fmt: skip
        if durability not in ("process", "power"):
            raise BadValue("durability", durability, "expected 'process' or 'power'")
        self.path, self._power, self._slots = Path(path), durability == "power", rounds
        check_place(self.path)
        self._store = store(self.path)
        self._files = Files(self.path, _digest_of(run, learner), rounds, self._power, self._store.open_file)
        try:
            self._db = self._store.connect()
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from None
        try:
            self._open(run, learner, fingerprint)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise self._unusable(error) from None
        except GossamerError:
            self.close()
            raise
        except (ValueError, TypeError, AttributeError) as error:  # a value of the database that is none, or no number
            self.close()
            raise self._damaged(str(error)) from None

    def _open(self, run: str, learner: int, fingerprint: str) -> None:
        """Take the file for this process, and begin its next epoch."""
        settings = {"run": run, "learner": str(learner), "fingerprint": fingerprint}
        self._db.execute("pragma locking_mode=exclusive")
        self._db.execute("pragma journal_mode=wal")
        self._db.execute(self._synchronous)
        self._db.execute(f"pragma wal_autocheckpoint={WAL_PAGES}")
        self._db.execute("pragma cell_size_check=on")
        self._check_whole()
        self._db.execute("begin exclusive")
        if not self._db.execute("select 1 from sqlite_master where name = 'about'").fetchone():
            self._store.make_private()  # it will hold what was not yet made private
            for statement in filter(None, map(str.strip, SCHEMA.split(";"))):
                self._db.execute(statement)
            self._db.execute("insert into about values ('epoch', '0'), ('unused', 'yes')")
        self._check_about()
        if "checksum" not in {name for _, name, *_ in self._db.execute("pragma table_info(rounds)")}:
            self._db.execute("alter table rounds add column checksum blob")  # of a release before it
        self._db.execute(CHANGES)  # which journals of a release before it do not have
        drawn = self._db.execute("select 1 from rounds").fetchone() is not None
        self.unused = self._db.execute("select 1 from about where name = 'unused'").fetchone() is not None
        if not drawn or (self.unused and any(self._setting(name) != wanted for name, wanted in settings.items())):
            self._db.execute("delete from rounds")  # nothing of it was ever sent: it can be anybody's
            self._db.execute("delete from late")
            known = dict(self._db.execute("select name, value from about where name in ('run', 'learner')"))
            if any(settings[name] != value for name, value in known.items()):
                self._db.execute("delete from changes")
                self._db.execute("delete from about where name = 'begins'")
            self._db.executemany("insert or replace into about values (?, ?)", settings.items())
        for name, wanted in settings.items():
            stored = self._setting(name)
            if stored != wanted:
                agreed = stored.partition("-")[0] == wanted.partition("-")[0]  # a party's own come after that
                what = "[privacy]" if agreed else "[run], [model], [records], [secrets], the graph and [privacy]"
                raise GossamerError(
                    f"journal {self.path} began with other settings ({name} {stored!r}, and now {wanted!r}): set back "
                    f"{what}; within a run none can change, nor ε, nor, with a budget, to a release that books rounds "
                    f"otherwise{self._written_by()}."
                )
        self._db.execute("insert or replace into about values ('release', ?)", (__version__,))
        self.epoch = int(self._setting("epoch")) + 1
        self._db.execute("update about set value = ? where name = 'epoch'", (str(self.epoch),))
        self._sum_about()
        self._db.execute("commit")
        self._settings = fingerprint
        begins = self._db.execute("select value from about where name = 'begins'").fetchone()
        self._needed = 0 if begins is None else int(begins[0])  # the oldest round of which messages are needed
        self._newest = self._needed - 1
        row = self._newest_row()
        if row is not None:
            self._newest, self._needed = row.round, self._files.said(row).used
        self._late_sum = self._check_late(row)
        self._check_rounds()
        self._files.refuse_newer(self._newest)
        self._take_round_of_file()

    def _check_about(self) -> None:
        """Refuse a table `about` of which a bit was changed; one that a release without a digest wrote is taken."""
        check = self._db.execute("select cast(value as blob) from about where name = 'check'").fetchone()
        if check is None:
            return
        life, _, digest = check[0].partition(b" ")
        found = self._db.execute("select value from about where name = 'epoch'").fetchone()
        epoch = int(found[0]) if found is not None else -1
        if epoch < int(life) or (epoch == int(life) and digest.decode() != self._digest_of_about()):
            raise self._damaged("what it says of itself has changed on the disk")

    def _digest_of_about(self) -> str:
        query = "select cast(name as blob), cast(value as blob) from about where name != 'check' order by name"
        return digest_of_rows(self._db.execute(query).fetchall())

    def _sum_about(self) -> None:
        """In every transaction that has changed the table."""
        check = f"{self.epoch} {self._digest_of_about()}"
        self._db.execute("insert or replace into about values ('check', ?)", (check,))

    def _check_late(self, newest: Row | None) -> int:
        """The sum of the table `late`; refuses one that is not what the newest round says."""
        total = sum(map(late_word, self._read_table("select round, sender from late"))) % 2**63
        if newest is not None and self._files.said(newest).late_sum not in (-1, total):
            raise self._damaged("what it went on without has changed on the disk")
        return total

    def _take_round_of_file(self) -> None:
        """A round that was drawn, and of which the database has no row: take it from its file, if that is whole."""
        row = self._files.row_of(self._newest + 1)
        if row is None:
            return
        try:
            known, _ = self._files.read(row)
        except GossamerError:  # it was not written to its end
            return
        if known.settings == self._settings:
            self._put(row, known.late)
            self._newest, self._needed, self._late_sum = row.round, known.used, known.late_sum

    def _check_rounds(self) -> None:
        """Refuse a row that says another round than its file: the newest would be taken for an older one."""
        for row in map(Row._make, self._read_table(f"select {COLUMNS} from rounds")):
            head = self._files.head(row.slot)
            if head is not None and head.tag == row.tag and head.round != row.round:
                name = self._files.place(row.slot).name
                raise self._damaged(f"a row says round {row.round}, and {name} is of round {head.round}")

    def _check_whole(self) -> None:
        """Refuse a database of which a page was changed: a round that it lost could be drawn again."""
        found = [str(one) for (one,) in self._db.execute("pragma integrity_check(1)")]
        if found != ["ok"]:
            raise self._damaged(" ".join(" ".join(found).split()))

    def _unusable(self, error: Exception) -> GossamerError:
        if "locked" in str(error):
            return InUse(f"journal {self.path}: another process has it open; end that one first.")
        if getattr(error, "sqlite_errorname", "") == "SQLITE_NOTADB":
            return no_journal(self.path)
        return GossamerError(
            f"journal {self.path} cannot be used ({error}): nothing of this round was sent; free the disk, and start "
            "again; never put back an older copy."
        )

    def _setting(self, name: str) -> str:
        row = self._db.execute("select value from about where name = ?", (name,)).fetchone()
        if row is None:
            raise self._damaged(f"it has no {name!r}")
        return str(row[0])

    def _written_by(self) -> str:
        """What to do where nothing but the release has changed; "" where that is the same."""
        row = self._db.execute("select value from about where name = 'release'").fetchone()
        if row is not None and row[0] == __version__:
            return ""
        theirs = "a release of gossamer that did not say which" if row is None else f"gossamer {row[0]}"
        return (
            f"; it was written by {theirs}, and this is gossamer {__version__}: where no setting has changed, go on "
            "with the release that wrote it, or join a new run"
        )

    def _damaged(self, why: str) -> GossamerError:
        return damaged(self.path, why)

    def commit(
        self,
        now: Snapshot,
        messages: Mapping[str, Payload | Same],
        used: int = 0,
        late: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Round `now.round`, all of it or nothing, once; messages of rounds before `used` are needed no more."""
        own = {"state." + name: value for name, value in now.state.items()} | {"gradient": now.gradient}
        arrays = [(name, np.ascontiguousarray(value, dtype="<f8")) for name, value in own.items()]
        same = {name: data for name, data in messages.items() if isinstance(data, Same)}
        for name, data in messages.items():
            arrays.append(("sent." + name, np.frombuffer(b"" if isinstance(data, Same) else data, np.uint8)))
        listed = [(name, array.dtype.str, array.shape, array.nbytes) for name, array in arrays]
        late_sum = (self._late_sum + sum(map(late_word, late))) % 2**63
        heard = dict(now.heard)
        said = About(listed, used, now.charged, heard, now.read, 0, list(late), late_sum, self._settings, same)
        about = msgspec.msgpack.encode(said)
        try:
            if not self._newest < now.round < self._needed + self._slots:
                raise GossamerError(  # what was sent would be changed, or what is still needed overwritten
                    f"journal {self.path} cannot be used for round {now.round}: it is at round {self._newest}."
                )
            self._put(self._files.write(now.round, about, dict(arrays), secrets.token_bytes(TAG)), late)
            self._newest, self._needed, self._late_sum = now.round, used, late_sum
        except (sqlite3.Error, OSError) as error:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise self._unusable(error) from None

    def _put(self, row: Row, late: Iterable[tuple[int, int]]) -> None:
        """One transaction: the row of a round whose file is whole."""
        late = list(late)
        if late:
            self._db.execute("begin immediate")
            self._db.executemany("insert or ignore into late values (?, ?)", late)
        values = (row.slot, row.round, row.tag, row.about, row.checksum)
        self._db.execute("insert or replace into rounds values (?, ?, ?, ?, ?)", values)  # a transaction by itself
        if late:
            self._db.execute("commit")

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Whatever SQLite complains of within is told to the owner."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    @contextmanager
    def _about_changes(self) -> Iterator[None]:
        """One transaction that changes the table `about`, and its digest."""
        self._db.execute("begin immediate")
        yield
        self._sum_about()
        self._db.execute("commit")

    @contextmanager
    def _waiting_for_the_disk(self) -> Iterator[None]:
        """What is written within is on the disk, whatever the durability is."""
        self._db.execute("pragma synchronous=full")
        yield
        self._db.execute(self._synchronous)

    @property
    def _synchronous(self) -> str:
        return f"pragma synchronous={'full' if self._power else 'off'}"

    def mark_used(self) -> None:
        """Before anything is sent: from now on what was drawn stays, and so do the settings."""
        if not self.unused:
            return
        with self._usable(), self._about_changes():
            self._db.execute("delete from about where name = 'unused'")
        self.unused = False

    @property
    def secret(self) -> bytes | None:
        """The key of noise that cancels, where it was brought."""
        row = self._db.execute("select value from about where name = 'secret'").fetchone()
        return None if row is None else bytes.fromhex(row[0])

    def keep_secret(self, secret: bytes) -> None:
        """Take the key in, on the disk whatever the durability is: where it comes from it is removed after this."""
        with self._usable(), self._waiting_for_the_disk(), self._about_changes():
            self._db.execute("insert or replace into about values ('secret', ?)", (secret.hex(),))

    def let_go(self) -> set[int]:
        """The listeners that have left, and have used all that they were sent."""
        found = self._read_table("select name from about where name like 'let go %'")
        return {int(name.removeprefix(LET_GO)) for (name,) in found}

    def keep_let_go(self, listener: int) -> None:
        """A listener that has left has used all that it was sent."""
        if listener in self.let_go():
            return
        with self._usable(), self._about_changes():
            self._db.execute("insert into about values (?, 'yes')", (f"{LET_GO}{listener}",))

    @property
    def delivered(self) -> bool:
        """Whether everybody had used all that the run sent."""
        return self._db.execute("select 1 from about where name = 'delivered'").fetchone() is not None

    def mark_delivered(self) -> None:
        """All was sent and used. The key is forgotten, on the disk too: nothing is drawn with it any more."""
        with self._usable():
            self._db.execute("pragma secure_delete=on")  # zeros over what is deleted
            with self._about_changes():
                self._db.execute("insert or ignore into about values ('delivered', 'yes')")
                self._db.execute("delete from about where name = 'secret'")
            self._db.execute("pragma wal_checkpoint(truncate)")  # or the file would have it until the next one

    def latest(self) -> Snapshot | None:
        """The newest round, or None where there is none yet."""
        row = self._newest_row()
        if row is None:
            return None
        about, vectors = self._files.read(row)
        state = {n.removeprefix("state."): v.astype(float) for n, v in vectors.items() if n.startswith("state.")}
        return Snapshot(row.round, state, vectors["gradient"].astype(float), about.charged, about.heard, about.read)

    def messages(self) -> dict[int, dict[str, bytes]]:
        """Everything that may have to be sent again, by round and channel."""
        messages = {}
        query = f"select {COLUMNS} from rounds where round >= ? order by round"
        for row in map(Row._make, self._read_table(query, (self._needed,))):
            about, vectors = self._files.read(row)
            sent = {n.removeprefix("sent."): v.tobytes() for n, v in vectors.items() if n.startswith("sent.")}
            sent |= {n: bytes(encode(vectors[f"state.{field}"], dtype)) for n, (field, dtype) in about.same.items()}
            if sent:
                messages[row.round] = sent
        return messages

    def _newest_row(self) -> Row | None:
        found = self._read_table(f"select {COLUMNS} from rounds order by round desc limit 1")
        return Row._make(found[0]) if found else None

    def _read_table(self, query: str, given: tuple[int, ...] = ()) -> list[Any]:
        try:
            return self._db.execute(query, given).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from None

    def late(self) -> list[tuple[int, int]]:
        """(round, sender) of every message that the learner went on without."""
        return self._read_table("select round, sender from late order by round, sender")

    def keep_change(self, version: int, document: bytes) -> None:
        """A document of membership, on the disk whatever the durability is: what others get must not be forgotten."""
        with self._usable(), self._waiting_for_the_disk():
            self._db.execute("insert into changes values (?, ?, ?)", (version, document, checksum_of([document])))

    def begin_at(self, round_: int) -> None:
        """Of a learner that joins: its first round. Before anything else of it is here."""
        with self._usable(), self._about_changes():
            self._db.execute("insert or replace into about values ('begins', ?)", (str(round_),))
        self._newest, self._needed = round_ - 1, round_

    def changes(self) -> list[bytes]:
        """The documents of membership that were accepted, in their order."""
        found = self._read_table("select version, document, checksum from changes order by version")
        for k, (version, document, checksum) in enumerate(found):
            if version != k + 1 or checksum_of([document]) != checksum:
                raise self._damaged(f"change {version} is not what was accepted")
        return [bytes(document) for _, document, _ in found]

    def close(self) -> None:
        self._db.close()
        self._store.release()
        self._files.close()


def _digest_of(run: str, learner: int) -> bytes:
    return hashlib.blake2b(f"{run} {learner}".encode(), digest_size=TAG).digest()
