"""`gossamer peer`: one party's learner, in a module of its own, because a learner that waits should be small."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import typer
from rich.console import Console

from gossamer.cli import live
from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.words import printable
from gossamer.errors import GossamerError

peer = typer.Typer(help="One party's learner.")
NOT_PRIVATE = typer.Option(
    False, "--not-private", help="The owner's word that a run without [privacy] epsilon may start: it hides nothing."
)


def needs_extra() -> None:
    if any(importlib.util.find_spec(module) is None for module in ("grpc", "msgspec")):
        raise GossamerError("learners as processes need gRPC: install gossamer-learning[peers].")


@peer.command("run")
def run(
    config: Path = typer.Argument(metavar="CONFIG", help="The party's folder, or its party.toml."),
    quiet: bool = typer.Option(False, help="Log to log.jsonl alone, and not to the terminal."),
    not_private: bool = NOT_PRIVATE,
    live_page: bool = live.LIVE,
    live_port: int | None = typer.Option(
        None, min=1, max=65535, help="The port of --live, on 127.0.0.1 [default: the first free one from 7373]."
    ),
) -> None:
    """Run one learner, on its owner's records, until its rounds are done; start it again whenever it was stopped.

    \b
    gossamer peer run learner-3
    queue-reader | gossamer peer run learner-3   with [data] path = "-"; it must bring each record once, ever
    """
    needs_extra()
    from gossamer.peers.config import read_config
    from gossamer.peers.declaration import refuse_without_word
    from gossamer.peers.process import run_learner

    asked = live.wanted(live_page, None if live_port is None else str(live_port), stay=False, option="--live-port")
    with _code_of_what_passes():
        plan = read_config(config)
        refuse_without_word(plan.config.privacy, plan.folder, not_private)
        with _page(plan.folder, asked):
            code = run_learner(plan, quiet=quiet)
    raise typer.Exit(code)


@contextmanager
def _code_of_what_passes() -> Iterator[None]:
    """Such an end gets one sentence and a code of its own: whoever has started the learner starts it again.

    A mistake in the folder is told in the words of its party.toml, which has no options.
    """
    from gossamer.peers.own_words import in_file
    from gossamer.peers.passing import CODE, passing_state

    try:
        yield
    except Exception as error:
        if passing_state(error) is None:
            if not isinstance(error, GossamerError):
                raise
            raise GossamerError(error.said(in_file)) from None
        said = error.said(in_file) if isinstance(error, GossamerError) else f"{error}: start again later."
        with suppress(OSError):
            typer.echo(f"gossamer: {printable(said)}", err=True)
        raise typer.Exit(CODE) from None


@peer.command("check")
def check(
    config: Path = typer.Argument(metavar="CONFIG", help="The party's folder, or its party.toml."),
    not_private: bool = NOT_PRIVATE,
    json: str | None = json_option("what was found"),
) -> None:
    """Say all that a folder's owner must know before its first start; exit code 1 if something must be mended.

    What it claims and against whom, the words to compare by telephone, the ports, what leaves the machine, who can read
    the keys, and whatever in the folder would end a start: its files, the records, the journal. Nothing is changed: the
    journal is looked at in a copy, and no secret moved. Whether ports are free now only a start can say.
    """
    needs_extra()
    from gossamer.cli.peer_check import found_in, show

    json_file(json)
    found = found_in(config, not_private)
    show(console_beside(json), found)
    put_json(json, found._asdict())
    if found.mend:
        raise typer.Exit(1)


@peer.command("accept")
def accept(
    config: Path = typer.Argument(metavar="CONFIG", help="The party's folder, or its party.toml."),
    document: Path = typer.Argument(help="A document of 'gossamer peers change', 'peers revoke' or 'peers rotate'."),
    sign: bool = typer.Option(False, "--sign", help="Put this party's signature into the document, and nothing else."),
) -> None:
    """Check a signed document and give it to the party, also while it runs.

    It says who takes part, whose certificates count no more, or which authority follows. A learner that runs takes it
    within seconds; status says so, or why it does not. What changes who takes part it passes on to all others; lists
    of certificates, and authorities, each party is given by itself.
    Where the authority has not signed a document, all parties do, one after the other, with --sign.
    """
    needs_extra()
    from gossamer.cli.accepting import show_accepted
    from gossamer.peers.config import read_config

    show_accepted(Console(), read_config(config), document, sign)


def _page(folder: Path, asked: live.Wanted | None) -> AbstractContextManager[live.Page | None]:
    """The party's own page, if one was asked for: for its owner, so that it asks for a token on this machine, too."""
    if asked is None:
        return nullcontext()
    from gossamer.cli.output import command_line
    from gossamer.peers.following import Following

    following = Following(folder, command=command_line())
    return live.served(asked, following.first_view, following.take, secret=True)
