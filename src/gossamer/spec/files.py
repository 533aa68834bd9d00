"""A description as a file: TOML to write by hand, and the settings that a run keeps in its folder.

    [data]
    csv = "visits.csv"
    target = "ill"
    range = ["age=0:120"]

    [privacy]
    epsilon = 3

Paths are meant from the file's own folder.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.errors import Argument, GossamerError
from gossamer.networks import is_named
from gossamer.spec.description import PARTS, SETTINGS, Spec
from gossamer.spec.fields import check_names

PATHS = ("csv", "test", "graph", "schedule")  # settings that may name a file
NEWER = (  # than the oldest folders
    "norm", "stem", "device", "bf16", "clip_per", "algorithm", "features", "tested", "largest_component", "failures",
    "sleep", "schedule",
)  # fmt: skip


def in_toml(argument: Argument) -> str:
    """[length] steps = 5: where a setting stands in a file; "" for what is no setting."""
    if argument.name not in SETTINGS:
        return ""
    place = f"[{SETTINGS[argument.name].table}] {argument.name}"
    return f"{place} = {toml_value(argument.value)}" if argument.has_value else place


def read_toml(path: Path) -> Spec:
    """The description in a file; a mistake gets one sentence, in the file's own words."""
    tables = load_toml(path)
    try:
        check_names(tables, PARTS, str(path))
        for table, values in tables.items():
            if not isinstance(values, Mapping):
                raise GossamerError(f"{path}: {table} = {toml_value(values)} is no table: write [{table}] above it.")
            mine = [name for name, one in SETTINGS.items() if one.table == table]
            check_names(values, mine, f"[{table}] of {path}")
        spec = Spec.of(**{name: value for values in tables.values() for name, value in values.items()})
    except GossamerError as error:
        raise GossamerError(error.said(in_toml)) from None
    return spec.but(**{name: _from_folder(path, value) for name, value in spec.given().items() if name in PATHS})


def load_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise GossamerError(f"no file {path}: give the path of a TOML file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GossamerError(f"{path} cannot be read ({error}).") from None
    except (ValueError, RecursionError) as error:  # no TOML, or numbers and nestings that no one writes
        raise GossamerError(f"{path} is not valid TOML ({error}): correct it.") from None


def _from_folder(path: Path, value: str) -> str:
    """A file beside the description, by a path that is right from here; a network's name stays as it is."""
    beside = path.parent / value
    return value if is_named(value) or not beside.exists() else str(beside)


def write_toml(spec: Spec) -> str:
    """The description as a file; settings that were not given stand there as comments, with what they mean."""
    lines: list[str] = []
    for table in PARTS:
        lines += ["", f"[{table}]"]
        for name, one in SETTINGS.items():
            if one.table == table:
                value = getattr(getattr(spec, table), name)
                given = value != one.default
                shown = toml_value(value) if given or value not in (None, ()) else ""
                lines.append(f"{'' if given else '# '}{name} = {shown}".rstrip() + f"  # {one.help}" * (not given))
    return "\n".join(lines[1:]) + "\n"


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if not value.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise GossamerError(f"{value!r} is no text that a file can have: write it in UTF-8.")
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # which TOML has no other way for
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value)


def read_settings(folder: Path) -> Spec:
    """The description that a run left in its folder; refuses what the command would not have written."""
    try:
        stored = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        kept = {name: stored[name] for name in SETTINGS if name in stored or name not in NEWER}
        if "device" not in stored and stored["csv"] is None:
            kept["per_round"] = None  # before there were images, it was written for every run
        return Spec.of(**kept)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise GossamerError(Argument("resume", str(folder)), ": no run of gossamer there; give its folder.") from None


def write_settings(spec: Spec) -> bytes:
    return (json.dumps(spec.flat(), indent=1, ensure_ascii=False) + "\n").encode()
