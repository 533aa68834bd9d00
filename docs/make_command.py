"""Writes the reference in docs/command.md, below its mark, from the parser itself: python docs/make_command.py"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gossamer.cli.commands import COMMANDS, imported_command

PAGE = Path(__file__).with_name("command.md")
MARK = "<!-- What follows is written by docs/make_command.py; change the command's own help instead. -->"


def reference() -> str:
    """Every command with its arguments and options, in the order of `gossamer --help`."""
    return "\n".join(line for name in COMMANDS for line in _commands(f"gossamer {name}", imported_command(name)))


def _commands(called: str, command: Any) -> list[str]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        return [line for name, one in inner.items() for line in _commands(f"{called} {name}", one)]
    about, examples = _help(command.help)
    lines = [f"## {called}", "", about, ""]
    lines += [*(f"    {line}" for line in examples), ""] if examples else []
    lines += ["| | |", "|---|---|", *(_row(one) for one in command.params if one.name != "help"), ""]
    return lines


def _help(text: str) -> tuple[str, list[str]]:
    """What a command does, and the examples that follow a line with a backspace."""
    about, _, examples = text.partition("\b\n")
    return about.strip(), [line.strip() for line in examples.strip().splitlines()]


def _row(one: Any) -> str:
    is_option = one.opts[0].startswith("-")
    kind = "" if getattr(one, "is_flag", False) else _kind(one)
    names = (
        ", ".join(f"`{flag}{kind}`" for flag in (*one.opts, *one.secondary_opts)) if is_option else f"`{kind.strip()}`"
    )
    default = one.default
    unsaid = default is None or isinstance(default, bool | list) or not is_option
    said = "" if unsaid else f" [default: {default}]"
    limits = [f"{word} {value:g}" for word, value in _limits(one) if value is not None]
    said += f" [{', '.join(limits)}]" if limits else ""
    return f"| {_cell(names)} | {_cell(one.help + said)} |"


def _limits(one: Any) -> list[tuple[str, float | None]]:
    return [("at least", getattr(one, "min", None)), ("at most", getattr(one, "max", None))]


def _kind(one: Any) -> str:
    """What a value looks like: a metavar, the choices, or the kind in capitals."""
    if one.metavar:
        return f" {one.metavar}"
    kind = one.type_descriptor.annotation
    choices = getattr(kind, "__args__", ()) if "Literal" in str(kind) else ()
    if choices:
        return " " + "|".join(map(str, choices))
    words = {"str": "TEXT", "int": "N", "float": "X", "Path": "PATH", "list": "TEXT"}
    is_option = one.opts[0].startswith("-")
    return f" {words.get(getattr(kind, '__name__', ''), 'TEXT')}" if is_option else f" {one.name.upper()}"


def _cell(text: str) -> str:
    """Of a table: a bar would end it."""
    return text.replace("|", "\\|").replace("\n", " ")


def page() -> str:
    """The page as it should be: what a person wrote, and the reference."""
    return PAGE.read_text(encoding="utf-8").partition(MARK)[0] + f"{MARK}\n\n{reference()}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
