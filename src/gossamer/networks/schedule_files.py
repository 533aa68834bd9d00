"""Schedules of networks from a file, TOML or JSON, for the command.

    networks = ["by-day.txt", "by-night.txt"]      one after the other; or leave it out, and the run's network is meant
    every = 12                                     rounds of each
    turns = [[[0, 1], [1, 2]], [[2, 0]]]           or some links of the only network in each round, by turns
    failures = 0.1                                 the probability that a link loses a round's messages
    both_ways = true                               … in both directions at once
    lost = "sums"                                  what becomes of lost pushes: sums, ahead, kept or dropped
    sleep = 0.05                                   the probability that a learner sleeps through a round
    seed = 3                                       what draws both, by default the run's
    leaves = [[3, 100]]                            learner 3 takes part in round 99 for the last time
    joins = [[3, 200]]                             and from round 200 on again

Networks are meant from the file's own folder.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gossamer.errors import Argument, GossamerError, Part, near
from gossamer.networks.changing import NetworkSchedule
from gossamer.networks.files import is_named, read_network
from gossamer.networks.network import Network

KEYS = ("networks", "every", "turns", "failures", "both_ways", "lost", "sleep", "seed", "leaves", "joins")
SAID = {"links": "turns", "learner": "leaves or joins, learner", "at": "leaves or joins, round"}  # else as in Python


def read_schedule(
    path: Path, network: Callable[[], Network], learners: int | None = None, seed: int = 0
) -> NetworkSchedule:
    """The schedule in a file, for so many learners; `network` gives what it is about where it names none itself."""
    given = _read(path)
    for key in given:
        if key not in KEYS:
            raise GossamerError(f"{path} has no {key!r}: {near(key, KEYS) or 'expected one of ' + ', '.join(KEYS)}.")
    try:
        return _schedule(path, given, network, learners, seed)
    except GossamerError as error:
        raise GossamerError(f"{path}: ", *map(_in_words_of_the_file, error.parts)) from None


def _in_words_of_the_file(part: Part) -> Part:
    """What the file says has the file's words; the command's options, which may be the remedy, keep theirs."""
    name = SAID.get(part.name, part.name) if isinstance(part, Argument) else ""
    if not isinstance(part, Argument) or name.partition(" ")[0] not in KEYS:
        return part
    return f"{name} = {part.value!r}" if part.has_value else name


def _schedule(
    path: Path, given: Mapping[str, Any], network: Callable[[], Network], learners: int | None, seed: int
) -> NetworkSchedule:
    seed, every = given.get("seed", seed), given.get("every", 1)
    if "turns" in given and "networks" in given:
        raise GossamerError("turns are of one network and networks are several: give one of them.")
    if "turns" in given:
        turns = [_pairs("turns", turn) for turn in _listed("turns", given["turns"])]
        schedule = NetworkSchedule.turns(network(), turns, every, seed)
    elif "networks" in given:
        names = _listed("networks", given["networks"])
        schedule = NetworkSchedule.of([_network(path, name, learners) for name in names], every, seed)
    else:
        schedule = NetworkSchedule.of(network(), every, seed)
    if "failures" in given:
        schedule = schedule.failing(
            given["failures"], both_ways=given.get("both_ways", False), lost=given.get("lost")
        )  # fmt: skip
    elif {"both_ways", "lost"} & set(given):
        raise GossamerError("both_ways and lost are about failures: give their probability, failures = 0.1.")
    if "sleep" in given:
        schedule = schedule.sleeping(given["sleep"])
    changes = [(at, who, False) for who, at in _pairs("leaves", given.get("leaves", []))]
    changes += [(at, who, True) for who, at in _pairs("joins", given.get("joins", []))]
    return schedule.changing(changes)


def _network(path: Path, name: Any, learners: int | None) -> Network:
    if not isinstance(name, str):
        raise GossamerError(f"networks has {name!r}: expected the names or files of networks.")
    return read_network(name if is_named(name) else str(path.parent / name), learners)


def _listed(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise GossamerError(f"{key} = {value!r}: expected a list.")
    return value


def _pairs(key: str, value: Any) -> list[tuple[int, int]]:
    meant = "[learner, round]" if key in ("leaves", "joins") else "[sender, receiver]"
    found = []
    for pair in _listed(key, value):
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(one) is int for one in pair):
            raise GossamerError(f"{key} has {pair!r}: expected pairs {meant} of whole numbers.")
        found.append((pair[0], pair[1]))
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        given = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise GossamerError(f"no schedule {path}: expected a TOML or .json file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GossamerError(f"the schedule {path} cannot be read ({error}): give a TOML or .json file.") from None
    except (ValueError, RecursionError) as error:
        raise GossamerError(f"{path} is not valid {'JSON' if path.suffix == '.json' else 'TOML'} ({error}).") from None
    if not isinstance(given, dict):
        raise GossamerError(f"{path} holds no table: expected keys such as failures.")
    return given
