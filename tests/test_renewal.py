"""Certificates and keys that are renewed while a learner runs."""

from __future__ import annotations

import asyncio
import shutil
import urllib.request

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

from cryptography.hazmat.primitives.asymmetric import ec

from gossamer.peers import credentials
from gossamer.peers.certificates import (
    certificate_fingerprint,
    check_pair,
    issue_certificate,
    key_fingerprint_in,
    make_authority,
)
from gossamer.peers.compared import words_of
from gossamer.peers.config import read_config
from gossamer.peers.credentials import CredentialsWatch, read_identities
from gossamer.peers.key_files import read_authority
from gossamer.peers.looking import look_at
from gossamer.peers.succession import handed_on
from renewing import RING, Halfway, M, read_key
from test_enrolment import enrolled  # noqa: F401
from test_operations import edit, wait_until
from test_processes import LIMIT, free_ports, make


def own_certificate(place):
    return (place / "certificate.pem").read_bytes()


def shown_by(place):
    """The certificate with which a learner that runs answers, by its fingerprint."""
    plan = read_config(place)
    trusted, name = read_identities(plan).expected(plan.learner)
    return certificate_fingerprint(asyncio.run(look_at(plan.config.party.listen, trusted, name)))


def test_new_certificates_are_taken_while_a_run_goes_on_and_no_round_is_lost(tmp_path, fleet_of):
    """One for the same key, one for a new key; and the third learner, which dials both anew, has been told nothing."""
    run, port = Halfway(tmp_path, fleet_of), free_ports(1)
    edit(run.places[1], "[party]\n", f'[party]\nmetrics = "127.0.0.1:{port}"\n')
    run.start()
    words = [words_of(read_config(place)) for place in run.places]
    fresh, old = ec.generate_private_key(ec.SECP256R1()), read_key((run.places[2] / "key.pem").read_bytes())
    run.renew(1, days=300)
    run.renew(2, fresh, handed_on([], old, fresh.public_key()), days=300)
    run.wait_for("credentials renewed", (1, 2))
    for i in (1, 2):  # whoever dials it now sees the new one
        wait_until(lambda i=i: shown_by(run.places[i]) == certificate_fingerprint(own_certificate(run.places[i])))
    run.restart(0)
    run.wait_for("link open", (0,), times=4)  # two in its first life, and two in its second
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT) as answer:
        lines = answer.read().decode().splitlines()
    (days,) = [float(line.split()[1]) for line in lines if line.startswith("gossamer_certificate_days_left ")]
    assert 299 < days <= 300
    run.bring_rest()
    run.check_outcome()
    assert [run.fleet.status(i)["life"] for i in range(M)] == [2, 1, 1]
    assert [run.fleet.status(i)["certificate_days_left"] > 299 for i in range(M)] == [False, True, True]
    assert [words_of(read_config(place)) for place in run.places] == words, "the words stay"


@pytest.fixture
def watch(tmp_path):
    make(tmp_path / "run", 5, RING, m=M)
    place = tmp_path / "run/learner-1"
    return CredentialsWatch(read_config(place)), place, read_authority(tmp_path / "run/authority")


def put(place, own):
    (place / "key.pem").write_bytes(own.key)
    (place / "certificate.pem").write_bytes(own.certificate)


WRONG = {
    "is not learner 1's": lambda place, signer: put(place, issue_certificate(signer, 2)),
    "of this run": lambda place, signer: put(place, issue_certificate(make_authority("another"), 1)),
    "the key is not the certificate's": lambda place, signer: (place / "certificate.pem").write_bytes(
        issue_certificate(signer, 1).certificate
    ),
    "valid": lambda place, signer: put(place, issue_certificate(signer, 1, days=-1)),
    "cannot be read": lambda place, signer: (place / "key.pem").write_bytes(b"nonsense"),
    "put it there": lambda place, signer: (place / "certificate.pem").unlink(),
}


@pytest.mark.parametrize("why", WRONG)
def test_what_is_wrong_is_named_and_the_old_one_stays(watch, why):
    watched, place, signer = watch
    before = watched.now
    WRONG[why](place, signer)
    assert watched.look() is None
    assert watched.problem == "", "two files are not replaced at one moment"
    assert watched.look() is None
    assert why in watched.problem
    assert watched.look() is None
    assert watched.now == before
    put(place, own := issue_certificate(signer, 1))
    found = watched.look()
    assert found is not None
    assert found.own == own
    assert watched.problem == ""
    assert watched.look() is None


def test_a_key_and_its_certificate_may_come_one_after_the_other(watch):
    watched, place, signer = watch
    own = issue_certificate(signer, 1)
    (place / "key.pem").write_bytes(own.key)
    assert watched.look() is None
    (place / "certificate.pem").write_bytes(own.certificate)
    assert watched.look().own == own
    assert watched.problem == ""


def test_a_neighbours_own_certificate_is_read_again(watch):
    watched, place, _ = watch
    brought, later = (issue_certificate(make_authority("hospital"), 5).certificate for _ in range(2))
    (place / "theirs.pem").write_bytes(brought)
    edit(place, "[neighbours.2]\n", '[neighbours.2]\ncertificate = "theirs.pem"\n')
    watched = CredentialsWatch(read_config(place))
    assert watched.now.identities.whose(brought) == 2
    (place / "theirs.pem").write_bytes(later)
    found = watched.look()
    assert (found.identities.whose(brought), found.identities.whose(later)) == (None, 2)


def test_an_owner_is_told_of_the_end_once_for_each_number_of_days(watch, monkeypatch):
    watched, place, signer = watch
    said, left = [], 0.0
    monkeypatch.setattr(credentials, "days_left", lambda certificate: left)
    monkeypatch.setattr(credentials.log, "warning", lambda event, extra: said.append((event, extra["days"])))
    for left in (40.0, 29.5, 29.0, 20.0, 13.0, 8.0, 6.9, 2.5, 2.4, 0.5, -0.1, -3.0):  # noqa: B007
        watched.look()
    assert [days for event, days in said if event == "certificate ends"] == [29.5, 13.0, 6.9, 2.5, 0.5]
    assert [days for event, days in said if event == "certificate has ended"] == [-0.1]
    put(place, issue_certificate(signer, 1))
    watched.look()
    said.clear()
    left = 13.0
    watched.look()
    assert said == [("certificate ends", 13.0)], "of the new one it is told again"


def joined(enrolled, gossamer):  # noqa: F811
    study, mine, _ = enrolled()
    for i in range(M):
        assert gossamer("party", "join", mine / f"learner-{i}", study / f"learner-{i}.json")[0] == 0
    return study, mine


@pytest.mark.parametrize("new_key", [(), ("--new-key",)], ids=["same key", "new key"])
def test_a_party_renews_by_a_request_and_a_file(enrolled, gossamer, new_key):  # noqa: F811
    study, mine = joined(enrolled, gossamer)
    place = mine / "learner-1"
    watched, words = CredentialsWatch(read_config(place)), words_of(read_config(place))
    members = watched.now.identities
    for times in range(2):  # one key after another
        before = {name: (place / name).read_bytes() for name in ("key.pem", "certificate.pem")}
        assert gossamer("party", "renew", place, *new_key)[0] == 0
        assert (place / "key.pem").read_bytes() == before["key.pem"], "until its certificate is there"
        code, out, err = gossamer("peers", "sign", study, place / "renewal.json")
        assert code == 0, err
        assert "learner-1.json" in out
        code, _, err = gossamer("party", "join", place, study / "learner-1.json")
        assert code == 0, err
        found = watched.look()
        assert found is not None, times
        check_pair(found.own)
        assert found.own.certificate != before["certificate.pem"]
        assert (found.own.key == before["key.pem"]) == (not new_key)
        assert members.whose(found.own.certificate) == 1, "whom nobody has told anything knows it"
        assert (place / "key.pem").stat().st_mode & 0o077 == 0
    assert words_of(read_config(place)) == words
    assert not list(place.glob("key-new.pem"))


def test_a_renewal_is_for_who_has_enrolled_alone(enrolled, gossamer, tmp_path):  # noqa: F811
    study, mine = joined(enrolled, gossamer)
    assert gossamer("party", "new", tmp_path / "thief")[0] == 0
    code, _, err = gossamer("peers", "sign", study, tmp_path / "thief/request.json")
    assert code == 2
    assert "for a key that no learner" in err
    assert gossamer("party", "renew", mine / "learner-1")[0] == 0
    code, _, err = gossamer("peers", "sign", study, mine / "learner-1/renewal.json", "--learner", 2)
    assert code == 2
    assert gossamer("peers", "sign", study, mine / "learner-1/renewal.json")[0] == 0
    code, _, err = gossamer("party", "join", mine / "learner-2", study / "learner-1.json")
    assert code == 2
    assert "was made for another key" in err
    kept = (mine / "learner-2/certificate.pem").read_bytes()
    assert key_fingerprint_in(kept) == key_fingerprint_in((study / "learner-2/certificate.pem").read_bytes())


@pytest.mark.parametrize("new_key", [(), ("--new-key",)], ids=["same key", "new key"])
def test_keys_that_one_person_has_made_are_renewed_in_the_same_way(gossamer, tmp_path, new_key):
    make(tmp_path / "run", 5, RING, m=M)
    mine = tmp_path / "mine"  # which its owner has taken home
    shutil.copytree(tmp_path / "run/learner-1", mine)
    watched = CredentialsWatch(read_config(mine))
    assert gossamer("party", "renew", mine, *new_key)[0] == 0
    assert gossamer("peers", "sign", tmp_path / "run", mine / "renewal.json")[0] == 0
    code, _, err = gossamer("party", "join", mine, tmp_path / "run/learner-1.json")
    assert code == 0, err
    found = watched.look()
    assert found.identities.whose(found.own.certificate) == 1
    assert gossamer("party", "new", tmp_path / "thief")[0] == 0
    code, _, err = gossamer("peers", "sign", tmp_path / "run", tmp_path / "thief/request.json")
    assert code == 2
    assert "for a key that no learner" in err


def test_another_learners_certificate_ends_a_start_and_a_check(gossamer, tmp_path):
    make(tmp_path / "run", 5, RING, m=M)
    place, other = tmp_path / "run/learner-1", tmp_path / "run/learner-2"
    for name in ("key.pem", "certificate.pem"):
        (place / name).write_bytes((other / name).read_bytes())
    code, out, _ = gossamer("peer", "check", place, "--not-private")
    assert code == 1
    assert "is not learner 1's of this run" in " ".join(out.split())
    code, _, err = gossamer("peer", "run", place, "--not-private", "--quiet")
    assert code == 2
    assert "is not learner 1's of this run" in err


def test_only_an_authority_that_counts_renews(enrolled, gossamer, tmp_path):  # noqa: F811
    study, mine = joined(enrolled, gossamer)
    assert gossamer("party", "renew", mine / "learner-1")[0] == 0
    signer = make_authority("another")
    (tmp_path / "other").mkdir()
    put(tmp_path / "other", signer)
    asked = mine / "learner-1/renewal.json"
    code, _, err = gossamer("peers", "sign", study, asked, "--authority", tmp_path / "other")
    assert code == 2
    assert "is no authority that counts" in err
    assert gossamer("peers", "rotate", study, "--to", tmp_path / "next")[0] == 0
    assert gossamer("peers", "sign", study, asked, "--authority", tmp_path / "next")[0] == 0
    code, _, err = gossamer("party", "join", mine / "learner-1", study / "learner-1.json")
    assert code == 2, "this party has not taken the document yet"
    assert gossamer("peer", "accept", mine / "learner-1", study / "authority-1.json")[0] == 0
    code, _, err = gossamer("party", "join", mine / "learner-1", study / "learner-1.json")
    assert code == 0, err
