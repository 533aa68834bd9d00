"""What an earlier release sent and left behind is read today, and gone on from.

tests/golden/peers-*.tar.xz has frames, and runs that were stopped in the middle with all their journals. An earlier
release itself wrote them, in an environment of its own: `python benchmarks/releases.py --record COMMIT`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers import wire
from gossamer.peers.certificates import issue_certificate, make_authority
from gossamer.peers.config import read_config
from gossamer.peers.journal import Journal
from gossamer.peers.process import run_learner
from gossamer.version import __version__
from test_processes import free_ports

ROOT = Path(__file__).parents[1]
COMPATIBLE, EARLIER = "798245d", "9f54431"  # of 0.3.0 before it was released, and the last of 0.2.0
LEARNERS, STOPPED, STEPS = 4, 59, 120
HEADERS = {
    "Hello": wire.Hello("run:0123456789abcdef", 3, 7, 41, 117, "f8"),
    "Part": wire.Part(41, "s", 0, 1),
    "Ack": wire.Ack(40),
    "Done": wire.Done(),
    "Refusal": wire.Refusal("run", "Learner 3 is in another run."),
}
HEAVY = pytest.mark.skipif(
    "GOSSAMER_RELEASES" not in os.environ,
    reason="TWO RELEASES WERE NOT RUN TOGETHER: GOSSAMER_RELEASES names no folder for an earlier one's environment",
)


def unpacked(commit, place):
    with tarfile.open(ROOT / "tests" / "golden" / f"peers-{commit}.tar.xz") as packed:
        packed.extractall(place, filter="data")
    return place


@pytest.fixture
def begun(tmp_path):
    """begun(commit, name): a run's folder as it was left, with keys that are valid today, on ports that are free."""

    def start(commit, name):
        folder, authority, port = (
            unpacked(commit, tmp_path / commit) / name,
            make_authority("test"),
            free_ports(LEARNERS),
        )
        for i in range(LEARNERS):
            place, pair = folder / f"learner-{i}", issue_certificate(authority, i)
            for file, data in (
                ("key", pair.key),
                ("certificate", pair.certificate),
                ("authority", authority.certificate),
            ):
                (place / f"{file}.pem").write_bytes(data)
                (place / f"{file}.pem").chmod(0o600)
            settings = (place / "party.toml").read_text()
            first = min(map(int, re.findall(r'127\.0\.0\.1:(\d+)"', settings)))
            away = port - first
            settings = re.sub(r'127\.0\.0\.1:(\d+)"', lambda at, away=away: f'127.0.0.1:{int(at[1]) + away}"', settings)
            (place / "party.toml").write_text(settings)
        return folder

    return start


def expected(folder):
    return json.loads((folder / "expected.json").read_text())


@pytest.mark.parametrize("commit", [COMPATIBLE, EARLIER])
def test_frames_are_the_same_bytes_as_ever(commit, tmp_path):
    kept = json.loads((unpacked(commit, tmp_path) / "frames.json").read_text())
    assert set(kept) == set(HEADERS)
    for name, header in HEADERS.items():
        data, payload = bytes.fromhex(kept[name]), bytes(range(16)) if name == "Part" else b""
        frame = wire.unpack(data)
        assert (frame.header, bytes(frame.payload)) == (header, payload)
        assert wire.pack(wire.Frame(header, payload)) == data


@pytest.mark.parametrize("name", ["seeded", "private"])
def test_a_journal_has_the_messages_that_the_earlier_release_wrote(begun, name):
    """What was sent is sent again as it was, bit for bit."""
    folder = begun(COMPATIBLE, name)
    for i, sent in enumerate(expected(folder)["sent"]):
        plan = read_config(folder / f"learner-{i}")
        stored = settings_of(folder / f"learner-{i}")
        assert stored["run"] == plan.run_name, "the agreement has the same fingerprint"
        assert stored["fingerprint"].startswith(plan.own_settings)
        journal = Journal(plan.folder / "journal.db", plan.run_name, i, stored["fingerprint"], "process", 64)
        messages, newest = journal.messages(), journal.latest()
        journal.close()
        assert newest.round == STOPPED
        assert len(sent) >= 1
        assert {
            str(t): {name: hashlib.sha256(data).hexdigest() for name, data in one.items()}
            for t, one in messages.items()
        } == sent


def settings_of(place):
    database = sqlite3.connect(place / "journal.db")
    about = dict(database.execute("select name, value from about"))
    database.close()
    return about


def test_a_run_that_an_earlier_release_began_ends_with_the_same_numbers(begun, fleet_of):
    folder = begun(COMPATIBLE, "seeded")
    fleet = fleet_of(folder, m=LEARNERS)
    fleet.start()
    np.testing.assert_allclose(fleet.finish(), expected(folder)["theta"], rtol=0, atol=1e-12)
    for i in range(LEARNERS):
        assert fleet.status(i)["life"] >= 2
        assert fleet.status(i)["refused"] == {}
        assert fleet.log(i)[0]["round"] == STOPPED
        assert settings_of(fleet.place(i))["release"] == __version__


def test_a_budget_is_gone_on_from_and_not_begun_again(begun, fleet_of):
    folder = begun(COMPATIBLE, "private")
    fleet = fleet_of(folder, m=LEARNERS)
    fleet.start()
    fleet.finish()
    for i in range(LEARNERS):
        started = fleet.log(i)[0]
        assert started["round"] == STOPPED
        assert 0 < started["epsilon"] < 3
        assert 2.99 < fleet.status(i)["epsilon"][0] <= 3


@pytest.mark.parametrize("name", ["seeded", "private"])
def test_a_journal_whose_numbers_mean_something_else_is_refused_with_both_releases(begun, name):
    """In 0.2.0 features lay in other places: θ, and whatever was sent of it, cannot be gone on from."""
    folder = begun(EARLIER, name)
    before = (folder / "learner-0" / "journal.db").read_bytes()
    with pytest.raises(gs.GossamerError) as refused:
        run_learner(read_config(folder / "learner-0"), quiet=True)
    assert "began with other settings" in str(refused.value)
    assert (
        f"it was written by a release of gossamer that did not say which, and this is gossamer {__version__}: where no "
        "setting has changed, go on with the release that wrote it, or join a new run"
    ) in str(refused.value)
    assert (folder / "learner-0" / "journal.db").read_bytes() == before, "the release that wrote it can go on with it"


def test_a_journal_says_which_release_wrote_it_where_settings_are_others(tmp_path, monkeypatch):
    from gossamer.peers import journal as module
    from gossamer.peers.journal import Snapshot

    def opened(fingerprint):
        return Journal(tmp_path / "journal.db", "run", 0, fingerprint, "process")

    begun = opened("one")
    begun.commit(Snapshot(0, {"theta": np.zeros((1, 2))}, np.zeros((1, 2)), 1), {"s": b"12345678"})
    begun.mark_used()
    begun.close()
    with pytest.raises(gs.GossamerError, match=r"books rounds otherwise\.$"):
        opened("another")
    monkeypatch.setattr(module, "__version__", "9.9")
    with pytest.raises(
        gs.GossamerError, match=f"written by gossamer {__version__}, and this is gossamer 9.9: where no"
    ):
        opened("another")
    opened("one").close()
    assert settings_of(tmp_path)["release"] == "9.9"


@pytest.fixture
def releases(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import releases as module

    yield module
    sys.modules.pop("releases")


@HEAVY
def test_two_releases_in_one_run(releases, tmp_path):
    """The earlier one is installed in its own environment: learners of both find θ together; a journal goes over."""
    kept = Path(os.environ["GOSSAMER_RELEASES"])
    old, new = releases.install(releases.COMPATIBLE, kept / releases.COMPATIBLE), releases.this_release()
    assert releases.together(old, new, tmp_path) <= 1e-12
    assert releases.status_of(tmp_path / "together", 1)["releases"]["0"] == "", "it says none"
    said = new.run("peers", "status", tmp_path / "together")
    assert f"several releases of gossamer: one that says no version at 0, 2; {__version__} at 1, 3" in " ".join(
        said.split()
    )
    off, messages, spent = releases.upgraded(old, new, tmp_path)
    assert off <= 1e-12
    assert messages > 0
    assert 2.99 < spent <= 3


@HEAVY
def test_a_release_that_means_something_else_is_refused_with_both_named(releases, tmp_path):
    kept = Path(os.environ["GOSSAMER_RELEASES"])
    old, new = releases.install(releases.EARLIER, kept / releases.EARLIER), releases.this_release()
    said = releases.refused(old, new, tmp_path)
    assert f"(a release of gossamer that does not say which; here gossamer {__version__})" in said
    assert "graph and release" in said
    assert "it was written by a release" in releases.refused_journal(old, new, tmp_path)
