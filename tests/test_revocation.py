"""Certificates that count no more, and one authority after another: by signed files that every party has."""

from __future__ import annotations

import asyncio
import datetime
import json

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

import gossamer as gs
from gossamer.peers.authorities import follow, path_of, step_document
from gossamer.peers.certificates import (
    Identities,
    Pair,
    Revoked,
    certificate_fingerprint,
    certify,
    issue_certificate,
    key_fingerprint_in,
    key_pem,
    make_authority,
)
from gossamer.peers.compared import words_of
from gossamer.peers.config import read_config
from gossamer.peers.credentials import CredentialsWatch, read_credentials
from gossamer.peers.key_files import read_authority
from gossamer.peers.links import Links
from gossamer.peers.logs import log
from gossamer.peers.revocation import FILE, RevokedList, list_in
from gossamer.peers.signed import Signed, read_signed
from gossamer.peers.succession import handed_on
from gossamer.peers.transport import Wiring
from renewing import RING, Halfway, M
from test_processes import LIMIT, make

TODAY = datetime.date(2026, 6, 1)


def test_what_is_revoked_is_nobodys():
    signer, key = make_authority("run"), ec.generate_private_key(ec.SECP256R1())
    first, second = (certify(signer, 1, key.public_key(), ["localhost"], 1) for _ in range(2))
    brought = issue_certificate(make_authority("hospital"), 7).certificate
    serial = x509.load_pem_x509_certificate(first).serial_number

    def left(revoked):
        known = Identities(signer.certificate, {2: brought}, revoked=revoked)
        return [known.whose(one) for one in (first, second, brought)]

    assert left(Revoked()) == [1, 1, 2]
    assert left(Revoked(serials=frozenset([serial]))) == [None, 1, 2]
    assert left(Revoked(certificates=frozenset([certificate_fingerprint(second)]))) == [1, None, 2]
    assert left(Revoked(certificates=frozenset([certificate_fingerprint(brought)]))) == [1, 1, None]
    assert left(Revoked(keys=frozenset([key_fingerprint_in(first)]))) == [None, None, 2]
    assert left(Revoked(keys=frozenset([key_fingerprint_in(brought)]))) == [1, 1, None]


def test_a_revoked_key_has_handed_on_to_none():
    signer, own = make_authority("run"), [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
    steps = handed_on(handed_on([], own[0], own[1].public_key()), own[1], own[2].public_key())
    enrolled = certify(signer, 1, own[0].public_key(), ["localhost"], 1)
    now = certify(signer, 1, own[2].public_key(), ["localhost"], 1, before=steps)
    middle = certify(signer, 1, own[1].public_key(), ["localhost"], 1, before=steps[:1])
    assert Identities(signer.certificate, members={1: enrolled}).whose(now) == 1
    for one in (enrolled, middle, now):
        revoked = Revoked(keys=frozenset([key_fingerprint_in(one)]))
        assert Identities(signer.certificate, members={1: enrolled}, revoked=revoked).whose(now) is None
    later = Revoked(keys=frozenset([key_fingerprint_in(now)]))
    assert Identities(signer.certificate, members={1: enrolled}, revoked=later).whose(middle) == 1


@pytest.fixture
def run(tmp_path):
    """A run's folder; party 1 of it."""
    make(tmp_path / "run", 5, RING, m=M)
    return tmp_path / "run", tmp_path / "run/learner-1"


def give(place, study, name=FILE):
    (place / name).write_bytes((study / name).read_bytes())


def test_lists_are_written_one_after_another_and_an_old_one_undoes_nothing(run, gossamer, caplog, monkeypatch):
    monkeypatch.setattr(log, "propagate", True)
    study, place = run
    watched = CredentialsWatch(read_config(place))
    certificates = [(study / f"learner-{i}/certificate.pem").read_bytes() for i in range(M)]

    def known():
        return [watched.now.identities.whose(one) for one in certificates]

    assert known() == [0, 1, 2]
    code, out, _ = gossamer("peers", "revoke", study, "--learner", 2)
    assert code == 0
    assert "to every party" in out
    old = (study / FILE).read_bytes()
    give(place, study)
    assert watched.look() is not None
    assert known() == [0, 1, None]
    serial = f"{x509.load_pem_x509_certificate(certificates[0]).serial_number:X}"
    assert gossamer("peers", "revoke", study, "--learner", 0, "--serial", serial)[0] == 0
    assert list_in(read_signed(study / FILE), "it").number == 2
    give(place, study)
    assert watched.look() is not None
    assert known() == [None, 1, None]
    (place / FILE).write_bytes(old)
    watched.look()
    assert known() == [None, 1, None]
    assert any("list 2 was accepted before" in str(getattr(one, "why", "")) for one in caplog.records)
    (place / FILE).unlink()
    watched.look()
    assert known() == [None, 1, None]
    again = read_credentials(read_config(place)).identities  # as after a restart
    assert [again.whose(one) for one in certificates] == [None, 1, None]
    code, _, err = gossamer("peers", "revoke", study, "--learner", 2)
    assert code == 2
    assert "has that already" in err


def test_a_learner_that_is_revoked_is_nobody_with_any_key_that_it_has_had(run, gossamer):
    """Its certificate for the key before is good for as long as it would have been."""
    study, place = run
    before = (study / "learner-2/certificate.pem").read_bytes()
    assert gossamer("party", "renew", study / "learner-2", "--new-key")[0] == 0
    assert gossamer("peers", "sign", study, study / "learner-2/renewal.json")[0] == 0
    after = (study / "learner-2/certificate.pem").read_bytes()
    assert key_fingerprint_in(before) != key_fingerprint_in(after)
    assert gossamer("peers", "revoke", study, "--learner", 2)[0] == 0
    code, out, _ = gossamer("peer", "accept", place, study / FILE)
    assert code == 0
    assert "what it names of learner 2 counts no more" in out
    known = read_credentials(read_config(place), keep=True).identities
    assert [known.whose(one) for one in (before, after)] == [None, None]


def test_a_bit_that_flips_in_the_accepted_list_lifts_nothing(run, gossamer):
    """Its signatures are not looked at again, and an older list stays in force for good."""
    study, place = run
    assert gossamer("peers", "revoke", study, "--learner", 2)[0] == 0
    give(place, study)
    plan, revoked = read_config(place), read_credentials(read_config(place), keep=True).identities
    shown = (study / "learner-2/certificate.pem").read_bytes()
    assert revoked.whose(shown) is None
    (place / FILE).unlink()
    data, refused = (place / "revoked-accepted.json").read_bytes(), 0
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        (place / "revoked-accepted.json").write_bytes(changed)
        try:
            assert read_credentials(plan).identities.whose(shown) is None, f"bit {bit}"
        except gs.GossamerError:
            refused += 1
    assert refused > 1000


def test_a_list_that_nobody_signed_whose_word_counts_ends_a_start(run, gossamer):
    study, place = run
    plan, signer = read_config(place), read_authority(study / "authority")
    own = [Pair((p / "key.pem").read_bytes(), (p / "certificate.pem").read_bytes()) for p in study.glob("learner-*")]
    entry = {"learner": 2, "key": "ab"}
    good = RevokedList(1, (entry,)).signed_for(plan.run_name)
    wrong = [
        good,
        good.signed_by(make_authority("another")),
        good.signed_by(own[0], "0"),
        RevokedList(1, (entry,)).signed_for("another:run").signed_by(signer),
        Signed({**good.document, "revoked": [{"learner": 2}]}).signed_by(signer),
        Signed({**good.document, "revoked": [{"learner": 2, "key": "xyz"}]}).signed_by(signer),
        Signed({**good.document, "number": 0}).signed_by(signer),
        Signed({**good.document, "kind": "authority"}).signed_by(signer),
    ]
    for one in wrong:
        one.save(place / FILE)
        with pytest.raises(gs.GossamerError):
            read_credentials(plan)
        code, out, _ = gossamer("peer", "check", place, "--not-private")
        assert code == 1
        assert "must be mended" in out
    assert not (place / "revoked-accepted.json").exists()
    for i in range(M):  # where the authority's key is lost
        p = study / f"learner-{i}"
        good = good.signed_by(Pair((p / "key.pem").read_bytes(), (p / "certificate.pem").read_bytes()), str(i))
    good.save(place / FILE)
    assert read_credentials(plan, keep=True).identities is not None
    shorter = Signed({**good.document, "number": 2, "revoked": [{"learner": 0, "key": "cd"}]}).signed_by(signer)
    shorter.save(place / FILE)
    with pytest.raises(gs.GossamerError, match="leaves out what list 1 has revoked"):
        read_credentials(plan)


def test_a_learner_that_runs_closes_the_links_of_whom_it_is_told_and_opens_no_others(tmp_path, fleet_of, gossamer):
    run = Halfway(tmp_path, fleet_of, enrolled=False)
    run.start()
    assert gossamer("peers", "revoke", run.folder, "--learner", 2)[0] == 0
    run.give(run.folder / FILE, (0, 1))
    run.wait_for("credentials renewed", (0, 1))
    run.wait(lambda: all(any("2 → " in one["edge"] for one in run.said(i, "link closed")) for i in (0, 1)))
    at = [run.fleet.status(i)["round"] for i in range(M)]
    run.restart(2)  # with the key that was stolen, say
    run.bring_rest()
    run.wait(lambda: all(run.fleet.status(i).get("waits_for") == [2] for i in (0, 1)))
    run.wait(
        lambda: all(any("2 → " in o["edge"] or "? → " in o["edge"] for o in run.said(i, "refused")) for i in (0, 1))
    )
    lost = "the certificate at"  # to which they send nothing, either
    run.wait(lambda: all(any(lost in o["why"] for o in run.said(i, "link lost")) for i in (0, 1)))
    assert [run.fleet.status(i)["round"] <= at[i] + 1 for i in (0, 1)] == [True, True], "nothing of it is used"


def test_a_run_goes_on_while_one_authority_follows_another_and_no_round_is_lost(tmp_path, fleet_of, gossamer):
    run = Halfway(tmp_path, fleet_of)
    run.start()
    words = words_of(read_config(run.places[0]))
    code, out, err = gossamer("peers", "rotate", run.folder, "--to", tmp_path / "next")
    assert code == 0, err
    assert "--authority" in out
    run.give(run.folder / "authority-1.json")
    run.wait_for("credentials renewed")
    fresh = read_authority(tmp_path / "next")
    for i in range(M):
        run.renew(i, signer=fresh)
    run.wait_for("credentials renewed", times=2)
    run.restart(0)  # all of its links are opened anew, with certificates of the new authority
    run.wait_for("link open", (0,), times=4)  # two in its first life, and two in its second
    run.bring_rest()
    run.check_outcome()
    assert [run.fleet.status(i)["life"] for i in range(M)] == [2, 1, 1]
    assert words_of(read_config(run.places[0])) == words
    now = read_credentials(read_config(run.places[0])).identities
    assert now.whose((run.places[1] / "certificate.pem").read_bytes()) == 1
    code, _, err = gossamer("peers", "rotate", run.folder, "--to", tmp_path / "another")
    assert code == 2
    assert "followed by another one" in err


def test_authorities_follow_one_another_and_each_comes_to_its_end(tmp_path):
    signers = [make_authority(f"run {k}") for k in range(3)]
    first, learners = signers[0].certificate, Identities(signers[0].certificate)

    def name(number, by, day):
        document = step_document("run:1", number, signers[number].certificate, TODAY + datetime.timedelta(days=day))
        document.signed_by(signers[by]).save(path_of(tmp_path, number))

    def trusted(day):
        found = follow(tmp_path, "run:1", first, learners, M, TODAY + datetime.timedelta(days=day))
        return [next(k for k, one in enumerate(signers) if one.certificate == pem) for pem in found]

    assert trusted(0) == [0]
    name(1, by=0, day=30)
    assert (trusted(0), trusted(30), trusted(31)) == ([0, 1], [0, 1], [1])
    name(2, by=1, day=10)
    assert (trusted(0), trusted(10), trusted(11)) == ([0, 1, 2], [0, 1, 2], [2]), "the next may end it sooner"
    name(2, by=0, day=10)  # whose turn is over
    with pytest.raises(gs.GossamerError, match="has not signed"):
        trusted(0)


@pytest.mark.parametrize("what", ["number", "no authority", "kind", "date", "run", "name"])
def test_what_names_no_authority_is_refused(tmp_path, what):
    signer, fresh = make_authority("run"), make_authority("the same" if what != "name" else "run")
    document = dict(step_document("run:1", 1, fresh.certificate, TODAY).document)
    document |= {
        "number": {"number": 2},
        "no authority": {"certificate": issue_certificate(fresh, 1).certificate.decode()},
        "kind": {"kind": "revoked"},
        "date": {"until": "soon"},
        "run": {"run": "another"},
        "name": {},
    }[what]
    Signed(document).signed_by(signer).save(path_of(tmp_path, 1))
    with pytest.raises(gs.GossamerError):
        follow(tmp_path, "run:1", signer.certificate, Identities(signer.certificate), M, TODAY)


def test_a_file_of_lists_is_plain(run, gossamer):
    study, _ = run
    assert (
        gossamer("peers", "revoke", study, "--learner", 1, "--certificate", study / "learner-1/certificate.pem")[0] == 0
    )
    whole = json.loads((study / FILE).read_text())
    assert whole["document"]["kind"] == "revoked"
    assert whole["document"]["revoked"][0]["learner"] == 1
    assert gossamer("peers", "revoke", study, "--learner", 9)[0] == 2
    assert gossamer("peers", "revoke", study, "--learner", 1, "--serial", "zz")[0] == 2


@pytest.mark.parametrize("case", ["its own", "renewed", "another key", "revoked"])
def test_who_dials_sends_only_to_the_learner_that_it_means(case):
    """The authority has signed all of these for learner 1; two of them are somebody else's."""

    async def work():
        signer, key = make_authority("run"), ec.generate_private_key(ec.SECP256R1())
        enrolled = certify(signer, 1, key.public_key(), ["localhost"], 1)
        renewed = certify(signer, 1, key.public_key(), ["localhost"], 1)
        shown = {
            "its own": Pair(key_pem(key), enrolled),
            "renewed": Pair(key_pem(key), renewed),
            "another key": issue_certificate(signer, 1),
            "revoked": Pair(key_pem(key), renewed),
        }[case]
        gone = Revoked(certificates=frozenset([certificate_fingerprint(renewed)] if case == "revoked" else []))
        strict, got = Identities(signer.certificate, members={1: enrolled}, revoked=gone), []
        everybody = Identities(signer.certificate)
        listener = Links(Wiring(1, "127.0.0.1:0", {}, [0], shown, everybody, got.append, lambda: b"hello"))
        await listener.start()
        address = {1: f"127.0.0.1:{listener.port}"}
        own = issue_certificate(signer, 0)
        caller = Links(Wiring(0, "127.0.0.1:0", address, [], own, strict, lambda arrived: None, lambda: b"hello"))
        await caller.start()
        caller.dial()
        async with asyncio.timeout(LIMIT):
            while not got and (case in ("its own", "renewed") or caller.dials[1] < 4):
                await asyncio.sleep(0.01)
        assert bool(got) is (case in ("its own", "renewed"))
        await caller.close()
        await listener.close()

    asyncio.run(work())


def test_a_document_is_checked_before_it_is_where_a_learner_looks(run, gossamer, tmp_path):
    study, place = run
    assert gossamer("peers", "revoke", study, "--learner", 2)[0] == 0
    first = (study / FILE).read_bytes()
    assert gossamer("peers", "revoke", study, "--learner", 0)[0] == 0
    code, out, err = gossamer("peer", "accept", place, study / FILE)
    assert code == 0, err
    assert "List 2" in out
    CredentialsWatch(read_config(place))  # which keeps it
    (tmp_path / "old.json").write_bytes(first)
    code, _, err = gossamer("peer", "accept", place, tmp_path / "old.json")
    assert code == 2
    assert "list 2 was accepted before" in err
    assert gossamer("peers", "rotate", study, "--to", tmp_path / "next", "--unsigned")[0] == 0
    document = study / "authority-1.json"
    code, _, err = gossamer("peer", "accept", place, document)
    assert code == 2
    assert "has not signed" in err
    assert not (place / document.name).exists(), "it was taken back"
    for i in range(M):
        assert gossamer("peer", "accept", study / f"learner-{i}", document, "--sign")[0] == 0
    code, _, err = gossamer("peer", "accept", place, document)
    assert code == 0, err
    assert len(read_credentials(read_config(place)).identities.authorities) == 2
    code, out, _ = gossamer("peer", "accept", place, document)
    assert code == 0
    assert "was accepted before" in out
    later = read_signed(document).document | {"number": 7}
    Signed(later).save(tmp_path / "later.json")
    code, _, err = gossamer("peer", "accept", place, tmp_path / "later.json")
    assert code == 2
    assert "expected 2, the next" in err
    Signed({"kind": "request", "run": ""}).save(tmp_path / "other.json")
    code, _, err = gossamer("peer", "accept", place, tmp_path / "other.json")
    assert code == 2
    assert "expected one of membership, revoked, authority" in err


@pytest.mark.parametrize("value", ["C0FFEE", "0xc0", " c0", "c_0", "-c0", "", 7, None])
def test_a_list_whose_fingerprints_could_never_be_found_is_refused(value):
    """It would be in force, and revoke nobody."""
    for name in ("key", "serial", "certificate"):
        signed = Signed({"kind": "revoked", "run": "r", "number": 1, "revoked": [{"learner": 1, name: value}]})
        with pytest.raises(gs.GossamerError, match="is no list of revoked certificates"):
            list_in(signed, "it")
