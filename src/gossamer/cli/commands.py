"""One command, `gossamer`: a user's mistake gets one sentence and exit code 2, never a traceback.

A command's module is imported when that command is called: `gossamer --help` is made of the table below.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, Literal, NoReturn, get_args, get_origin

import typer
from typer.core import TyperCommand

from gossamer.cli import interrupt
from gossamer.cli.words import as_typed, in_command, in_option, near_option, printable, with_place
from gossamer.errors import GossamerError, near
from gossamer.version import __version__

COMMANDS = {  # what `gossamer --help` says of each: the first sentence of its own help
    "run": "Train one model across learners that only talk to their neighbours, with noise on all they send.",
    "predict": "Predict new rows with the model that a run has left.",
    "export": "Write the model that a run has left as a plain JSON file: schema, coefficients, and how to predict in "
    "words.",
    "tune": "Choose step, l2, clip, first release and rounds for your own data, without looking where you must not.",
    "graph": "Check a network against Assumption 1 and show how well it mixes.",
    "check": "Say which of the paper's assumptions a run meets, and which theorems apply; exit code 1 if one fails.",
    "budget": "Say what a run will cost each learner in privacy, or how much noise a budget needs; nothing is run.",
    "audit": "Try to catch the claims lying, for every mechanism and gradient; exit code 1 if any check fails.",
    "attack": "See the leak: what messages tell of a record, without noise and with it.",
    "compare": "Compare methods at the same ε, each tuned alike, as in Figures 2, 3 and 4 of the paper.",
    "frontier": "Draw final accuracy and optimality gap against ε, from 0.1 to 10000; "
    "of images, a table at ε = 2, 8 and ∞.",
    "theory": "Measure how fast Algorithm 1 converges and what it costs, against what the theorems say.",
    "peers": "A run of learners that are processes of their own: set up, start, watch, collect.",
    "peer": "One party's learner.",
    "party": "A party's own keys, made on its own machine: ask to be let into a run, join it, renew.",
}
MODULES = {"compare": "studies", "frontier": "studies"}  # the others are in modules of their own names


class CommandToImport(TyperCommand):
    """A command of the table, known by its name and one line; to be called it is imported, and steps back."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        return imported_command(str(self.name)).make_context(info_name, args, parent, **extra)


def imported_command(name: str) -> Any:
    """The command itself, as the parser knows it; its module has it by its name, as a function or a typer.Typer."""
    command = getattr(interrupt.import_command(f"gossamer.cli.{MODULES.get(name, name)}"), name)
    alone = typer.Typer(rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        alone.add_typer(command, name=name, no_args_is_help=True)
    else:
        alone.command(name)(command)
    made = typer.main.get_group(alone).commands[name]
    for one in (made, *getattr(made, "commands", {}).values()):
        # Whoever names a command and not what it is about wants to know what that may be.
        one.no_args_is_help = one.no_args_is_help or any(
            p.required and not p.opts[0].startswith("-") for p in one.params
        )
    return made


app = typer.Typer(
    help="Private learning without a centre: parties that do not trust each other train one model over one-way links.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name, _help in COMMANDS.items():
    app.command(_name, help=_help, cls=CommandToImport)(lambda: None)


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


SPACES = "\n\t\u00a0"  # of what a user has typed, a sentence may quote these


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks ε still gets its table
    try:
        sys.exit(app(with_place(sys.argv[1:]), standalone_mode=False))
    except (KeyboardInterrupt, typer.Abort):
        _stop()
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if interrupt.was_asked():  # a library has made this of it
            _stop()
        if type(error).__name__ == "NoArgsIsHelpError":  # typer's errors; their classes are not public
            typer.echo(error.format_message())  # type: ignore[attr-defined]
            sys.exit(2)
        sentence = sentence_of(error)
        if sentence is None:
            raise
        typer.echo(f"gossamer: {printable(sentence, beside=SPACES)}", err=True)
        sys.exit(2)


def _stop() -> NoReturn:
    typer.echo(interrupt.SAID, err=True)
    sys.exit(interrupt.CODE)


def sentence_of(error: Exception) -> str | None:
    """What a user is told of a mistake; None where the mistake is ours, and gets a traceback."""
    if isinstance(error, GossamerError):
        return error.said(in_command)
    if isinstance(error, MemoryError):
        return "this does not fit into memory: use fewer learners, records or categories."
    if isinstance(error, OSError):  # such as a full disk behind standard output
        return f"{error.filename or 'output'} cannot be written ({error.strerror})."
    if hasattr(error, "format_message"):  # an option or a command that there is not
        says = _option_refused(error) or _no_such_option(error)
        says = says or error.format_message().replace("Value error, ", "").rstrip(".")
        wrong, _, meant = says.partition(". Did you mean ")
        meant = meant.strip("'?")
        says = f"{wrong}; perhaps {meant} is meant" if meant else says
        return f"{says}; see {_called()} --help."
    return None


def _option_refused(error: Exception) -> str:
    """`--band 0: expected a whole number ≥ 1`; "" where the error is not of a value, or its kind says nothing."""
    option = getattr(error, "param", None)
    kind = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    wanted = in_option(kind, getattr(option, "min", None), getattr(option, "max", None))
    if type(error).__name__ != "BadParameter" or option is None or not wanted:
        return ""
    typed = as_typed(option.opts, sys.argv)
    if not typed.startswith("-"):  # an argument: what was typed is quoted by the error alone
        typed = [*error.message.split("'"), typed, typed][1]  # type: ignore[attr-defined]
    perhaps = near(typed.rpartition(" ")[2], get_args(kind)) if get_origin(kind) is Literal else ""
    return "; ".join([f"{typed}: {wanted}", *([perhaps] if perhaps else [])])


def _no_such_option(error: Exception) -> str:
    """`No such option: --eps; perhaps --epsilon is meant`; "" for other errors."""
    if type(error).__name__ != "NoSuchOption":
        return ""
    typed, context = str(error.option_name), getattr(error, "ctx", None)  # type: ignore[attr-defined]
    known = [flag for one in context.command.params for flag in (*one.opts, *one.secondary_opts)] if context else []
    perhaps = near_option(typed, known)
    return f"No such option: {typed}" + (f"; {perhaps}" if perhaps else "")


def _called() -> str:
    """The command that was called, such as `gossamer peers init`; not all of typer's errors know it."""
    first, second = [*sys.argv[1:3], "", ""][:2]
    if first not in COMMANDS:
        return "gossamer"
    commands_in_it = getattr(imported_command(first), "commands", {})
    return " ".join(["gossamer", first, *([second] if second in commands_in_it else [])])
