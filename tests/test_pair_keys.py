"""Keys for noise that cancels: agreed, bound to certificates, used in one run, and gone with the journal."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import re
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

import gossamer as gs

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")
from gossamer.files import replace_file
from gossamer.peers.agreement import tell_differences
from gossamer.peers.certificates import Pair, issue_certificate, key_pem, make_authority, shared_key_extension
from gossamer.peers.config import PrivacyPlan, SecretsPlan, graph_json, read_config
from gossamer.peers.folders import make_folders
from gossamer.peers.journal import Journal
from gossamer.peers.metrics import write_metrics
from gossamer.peers.outcome import collect_outcomes, write_outcome
from gossamer.peers.outcome_file import read_outcome
from gossamer.peers.pair_keys import PartyPairs, agree_on_keys, fingerprint_of, shared_key
from gossamer.peers.process import LearnerProcess
from gossamer.peers.starting import digest_of
from gossamer.peers.uncancelled import Shares, tell_uncancelled
from gossamer.privacy.pairs import OwnPairs
from gossamer.setting import setting_of
from gossamer.streams import from_arrays
from gossamer.streams.schema import SCALED_TO
from peers_hub import Hub
from test_processes import make

M, STEPS = 4, 20
RING = gs.Network.exponential(M)
PRIVATE = PrivacyPlan(epsilon=4.0, law="gaussian", where="source")
AGREED = SecretsPlan(
    share=0.5, floor=0.5, exponent=0.0, releases="1,0", keys=dict.fromkeys(map(str, range(M)), ""), colluders=1
)


@pytest.fixture
def run(tmp_path):
    make(tmp_path / "run", STEPS, RING, PRIVATE, M, secrets=AGREED)
    return tmp_path / "run"


def place(run, i):
    return run / f"learner-{i}"


def put_secret(where, secret):
    """Its owner's alone, as 'party new' writes it."""
    replace_file(where / "secret.pem", key_pem(secret), private=True)


def edit(where, old, new):
    path = where / "party.toml"
    text = path.read_text()
    assert re.search(old, text)
    path.write_text(re.sub(old, new, text, count=1))


def hub_of():
    hub = Hub()
    return lambda wiring: hub.of(wiring.learner)


def started(where):
    """A party at its start; its journal is closed again."""
    learner = LearnerProcess(read_config(where), connect=hub_of())
    learner.journal.close()
    return learner


def secret_in(where):
    return serialization.load_pem_private_key((where / "secret.pem").read_bytes(), None)


def test_both_ends_have_one_key_that_nobody_else_has_and_noise_cancels(run):
    keys = {i: dict(keys_at(place(run, i))) for i in range(M)}
    assert all(keys[i][j] == keys[j][i] for i in range(M) for j in range(M) if i != j)
    assert len({key for own in keys.values() for key in own.values()}) == M * (M - 1) // 2
    rows = np.zeros((M, 1, 50), dtype=np.int64)
    for i in range(M):
        OwnPairs(i, keys[i]).add(3, 1 << 40, rows[i])
    assert np.abs(rows).min() > 0
    assert not rows.sum(axis=0).any()


def keys_at(where):
    """What a party would derive, by the formula, with its own half of every pair."""
    plan, own = read_config(where), secret_in(where)
    for j in plan.partners:
        other = secret_in(where.with_name(f"learner-{j}")).public_key()
        yield j, shared_key(own, other, plan.agreement, plan.learner, j)


def test_keys_are_hkdf_of_the_exchanged_secret(run):
    """Against RFC 5869, written out: extract, and one block of expand."""
    own, plan = secret_in(place(run, 2)), read_config(place(run, 2))
    for j, key in keys_at(place(run, 2)):
        common = own.exchange(secret_in(place(run, j)).public_key())
        extracted = hmac.digest(plan.agreement.encode(), common, "sha256")
        info = f"gossamer pair {min(j, 2)} {max(j, 2)}".encode()
        assert key == hmac.digest(extracted, info + b"\x01", "sha256")


def test_settings_of_one_name_that_are_not_the_same_have_no_key_in_common(run):
    """A name has 64 bits of the settings: with 2^32 tries its maker finds two that say different things."""
    agreed = agree_on(place(run, 0), 1)
    edit(place(run, 0), r"floor = [\d.e-]+", "floor = 1e-3")
    assert agree_on(place(run, 0), 1, name=read_config(place(run, 1)).run_name) != agreed


def agree_on(where, j, name=None):
    plan = read_config(where)
    plan.run_name = name or plan.run_name
    plan.fingerprint = plan.run_name.partition(":")[2]
    return agree_on_keys(plan, secret_in(where), {j: secret_in(where.with_name(f"learner-{j}")).public_key()})[j]


def test_a_party_draws_with_these_keys(run):
    keys = dict(keys_at(place(run, 1)))
    learner = started(place(run, 1))
    drawn, expected = np.zeros((2, 1, 20), dtype=np.int64)
    learner.boundary._pairs.add(5, 1 << 40, drawn)
    OwnPairs(1, keys).add(5, 1 << 40, expected)
    np.testing.assert_array_equal(drawn, expected)


def test_before_the_keys_are_there_nothing_is_drawn():
    with pytest.raises(gs.GossamerError, match="before its keys were there"):
        PartyPairs(0).add(0, 1 << 40, np.zeros((1, 3), dtype=np.int64))


LOW_ORDER = [0, 1, 325606250916557431795983626356110631294008115727848805560023387167927233504]


@pytest.mark.parametrize("u", LOW_ORDER)
def test_points_of_small_order_are_refused(u):
    point = X25519PublicKey.from_public_bytes(u.to_bytes(32, "little"))
    with pytest.raises(gs.GossamerError, match="learner 3's shared key is of small order"):
        shared_key(X25519PrivateKey.generate(), point, "run", 0, 3)


def other_certificate(run, signer, i, shared=None):
    """Learner i's certificate with another key in it, put into learner 0's partners."""
    shared = X25519PrivateKey.generate().public_key() if shared is None else shared
    made = issue_certificate(signer, i, shared=shared)
    keep = [one for one in certificates(place(run, 0) / "partners.pem") if common_name(one) != f"learner-{i}"]
    pem = b"".join(one.public_bytes(serialization.Encoding.PEM) for one in keep)
    (place(run, 0) / "partners.pem").write_bytes(pem + made.certificate)
    return shared


def certificates(path):
    return x509.load_pem_x509_certificates(path.read_bytes())


def common_name(certificate):
    return certificate.subject.rfc4514_string().removeprefix("CN=")


def signer_of(run):
    return Pair(*((run / "authority" / name).read_bytes() for name in ("key.pem", "certificate.pem")))


def test_exchanged_certificates_are_refused_and_nothing_was_moved(run):
    where = place(run, 0)
    right = (where / "partners.pem").read_bytes()
    other_certificate(run, make_authority("another"), 2)
    with pytest.raises(gs.GossamerError, match="no valid certificate of learner 2 that the run's authority has signed"):
        started(where)
    (where / "partners.pem").write_bytes(right)
    key = other_certificate(run, signer_of(run), 2)  # whoever has the authority's key
    agreed = read_config(where).config.secrets.keys["2"]
    with pytest.raises(gs.GossamerError, match=f"learner 2's .* {fingerprint_of(key)} and .* has {agreed}"):
        started(where)
    (where / "partners.pem").write_bytes(right)
    shutil.copy(place(run, 1) / "secret.pem", where / "secret.pem")
    with pytest.raises(gs.GossamerError, match="does not belong to learner 0's key"):
        started(where)
    plain = issue_certificate(signer_of(run), 0)
    (where / "certificate.pem").write_bytes(plain.certificate)
    (where / "key.pem").write_bytes(plain.key)
    with pytest.raises(gs.GossamerError, match="the certificate of this party has no X25519 key"):
        started(where)
    assert (where / "secret.pem").exists()


def test_a_partner_that_went_on_with_another_key_is_named(run):
    """Learner 0 agrees with the exchanged key, the others do not: they say which key it is, and do not talk."""
    key = other_certificate(run, signer_of(run), 2)
    edit(place(run, 0), r'"2" = "\w+"', f'"2" = "{fingerprint_of(key)}"')
    mine, theirs = read_config(place(run, 0)), read_config(place(run, 1))
    assert mine.run_name != theirs.run_name
    says = tell_differences(mine.shared, theirs.shared, 0, 1)
    told = theirs.config.secrets.keys["2"]
    assert f'[secrets.keys] 2 is "{fingerprint_of(key)}" at learner 0 and "{told}" at learner 1: agree on' in says
    started(place(run, 0))


def brought(shared):
    """A self-signed certificate with a key for noise, as `openssl req -x509 -addext` makes it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=b.example.org")
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
        .not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("b.example.org")]), critical=False)
        .add_extension(shared_key_extension(shared), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Pair(key.private_bytes(pem, kind, serialization.NoEncryption()), made.public_bytes(pem))


def test_a_certificate_that_a_partner_brought_counts_by_its_bytes(run):
    secret = X25519PrivateKey.generate()
    own = brought(secret.public_key())
    for i in range(M):
        edit(place(run, i), r'"2" = "\w+"', f'"2" = "{fingerprint_of(secret.public_key())}"')
    put_secret(place(run, 2), secret)
    (place(run, 2) / "key.pem").write_bytes(own.key)
    (place(run, 2) / "certificate.pem").write_bytes(own.certificate)
    (place(run, 0) / "own-2.pem").write_bytes(own.certificate)
    with pytest.raises(gs.GossamerError, match="learner 2's certificate has the shared key"):
        started(place(run, 0))  # it has not listed it
    edit(place(run, 0), r"\[neighbours.2\]\n", '[neighbours.2]\ncertificate = "own-2.pem"\n')
    expected = dict(keys_at(place(run, 0)))[2]
    there = started(place(run, 2)).boundary._pairs._pairs._signed[0][0]
    here = started(place(run, 0)).boundary._pairs._pairs._signed[1][0]
    assert expected == there == here


def test_the_secret_lives_in_the_journal_and_goes_with_it(run):
    where = place(run, 1)
    raw = secret_in(where).private_bytes_raw()
    started(where)
    assert not (where / "secret.pem").exists()
    assert started(where).boundary._pairs._pairs is not None, "it starts again from the journal"
    for file in where.glob("journal.db*"):
        file.unlink()
    with pytest.raises(gs.GossamerError, match=r"learner 1 has no secret: .* join a new run"):
        started(where)
    put_secret(where, X25519PrivateKey.from_private_bytes(raw))  # a backup: as at first
    started(where)


def test_when_all_is_delivered_the_secret_is_gone_from_the_disk_and_the_party_starts_again(run):
    where = place(run, 1)
    text = secret_in(where).private_bytes_raw().hex().encode()
    started(where)
    learner = LearnerProcess(read_config(where), connect=hub_of())
    assert any(text in file.read_bytes() for file in where.glob("journal.db*"))
    learner.journal.mark_delivered()
    learner.journal.close()
    assert not any(text in file.read_bytes() for file in where.iterdir())
    started(where)


def test_a_secret_behind_a_link_is_removed_where_it_lies(run, tmp_path):
    real = tmp_path / "elsewhere.pem"
    shutil.move(place(run, 1) / "secret.pem", real)
    (place(run, 1) / "secret.pem").symlink_to(real)
    started(place(run, 1))
    assert not real.exists()
    assert not (place(run, 1) / "secret.pem").is_symlink()


def test_a_crash_between_commit_and_removal_is_mended(run, monkeypatch):
    where = place(run, 1)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", lambda path, **_: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
        with pytest.raises(gs.GossamerError, match=r"secret.pem cannot be removed \(Read-only file system\)"):
            started(where)
    kept = Journal(where / "journal.db", "", 0, "", "process")
    assert kept.secret == secret_in(where).private_bytes_raw(), "nothing was lost"
    kept.close()
    started(where)
    assert not (where / "secret.pem").exists()


def test_a_journal_takes_another_secret_only_while_nothing_was_sent(run):
    where, other = place(run, 1), X25519PrivateKey.generate()
    started(where)
    edit(where, r'"1" = "\w+"', f'"1" = "{fingerprint_of(other.public_key())}"')
    own = issue_certificate(signer_of(run), 1, shared=other.public_key())
    (where / "certificate.pem").write_bytes(own.certificate)
    (where / "key.pem").write_bytes(own.key)
    put_secret(where, other)
    learner = started(where)  # nothing was sent: it may still be corrected
    assert not (where / "secret.pem").exists()
    assert learner.journal.unused
    learner = LearnerProcess(read_config(where), connect=hub_of())
    learner._party()
    learner.journal.mark_used()
    learner.journal.close()
    again = X25519PrivateKey.generate()
    put_secret(where, again)
    with pytest.raises(gs.GossamerError, match="does not belong to learner 1's key"):
        started(where)
    edit(where, r'"1" = "\w+"', f'"1" = "{fingerprint_of(again.public_key())}"')
    own = issue_certificate(signer_of(run), 1, shared=again.public_key())
    (where / "certificate.pem").write_bytes(own.certificate)
    (where / "key.pem").write_bytes(own.key)
    with pytest.raises(gs.GossamerError, match="began with other settings"):
        started(where)


REFUSED = {
    'where = "messages": noise of pairs cancels at the source alone': ('where = "source"', 'where = "messages"'),
    'law = "laplace": pairs share Gaussian noise': ('law = "gaussian"', 'law = "laplace"'),
    "without a budget": ("epsilon = 4.0\n", ""),
    "simulated: others count on exact noise": ("epsilon = 4.0\n", "simulated = [0.1, 0.5]\n"),
    "leave out the first": (r"epsilon = 4.0\n", 'epsilon = 4.0\nreleases = "2,0"\n'),
    r"\[privacy\] band = 2 and \[secrets\] band = 1": (r"epsilon = 4.0\n", "epsilon = 4.0\nband = 2\n"),
    r"\[secrets\] share: expected `float`": ("share = 0.5", 'share = "auto"'),
    r"\[secrets\] floor: expected `float`": ("floor = 0.5", 'floor = "auto"'),
    r"\[secrets\] floor: expected": ("floor = 0.5", "floor = 0.0"),
    "perhaps floor is": ("floor = 0.5", "flor = 0.5"),
    r"names 0, 1, 2: expected every learner": (r'"3" = "\w+"\n', ""),
    "can be left alone": ("colluders = 1", "colluders = 3"),
    "times the smallest; give budgets": ("floor = 0.5", "floor = 1e-9"),
    "times the smallest; give budgets or weights": ("floor = 0.5", "floor = 1e-299"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_settings_with_which_nothing_would_be_proved_are_refused_in_a_sentence(run, words):
    edit(place(run, 0), *REFUSED[words])
    with pytest.raises(gs.GossamerError, match=words) as refused:
        started(place(run, 0))
    assert "\n" not in str(refused.value)
    assert (place(run, 0) / "secret.pem").exists()


def test_releases_that_are_the_same_may_be_said_twice(run):
    edit(place(run, 0), "epsilon = 4.0\n", 'epsilon = 4.0\nreleases = "1,0"\n')
    assert started(place(run, 0)).boundary.ledgers[0].terms.releases == gs.every(1)


def test_a_smaller_budget_adds_noise_and_a_larger_one_changes_nothing(run):
    own, terms = {}, {}
    for i, epsilon in enumerate((4.0, 1.0, 1000.0)):
        edit(place(run, i), "epsilon = 4.0", f"epsilon = {epsilon}")
        terms[epsilon] = started(place(run, i)).boundary.ledgers[0].terms
        own[epsilon] = terms[epsilon].initial
    assert {one.shared.pair for one in terms.values()} == {0.25}
    assert {one.shared.floor for one in terms.values()} == {0.5}
    assert own[1000.0] == 0.5
    assert own[1.0] > own[4.0] >= 0.5


def test_runs_without_secrets_keep_their_fingerprints_and_journals(tmp_path):
    """As they were before there were any, written out."""
    make(tmp_path / "run", STEPS, RING, PRIVATE, M)
    learner = started(tmp_path / "run/learner-0")
    plan = learner.plan
    shared = msgspec.to_builtins({"run": plan.config.run, "model": plan.config.model, "records": plan.config.records})
    assert shared["model"].pop("remember") is None  # newer than these
    text = json.dumps(shared, sort_keys=True)
    text += repr((RING.edges("R"), RING.edges("C"), plan.schema.column_names, SCALED_TO))
    assert plan.fingerprint == hashlib.sha256(text.encode()).hexdigest()[:16]
    before = {name: value for name, value in learner.boundary.description.items() if name in ("noise", "releases")}
    assert digest_of(learner.boundary.description) == digest_of(before)
    assert "secret" not in (tmp_path / "run/learner-0/party.toml").read_text()
    assert not list((tmp_path / "run").glob("*/secret.pem"))


def test_pairs_of_ones_own_are_read_from_a_file_that_all_share(tmp_path, run):
    graph = gs.Network.complete(M)
    config = read_config(place(run, 0)).config
    agreed = msgspec.structs.replace(config.secrets, graph="secrets.json")
    configs = [
        msgspec.structs.replace(config, party=msgspec.structs.replace(config.party, learner=i), secrets=agreed)
        for i in range(M)
    ]
    make_folders(tmp_path / "other", RING, configs, ["127.0.0.1"] * M, 30, {}, pairs=graph)
    plans = [read_config(tmp_path / "other" / f"learner-{i}") for i in range(M)]
    assert plans[0].partners == [1, 2, 3]
    (tmp_path / "other/learner-1/secrets.json").write_text(graph_json(gs.Network.ring(M)))
    changed = read_config(tmp_path / "other/learner-1")
    says = tell_differences(plans[0].shared, changed.shared, 0, 1)
    assert "[secrets.pairs] 0-2 is true at learner 0 and not there at learner 1" in says


def test_rounds_in_which_noise_did_not_cancel_are_told(run):
    plan = read_config(place(run, 0))
    said = tell_uncancelled([Shares(0, 2, STEPS, [(0, 3), (5, 3), (6, 3), (7, 3), (9, 1)])], plan)
    assert said == [
        "Noise of pairs did not cancel in round 9 (learner 1 was late).",
        "Noise of pairs did not cancel in rounds 5-7 (learner 3 was late).",
    ]
    assert tell_uncancelled([Shares(2, 0, 12, [])], plan) == [
        "Noise of pairs did not cancel in rounds 12-19 (learner 2 released nothing)."
    ]
    untils = [12, 15, 15, 15]
    all_of_them = [Shares(i, 0, until, [(3, 1)] if i else []) for i, until in enumerate(untils)]
    assert tell_uncancelled(all_of_them, plan) == [
        "Noise of pairs did not cancel in round 3 (learner 1 was late).",
        "Noise of pairs did not cancel in rounds 12-14 (learner 0 released nothing).",
    ], "nobody released anything from round 15 on"
    assert tell_uncancelled([Shares(i, 0, 15, []) for i in range(M)], plan) == []


def test_a_status_says_against_whom_epsilon_holds_and_what_did_not_cancel(run):
    learner = LearnerProcess(read_config(place(run, 0)), connect=hub_of())
    party = learner._party()
    node, transport = learner._join(party)
    learner._status.node = node
    learner.boundary.stops[:] = 0
    learner._status.write()
    told = json.loads((place(run, 0) / "status.json").read_text())
    assert told["against"] == "against anybody who sees all messages, together with up to one other learner"
    spent, _, alone = told["epsilon"]
    assert 0 < spent < alone
    assert told["uncancelled"] == ["Noise of pairs did not cancel in rounds 0-19 (learner 0 released nothing)."]
    text = write_metrics(learner._status, node, transport)
    assert f"gossamer_epsilon_if_all_collude {alone!r}" in text
    assert f"spent so far, {told['against']}." in text
    learner.journal.close()


def test_an_outcome_and_what_is_collected_say_which_rounds_did_not_cancel(run):
    for i in range(M):
        learner = LearnerProcess(read_config(place(run, i)), connect=hub_of())
        learner._status.node, _ = learner._join(learner._party())
        if i == 1:  # it went on without learner 3 in its first round
            learner.journal._db.execute("insert into late values (0, 3)")
        write_outcome(learner.plan, learner._status.node.party, learner.boundary, learner._status)
        learner.journal.close()
    late = "Noise of pairs did not cancel in round 0 (learner 3 was late)."
    alone = "Noise of pairs did not cancel in rounds 1-19 (learner 1 released nothing)."
    about = read_outcome(place(run, 1)).about
    assert about["uncancelled"] == [late, alone], "as far as it knows, the others went on"
    assert about["against"].endswith("together with up to one other learner")
    assert len(about["epsilon"]) == 3
    record = collect_outcomes(run)
    assert [note for note in record.notes if "cancel" in note] == [late]
    assert record.config["against"] == about["against"]
    assert (record.epsilon.all_collude > record.epsilon.spent).all()


def test_a_simulation_says_where_noise_did_not_cancel():
    X = np.random.default_rng(0).uniform(-1, 1, size=(M, 30, 3))
    stream = from_arrays(X, (X.sum(axis=2) > 0).astype(float), ranges=(-1, 1))
    mechanism = gs.Gaussian.for_budget(
        4.0, 1e-5, where="source", secrets=gs.Secrets(colluders=0), releases=gs.every(2, after=4)
    )
    method, model = gs.ldp_gradient_tracking(gs.decay(0.3, 0.8), strict=False), gs.LogisticRegression(l2=0.1)
    boundary = mechanism.bind(setting_of(method, gs.Network.ring(M), stream, model, "history", 30))
    assert not [note for note in boundary.notes(30) if "cancel" in note]
    boundary.stops[:] = (20, 20, 11, 20)
    assert not [note for note in boundary.notes(11) if "cancel" in note]
    assert [note for note in boundary.notes(30) if "cancel" in note] == [
        "Noise of pairs did not cancel in rounds 12-18, in which some learners released nothing: that costs accuracy, "
        "and no privacy."
    ]
    boundary.stops[:] = 20
    assert not [note for note in boundary.notes(30) if "cancel" in note]
