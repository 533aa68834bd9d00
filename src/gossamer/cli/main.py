"""One command, `gossamer`: a user's mistake gets one sentence and exit code 2, never a traceback."""

from __future__ import annotations

import io
import os
import sys

import typer

from gossamer.cli.audit import audit
from gossamer.cli.budget import budget
from gossamer.cli.compare import compare
from gossamer.cli.frontier import frontier
from gossamer.cli.graph import graph
from gossamer.cli.peers import peer, peers
from gossamer.cli.run import run
from gossamer.cli.words import in_command
from gossamer.errors import GossamerError
from gossamer.version import __version__

app = typer.Typer(
    help="Private learning without a centre: parties that do not trust each other train one model over one-way links.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(run)
app.command()(graph)
app.command()(budget)
app.command()(audit)
app.command()(compare)
app.command()(frontier)
app.add_typer(peers, name="peers", no_args_is_help=True)
app.add_typer(peer, name="peer", no_args_is_help=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gossamer {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    pass


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks ε still gets its table
    try:
        sys.exit(app(standalone_mode=False))
    except GossamerError as error:
        _fail(error.said(in_command))
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("Stopped before anything was run.", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        _fail("this does not fit into memory: use fewer learners, records or categories.")
    except OSError as error:  # such as a full disk behind standard output
        _fail(f"{error.filename or 'output'} cannot be written ({error.strerror}).")
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's usage errors; their class is not public
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())
            sys.exit(2)
        says = error.format_message().replace("Value error, ", "").rstrip(".")
        _fail(f"{says}; see gossamer {_command()}--help.")


def _command() -> str:
    known = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    rooms = {group.name: group.typer_instance for group in app.registered_groups}
    first = next(iter(sys.argv[1:2]), "")
    room = rooms.get(first)
    if room is not None:
        inner = [command.name for command in room.registered_commands]
        return " ".join([first, *(word for word in sys.argv[2:3] if word in inner), ""])
    return f"{first} " if first in known else ""


def _fail(sentence: str) -> None:
    typer.echo(f"gossamer: {sentence}", err=True)
    sys.exit(2)
