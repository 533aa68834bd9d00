"""Who a party is and whose word it takes, from the files of its folder."""

from __future__ import annotations

from typing import NamedTuple

from gossamer.peers.certificates import Identities, Pair, check_pair, shared_key_in
from gossamer.peers.config import Plan
from gossamer.peers.pair_keys import check_own_key


class Credentials(NamedTuple):
    """A party's key and certificate, which belong together and are valid now; and who everybody else is."""

    own: Pair
    identities: Identities


def read_credentials(plan: Plan) -> Credentials:
    """From the folder as it is now; refuses what could not be used."""
    party = plan.config.party
    own = Pair(plan.read(party.key), plan.read(party.certificate))
    check_pair(own)
    brought = {int(j): one.certificate for j, one in plan.config.neighbours.items() if one.certificate is not None}
    pinned = {j: plan.read(name) for j, name in brought.items()}
    identities = Identities(plan.read(party.authority), pinned)
    if plan.secrets is not None:
        check_own_key(plan, shared_key_in(own.certificate, "this party"))
    return Credentials(own, identities)
