"""What a start refuses for what lies in the folder, `peer check` says before in the same words, and changes nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import struct
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
import test_pair_keys as pair_keys
from gossamer.peers.config import PrivacyPlan, read_config
from gossamer.peers.declaration import declare
from gossamer.peers.journal import InUse, Journal, Snapshot
from gossamer.peers.journal_copy import FRAME, LITTLE, LOG, InMemory, _summed, database_in_memory, look_into
from gossamer.peers.process import LearnerProcess
from test_hostile_folders import set_to
from test_operations import edit, wait_until
from test_processes import make

M = 3
RING = gs.Network.ring(M)
BUDGET = PrivacyPlan(epsilon=2.0, law="gaussian", where="source")


@pytest.fixture
def place(tmp_path):
    make(tmp_path / "run", 20, RING, BUDGET, m=M)
    return tmp_path / "run" / "learner-1"


def contents(place):
    return {path: (path.stat().st_mode, path.stat().st_mtime_ns) for path in sorted(place.parent.rglob("*"))}


def refused_alike(gossamer, place):
    """The sentence that the check and the start both have; the check has changed nothing."""
    before = contents(place)
    code, out, _ = gossamer("peer", "check", place, "--json")
    assert contents(place) == before
    assert code == 1
    mend = json.loads(out)["mend"]
    code, _, said = gossamer("peer", "run", place, "--quiet")
    assert code == 2
    assert any(" ".join(one.split()) in " ".join(said.split()) for one in mend), (mend, said)
    return said


def keep_lines(place, count):
    path = place / "records.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))


def party_of(place):
    """A party after its first round was sent, with its journal open."""
    learner = LearnerProcess(read_config(place), connect=lambda wiring: None)
    learner._party()
    learner.journal.mark_used()
    return learner


def killed(place):
    """As kill -9 leaves it: the round is in SQLite's log, and nowhere else."""
    learner = party_of(place)
    shutil.copytree(place, place.with_name("aside"))
    learner.close()
    shutil.rmtree(place)
    place.with_name("aside").rename(place)
    assert (place / "journal.db-wal").stat().st_size > 4096


def other_budget(place):
    killed(place)
    edit(place, "epsilon = 2.0", "epsilon = 3.0")


def other_records(place):
    party_of(place).close()
    lines = (place / "records.csv").read_text().splitlines()
    (place / "records.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")


def cut_file(place):
    party_of(place).close()
    os.truncate(place / "journal.db.0", 100)


def older_journal(place):
    """The database went, and the files beside it did not."""
    party_of(place).close()
    for t in (1, 2, 3):
        (place / f"copy.{t}").write_bytes((place / "journal.db.0").read_bytes())
    (place / "journal.db").unlink()


def latest_with_a_window(place):
    set_to(place, "model", "remember", "3")
    set_to(place, "run", "gradient", '"latest"')


def parquet_from_standard_input(place):
    set_to(place, "data", "path", '"-"')
    set_to(place, "data", "format", '"parquet"')


def other_certificate(place):
    shutil.copy(place.with_name("learner-0") / "certificate.pem", place / "certificate.pem")


def setting(table, name, value):
    return lambda place: set_to(place, table, name, value)


def written(name, text):
    return lambda place: (place / name).write_text(text)


CASES = {
    "has 12 records for 20 rounds of 1, and privacy": lambda place: keep_lines(place, 13),
    "records and [data] records = 21": setting("data", "records", "21"),
    "metrics = 'nonsense': expected HOST:PORT": setting("party", "metrics", '"nonsense"'),
    "metrics = '127.0.0.1:70000': expected": setting("party", "metrics", '"127.0.0.1:70000"'),
    "metrics = 'a..b:9400' names no machine": setting("party", "metrics", '"a..b:9400"'),
    "listen = 'here': expected HOST:PORT": setting("party", "listen", '"here"'),
    "there is no folder": setting("party", "journal", '"nowhere/journal.db"'),
    "is no journal (file is not a database)": written("journal.db", "x,y\n1,2\n" * 99),
    "is no file: set [party] journal": lambda place: (place / "journal.db").mkdir(),
    "began with other settings": other_budget,
    "are not those that are there now": other_records,
    "is not of its round 0": cut_file,
    "use that journal, under its own name": older_journal,
    "log.jsonl cannot be written": lambda place: (place / "log.jsonl").mkdir(),
    "no file": lambda place: (place / "records.csv").unlink(),
    "has no column 'x0001'": written("records.csv", "x0000,y\n0.1,1\n"),
    "a Parquet file does not grow": setting("data", "format", '"parquet"\nfollow = true'),
    "standard input brings CSV or JSONL": parquet_from_standard_input,
    "the key is not the certificate's": other_certificate,
    "authority.pem cannot be read": lambda place: (place / "authority.pem").unlink(),
    "graph.json": written("graph.json", '{"R": [[0'),
    '[run] method = "nothing": expected one of': setting("run", "method", '"nothing"'),
    '[run] method = "nowhere:own": it cannot be imported': setting("run", "method", '"nowhere:own"'),
    '[privacy] law = "cauchy": expected': setting("privacy", "law", '"cauchy"'),
    "[run] steps": setting("run", "steps", "0"),
    "[model] l2": setting("model", "l2", '"small"'),
    '[model] remember = 3 is for [run] gradient = "history"': latest_with_a_window,
    "perhaps": setting("party", "jurnal", '"j.db"'),
}


@pytest.mark.parametrize("words", CASES)
def test_what_a_start_refuses_the_check_has_said(place, gossamer, words):
    CASES[words](place)
    assert words in " ".join(refused_alike(gossamer, place).split())


def test_an_address_that_is_no_place_ends_a_start_before_it_waits_for_records(place, gossamer):
    """A followed file that is not there yet is waited for, and a mistake in the folder is not."""
    set_to(place, "data", "follow", "true")
    (place / "records.csv").unlink()
    set_to(place, "party", "metrics", '"nonsense"')
    assert "metrics = 'nonsense': expected HOST:PORT" in refused_alike(gossamer, place)


def test_a_journal_of_which_all_is_in_the_log_is_in_order(place, gossamer):
    killed(place)
    before = contents(place)
    found = declare(read_config(place))
    assert found.mend == []
    assert contents(place) == before


def secrets_of(run):
    make(run, 20, pair_keys.RING, pair_keys.PRIVATE, pair_keys.M, secrets=pair_keys.AGREED)
    return run / "learner-1"


@pytest.mark.parametrize("words", ["learner 1 has no secret", "does not belong to learner 1's key"])
def test_a_secret_that_a_start_refuses(tmp_path, gossamer, words):
    place = secrets_of(tmp_path / "run")
    if words == "learner 1 has no secret":
        (place / "secret.pem").unlink()
    else:
        shutil.copy(place.with_name("learner-0") / "secret.pem", place / "secret.pem")
    assert words in " ".join(refused_alike(gossamer, place).split())


def test_a_secret_that_is_in_the_journal_is_found_there_and_stays(tmp_path):
    place = secrets_of(tmp_path / "run")
    party_of(place).close()
    assert not (place / "secret.pem").exists()
    assert declare(read_config(place)).mend == []


def test_looking_takes_no_lock_away(place, tmp_path):
    """SQLite's lock is the process's, and goes with any descriptor of the file that the process closes."""
    learner = party_of(place)
    script = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('begin exclusive')"

    def locked():
        tried = subprocess.run([sys.executable, "-c", script, place / "journal.db"], capture_output=True, text=True)
        return "database is locked" in tried.stderr

    try:
        assert locked()
        assert any("this process has it open itself" in one for one in declare(read_config(place)).mend)
        assert locked()
    finally:
        learner.close()
    assert not locked()


def test_a_learner_that_runs_is_looked_at_and_goes_on(tmp_path, fleet_of):
    make(tmp_path / "run", 5000, gs.Network.complete(M), BUDGET, m=M)
    fleet = fleet_of(tmp_path / "run", m=M)
    fleet.start()
    place = fleet.place(1)
    wait_until(lambda: fleet.status(1).get("round", 0) > 0, lambda: fleet.status(1))
    for _ in range(2):
        assert declare(read_config(place)).mend == []
    with pytest.raises(InUse):
        LearnerProcess(read_config(place), connect=lambda wiring: None)
    assert fleet.code(1) is None


def test_files_that_never_stay_as_they_are_accuse_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr("gossamer.peers.journal_copy.PAUSE", 0.001)
    path, times = tmp_path / "journal.db", []

    def look():
        times.append(0)
        path.write_bytes(b"x" * len(times))
        raise gs.GossamerError("half of one round, half of the next")

    assert look_into(path, look) is None
    path.unlink()
    with pytest.raises(gs.GossamerError, match="as it is"):
        look_into(path, lambda: (_ for _ in ()).throw(gs.GossamerError("as it is")))


@pytest.mark.parametrize(("size", "count"), [(1001, 1), (1004, 1), (1 << 17, 1), (4096, 2**32 - 1)])
def test_a_log_that_somebody_has_made_up_gets_a_sentence_or_counts_for_nothing(tmp_path, size, count):
    """Its sums are right, so that no bit has flipped; SQLite takes pages of a power of two, up to 65536 bytes."""
    path = tmp_path / "journal.db"
    journal = Journal(path, "run", 1, "settings", "process")
    journal.close()
    head = LOG.pack(LITTLE, 3007000, size, 0, 1, 2, 0, 0)[:-8]
    sums = _summed(head, "<", (0, 0))
    frame, content = FRAME.pack(1, count, 1, 2, 0, 0)[:8], bytes(size)
    with contextlib.suppress(ValueError):  # pages of an odd length have no sum
        frame += struct.pack(">4I", 1, 2, *_summed(frame + content, "<", sums))
    path.with_name("journal.db-wal").write_bytes(head + struct.pack(">2I", *sums) + frame + content)
    if size == 4096:
        with pytest.raises(gs.GossamerError, match="more pages than there are"):
            Journal(path, "run", 1, "settings", "process", store=InMemory)
        return
    copy = Journal(path, "run", 1, "settings", "process", store=InMemory)
    assert copy.epoch == journal.epoch + 1, "as the database says without its log"
    copy.close()


def test_a_log_counts_up_to_its_first_wrong_sum(tmp_path):
    """As SQLite reads it: a transaction with a changed bit, and all after it, never were."""
    journal = Journal(tmp_path / "journal.db", "run", 1, "settings", "process")
    sizes = []
    for t in range(6):
        journal.commit(Snapshot(t, {"x": np.ones((1, 2))}, np.zeros((1, 2)), t + 1), {"x": b"12345678"}, t, ((t, 0),))
        sizes.append((tmp_path / "journal.db-wal").stat().st_size)
    for name in ("whole", "cut", "bit"):
        shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-{name}"))
    journal.close()
    for name, there in (("whole", 6), ("cut", 3), ("bit", 3)):
        place = tmp_path.with_name(f"{tmp_path.name}-{name}") / "journal.db"
        log = place.with_name("journal.db-wal")
        data = bytearray(log.read_bytes()[: sizes[3] - 1 if name == "cut" else None])
        if name == "bit":
            data[sizes[2] + 100] ^= 1
        log.write_bytes(data)
        copied = database_in_memory(place).execute("select round, sender from late").fetchall()
        shutil.copytree(place.parent, place.parent / "sqlite")
        own = sqlite3.connect(place.parent / "sqlite" / "journal.db").execute("select round, sender from late")
        assert copied == own.fetchall()
        assert len(copied) == there


def test_a_damaged_folder_is_told_by_its_own_words(place, gossamer):
    """party.toml has no options, and no arguments of Python."""
    set_to(place, "privacy", "law", '"cauchy"')
    code, out, err = gossamer("peer", "check", place)
    assert (code, err) == (1, "")
    assert "must be mended" in out
    assert '[privacy] law = "cauchy"' in " ".join(out.split())
    assert gossamer("peer", "check", place / "nowhere")[0] == 2, "that is a word of the command which is wrong"


OWN = ("--csv", "all.csv", "--target", "ill", "--classes", "no,yes", "--range", "age=0:99", "--epsilon", 3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--per-round", 1), "learner 2 gets 13 records, and 14 rounds of 1 need 14: use --steps 13 at most, or bring"),
        (
            ("--where", "messages", "--per-round", 2),
            "14 rounds of 2 need 28: use --steps 6 at most, a smaller --per-ro",
        ),
        (("--gradient", "latest", "--per-round", 1), "14 rounds of 1 need 14: use --steps 13 at most"),
    ],
)
def test_folders_that_could_not_start_are_not_made(tmp_path, gossamer, words, said):
    """Of 41 records, dealt to three, one learner gets 13."""
    (tmp_path / "all.csv").write_text("age,ill\n" + "".join(f"{k},{'yes' if k % 3 else 'no'}\n" for k in range(41)))
    made = ("peers", "init", "demo", "--learners", 3, *OWN, *words)
    code, out, err = gossamer(*made, "--steps", 14)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert not (tmp_path / "demo").exists()
    steps = "6" if "messages" in words else "13"
    assert gossamer(*made, "--steps", steps)[0] == 0, "as it was told"
    assert declare(read_config(tmp_path / "demo/learner-2")).mend == []


def test_rounds_that_go_on_over_the_records_may_be_more(tmp_path, gossamer):
    (tmp_path / "all.csv").write_text("age,ill\n" + "".join(f"{k},{'yes' if k % 3 else 'no'}\n" for k in range(41)))
    assert gossamer("peers", "init", "demo", "--learners", 3, *OWN, "--steps", 60)[0] == 0
    assert declare(read_config(tmp_path / "demo/learner-2")).mend == []
