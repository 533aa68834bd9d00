"""Journals and crashes: whatever ends a learner, what it sent is sent again and nothing is drawn a second time."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.algorithms import METHODS as REGISTRY
from gossamer.setting import setting_for

pytest.importorskip("msgspec", reason="needs the extra `peers`")
import msgspec

from gossamer.peers import wire
from gossamer.peers.journal import Journal, Snapshot
from gossamer.peers.journal_files import Same
from gossamer.peers.journal_sums import checksum_of
from gossamer.peers.node import Node
from gossamer.peers.party import Party
from gossamer.peers.transport import Arrived
from gossamer.peers.turns import rounds_kept
from gossamer.peers.wire import Frame, Hello, pack, split_frames, split_vector, unpack
from test_peers import MODEL, M, N, Own, Team, simulated

METHODS = REGISTRY.entries()


@pytest.mark.parametrize("seed", range(3))
def test_crashes_at_any_moment_send_nothing_twice_differently(tmp_path, seed):
    """Also between the commit and the sending."""
    team = Team(tmp_path, seed=seed, steps=60)
    found = team.run(crashes=50)
    np.testing.assert_allclose(found, simulated(steps=60), rtol=0, atol=1e-12)
    assert all(len(seen) == 1 for seen in team.payloads.values())
    assert max(journal.epoch for journal in team.journals.values()) > 1
    assert {key[:3] for key in team.payloads} >= {(i, t, "theta") for i in range(M) for t in range(60)}


@pytest.mark.parametrize("method", ["diadsp_own", "subgradient_rescaling_own"])
def test_after_a_crash_a_learners_own_message_comes_back_to_it_as_it_was_sent(tmp_path, method):
    network = gs.Network.paper_one_way()
    found = Team(tmp_path, method, steps=40, seed=1).run(crashes=30)
    np.testing.assert_allclose(found, simulated(method, network, steps=40), rtol=0, atol=1e-12)


class Fresh:
    """Noise that is never the same again, as exact noise is."""

    def __init__(self):
        self._rng = np.random.default_rng()

    def noise(self, channel, t, shape):
        return self._rng.laplace(size=shape)


def test_with_noise_that_never_repeats_every_payload_is_still_one(tmp_path, monkeypatch):
    monkeypatch.setattr("test_peers.Noise", lambda i=None: Fresh(), raising=True)
    team = Team(tmp_path, steps=40, seed=5)
    team.run(crashes=30)
    assert all(len(seen) == 1 for seen in team.payloads.values())


def test_a_journal_copied_back_in_time_is_refused(tmp_path):
    team = Team(tmp_path, steps=20)
    for node in team.nodes.values():
        node.greet()
    copied, elsewhere = None, tmp_path / "copies"
    for _ in range(10_000):
        team.sweep()
        if copied is None and team.parties[0].round == 4:
            team.end(0)
            elsewhere.mkdir()
            for part in ("0.db", *(slot.name for slot in tmp_path.glob("0.db.*"))):
                shutil.copy(tmp_path / part, elsewhere / part)
            copied = True
            team.start(0)
            team.nodes[0].greet()
        if team.parties[0].round >= 12:
            break
    team.end(0)
    for rest in ("0.db-wal", "0.db-shm"):
        (tmp_path / rest).unlink(missing_ok=True)
    for slot in tmp_path.glob("0.db.*"):
        slot.unlink()
    for part in elsewhere.iterdir():
        shutil.copy(part, tmp_path / part.name)
    team.start(0)
    team.nodes[0].greet()
    for _ in range(2000):
        j = team.rng.randrange(1, M)
        team.boxes[j].turn(team.nodes[j].take)
    refused = {j for j, node in team.nodes.items() if (0, "old journal") in node.refused}
    listeners = set(team.parties[0].tells)
    assert refused >= listeners
    for j in listeners:  # and what it draws anew is not used, even where a round waits for it
        party, node = team.parties[j], team.nodes[j]
        before = party.missing()
        frame = split_vector(party.round, "theta", wire.encode(np.zeros(N), "f8"))[0]
        assert node.take(Arrived(0, pack(frame))).reason == "hello"
        assert party.missing() == before


def test_the_outbox_stays_small(tmp_path):
    team = Team(tmp_path, steps=40)
    most = 0
    for node in team.nodes.values():
        node.greet()
    for _ in range(10_000):
        team.sweep()
        most = max(most, *(len(party._outbox) for party in team.parties.values()))
        if all(node.done for node in team.nodes.values()):
            break
    kept = rounds_kept(N, "f8", 0)
    assert 0 < most < kept
    assert all(not party._outbox for party in team.parties.values())
    assert all(len(journal.messages()) < kept for journal in team.journals.values())
    assert {path.suffix for path in tmp_path.glob("*.db.*")} <= {f".{slot}" for slot in range(kept)}


def test_settings_can_be_corrected_until_the_first_neighbour_is_welcome(tmp_path):
    round_0 = Snapshot(0, {"theta": np.ones((1, 3))}, np.zeros((1, 3)), 1)
    for fingerprint in ("f", "g"):
        journal = Journal(tmp_path / "j.db", "run", 0, fingerprint, "process")
        assert journal.unused
        assert journal.latest() is None, "what was drawn with other settings is gone"
        journal.commit(round_0, {"theta": fingerprint.encode()})
        journal.close()
    same = Journal(tmp_path / "j.db", "run", 0, "g", "process")
    assert same.messages() == {0: {"theta": b"g"}}, "with the same settings it is kept"
    same.mark_used()
    assert not same.unused
    same.close()
    with pytest.raises(gs.GossamerError, match="began with other settings"):
        Journal(tmp_path / "j.db", "run", 0, "f", "process")
    again = Journal(tmp_path / "j.db", "run", 0, "g", "process")
    assert not again.unused
    assert again.messages() == {0: {"theta": b"g"}}
    again.close()


OPEN = "import sys; from gossamer.peers.journal import Journal; Journal(sys.argv[1], 'run', 0, 'f', 'process').close()"


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symlink", "hard link"])
def test_a_second_process_is_refused_whatever_else_the_database_is_called(tmp_path, link):
    """Looking at a link to it gave up SQLite's lock: then both could draw the same rounds."""
    Journal(tmp_path / "j.db", "run", 0, "f", "process").close()
    link(tmp_path / "j.db", tmp_path / "latest.db")
    journal = Journal(tmp_path / "j.db", "run", 0, "f", "process")
    other = subprocess.run([sys.executable, "-c", OPEN, tmp_path / "j.db"], capture_output=True, text=True)
    assert "another process has it open" in other.stderr
    journal.close()
    other = subprocess.run([sys.executable, "-c", OPEN, tmp_path / "j.db"], capture_output=True, text=True)
    assert other.returncode == 0, other.stderr


def test_a_journal_is_of_one_run_and_one_process(tmp_path):
    journal = Journal(tmp_path / "j.db", "run", 0, "f", "power")
    assert (tmp_path / "j.db").stat().st_mode & 0o077 == 0
    with pytest.raises(gs.GossamerError, match="another process has it open"):
        Journal(tmp_path / "j.db", "run", 0, "f", "power")
    journal.commit(
        Snapshot(0, {"theta": np.ones((1, 3))}, np.zeros((1, 3)), 1, {2: (1, 5)}, "3 lines"), {"theta": b"abc"}
    )
    with pytest.raises(gs.GossamerError, match="cannot be used"):
        journal.commit(Snapshot(0, {"theta": np.zeros((1, 3))}, np.zeros((1, 3)), 1), {"theta": b"xyz"})
    assert journal.messages() == {0: {"theta": b"abc"}}, "a round's bytes are written once"
    journal.mark_used()
    journal.close()
    for given_ in (("other", 0, "f"), ("run", 1, "f"), ("run", 0, "g")):
        with pytest.raises(gs.GossamerError, match="began with other settings"):
            Journal(tmp_path / "j.db", *given_, "process").close()
    again = Journal(tmp_path / "j.db", "run", 0, "f", "process")
    assert again.epoch > journal.epoch
    assert again.latest().round == 0
    np.testing.assert_array_equal(again.latest().state["theta"], np.ones((1, 3)))
    assert again.latest()[4:] == ({2: (1, 5)}, "3 lines")
    with pytest.raises(gs.GossamerError, match="expected 'process' or 'power'"):
        Journal(tmp_path / "k.db", "run", 0, "f", "hope")


def test_a_full_disk_stops_a_learner_before_it_sends(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    team = Team(tmp_path, steps=3)
    monkeypatch.setattr("os.pwritev", full)
    sent = len(team.payloads)
    with pytest.raises(gs.GossamerError, match="nothing of this round was sent"):
        team.parties[0]._prepare(1, team.parties[0].state, ())
    assert len(team.payloads) == sent
    assert team.parties[0].round == 0


def test_a_round_that_broke_off_is_never_taken_again(tmp_path, monkeypatch):
    """A full disk in the middle: the party does nothing more, even where there is room again."""
    team = Team(tmp_path, steps=5)
    for node in team.nodes.values():
        node.greet()
    while not team.parties[0].round:
        team.sweep()
    party = team.parties[0]
    monkeypatch.setattr(party.journal, "commit", lambda *_: (_ for _ in ()).throw(gs.GossamerError("full")))
    with pytest.raises(gs.GossamerError, match="full"):  # noqa: PT012, whichever sweep it is
        for _ in range(1000):
            team.sweep()
    monkeypatch.undo()
    seen = len(party._memory.labels[: int(party._memory.filled.sum())])
    for _ in range(300):
        team.sweep()
    assert party.broken
    assert not party.ready
    assert int(party._memory.filled.sum()) == seen


def lost(folder, what):
    for path in folder.glob("0.db*"):
        if path.name in what:
            path.unlink()


@pytest.mark.parametrize("what", [("0.db", "0.db-wal", "0.db-shm"), ("0.db",)])
def test_a_database_that_was_lost_is_refused_beside_its_files(tmp_path, what):
    team = Team(tmp_path, steps=20)
    for node in team.nodes.values():
        node.greet()
    while team.parties[0].round < 6:
        team.sweep()
    team.end(0)
    lost(tmp_path, what)
    with pytest.raises(gs.GossamerError, match=r"lost or put back in time|cannot be used|damaged"):
        team.start(0)


def test_a_message_that_changed_on_the_disk_is_not_sent(tmp_path):
    team = Team(tmp_path, steps=20)
    team.end(0)
    path = tmp_path / "0.db.0"
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    with pytest.raises(gs.GossamerError, match="has changed on the disk"):
        team.start(0)


ROUND = Snapshot(2, {"s": np.arange(7.0)[None], "theta": -np.ones((1, 7))}, np.full((1, 7), 0.3), 6, {2: (1, 4)}, "x")
SENT = {"s": np.arange(7, dtype="<f4").tobytes(), "theta": b"12345678901"}


def opened(folder):
    return Journal(folder / "j.db", "run", 0, "f", "process")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A journal of one round, in one file and one database without a log beside it."""
    folder = tmp_path_factory.mktemp("written")
    journal = opened(folder)
    journal.commit(ROUND, SENT, used=2)
    journal._db.execute("pragma wal_checkpoint(truncate)")
    journal.close()
    return folder


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bit_that_flips_in_a_rounds_file_is_seen(written, data):
    with tempfile.TemporaryDirectory() as place:
        folder = shutil.copytree(written, Path(place) / "copy")
        path = folder / "j.db.2"
        whole = bytearray(path.read_bytes())
        bit = data.draw(st.integers(0, 8 * len(whole) - 1))
        whole[bit // 8] ^= 1 << bit % 8
        path.write_bytes(whole)
        with pytest.raises(gs.GossamerError, match=r"damaged|lost or put back in time"):
            _ = opened(folder).latest()


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bit_that_flips_in_a_rounds_row_is_seen(written, data):
    """In what the database says of the round, which SQLite itself does not sum up."""
    with tempfile.TemporaryDirectory() as place:
        folder = shutil.copytree(written, Path(place) / "copy")
        db = sqlite3.connect(folder / "j.db", isolation_level=None)
        column = data.draw(st.sampled_from(["tag", "about", "checksum"]))
        [value] = db.execute(f"select {column} from rounds").fetchone()
        bit = data.draw(st.integers(0, 8 * len(value) - 1))
        changed = bytearray(value)
        changed[bit // 8] ^= 1 << bit % 8
        db.execute(f"update rounds set {column} = ?", (bytes(changed),))
        db.close()
        with pytest.raises(gs.GossamerError, match="damaged"):
            _ = opened(folder).latest()


@pytest.fixture(scope="module")
def written_thrice(tmp_path_factory):
    """A journal of three rounds, whose older ones could be taken for the newest."""
    folder = tmp_path_factory.mktemp("thrice")
    journal = opened(folder)
    for t in range(3):
        journal.commit(ROUND._replace(round=t, charged=t + 1), SENT)
    journal._db.execute("pragma wal_checkpoint(truncate)")
    journal.close()
    return folder


@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bit_that_flips_in_the_database_puts_no_journal_back_in_time(written_thrice, data):
    """Anywhere in it, also in what SQLite itself needs: it is refused in a sentence, or nothing has changed."""
    with tempfile.TemporaryDirectory() as place:
        folder = shutil.copytree(written_thrice, Path(place) / "copy")
        whole = bytearray((folder / "j.db").read_bytes())
        pages = range(0, len(whole), 4096)  # a page begins with what says where its rows are; they lie at its end
        near = [at for page in pages for at in (*range(page, page + 24), *range(page + 3600, page + 4096))]
        bit = 8 * data.draw(st.sampled_from(near)) + data.draw(st.integers(0, 7))
        whole[bit // 8] ^= 1 << bit % 8
        (folder / "j.db").write_bytes(whole)
        try:
            journal = opened(folder)
            latest, messages = journal.latest(), journal.messages()
            journal.close()
        except gs.GossamerError:
            return
        assert (latest.round, latest.charged) == (2, 3)
        assert set(messages) == {0, 1, 2}


@pytest.mark.parametrize("byte", [8192 + 4, 8192 + 13])
def test_a_page_that_lost_a_row_is_refused(written_thrice, tmp_path, byte):
    """How many rows a page has, and where one of them lies: found by flipping bits at random."""
    folder = shutil.copytree(written_thrice, tmp_path / "copy")
    whole = bytearray((folder / "j.db").read_bytes())
    whole[byte] ^= 1
    (folder / "j.db").write_bytes(whole)
    with pytest.raises(gs.GossamerError, match="damaged"):
        _ = opened(folder).latest()


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_the_checksum_is_what_is_written_of_it(pieces):
    """Two sums over words of 64 bits, as the journal's docstring has them, worked out by hand."""
    plain = weighted = 0
    for piece in pieces:
        words = [int.from_bytes(piece[k : k + 8], "little") for k in range(0, len(piece), 8)]
        plain += sum(words) + (len(piece) << 32)
        weighted = 31 * weighted + sum((k + 1) * word for k, word in enumerate(words))
    assert checksum_of(pieces) == struct.pack("<QQ", plain % 2**64, weighted % 2**64)


def test_rows_of_a_release_without_this_checksum_are_read_and_checked_as_they_were(written, tmp_path):
    folder = shutil.copytree(written, tmp_path / "old")
    db = sqlite3.connect(folder / "j.db", isolation_level=None)
    [about] = db.execute("select about from rounds").fetchone()
    check = 0
    for data in SENT.values():
        whole = len(data) // 4 * 4
        check += sum(struct.unpack(f"<{whole // 4}I", data[:whole])) + sum(data[whole:])
    newer = ("late", "late_sum", "settings")
    known = {name: value for name, value in msgspec.msgpack.decode(about).items() if name not in newer}
    old = msgspec.msgpack.encode(known | {"check": check})
    db.execute("alter table rounds drop column checksum")
    db.execute("update rounds set about = ?", (old,))
    db.close()
    journal = opened(folder)
    assert journal.messages() == {2: SENT}
    np.testing.assert_array_equal(journal.latest().state["s"], ROUND.state["s"])
    journal.commit(ROUND._replace(round=3), SENT, used=3)
    assert len(journal._newest_row().checksum) == 16
    journal.close()
    path = folder / "j.db.0"
    path.write_bytes(path.read_bytes().replace(b"12345678901", b"12345678902"))
    with pytest.raises(gs.GossamerError, match="has changed on the disk"):
        opened(folder).latest()


def test_a_commit_waits_for_the_vectors_before_the_row_names_them(tmp_path, monkeypatch):
    """With "power": what the row says was sent must be on the disk first."""
    waited = []
    journal = Journal(tmp_path / "j.db", "run", 0, "f", "power")
    monkeypatch.setattr("gossamer.peers.journal_files.SYNC", lambda file: waited.append(journal._newest_row()))
    journal.commit(ROUND._replace(round=0), SENT)
    journal.commit(ROUND._replace(round=1), SENT)
    assert [row and row.round for row in waited] == [None, 0]
    journal.close()


def test_a_learner_whose_journal_is_old_is_told_so_and_nothing_is_sent_to_it(tmp_path):
    team = Team(tmp_path)
    listener = team.parties[0].tells[0]
    other = team.nodes[listener]
    other.party.heard[0] = (3, 5)
    before = dict(team.payloads)
    other.take(Arrived(0, pack(Frame(Hello("run", 0, 2, 0, N, "f8")))))
    assert team.payloads == before
    found = []
    while team.boxes[0].turn(found.append):
        pass
    assert any(
        getattr(unpack(f).header, "reason", "") == "old journal" for one in found for f in split_frames(one.data)
    )


def test_a_learner_that_is_restarted_when_its_budget_ends_repeats_its_last_message(tmp_path):
    """Restarted after the last round that it could pay for: the next ones repeat that one's message, not zeros."""
    bounds = gs.records.FeatureBounds(1.0, 1.0, 1.0)
    table = gs.records.Table(np.empty((0, N)), np.empty(0), None, N, bounds=bounds)
    algorithm, run = METHODS["ldp_gradient_tracking"].build(0.3), {"gradient": "history", "steps": 14, "size": N}
    setting = setting_for([0], algorithm, gs.Network.paper(), MODEL, table, **run, per_round=[1], read_once=True)
    boundary = gs.Laplace.for_budget(5.0, horizon=6).bind(setting)
    stop = int(boundary.stops[0])
    assert 0 < stop < 14
    last = boundary.release("theta", stop - 1, np.ones((1, N)))
    kept = boundary.kept(stop)
    boundary.go_on({})
    boundary.go_on(kept)
    np.testing.assert_array_equal(boundary.release("theta", stop, np.full((1, N), 3.0)), last)


def test_a_journal_under_another_name_is_refused(tmp_path):
    """Renaming it in the settings used to draw every round again."""
    team = Team(tmp_path, steps=4)
    team.end(0)
    with pytest.raises(gs.GossamerError, match=r"0\.db\.0 is of the same learner and run"):
        Journal(tmp_path / "other.db", "run", 0, "settings", "process", rounds_kept(4, "f8", 0))


class AtTheSource(Team):
    """With exact noise on gradients, so that messages are fields of the state, in fewer digits."""

    def start(self, i):
        journal = self.journals[i] = Journal(
            self.folder / f"{i}.db", "run", i, "settings", "process", rounds_kept(N, "f4", 0)
        )
        algorithm, run = self.method.build(0.3), {"gradient": "latest", "steps": self.steps, "size": N}
        table = replace(self.stream.table, bounds=gs.records.FeatureBounds(9.0, 9.0, 9.0))
        setting = setting_for([i], algorithm, self.network, MODEL, table, **run, per_round=[1], read_once=True)
        boundary = gs.Gaussian.for_budget(50.0, 1e-5, horizon=self.steps, where="source").bind(setting)
        memory = MODEL.memory(table, "latest", np.ones(1, dtype=np.int64))
        self.parties[i] = Party(
            i, algorithm, self.network, Own(self.stream, i), memory, boundary, journal,
            size=N, steps=self.steps, ridge=MODEL.l2, dtype="f4",
        )  # fmt: skip
        self.boxes[i] = self.hub.of(i)
        self.nodes[i] = Node(self.parties[i], self.boxes[i], "run", journal.epoch, self.hook)


@pytest.mark.parametrize("method", ["ldp_gradient_tracking", "push_pull", "dsgd"])
def test_messages_that_are_fields_of_the_state_are_written_once_and_sent_again_as_they_were(
    tmp_path, method, monkeypatch
):
    written, commit = set(), Journal.commit

    def watched(journal, now, messages, *given):
        written.update((name, isinstance(data, Same)) for name, data in messages.items())
        commit(journal, now, messages, *given)

    monkeypatch.setattr(Journal, "commit", watched)
    team = AtTheSource(tmp_path, method, gs.Network.paper(), steps=30, seed=3)
    team.run(crashes=30)
    assert all(len(seen) == 1 for seen in team.payloads.values())
    assert {key[1] for key in team.payloads} == set(range(30))
    assert ("theta", True) in written if method != "push_pull" else ("y", False) in written


def test_a_message_that_is_a_field_is_that_field_in_the_numbers_in_which_it_travels(tmp_path):
    rng = np.random.default_rng(0)
    s, theta = rng.normal(size=(1, 7)) * 1e30, rng.normal(size=(1, 7))
    s[0, :3] = 1e300, -1e300, 1e-60
    journal = opened(tmp_path)
    now = Snapshot(1, {"s": s, "theta": theta}, np.zeros((1, 7)), 2)
    sent = {"b": Same("theta", "f8"), "a": Same("s", "f4"), "c": b"xyz"}
    journal.commit(now, sent)
    wanted = {"b": theta.astype("<f8").tobytes(), "a": np.clip(s, -3e38, 3e38).astype("<f4").tobytes(), "c": b"xyz"}
    assert journal.messages() == {1: wanted}
    assert list(journal.messages()[1]) == list(sent), "in the order in which they were sent"
    journal.commit(now._replace(round=2), wanted, used=1)  # as releases before this one write them
    journal.close()
    again = opened(tmp_path)
    assert again.messages() == {1: wanted, 2: wanted}
    np.testing.assert_array_equal(again.latest().state["s"], s)
