"""A neighbour with a valid certificate says what no learner would: it is refused by name, and ends nobody."""

from __future__ import annotations

import json
import ssl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="needs the extra `peers`")

from cryptography import x509
from cryptography.hazmat.primitives import serialization

import gossamer as gs
from gossamer.errors import GossamerError
from gossamer.peers.certificates import Identities, issue_certificate, make_authority
from gossamer.peers.changes import check_signed
from gossamer.peers.membership import MOST, document_of
from gossamer.peers.passing_on import CAPABILITY
from gossamer.peers.signed import Signed, parse_signed
from gossamer.peers.transport import Arrived
from gossamer.peers.wire import Frame, Hello, Known, Membership, RefusedError, pack
from membership_runs import M, Members, N, change_of

STEPS = 30
ALGORITHM_1 = gs.ldp_gradient_tracking(gs.decay(0.3, 0.6), strict=False)


def nobody_has_signed(signed, change, history):
    raise GossamerError("nobody has signed it.")


@pytest.fixture
def team(tmp_path):
    made = Members(tmp_path, ALGORITHM_1, gs.Network.paper_one_way(), STEPS)
    made.greet()
    made.reach(3)
    for node in made.nodes.values():
        node.membership._verify = nobody_has_signed
    yield made
    made.close()


def offered(node, version, payload):
    sender = node.party.hears[0]
    return node.take(Arrived(sender, pack(Frame(Membership(version), payload))))


def written(document, signatures=()):
    return json.dumps({"document": document, "signatures": list(signatures)}).encode()


ODD_DOCUMENTS = {
    "no UTF-8": {"before": "\ud800"},
    "no UTF-8 in an address": {"addresses": {"1": "\udfff:7400"}},
    "a number of 5,000 digits": {"addresses": {"9" * 5000: "a:1"}},
    "digits of another script": {"addresses": {"٣": "a:1"}},
    "a weight that no float is": {"R": [[0, 1, 10**400]]},
    "no number": {"C": [[0, 1, float("nan")]]},
    "links of lists": {"R": [[[0], [1], 0.1]]},
    "many members": {"members": list(range(50_000)), "leaves": []},
    "a member that no number is": {"members": [0, 1, True, 10**30]},
    "a late round": {"at": MOST},
}


@pytest.mark.parametrize("odd", ODD_DOCUMENTS)
def test_a_document_that_nobody_signed_ends_nobody_whatever_is_in_it(team, odd):
    good = change_of(team, 20, leaves=[3])
    refused = offered(team.nodes[0], 1, written({**good.document, **ODD_DOCUMENTS[odd]}))
    assert isinstance(refused, RefusedError)
    assert refused.reason == CAPABILITY
    assert not team.journals[0].changes()
    team.finish()


@pytest.mark.parametrize("version", [0, -1, -5, -(2**63), 2**63])
def test_a_document_of_a_version_that_there_is_not_is_refused(team, version):
    good = change_of(team, 20, leaves=[3])
    refused = offered(team.nodes[0], version, good.encoded())
    assert isinstance(refused, RefusedError)
    assert isinstance(team.nodes[0].take(Arrived(9, pack(Frame(Known(min(version, -1), ""))))), RefusedError)
    team.finish()


def test_a_hello_on_a_link_that_there_is_not_ends_nobody(team):
    """9 is heard by 0 and does not hear it: over a link that it dials to hear it, its hello is refused."""
    node, party = team.nodes[0], team.parties[0]
    sender = next(j for j in party.hears if j not in party.tells)
    hello = Hello("run", sender, team.journals[sender].epoch, team.parties[sender].round, N, "f8")
    refused = node.take(Arrived(sender, pack(Frame(hello)), answer=True))
    assert isinstance(refused, RefusedError)
    assert refused.reason == "stranger"
    team.finish()  # and nothing was forgotten of the link that there is


def odd_certificates():
    """Certificates that load, and of which a part is none: it would fail where it is first looked at."""
    pem = issue_certificate(make_authority("run"), 1).certificate
    der = x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)
    found = []
    for bit in range(8 * len(der)):
        changed = bytearray(der)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            shown = x509.load_der_x509_certificate(bytes(changed))
        except Exception:
            continue
        try:
            shown.public_key(), shown.extensions, shown.subject
        except Exception:
            found.append(ssl.DER_cert_to_PEM_cert(bytes(changed)))
    return found


def test_certificates_beside_a_document_of_which_a_part_is_none_end_nobody(team):
    good, odd = change_of(team, 20, leaves=[3]), odd_certificates()
    assert len(odd) > 20
    authority = make_authority("run")
    identities = Identities(authority.certificate)

    class Plan:
        run_name = "run"

    def verify(signed, change, history):
        check_signed(signed, Plan, identities, set(history.members))

    team.nodes[0].membership._verify = verify
    for k, one in enumerate(odd):
        signatures = [{"by": "1", "value": "00", "certificate": one}]
        refused = offered(team.nodes[0], 1, written(good.document, signatures))
        assert isinstance(refused, RefusedError), k
        assert identities.of({"x509_pem_cert": [one.encode()]}) is None
    team.finish()


def test_a_thousand_signatures_cost_no_more_than_those_that_could_count(team, monkeypatch):
    """A neighbour's megabyte with a thousand of them took twenty seconds, in which a learner did nothing else."""
    authority, looked = make_authority("run"), []
    identities, own = Identities(authority.certificate), issue_certificate(authority, 1)

    class Plan:
        run_name = "run"

    holds = Signed.holds
    monkeypatch.setattr(Signed, "holds", lambda self, one, key: looked.append(one) or holds(self, one, key))
    good = change_of(team, 20, leaves=[3])
    many = [{"by": by, "value": "3006020101020101"} for by in ("authority", "1", "99", "x")] * 250
    signed = parse_signed(
        written(good.document, [{**one, "certificate": own.certificate.decode()} for one in many]), "it"
    )
    with pytest.raises(GossamerError, match="has not signed"):
        check_signed(signed, Plan, identities, range(M))
    assert len(looked) == 2, "the authority's and learner 1's"
    assert signed.text is signed.text, "put together once"
    for i in range(M):
        signed = signed.signed_by(issue_certificate(authority, i), str(i))
    check_signed(parse_signed(signed.encoded(), "it"), Plan, identities, range(M))


def test_a_document_that_cannot_be_kept_is_no_news_for_a_neighbour(team, monkeypatch):
    """What is wrong with a journal says where it lies on this machine."""
    node, sent = team.nodes[0], []
    node.membership._verify = lambda signed, change, history: None
    monkeypatch.setattr(node, "_reply", lambda to, data: sent.append(data))

    def full(version, document):
        raise GossamerError("journal /home/own/journal.db cannot be used (disk full).")

    monkeypatch.setattr(team.journals[0], "keep_change", full)
    with pytest.raises(GossamerError, match="disk full"):
        offered(node, 1, change_of(team, 20, leaves=[3]).encoded())
    assert not sent
    assert team.parties[0].history.version == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)
FIELDS = st.sampled_from([
    "kind", "run", "version", "at", "joins", "leaves", "lost", "members", "R", "C", "addresses", "before",
])  # fmt: skip


@given(st.integers(-3, 3), st.dictionaries(FIELDS, JSON, max_size=3), st.lists(JSON, max_size=2))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_document_raises_anything_out_of_a_node(team, version, fields, signatures):
    good = change_of(team, 20, leaves=[3])
    try:
        payload = written({**good.document, **fields}, signatures)
    except ValueError:  # what JSON cannot say
        return
    assert isinstance(offered(team.nodes[0], version, payload), RefusedError)


def test_fewer_than_half_put_nobody_out():
    """One party, with a joiner of its own making, would otherwise be all that is left, and end everybody's run."""

    class Plan:
        run_name = "run"

    authority = make_authority("run")
    pairs = {i: issue_certificate(authority, i) for i in range(5)}
    identities = Identities(authority.certificate)

    def check(stays, signed):
        lost = set(range(5)) - set(stays)
        check_signed(parse_signed(signed.encoded(), "it"), Plan, identities, stays, lost)

    for stays in ([4], [3, 4], [2, 3, 4]):
        members = [*stays, 9] if len(stays) == 1 else stays
        lost, joins = sorted(set(range(5)) - set(stays)), [9] if len(stays) == 1 else []
        whole = gs.Network.complete(len(members))
        signed = plain = Signed(document_of("run", 1, 9, members, whole, lost=lost, joins=joins))
        for i in stays:
            signed = signed.signed_by(pairs[i], str(i))
        if len(stays) < 3:
            with pytest.raises(GossamerError, match=f"{len(lost)} of 5 learners are put out"):
                check(stays, signed)
            check(stays, plain.signed_by(authority))
        else:
            check(stays, signed)
