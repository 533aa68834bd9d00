"""Parties that are let into a run whose maker has none of their keys."""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import gossamer as gs
from gossamer.peers.bundle import Bundle, read_bundle, write_bundle
from gossamer.peers.certificates import (
    Identities,
    Pair,
    certify,
    issue_certificate,
    key_pem,
    make_authority,
    members_in,
)
from gossamer.peers.compared import words_of
from gossamer.peers.config import read_config
from gossamer.peers.enrolment import sign
from gossamer.peers.key_files import read_authority
from gossamer.peers.own_folder import join, new_folder
from gossamer.peers.request import check_request, make_request, read_request
from gossamer.peers.signed import Signed
from gossamer.peers.succession import handed_on
from gossamer.privacy.secrets import LEAST_SHARE
from renewing import STEPS, Halfway
from test_processes import free_ports

M = 3
AGES = "age=0:100"
DECLARED = ["--target", "ill", "--classes", "no,yes", "--range", AGES, "--steps", 6, "--clip", 1, "--graph", "ring"]


def four_in_a_row(words):
    each = words.split()
    return [" ".join(each[k : k + 4]) for k in range(0, len(each), 4)]


@pytest.fixture
def enrolled(tmp_path, gossamer):
    """Everything up to what goes back: (the run's folder, the parties' own); `secrets` for noise that cancels."""

    def enrol(*options):
        port, mine = free_ports(M), tmp_path / "mine"
        made = gossamer("peers", "init", "study", "--own-keys", "--learners", M, *DECLARED, *options)
        assert made[0] == 0, made
        for i in range(M):
            address = f"127.0.0.1:{port + i}"
            assert gossamer("party", "new", mine / f"learner-{i}", "--name", f"party {i}", "--address", address)[0] == 0
        done = gossamer("peers", "sign", "study", *(mine / f"learner-{i}/request.json" for i in range(M)))
        assert done[0] == 0, done
        return tmp_path / "study", mine, done[1]

    return enrol


def records(place):
    rng = random.Random(place.name)
    lines = [f"{rng.randrange(100)},{rng.choice(['no', 'yes'])}" for _ in range(6 * 4)]
    (place / "records.csv").write_text("\n".join(["age,ill", *lines, ""]))


@pytest.mark.parametrize("options", [(), ("--secrets", "complete", "--share", 0.5)], ids=["alone", "secrets"])
def test_three_parties_enrol_by_their_own_requests_and_run(enrolled, gossamer, fleet_of, options):
    study, mine, said = enrolled(*options)
    for i in range(M):
        code, out, err = gossamer("party", "join", mine / f"learner-{i}", study / f"learner-{i}.json")
        assert code == 0, err
        records(mine / f"learner-{i}")
        words = words_of(read_config(mine / f"learner-{i}"))
        assert all(line in said and line in out for line in four_in_a_row(words)), "the same at both ends"
        code, out, err = gossamer("peer", "check", mine / f"learner-{i}")
        assert code == 0, out
        assert all(line in out for line in four_in_a_row(words))
    assert (mine / "learner-1/secret.pem").exists()
    fleet = fleet_of(mine, m=M)
    fleet.start()
    fleet.finish()
    (started,) = [one for one in fleet.log(1) if one["event"] == "started"]
    assert started["fingerprint"] == words
    assert {fleet.status(i)["state"] for i in range(M)} == {"done"}


def test_the_least_share_by_rule_is_one_that_parties_read(tmp_path, gossamer):
    """Few releases: what pairs share is as little as there is, and three digits of it are less."""
    words = ("--own-keys", "--learners", M, *DECLARED, "--secrets", "complete", "--colluders", 1)
    assert gossamer("peers", "init", "study", *words)[::2] == (0, "")
    assert read_config(tmp_path / "study/learner-0").config.secrets.share == LEAST_SHARE


def test_no_key_leaves_the_machine_that_made_it(enrolled):
    study, mine, _ = enrolled()
    private = [path.read_bytes().splitlines()[1] for path in mine.glob("learner-*/*.pem")]
    assert len(private) == 2 * M
    elsewhere = b"".join(path.read_bytes() for path in [*study.rglob("*"), *mine.rglob("*.json")] if path.is_file())
    assert not [one for one in private if one in elsewhere]
    assert [path.name for path in study.rglob("key.pem")] == ["key.pem"], "the authority's"
    if os.name == "posix":
        assert {path.stat().st_mode & 0o777 for path in mine.glob("learner-*/*.pem")} == {0o600}
        assert {path.stat().st_mode & 0o777 for path in mine.glob("learner-*")} == {0o700}


def test_a_key_is_its_owners_from_the_first_byte(tmp_path, monkeypatch):
    modes, chmod, replace = {}, os.chmod, os.replace

    def changed(path, mode, **more):
        modes.setdefault(os.fspath(path), set()).add(mode)
        chmod(path, mode, **more)

    def moved(path, to):
        modes[os.path.basename(to)] = {os.stat(path).st_mode & 0o777, *modes.get(os.fspath(path), ())}
        replace(path, to)

    monkeypatch.setattr(os, "chmod", changed)
    monkeypatch.setattr(os, "replace", moved)
    new_folder(tmp_path / "mine", "north", None)
    assert modes["key.pem"] == modes["secret.pem"] == {0o600}
    with pytest.raises(gs.GossamerError, match="exists already"):
        new_folder(tmp_path / "mine", "north", None)


def test_nothing_goes_back_before_all_requests_are_in_and_then_they_are_final(tmp_path, gossamer):
    assert gossamer("peers", "init", "study", "--own-keys", "--learners", M, *DECLARED)[0] == 0
    asked = [new_folder(tmp_path / name, name, "127.0.0.1:7000").signed for name in "abcd"]
    files = [tmp_path / name / "request.json" for name in "abcd"]
    code, out, _ = gossamer("peers", "sign", "study", files[0])
    assert code == 0
    assert "Waiting for the requests of learners 1, 2" in out
    for again in ([files[0]], [files[1], files[1]]):
        code, _, err = gossamer("peers", "sign", "study", *again)
        assert code == 2
        assert "have the same key" in err
    assert gossamer("peers", "sign", "study", files[3], "--learner", 0)[0] == 0, "while it is open it may be replaced"
    assert not list((tmp_path / "study").glob("learner-*.json"))
    assert not list((tmp_path / "study").glob("learner-*/certificate.pem"))
    assert gossamer("peers", "sign", "study", files[1], files[2])[0] == 0
    assert len(list((tmp_path / "study").glob("learner-*.json"))) == M
    code, _, err = gossamer("peers", "sign", "study", files[0])
    assert code == 2
    assert "for a key that no learner of study has" in err
    kept = read_request(tmp_path / "study/learner-0/request.json")
    assert kept.signed.document == asked[3].document


def test_a_first_request_that_comes_again_gets_a_file_for_who_has_joined_and_who_has_not(enrolled, gossamer):
    """The mail was lost, or other dates are wanted: nobody who signs knows who has joined."""
    study, mine, _ = enrolled()
    first, second = mine / "learner-0", mine / "learner-1"
    assert gossamer("party", "join", first, study / "learner-0.json")[0] == 0
    own = (first / "certificate.pem").read_bytes()
    requests = [place / "request.json" for place in (first, second)]
    code, out, err = gossamer("peers", "sign", "study", *requests, "--days", 90)
    assert code == 0, err
    assert "first request of party 0, party 1 came again: the new file is good for who has not joined" in out
    for place in (first, second):
        code, out, err = gossamer("party", "join", place, study / f"{place.name}.json")
        assert code == 0, err
        assert ("has its new certificate" in out) == (place == first)
        left = x509.load_pem_x509_certificate((place / "certificate.pem").read_bytes()).not_valid_after_utc
        assert (left - datetime.datetime.now(datetime.UTC)).days in (89, 90)
    assert own != (first / "certificate.pem").read_bytes()
    assert words_of(read_config(first)) == words_of(read_config(second))
    kept = (first / "certificate.pem").read_bytes()
    code, _, err = gossamer("party", "join", first, study / "learner-0.json")
    assert code == 2
    assert "has joined already, and the file's certificate is the same: nothing was taken" in err
    code, _, err = gossamer("party", "join", first, study / "learner-1.json")
    assert code == 2
    assert "is learner 1's, and was made for another key" in err
    assert (first / "certificate.pem").read_bytes() == kept
    assert not list(first.glob(".joining*"))


def test_a_renewal_for_who_has_not_joined_says_which_request_is_to_be_signed(enrolled, gossamer):
    study, mine, _ = enrolled()
    place, bundle = mine / "learner-1", read_bundle(study / "learner-1.json")
    write_bundle(study / "old.json", Bundle("renews", 1, {"certificate.pem": bundle.files["certificate.pem"]}))
    code, _, err = gossamer("party", "join", place, study / "old.json")
    assert code == 2
    assert "has not joined a run: let whoever signs give 'gossamer peers sign'" in err
    assert gossamer("party", "join", place, study / "learner-1.json")[0] == 0


def test_who_has_joined_takes_no_certificate_from_another_runs_file(enrolled, gossamer, tmp_path):
    study, mine, _ = enrolled()
    place = mine / "learner-1"
    assert gossamer("party", "join", place, study / "learner-1.json")[0] == 0
    kept = (place / "certificate.pem").read_bytes()
    assert gossamer("peers", "init", "other", "--own-keys", "--learners", M, *DECLARED)[0] == 0
    requests = [mine / f"learner-{i}/request.json" for i in range(M)]
    assert gossamer("peers", "sign", "other", *requests)[0] == 0
    code, _, err = gossamer("party", "join", place, "other/learner-1.json")
    assert code == 2
    assert "make a folder of its own for another run" in err
    assert (place / "certificate.pem").read_bytes() == kept


def test_an_agreed_authority_may_be_elsewhere(tmp_path, gossamer):
    assert gossamer("peers", "init", "study", "--own-keys", "--learners", M, *DECLARED)[0] == 0
    (tmp_path / "study/authority").rename(tmp_path / "notary")
    for name in "abc":
        new_folder(tmp_path / name, name, "127.0.0.1:7000")
    files = [tmp_path / name / "request.json" for name in "abc"]
    code, _, err = gossamer("peers", "sign", "study", *files)
    assert code == 2
    assert "--authority FOLDER" in err
    assert gossamer("peers", "sign", "study", "--authority", "notary")[0] == 0, "the requests are in already"


def test_the_old_way_says_what_it_is(gossamer):
    code, out, _ = gossamer("peers", "init", "demo", "--learners", M, *DECLARED)
    assert code == 0
    assert "Every party's key was made here" in out
    assert "--own-keys" in out
    code, _, err = gossamer("peers", "init", "other", "--own-keys")
    assert code == 2
    assert "bring their records" in err


def test_a_budget_beside_noise_that_is_stated_is_refused(gossamer, tmp_path):
    """One of the two would be left out without a word, and it would be the budget."""
    code, _, err = gossamer("peers", "init", "demo", "--learners", M, *DECLARED, "--epsilon", 3, "--noise", 0)
    assert code == 2
    assert "--epsilon finds the noise and --noise states it: give one of them" in err
    assert not (tmp_path / "demo").exists()


def test_what_another_signed_changed_or_sent_is_refused(tmp_path):
    key, secret = ec.generate_private_key(ec.SECP256R1()), X25519PrivateKey.generate().public_key()
    good = make_request(key, secret, "north", "a.example.org:7400")
    signed = good.signed
    assert check_request(signed, "it").keys == good.keys
    thief = make_request(ec.generate_private_key(ec.SECP256R1()), secret, "north", None)
    wrong = [
        Signed({**signed.document, "address": "b.example.org:7400"}, signed.signatures),
        Signed({**signed.document, "key": thief.signed.document["key"]}, signed.signatures),
        Signed({**signed.document, "kind": "revoked"}, signed.signatures),
        Signed(signed.document),
        Signed(signed.document, thief.signed.signatures),
    ]
    for one in wrong:
        with pytest.raises(gs.GossamerError, match="it is no request of a party"):
            check_request(one, "it")
    for name, address in (("", None), ("a\nb", None), ("x" * 65, None), ("north", "here"), ("north", "a b:1")):
        with pytest.raises(gs.GossamerError, match=r"expected (1 to 64 letters|HOST:PORT)"):
            make_request(key, secret, name, address)
    assert good.words != thief.words


def tampered(bundle, **files):
    return Bundle(bundle.kind, bundle.learner, {**bundle.files, **files})


def test_a_party_takes_only_what_is_for_its_keys(enrolled):
    study, mine, _ = enrolled()
    place, bundle = mine / "learner-1", read_bundle(study / "learner-1.json")
    signer = make_authority("another")
    stolen = issue_certificate(signer, 1).certificate
    other = read_bundle(study / "learner-2.json")
    wrong = {
        "is learner 2's, and was made for another key": other,
        "certificates of learners": tampered(bundle, **{"members.pem": bundle.files["certificate.pem"]}),
        "have one that the run's authority has not signed": tampered(bundle, **{"members.pem": stolen.decode()}),
        "expected 0 to 2": tampered(
            bundle, **{"party.toml": bundle.files["party.toml"].replace("learner = 1", "learner = 3")}
        ),
        "the file is for learner 1": tampered(
            bundle, **{"party.toml": bundle.files["party.toml"].replace("learner = 1", "learner = 2")}
        ),
    }
    before = sorted(path.name for path in place.iterdir())
    for why, one in wrong.items():
        with pytest.raises(gs.GossamerError, match=why):
            join(place, one)
    assert sorted(path.name for path in place.iterdir()) == before, "nothing of it is left"
    join(place, bundle)
    with pytest.raises(gs.GossamerError, match="has joined already"):
        join(place, bundle)


def test_what_comes_back_says_nothing_about_the_partys_own(enrolled, tmp_path):
    study, mine, _ = enrolled()
    place, bundle = mine / "learner-1", read_bundle(study / "learner-1.json")
    mean = bundle.files["party.toml"].replace(
        "[party]\n",
        '[party]\nmetrics = "0.0.0.0:9400"\nshow_errors = true\njournal = "/tmp/j.db"\nkey = "other.pem"\n'
        'durability = "process"\nauthority = "/dev/zero"\n',
    )
    plan = join(place, tampered(bundle, **{"party.toml": mean}))
    party = plan.config.party
    assert (party.metrics, party.show_errors, party.journal, party.key) == (None, False, "journal.db", "key.pem")
    assert party.durability == "power"
    assert party.listen == read_request(place / "request.json").address
    for name in ("../outside", "key.pem", "records.csv"):
        file = tmp_path / "mean.json"
        write_bundle(file, tampered(bundle, **{name: "x"}))
        with pytest.raises(gs.GossamerError, match=r"it has .* too"):
            read_bundle(file)
    for text in ("[]", "{}", '{"gossamer": "joins", "learner": "1", "files": {}}', "nonsense", "[" * 10**5):
        file.write_text(text)
        with pytest.raises(gs.GossamerError, match=r"no file of 'gossamer peers sign'"):
            read_bundle(file)


def test_a_bundle_with_text_that_has_no_bytes_or_a_graph_elsewhere_is_refused(enrolled, tmp_path):
    study, mine, _ = enrolled()
    place, bundle, file = mine / "learner-1", read_bundle(study / "learner-1.json"), tmp_path / "mean.json"
    write_bundle(file, tampered(bundle, **{"graph.json": "\ud800"}))
    with pytest.raises(gs.GossamerError, match=r"no file of 'gossamer peers sign'"):
        read_bundle(file)
    for graph, said in (
        ("/dev/zero", "/dev/zero is no file"),
        (str(study / "learner-0/graph.json"), "has its graph in"),
    ):
        mean = bundle.files["party.toml"].replace("[run]\n", f'[run]\ngraph = "{graph}"\n')
        with pytest.raises(gs.GossamerError, match=said):
            join(place, tampered(bundle, **{"party.toml": mean}))


@pytest.mark.parametrize(
    "host",
    ["münchen.example", "*", "*.example.org", "a..b", "a" * 64, "a" * 300, "-a", "a b", "٣", "a\u202eb", "learner 1"],
)
def test_a_host_that_no_certificate_should_have_is_refused(tmp_path, host, gossamer):
    """A name with * in it would be good for others, too; one that is not ASCII made a traceback of it."""
    key = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(gs.GossamerError, match="expected HOST:PORT"):
        make_request(key, None, "north", f"{host}:7400")
    asked = make_request(key, None, "north", "a.example.org:7400").signed.document | {"address": f"{host}:7400"}
    with pytest.raises(gs.GossamerError, match="no request of a party"):
        check_request(Signed(asked).signed_by(Pair(key_pem(key), b""), "party"), "it")
    with pytest.raises(gs.GossamerError, match="expected an IP address or a name"):
        issue_certificate(make_authority("run"), 1, [host])
    code, _, err = gossamer("peers", "init", "study", "--learners", 2, "--hosts", f"{host},b", *DECLARED)
    assert code == 2, err
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("port", ["0", "65536", "٧٤٠٠", "9" * 5000, "", "http"])
def test_a_port_that_there_is_not_is_refused(port):
    with pytest.raises(gs.GossamerError, match="expected HOST:PORT"):
        make_request(ec.generate_private_key(ec.SECP256R1()), None, "north", f"a.example.org:{port}")


def test_who_exchanges_the_authority_changes_the_words(enrolled, tmp_path):
    """Somebody between who takes requests and hands out a run of his own, with the same agreement."""
    study, mine, _ = enrolled()
    plan = join(mine / "learner-0", read_bundle(study / "learner-0.json"))
    signer, between = make_authority("study"), tmp_path / "between"
    between.mkdir()
    for name in ("key.pem", "certificate.pem"):
        (between / name).write_bytes(signer.key if name == "key.pem" else signer.certificate)
    for i in range(M):
        (study / f"learner-{i}/certificate.pem").unlink()
    sign(study, [], None, between, None)
    other = join(mine / "learner-1", read_bundle(study / "learner-1.json"))
    assert other.agreement == plan.agreement
    assert words_of(other) != words_of(plan)
    assert not set(four_in_a_row(words_of(other))) & set(four_in_a_row(words_of(plan)))


def test_the_authority_cannot_stand_in_for_a_party_that_has_enrolled(enrolled):
    study, mine, _ = enrolled()
    signer = read_authority(study / "authority")
    members = members_in((study / "learner-0/members.pem").read_bytes(), signer.certificate)
    strict, trusting = Identities(signer.certificate, members=members), Identities(signer.certificate)
    again = issue_certificate(signer, 1).certificate
    assert trusting.whose(again) == 1
    assert strict.whose(again) is None, "another key, whatever the authority signs"
    renewed = certify(signer, 1, x509.load_pem_x509_certificate(again).public_key(), ["localhost"], 1)
    assert strict.whose(renewed) is None
    own = serialization.load_pem_private_key((mine / "learner-1/key.pem").read_bytes(), password=None)
    assert strict.whose(certify(signer, 1, own.public_key(), ["localhost"], 1)) == 1, "its own, renewed"
    assert strict.whose(certify(signer, 2, own.public_key(), ["localhost"], 1)) is None, "nobody is two"
    fresh, thief = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    steps = handed_on([], own, fresh.public_key())
    assert strict.whose(certify(signer, 1, fresh.public_key(), ["localhost"], 1, before=steps)) == 1
    assert strict.whose(certify(signer, 1, thief.public_key(), ["localhost"], 1, before=steps)) is None
    forged = handed_on([], thief, fresh.public_key())
    assert strict.whose(certify(signer, 1, fresh.public_key(), ["localhost"], 1, before=forged)) is None
    last = handed_on(steps, fresh, thief.public_key())
    assert strict.whose(certify(signer, 1, thief.public_key(), ["localhost"], 1, before=last)) == 1, "a chain of two"
    assert strict.whose(certify(signer, 1, thief.public_key(), ["localhost"], 1, before=last[1:])) is None


def test_a_certificate_does_not_outlive_the_one_that_signed_it(enrolled):
    study, _, _ = enrolled("--days", 20)
    shown = x509.load_pem_x509_certificate((study / "learner-0/certificate.pem").read_bytes())
    signer = x509.load_pem_x509_certificate((study / "authority/certificate.pem").read_bytes())
    assert shown.not_valid_after_utc <= signer.not_valid_after_utc


def test_whoever_signs_is_told_who_has_said_no_address(gossamer, tmp_path):
    """Forgotten, it would have been this machine's, and the others would have dialled themselves."""
    assert gossamer("peers", "init", "study", "--own-keys", "--learners", M, *DECLARED)[0] == 0
    for name, address in {"a": None, "b": "b.example.org:7400"}.items():
        new_folder(tmp_path / name, name, address)
    out = gossamer("peers", "sign", "study", tmp_path / "a/request.json", tmp_path / "b/request.json")[1]
    assert "No address from a:" in out
    assert "at b.example.org:7400" in out


def test_whoever_signs_says_until_when_and_what_cuts_it_short(enrolled, gossamer):
    study, mine, _ = enrolled("--days", 20)
    assert gossamer("party", "join", mine / "learner-1", study / "learner-1.json")[0] == 0
    assert gossamer("party", "renew", mine / "learner-1")[0] == 0
    until = f"{datetime.date.today() + datetime.timedelta(days=90)}"
    code, out, _ = gossamer("peers", "sign", study, mine / "learner-1/renewal.json", "--days", 90)
    assert code == 0
    assert f"ends on {until}." in out
    code, out, _ = gossamer("peers", "sign", study, mine / "learner-1/renewal.json")
    assert code == 0
    assert "with the authority's own: let another follow" in out


def test_a_mistake_on_the_way_into_a_run_says_what_to_do(enrolled, gossamer, tmp_path):
    """The wrong folder, the wrong order, a step that was left out: each has one sentence, and changes nothing."""
    study, mine, _ = enrolled()
    place, bundle = mine / "learner-1", study / "learner-1.json"
    for words, why in {
        ("party", "new", "west", "--address", "here"): "--address here: expected HOST:PORT",
        ("peers", "sign", study, place): "is a folder: give the file in it",
        ("party", "join", tmp_path / "nowhere", bundle): "has no request.json",
        ("peer", "check", place): "has not joined a run yet: gossamer party join",
        ("peer", "accept", bundle, place): "say the folder first, and then the file",
        ("peers", "up", study): "each party runs its learner in its own folder",
    }.items():
        code, _, err = gossamer(*words)
        assert code == 2, words
        assert why in err
    code, out, _ = gossamer("peers", "status", study)
    assert code == 0
    assert "have their own keys" in out


def test_the_form_of_a_bundle_is_plain(enrolled):
    study, _, _ = enrolled()
    whole = json.loads((study / "learner-2.json").read_text())
    assert (whole["gossamer"], whole["learner"]) == ("joins", 2)
    assert set(whole["files"]) == {"party.toml", "graph.json", "authority.pem", "certificate.pem", "members.pem"}
    assert "PRIVATE" not in json.dumps(whole)
    assert isinstance(read_authority(study / "authority"), Pair)


def test_a_party_that_joins_later_brings_a_key_of_its_own(tmp_path, fleet_of, gossamer):
    """It gets what the others have: the first authority, everybody's certificates, and all documents since."""
    run, mine = Halfway(tmp_path, fleet_of), tmp_path / "mine"
    run.start()
    code, _, err = gossamer("peers", "rotate", run.folder, "--to", tmp_path / "next")
    assert code == 0, err
    run.give(run.folder / "authority-1.json")
    run.wait_for("credentials renewed")
    address = f"127.0.0.1:{free_ports(1)}"
    assert gossamer("party", "new", mine, "--name", "west", "--address", address)[0] == 0
    words = ["--at", 30, "--join", f"{M}={mine / 'request.json'}", "--authority", tmp_path / "next"]
    code, out, err = gossamer("peers", "change", run.folder, *words)
    assert code == 0, err
    assert "party join" in out
    assert not (run.folder / f"learner-{M}/key.pem").exists()
    for place in run.places:
        code, _, err = gossamer("peer", "accept", place, run.folder / "changes/1.json")
        assert code == 0, err
    comes = [{"change": 1, "round": 30}]
    run.wait(lambda: all(run.fleet.status(i).get("membership", {}).get("coming") == comes for i in range(M)))
    code, out, err = gossamer("party", "join", mine, run.folder / f"learner-{M}.json")
    assert code == 0, err
    told = words_of(read_config(run.places[0]))
    assert all(line in out for line in four_in_a_row(told))
    (mine / "records.csv").write_bytes((run.places[0] / "records.csv").read_bytes())
    shutil.rmtree(run.folder / f"learner-{M}")
    mine.rename(run.folder / f"learner-{M}")
    code, out, _ = gossamer("peer", "check", run.folder / f"learner-{M}", "--not-private")
    assert code == 0, out
    run.fleet.start(M)
    run.bring_rest()
    with (run.folder / f"learner-{M}/records.csv").open("a") as file:
        file.write(run.rest[0])
    run.wait(lambda: all(run.fleet.code(i) == 0 for i in range(M + 1)))
    assert {run.fleet.status(i)["round"] for i in range(M + 1)} == {STEPS}
    assert run.fleet.status(M)["membership"]["joined"] == 30
