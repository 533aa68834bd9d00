"""What the parties of a run compare by telephone before they start: twelve words, of all that they must agree on.

The words stand for three things, of which none may be exchanged on the way:

- **the agreement** (`Plan.agreement`): [run], [model], [records], [secrets] and the graph, on which privacy is proved;
- **the authority's public key**: with another one somebody between two parties could sign certificates for both, and
  hand each a run of its own. The key and not its certificate, which may be renewed;
- **the public key of every party** that has enrolled with one of its own (`[party] members`). From then on no other
  key counts for that party, whatever the authority signs, so not even the authority can stand in for anybody: whoever
  wants to must show other keys at enrolment, and then the words differ. Folders whose keys one person has made list
  none; there the maker is trusted anyhow.

A party's ε, its records and its ports are its own business and not in here: `gossamer peer check` shows them.

**Why twelve words are enough.** Whoever writes the agreement can try many until two of them have the same words, one
for each of two parties. With b bits that takes about 2^(b/2) tries, and nobody checks them but two people, so the tries
are made slow: a word's byte is one of the output of scrypt (16 MiB, some 40 ms), of which there are 12, 96 bits. 2^48
tries are about 350 000 years of one core, or as much as 2^48 · 16 MiB of memory traffic costs elsewhere. Whoever must
hit the words of an agreement that is there already needs 2^96. Two people who compare only the first four words stop a
mistake, and nobody who tries.
"""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.peers.certificates import key_fingerprint_in, members_in
from gossamer.peers.config import Plan
from gossamer.peers.spoken import slow_digest, spoken

BYTES = 12
SALT = b"gossamer agreement in words 1"


def digest_of(agreement: str, authority: str, members: Mapping[int, str]) -> bytes:
    """Of an agreement's fingerprint, that of the authority's key, and those of the parties' own keys."""
    whole = {"agreement": agreement, "authority": authority, "members": {str(j): members[j] for j in sorted(members)}}
    return slow_digest(whole, SALT, BYTES)


def compared(plan: Plan) -> bytes:
    """What the words of a party's folder stand for."""
    party = plan.config.party
    authority = plan.read(party.authority)
    members = {} if party.members is None else members_in(plan.read(party.members), authority)
    return digest_of(
        plan.agreement, key_fingerprint_in(authority), {j: key_fingerprint_in(one) for j, one in members.items()}
    )


def words_of(plan: Plan) -> str:
    """The words of a party's folder: the same at every party of the run."""
    return spoken(compared(plan))
