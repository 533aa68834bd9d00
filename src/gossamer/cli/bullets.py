"""One sentence a line behind a bullet, whole however long it is, so that what it names can be copied."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape


def say(console: Console, sentence: str, mark: str = "[yellow]•[/]") -> None:
    console.print(f"{mark} {escape(sentence)}", highlight=False, soft_wrap=True)
