"""What a start asks of a party's folder, in one place: `gossamer peer run` refuses what is not fit, and `gossamer peer
check` says so before, with the same sentence.

Nothing here writes or moves anything, but for the journal where it is opened to be used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.errors import GossamerError
from gossamer.models import LinearModel
from gossamer.models.standard import StandardMemory
from gossamer.peers.config import Plan
from gossamer.peers.feed import Records
from gossamer.peers.journal import Journal
from gossamer.peers.journal_place import OnDisk, Store
from gossamer.peers.turns import rounds_kept
from gossamer.privacy import PrivateBoundary, Unproved
from gossamer.privacy.mechanisms import refuse_short_rounds
from gossamer.setting import window_of
from gossamer.standardising import looks_of

MORE = ("bring more, or follow a file that grows",)


def open_journal(plan: Plan, boundary: PrivateBoundary | Unproved, store: type[Store] = OnDisk) -> Journal:
    """The journal, or a copy of it; refuses one of other settings."""
    run, party = plan.config.run, plan.config.party
    size, settings = plan.model().theta_size(plan.schema.columns), plan.own_settings
    if isinstance(boundary, PrivateBoundary):  # rules found noise and releases: the same ones, or another run
        settings += f"-{digest_of(boundary.description)}"
    kept = rounds_kept(size, run.numbers, run.lateness)
    path = plan.folder / party.journal
    return Journal(path, plan.run_name, plan.learner, settings, party.durability, kept, store)


def digest_of(description: Mapping[str, Any]) -> str:
    """Of the noise and the releases, which later rounds must have as well; not of how it is said whom ε is against."""
    noise = {name: value for name, value in description.items() if name != "against"}
    return hashlib.sha256(json.dumps(noise, sort_keys=True).encode()).hexdigest()[:16]


def place_of_records(plan: Plan) -> Path:
    """The file of records; that which standard input is kept in, where they come from there."""
    data = plan.config.data
    if data.path != "-":
        return plan.folder / data.path
    if data.format == "parquet":
        raise GossamerError("[data] path = '-' with format = 'parquet': standard input brings CSV or JSONL.")
    return plan.folder / f"records.{data.format}"


def read_records(plan: Plan) -> Records:
    """All that are there; every one must be in the schema."""
    data, per_round, path = plan.config.data, plan.config.run.per_round, place_of_records(plan)
    if data.path == "-":
        return Records(path, data.format, plan.schema, per_round, follow=True)
    return Records(path, data.format, plan.schema, per_round, data.follow, data.records)


def check_rounds(plan: Plan, boundary: PrivateBoundary | Unproved, feed: Records) -> None:
    """Refuse records that do not last."""
    run, rounds, told = plan.config.run, feed.rounds, plan.config.data.records
    if told is not None and len(feed) < told:
        raise GossamerError(
            f"learner {plan.learner} has {len(feed)} records and [data] records = {told}: bring them all."
        )
    if rounds is None or rounds >= run.steps or (told is not None and run.gradient == "history"):
        return
    if isinstance(boundary, PrivateBoundary):
        refuse_short_rounds(plan.learner, len(feed), run.per_round, run.steps, MORE)
    if run.gradient == "latest":
        raise GossamerError(
            f"learner {plan.learner} has {len(feed)} records for {run.steps} rounds of {run.per_round}, and gradient = "
            "'latest' needs new ones in each: bring more, follow a file that grows, or use history."
        )


def memory_of(plan: Plan, model: LinearModel, boundary: PrivateBoundary | Unproved) -> Any:
    """What the learner remembers of its records; nothing yet."""
    run = plan.config.run
    room = np.array([int(min(run.steps, window_of(model, run.gradient))) * run.per_round])
    memory = model.memory(plan.schema.table(), run.gradient, room, alone=True)
    if isinstance(memory, StandardMemory):
        memory.prepare(looks_of(memory, boundary, None, run.steps, plan.network))
    return memory
