"""Letting parties into a run whose maker has none of their keys: `peers init --own-keys`, then `peers sign`.

    study/learner-1/   party.toml and graph, and no key: the place of a party that has not come yet
                       request.json once its request is in, certificate.pem once all are
    study/learner-1.json   what goes back to that party: its bundle

A run is open until every party's request is in; then all certificates are made at once, [secrets.keys] gets all keys,
and the agreement is final. Until then a request may be replaced; from then on a party's key is its own, and `sign`
renews certificates alone: for the same key, or one that it has handed on to (gossamer.peers.succession).

A party's first request may come again then: its bundle was lost on the way, or is to have other dates. Nobody here
knows whether it has joined. So its new bundle is one to join with, from which a party that has joined takes the
certificate alone. A request to renew comes from a party that has joined, and gets nothing but a certificate.

What the maker of a run can still do: choose the agreement, which all see before they start; and refuse to sign. It
cannot stand in for a party without other words at all others: their keys are in the words (gossamer.peers.compared),
and in members.pem at everybody.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.peers.addresses import host_of, listen_at
from gossamer.peers.authorities import follow
from gossamer.peers.bundle import Bundle, bundle_of, write_bundle
from gossamer.peers.certificates import (
    Identities,
    Pair,
    certificate_hosts,
    certify,
    days_left,
    key_fingerprint_in,
    learner_of,
    name_of,
    shared_key_in,
    valid_until,
)
from gossamer.peers.compared import words_of
from gossamer.peers.config import Config, Neighbour, Plan, read_config, to_toml
from gossamer.peers.folders import ids_of, learners_in
from gossamer.peers.key_files import AUTHORITY, CERTIFICATE, MEMBERS, read_authority
from gossamer.peers.own_folder import REQUEST
from gossamer.peers.pair_keys import fingerprint_of
from gossamer.peers.request import Request, read_request

DAYS = 365


class Enrolled(NamedTuple):
    """What `sign` has done: who is there, who is not, the files that go back, and the words of a run that is final."""

    here: dict[int, Request]
    missing: list[int]
    bundles: dict[int, Path]
    words: str
    until: datetime.datetime | None = None  # when the first of the certificates ends
    cut: bool = False  # because the authority's own ends then
    again: Collection[int] = ()  # whose first request came once more, when the run was final already


def sign(study: Path, files: Sequence[Path], learner: int | None, authority: Path, days: int | None) -> Enrolled:
    """Take requests in, in the order given; where all are there, sign them all, or renew."""
    places = learners_in(study)
    requests = [read_request(path) for path in files]
    if learner is not None and (len(requests) != 1 or not 0 <= learner < len(places)):
        raise GossamerError(f"--learner {learner}: give one request with it, and a number from 0 to {len(places) - 1}.")
    if all((place / CERTIFICATE).exists() for place in places):
        return _renewed(places, requests, learner, authority, days)
    here = {i: read_request(place / REQUEST) for i, place in enumerate(places) if (place / REQUEST).exists()}
    free = [i for i in range(len(places)) if i not in here] if learner is None else [learner]
    if len(requests) > len(free):
        raise GossamerError(f"{len(requests)} requests for {len(free)} learners that have none: leave some out.")
    came = dict(zip(free, requests, strict=False))
    if learner is None:
        _refuse_other_ids(came, ids_of(study))
    here |= came
    _refuse_twice(here)
    for i, request in came.items():
        if request.before:
            raise GossamerError(f"learner {i}'s request follows an older key, and it has none here: use 'party new'.")
        request.signed.save(places[i] / REQUEST)
    missing = [i for i in range(len(places)) if i not in here]
    if missing:
        return Enrolled(here, missing, {}, "")
    signer = read_authority(authority)
    lasts = _lasts(signer, days)
    bundles = _final(study, places, here, signer, lasts)
    return Enrolled(here, [], bundles, words_of(read_config(places[0])), *_until(places, bundles, days, lasts))


def _lasts(signer: Pair, days: int | None) -> int:
    """For how many days: a certificate does not outlive who signed it."""
    return min(days or DAYS, max(1, math.floor(days_left(signer.certificate))))


def _until(
    places: Sequence[Path], bundles: Mapping[int, Path], days: int | None, lasts: int
) -> tuple[datetime.datetime | None, bool]:
    ends = [valid_until((places[i] / CERTIFICATE).read_bytes()) for i in bundles]
    return min(ends, default=None), lasts < (days or DAYS)


def _refuse_twice(here: Mapping[int, Request]) -> None:
    """One party is one learner, and its keys are its own."""
    for what in ("key", "secret"):
        seen: dict[str, int] = {}
        for i, request in here.items():
            given = str(request.signed.document[what] or i)
            if given in seen:
                raise GossamerError(
                    f"the requests of learners {seen[given]} and {i} have the same {what}: let each party make its own "
                    "with 'gossamer party new', or say --learner to replace one."
                )
            seen[given] = i


def _refuse_other_ids(came: Mapping[int, Request], ids: Sequence[str]) -> None:
    """A party that is called as another learner in the network's file would get that one's links."""
    for i, request in came.items():
        if i < len(ids) and request.name in ids and ids.index(request.name) != i:
            its = ids.index(request.name)
            raise GossamerError(
                f"the request of {request.name!r} would be learner {i}'s, which the network's file calls {ids[i]!r}, "
                f"and {request.name!r} is learner {its} there: give requests in that order, or say --learner {its}."
            )


def _final(
    study: Path, places: Sequence[Path], here: Mapping[int, Request], signer: Pair, days: int
) -> dict[int, Path]:
    """The agreement with all keys, everybody's certificates, and what goes back to each."""
    configs = [read_config(place).config for place in places]
    addresses = {i: here[i].address or _address(configs, i) for i in here}
    shared = configs[0].secrets is not None
    keys = {str(i): fingerprint_of(_secret(i, request)) for i, request in here.items()} if shared else {}
    certificates = {
        i: certify(signer, i, request.key, _hosts(addresses[i]), days, request.secret if shared else None)
        for i, request in here.items()
    }
    members = b"".join(certificates[i] for i in sorted(certificates))
    for i, (place, config) in enumerate(zip(places, configs, strict=True)):
        neighbours = {j: Neighbour(address=addresses[int(j)]) for j in config.neighbours}
        secrets = None if config.secrets is None else msgspec.structs.replace(config.secrets, keys=keys)
        party = msgspec.structs.replace(config.party, listen=_listen(config, here[i].address), members=MEMBERS)
        config = msgspec.structs.replace(config, neighbours=neighbours, secrets=secrets, party=party)
        replace_file(place / "party.toml", to_toml(config).encode())
        replace_file(place / AUTHORITY, signer.certificate)
        replace_file(place / MEMBERS, members)
    for i, place in enumerate(places):  # last: they say that the run is final
        replace_file(place / CERTIFICATE, certificates[i])
    return {i: _bundle(study, place, i) for i, place in enumerate(places)}


def _secret(i: int, request: Request) -> X25519PublicKey:
    if request.secret is None:
        raise GossamerError(f"learner {i}'s request has no key for noise that cancels: make it with 'party new'.")
    return request.secret


def _address(configs: Sequence[Config], i: int) -> str:
    """Where learner i is as `init` was told; everybody hears somebody, so somebody has it."""
    for config in configs:
        if str(i) in config.neighbours and config.neighbours[str(i)].address is not None:
            return str(config.neighbours[str(i)].address)
    raise GossamerError(f"learner {i} has no address: make its request with 'gossamer party new --address HOST:PORT'.")


def _listen(config: Config, address: str | None) -> str | None:
    return config.party.listen if address is None else listen_at(address)


def _hosts(address: str) -> list[str]:
    return certificate_hosts(host_of(address))


def _bundle(study: Path, place: Path, i: int) -> Path:
    path = study / f"{name_of(i)}.json"
    write_bundle(path, bundle_of(place, i))
    return path


def _renewed(
    places: Sequence[Path], requests: Sequence[Request], learner: int | None, authority: Path, days: int | None
) -> Enrolled:
    """New certificates for parties of the run, each for its own key or one that this has handed on to."""
    signer, study = read_authority(authority), places[0].parent
    _refuse_old_authority(read_config(places[0]), study, signer, authority)
    known = {key_fingerprint_in((place / CERTIFICATE).read_bytes()): place for place in places}
    lasts = _lasts(signer, days)
    here, bundles = dict[int, Request](), dict[int, Path]()
    for request in requests:
        place = next((known[key] for key in request.keys if key in known), None)
        found = None if place is None else learner_of(place.name)
        if place is None or found is None or learner not in (None, found):
            raise GossamerError(
                f"the request of {request.name!r} is for a key that no learner of {study} has: make it with 'gossamer "
                "party renew', where the party's key is."
            )
        address = request.address or _address([read_config(one).config for one in places], found)
        shared = None
        if read_config(place).secrets is not None:
            shared = shared_key_in((place / CERTIFICATE).read_bytes(), name_of(found))
        certificate = certify(signer, found, request.key, _hosts(address), lasts, shared, request.before)
        replace_file(place / CERTIFICATE, certificate)
        bundles[found], here[found] = study / f"{name_of(found)}.json", request
        renewal = Bundle("renews", found, {CERTIFICATE: certificate.decode()})
        write_bundle(bundles[found], bundle_of(place, found) if request.first else renewal)
    until, cut = _until(places, bundles, days, lasts)
    again = [i for i, request in here.items() if request.first]
    return Enrolled(here, [], bundles, words_of(read_config(places[0])), until, cut, again)


def _refuse_old_authority(plan: Plan, study: Path, signer: Pair, authority: Path) -> None:
    first, today = plan.read(plan.config.party.authority), datetime.datetime.now(datetime.UTC).date()
    trusted = follow(study, plan.run_name, first, Identities(first), plan.config.run.learners, today)
    if signer.certificate not in trusted:
        raise GossamerError(f"{authority} is no authority that counts in {study} today: give the newest.")
