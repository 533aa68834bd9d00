"""Signed documents: whose word counts, and for what."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="the extra `peers` is not installed")

from gossamer.errors import GossamerError
from gossamer.peers.certificates import Identities, Pair, issue_certificate, make_authority
from gossamer.peers.signed import Signed, parse_signed, read_signed

RUN = "abc:def"
DOCUMENT = {"kind": "revoked", "run": RUN, "serials": [3, 1]}


@pytest.fixture(scope="module")
def authority() -> Pair:
    return make_authority(RUN)


@pytest.fixture(scope="module")
def own(authority: Pair) -> list[Pair]:
    return [issue_certificate(authority, i) for i in range(3)]


def check(signed: Signed, authority: Pair, all_of: tuple[int, ...] = ()) -> None:
    signed.check("revoked", RUN, authority.certificate, Identities(authority.certificate), all_of)


def test_the_authoritys_word_is_enough_in_a_file_and_on_the_way(tmp_path: Path, authority: Pair) -> None:
    signed = Signed(DOCUMENT).signed_by(authority)
    check(signed, authority)
    signed.save(tmp_path / "revoked.json")
    check(read_signed(tmp_path / "revoked.json"), authority)
    check(parse_signed(signed.encoded(), "what came"), authority)


def test_all_parties_together_are_enough_and_fewer_are_not(authority: Pair, own: list[Pair]) -> None:
    signed = Signed(DOCUMENT)
    for i in (0, 1):
        signed = signed.signed_by(own[i], str(i))
    with pytest.raises(GossamerError, match="nor all of its learners: 2 have not"):
        check(signed, authority, (0, 1, 2))
    with pytest.raises(GossamerError, match="has not signed"):
        check(signed, authority)  # nobody's signatures but the authority's were asked for
    check(signed.signed_by(own[2], "2"), authority, (0, 1, 2))


def test_what_was_changed_or_is_of_another_does_not_count(authority: Pair, own: list[Pair]) -> None:
    signed = Signed(DOCUMENT).signed_by(authority)
    stranger = make_authority(RUN)
    for wrong in (
        Signed({**DOCUMENT, "serials": [3]}, signed.signatures),
        Signed(DOCUMENT).signed_by(stranger),
        Signed(DOCUMENT).signed_by(own[0], "authority"),
        Signed(DOCUMENT, ({"by": "authority", "value": "zz"},)),
        Signed(DOCUMENT),
    ):
        with pytest.raises(GossamerError, match="has not signed"):
            check(wrong, authority, (0,))
    for i, pair in ((1, own[0]), (0, issue_certificate(stranger, 0))):  # in another's name; of another authority
        with pytest.raises(GossamerError, match=f"{i} have not"):
            check(Signed(DOCUMENT).signed_by(pair, str(i)), authority, (i,))
    for kind, run in (("membership", RUN), ("revoked", "other:run")):
        with pytest.raises(GossamerError, match="take this run's"):
            signed.check(kind, run, authority.certificate, Identities(authority.certificate))


@pytest.mark.parametrize("given", [b"", b"[]", b'{"document": 3, "signatures": []}', b"[" * 100_000, b"\xff"])
def test_what_is_no_document_is_refused(given: bytes) -> None:
    with pytest.raises(GossamerError, match="is no signed document"):
        parse_signed(given, "what came")
