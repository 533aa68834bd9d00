"""Mistakes in the words of the file in which a party's owner mends them: remember=3 is [model] remember = 3 there."""

from __future__ import annotations

import msgspec

from gossamer.errors import Argument
from gossamer.peers.config import DataPlan, ModelPlan, PartyPlan, Plain, PrivacyPlan, RecordsPlan, Run
from gossamer.spec.files import toml_value

TABLES: dict[str, type[Plain]] = {
    "run": Run, "model": ModelPlan, "records": RecordsPlan, "privacy": PrivacyPlan, "data": DataPlan,
    "party": PartyPlan,
}  # fmt: skip
OTHERS = {"algorithm": "[run] method"}  # which have another name there


def in_file(argument: Argument) -> str:
    """An argument as party.toml has it; "" where that has none of its name."""
    place = OTHERS.get(argument.name) or next(
        (
            f"[{table}] {argument.name}"
            for table, kind in TABLES.items()
            if argument.name in {one.name for one in msgspec.structs.fields(kind)}
        ),
        "",
    )
    if not place or not argument.has_value:
        return place
    return f"{place} = {toml_value(argument.value)}"
