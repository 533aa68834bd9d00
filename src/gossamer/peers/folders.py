"""A run's folders: one for every party, the authority's key apart from all of them.

FOLDER/run.json              what the run is, for whoever starts or watches it from here
FOLDER/authority/            the key that lets learners in, and its certificate: keep it apart
FOLDER/learner-3/party.toml  all that learner 3 needs: move this folder to its owner
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from msgspec.structs import replace

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.networks import Network
from gossamer.peers.certificates import (
    MOST_DAYS,
    certificate_hosts,
    check_days,
    check_host,
    issue_certificate,
    key_pem,
    learner_of,
    make_authority,
    name_of,
)
from gossamer.peers.config import Config, Run, graph_json, to_toml
from gossamer.peers.key_files import AUTHORITY, write_pair
from gossamer.peers.pair_keys import fingerprint_of

LASTS = 10  # how many of the parties' certificates, one after another, the authority's outlasts


def make_folders(
    folder: Path,
    network: Network,
    configs: Sequence[Config],
    hosts: Sequence[str],
    days: int,
    records: Mapping[int, str],
    pairs: Network | None = None,
    own_keys: bool = False,
    ids: Sequence[str] = (),
) -> None:
    """Write the folders of a run whole, or refuse; `records[i]` is a CSV file for learner i to begin with.

    Where noise is shared every party gets a secret for it, and the others' certificates; `pairs` is who shares it, if
    that has no name. `ids` are what the network's file calls the learners, if it does. With `own_keys` there is no key
    but the authority's: gossamer.peers.enrolment lets parties in.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise GossamerError(f"{folder} exists already: give a new folder.")
    for config in configs:
        to_toml(config)  # refuses what no file can have before anything is there
    for host in hosts:
        check_host(host)  # and what no certificate can
    run = configs[0].run
    check_days("days", days)
    signer = make_authority(run.id, min(LASTS * days, MOST_DAYS))
    write_pair(folder / "authority", signer)
    if own_keys:
        for i, config in enumerate(configs):
            _write_public(folder / name_of(i), config, network, pairs)
        return _write_about(folder, run, ids)
    secrets = [None if config.secrets is None else X25519PrivateKey.generate() for config in configs]
    shared = [None if secret is None else secret.public_key() for secret in secrets]
    owns = [issue_certificate(signer, i, certificate_hosts(hosts[i]), days, shared[i]) for i in range(len(configs))]
    keys = {str(i): fingerprint_of(key) for i, key in enumerate(shared) if key is not None}
    for i, (config, own, secret) in enumerate(zip(configs, owns, secrets, strict=True)):
        place = folder / name_of(i)
        write_pair(place, own)
        replace_file(place / AUTHORITY, signer.certificate)
        if i in records:
            replace_file(place / config.data.path, records[i].encode(), private=True)
        if config.secrets is not None and secret is not None:
            replace_file(place / config.party.secret, key_pem(secret), private=True)
            replace_file(place / config.party.partners, b"".join(own.certificate for own in owns))
            config = replace(config, secrets=replace(config.secrets, keys=keys))
        _write_public(place, config, network, pairs)
    _write_about(folder, run, ids)


def _write_about(folder: Path, run: Run, ids: Sequence[str]) -> None:
    about: dict[str, Any] = {"id": run.id, "learners": run.learners, "steps": run.steps, "method": run.method}
    about |= {"ids": list(ids)} if ids else {}
    replace_file(folder / "run.json", (json.dumps(about) + "\n").encode())


def ids_of(folder: Path) -> list[str]:
    """What the network's file calls the learners of a run, in their order, where it has names for them."""
    try:
        about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []  # it is for people: nothing of a run rests on it
    ids = about.get("ids") if isinstance(about, dict) else None
    return [str(one) for one in ids] if isinstance(ids, list) else []


def _write_public(place: Path, config: Config, network: Network, pairs: Network | None) -> None:
    """What has no key in it."""
    replace_file(place / config.run.graph, graph_json(network).encode())
    if config.secrets is not None and pairs is not None:
        replace_file(place / config.secrets.graph, graph_json(pairs).encode())
    replace_file(place / "party.toml", to_toml(config).encode())


def learners_in(folder: Path) -> list[Path]:
    """The parties' folders of a run, in the order of their numbers."""
    places = [place for place in folder.glob("learner-*") if learner_of(place.name) is not None]
    if not places:
        raise GossamerError(f"no learners in {folder}: give a folder that 'gossamer peers init' has made.")
    return sorted(places, key=lambda place: learner_of(place.name) or 0)
