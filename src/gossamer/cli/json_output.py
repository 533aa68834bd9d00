"""`--json` of every command that has it: FILE, or - for standard output, which then has the JSON and nothing else.

`--json` alone is `--json -`. What a person must know beside goes to standard error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from gossamer.cli.output import check_place
from gossamer.cli.words import JSON, STDOUT
from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.run_record import write_json


def json_option(what: str) -> Any:
    """The option; `what` is written."""
    return typer.Option(
        None, JSON, metavar="FILE", help=f"Write {what} as JSON to this file; to standard output with -, or alone."
    )


def json_file(place: str | None) -> Path | None:
    """The file that is named, if any; refused, before any work, where it cannot be written or is no file's name."""
    if place is None or place == STDOUT:
        return None
    path = Path(place)
    check_place(path)
    if not path.suffix and (path.is_file() or not path.exists()):  # a device or a pipe needs none
        # `gossamer check --json mushrooms` is meant as `gossamer check mushrooms --json`.
        raise GossamerError(
            f"--json {place}: expected a name with an ending, such as {place}.json, or - for standard output, or "
            "nothing, where --json is the last word."
        )
    return path


def console_beside(place: str | None) -> Console:
    """For the words of a command: silent where standard output is for the JSON."""
    return Console(quiet=place == STDOUT)


def put_json(place: str | None, content: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Write it where it was asked for, if it was: one object, or a list with one a run."""
    if place is None:
        return
    text = write_json(content) if isinstance(content, Mapping) else _listed(content)
    path = json_file(place)
    if path is None:
        typer.echo(text, nl=False)
    else:
        replace_file(path, text.encode())


def _listed(content: Sequence[Mapping[str, Any]]) -> str:
    entries = ",\n".join(write_json(one).rstrip() for one in content)
    return f"[\n{entries}\n]\n"
