"""What `gossamer peers change` writes: the next document of a run's folder, and the folder of a party that joins.

    FOLDER/changes/1.json     every document that was made here, in order
    FOLDER/learner-10/        of a party that joins, unless it is there: with a key and a certificate by the authority

**The graph**, where none is given, is the one that was, among those who stay. Where that does not connect them, those
who told somebody that is gone tell those whom it told: every path that led over it is there again. Who joins hears
three learners, and is heard by them. A new link weighs 0.25, and less where a learner would keep too little of its own
value: it never takes more than half of what is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from gossamer.arrays import dense
from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.networks import Network, read_network
from gossamer.peers.addresses import host_of, listen_at
from gossamer.peers.certificates import Pair, certificate_hosts, certify, issue_certificate, name_of
from gossamer.peers.changes import documents_in
from gossamer.peers.config import DataPlan, Neighbour, Plan, graph_json, read_config, to_toml
from gossamer.peers.folders import learners_in
from gossamer.peers.key_files import AUTHORITY, CERTIFICATE, KEY, write_pair
from gossamer.peers.membership import FOLDER, History, document_of, read_change
from gossamer.peers.own_folder import REQUEST
from gossamer.peers.request import Request
from gossamer.peers.signed import Signed, read_signed
from gossamer.types import Array, Matrix

HEARS, WEIGHT = 3, 0.25  # of who joins: how many it hears, and the weight of a new link
DAYS = 365


class Wanted(NamedTuple):
    """What is to change, as it was asked for."""

    at: int
    leaves: Collection[int] = ()
    lost: Collection[int] = ()
    joins: Mapping[int, str] = {}  # and where each listens
    graph: str | None = None
    addresses: Mapping[int, str] = {}
    requests: Mapping[int, Request] = {}  # of those who join with keys of their own
    again: bool = False  # in place of the newest document, which nobody has accepted


def propose(folder: Path, wanted: Wanted) -> tuple[Signed, Plan, History]:
    """The next document, not yet signed, with a party's plan and what was before."""
    places = [place for place in learners_in(folder) if (place / "party.toml").exists()]
    plan = read_config(places[0])
    documents = [read_signed(path) for path in documents_in(folder)]
    changes = sorted(map(read_change, documents))
    if wanted.again:
        changes = changes[:-1]
    history = History(plan.network, changes)
    _check_wanted(history, wanted)
    algorithm = plan.algorithm()
    gone = {*wanted.leaves, *wanted.lost}
    members = sorted({*history.members, *wanted.joins} - gone)
    if wanted.graph is not None:
        network = read_network(wanted.graph, len(members))
    else:
        network = grown(history.network_of(history.version), history.members, members)
    addresses = _addresses(places, history, members, network, wanted, algorithm.mixes)
    signed = Signed(
        document_of(
            plan.run_name, history.version + 1, wanted.at, members, network, joins=wanted.joins, leaves=wanted.leaves,
            lost=wanted.lost, addresses=addresses, before=history.digest,
        )
    )  # fmt: skip
    history.check(read_change(signed), algorithm, plan.config.run.steps)
    return signed, plan, history


def _check_wanted(history: History, wanted: Wanted) -> None:
    if not (wanted.leaves or wanted.lost or wanted.joins or wanted.graph):
        raise GossamerError("nothing changes: say who leaves, joins or is lost, or give another graph.")
    for i in sorted({*wanted.leaves, *wanted.lost}):
        if i not in history.members:
            there = ", ".join(map(str, history.members))
            raise GossamerError(f"learner {i} is not there to leave: the members are {there}.")


def grown(network: Network, old: Sequence[int], new: Sequence[int]) -> Network:
    """The old graph among those who stay, with links for those who join."""
    place = {number: k for k, number in enumerate(new)}
    stays, gone = [i for i in old if i in place], [i for i in old if i not in place]
    joins = [i for i in new if i not in old]
    most = len(old) + len(joins)
    matrices = []
    for over in ("R", "C"):
        weights, numbers = np.zeros((most, most)), [*old, *joins]
        weights[: len(old), : len(old)] = dense(getattr(network, over)) * (1 - np.eye(len(old)))
        at = {number: k for k, number in enumerate(numbers)}
        if not _connected(weights, [at[i] for i in stays]):
            for g in (at[i] for i in gone):  # who heard it hears those whom it heard
                heard, told = (np.flatnonzero(ends).tolist() for ends in (weights[g], weights[:, g]))
                _link(weights, over, [(a, b) for b in told for a in heard])
        for k, j in enumerate(joins):
            some = {at[stays[(k + step * max(1, len(stays) // HEARS)) % len(stays)]] for step in range(HEARS)}
            _link(weights, over, sorted([(at[j], i) for i in some] + [(i, at[j]) for i in some]))
        keep = [at[i] for i in new]
        kept = weights[np.ix_(keep, keep)]
        matrices.append(kept - np.diag(kept.sum(axis=1 if over == "R" else 0)))
    try:
        return Network(*matrices)
    except GossamerError as error:
        raise GossamerError("the graph of those who stay: ", *error.parts, " Or give one with --graph.") from None


def _connected(weights: Array, some: Sequence[int]) -> bool:
    """Whether every one of them reaches every other over links among them."""
    from scipy.sparse.csgraph import connected_components

    among = weights[np.ix_(some, some)] > 0
    return int(connected_components(among, directed=True, connection="strong")[0]) == 1


def _link(weights: Array, over: str, links: Sequence[tuple[int, int]]) -> None:
    """Add links (sender, receiver) that are not there; nobody gives up more than half of what it keeps of its own."""
    for sender, receiver in links:
        if sender != receiver and weights[receiver, sender] == 0:
            taken = weights[receiver].sum() if over == "R" else weights[:, sender].sum()
            weights[receiver, sender] = min(WEIGHT, (1 - taken) / 2)


def _addresses(
    places: Sequence[Path],
    history: History,
    members: Sequence[int],
    network: Network,
    wanted: Wanted,
    mixes: Sequence[Matrix],
) -> dict[int, str]:
    """Of everybody that somebody reaches who did not before."""
    known: dict[int, str] = {}
    for place in places:
        for j, neighbour in read_config(place).config.neighbours.items():
            if neighbour.address is not None:
                known[int(j)] = neighbour.address
    for change in history.changes:
        known |= change.addresses
    known |= {**wanted.joins, **wanted.addresses}
    before = _links(history.network_of(history.version), history.members, mixes)
    told: dict[int, str] = {}
    for sender, receiver in sorted(_links(network, members, mixes) - before):
        if receiver not in known:
            raise GossamerError(
                f"learner {sender} would send to learner {receiver}, and nobody here knows where that listens: say "
                f"--address {receiver}=HOST:PORT."
            )
        told[receiver] = known[receiver]
    return told | {j: where for j, where in known.items() if j in wanted.joins}


def _links(network: Network, members: Sequence[int], mixes: Sequence[Matrix]) -> set[tuple[int, int]]:
    """(sender, receiver) of every link that a method uses."""
    plain: Any = [over.removeprefix("I+") for over in mixes]
    return {(members[a], members[b]) for over in plain for a, b, _ in network.edges(over)}


def save(folder: Path, signed: Signed) -> Path:
    """Into the run's folder, under its version."""
    path = folder / FOLDER / f"{signed.document['version']}.json"
    signed.save(path)
    return path


def make_place(folder: Path, plan: Plan, authority: Pair, i: int, address: str, request: Request | None = None) -> Path:
    """The folder of a party that joins, where it has none; with all documents, the newest included.

    Where it has sent a request its key is its own, and what is here goes back to it as a bundle.
    """
    place, party = folder / name_of(i), plan.config.party
    if not place.exists():
        place.mkdir(mode=0o700)
        hosts = certificate_hosts(host_of(address))
        if request is None:
            write_pair(place, issue_certificate(authority, i, hosts, DAYS))
        else:
            replace_file(place / CERTIFICATE, certify(authority, i, request.key, hosts, DAYS))
            request.signed.save(place / REQUEST)
        replace_file(place / AUTHORITY, plan.read(party.authority))  # the first: others follow it by documents
        replace_file(place / plan.config.run.graph, graph_json(plan.network).encode())
        if party.members is not None:
            replace_file(place / party.members, plan.read(party.members))
    for path in (*folder.glob("authority-*.json"), *folder.glob("revoked.json")):
        replace_file(place / path.name, path.read_bytes())
    documents = [read_signed(path) for path in documents_in(folder)]
    for signed in documents:
        save(place, signed)
    neighbours = _neighbours(folder, documents, i, plan.algorithm().mixes)
    if (place / "party.toml").exists():  # its change was made again, perhaps with another graph
        config = replace(read_config(place).config, neighbours=neighbours)
        replace_file(place / "party.toml", to_toml(config).encode())
    else:
        party = replace(
            plan.config.party, learner=i, listen=listen_at(address), metrics=None,
            key=KEY, certificate=CERTIFICATE, authority=AUTHORITY,
        )  # fmt: skip
        own_data = DataPlan(path="records.csv", follow=True)
        config = replace(plan.config, party=party, data=own_data, neighbours=neighbours)
        replace_file(place / "party.toml", to_toml(config).encode())
    return place


def _neighbours(folder: Path, documents: Sequence[Signed], i: int, mixes: Sequence[Matrix]) -> dict[str, Neighbour]:
    """Whom it reaches: every address is in the document that lets it join, or in another party's file."""
    known: dict[str, Neighbour] = {}
    for place in learners_in(folder):
        if (place / "party.toml").exists():
            known |= {j: Neighbour(address=one.address) for j, one in read_config(place).config.neighbours.items()}
    change = max(map(read_change, documents))
    links = _links(change.network, change.members, mixes)
    ends = {b for a, b in links if a == i} | {a for a, b in links if b == i}
    known |= {str(j): Neighbour(address=where) for j, where in change.addresses.items()}
    return {str(j): known[str(j)] for j in sorted(ends) if str(j) in known}
