"""How `gossamer peer check` shows what it has found: a table, what must be mended, what may not be expected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.bullets import say
from gossamer.cli.enrolment import in_fours
from gossamer.cli.words import printable
from gossamer.errors import GossamerError
from gossamer.peers.config import read_config
from gossamer.peers.declaration import Declared, declare
from gossamer.peers.own_words import in_file

AS = {
    "claim": "claim", "budget": "ε, in all", "delta": "δ", "against": "holds", "horizon": "for rounds", "law": "noise",
    "where": "placed on", "fingerprint": "words to compare", "agreement": "agreement", "listen": "listens on",
    "metrics": "/metrics", "leaves": "leaves this machine", "certificate": "certificate", "key": "its key",
    "keys": "who is who", "neighbours": "neighbours", "records": "records", "learner": "learner",
    "private": "private",
}  # fmt: skip


def found_in(config: Path, not_private: bool) -> Declared:
    """All that a folder shows; of one whose files cannot be understood, why: a start would be refused for that, too."""
    try:
        plan = read_config(config)
    except GossamerError as error:
        if not (config / "party.toml" if config.is_dir() else config).is_file() or config.suffix == ".json":
            raise  # it is no party's folder: another one was meant
        return Declared({}, [error.said(in_file)], [])
    return declare(plan, not_private)


def show(console: Console, found: Declared) -> None:
    """The facts in a table, then everything that needs a person."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    facts = dict(found.facts)
    if facts:
        facts["learner"] = f"{facts['learner']} of {facts.pop('learners')}, in run {facts.pop('run')}"
    for name, value in facts.items():
        for k, line in enumerate(in_fours(value) if name == "fingerprint" else _lines(value)):
            table.add_row("" if k else AS[name], escape(printable(line)))
    console.print(table, soft_wrap=False)
    for sentence in found.warnings:
        say(console, sentence)
    for sentence in found.mend:
        say(console, sentence, "[red]• must be mended:[/]")
    if not found.mend:
        console.print("Nothing must be mended before a start.")


def _lines(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "NO"]
    if isinstance(value, Mapping):
        return [f"{name} at {where}" for name, where in value.items()] or ["none"]
    return list(value) if isinstance(value, list) else [str(value)]
