"""One sentence a line behind a bullet, whole however long it is, so that what it names can be copied."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from gossamer.cli.words import printable


def say(console: Console, sentence: str, mark: str = "[yellow]•[/]") -> None:
    console.print(f"{mark} {escape(printable(sentence))}", highlight=False, soft_wrap=True)
