"""`--live`: a page that shows a run while it goes on, served from a thread of the command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from gossamer.cli.words import in_command
from gossamer.errors import GossamerError

if TYPE_CHECKING:
    from gossamer.report.feed import Delta
    from gossamer.report.server import Address
    from gossamer.report.view import View

LIVE = typer.Option(False, "--live", help="Show it on a page of this machine while it goes on (extra live).")
LIVE_AT = typer.Option(
    None,
    help="Where --live listens: PORT, or HOST:PORT, which asks for a token [default: 127.0.0.1, the first free port "
    "from 7373].",
)
STAY = typer.Option(False, "--live-stay", help="Keep the page of --live after the end, until ctrl-C.")
ENDED = "The run has ended."


class Wanted(NamedTuple):
    """A live page that was asked for."""

    at: Address
    stay: bool
    option: str = "--live-at"  # with which the user says where


def wanted(live: bool, live_at: str | None, stay: bool, option: str = "--live-at") -> Wanted | None:
    """What the options ask for; refuses what cannot be before any work. `option` is the one that says where."""
    if not live and live_at is None:
        if stay:
            raise GossamerError("--live-stay keeps the page of --live: give --live, too.")
        return None
    from gossamer.report.server import Address, check_extra, parse_address

    check_extra()
    return Wanted(Address() if live_at is None else parse_address(live_at, option), stay, option)


class Page:
    """A live page; `end` says what it shows at last."""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {"said": ENDED, "ended": True}

    def end(self, view: View | None = None, kept: Path | None = None) -> None:
        """A whole view instead of what it has, and the file that keeps it."""
        said = ENDED if kept is None else f"The run has ended; {kept} keeps this page."
        self.last = {"said": said, "ended": True} | ({} if view is None else {"view": view})


@contextmanager
def served(
    asked: Wanted | None, view: Callable[[], View], take: Callable[[], Delta | None], *, secret: bool = False
) -> Iterator[Page]:
    """Serve a page while the block runs, if one was asked for; pages that are open get the end before it stops.

    `secret`: ask for a token on this machine, too, where others may use it and figures are one owner's.
    """
    if asked is None:
        yield Page()
        return
    from gossamer.report.feed import Feed
    from gossamer.report.html import page
    from gossamer.report.server import Server

    server = Server(
        Feed(dict(view())), take, lambda shown: page(shown, live=True), asked.at, secret=secret, option=asked.option
    )
    say(f"Live: {server.start()}")
    if not asked.at.local:
        say("Whoever has that address, token and all, can read the page; it is not encrypted on its way.")
    shown = Page()
    try:
        yield shown
    except BaseException as error:
        why = error.said(in_command) if isinstance(error, GossamerError) else "the command was ended."
        server.close({"said": f"The run has failed: {why}", "failed": True, "ended": True})
        raise
    if asked.stay:
        server.push(shown.last)
        say("The page stays until ctrl-C.")
        _until_asked()
    server.close(shown.last)


def _until_asked() -> None:
    """Wait for ctrl-C, or to be told to end."""
    asked = threading.Event()
    both = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in both}
    try:
        while not asked.wait(0.5):  # a signal is noticed between waits
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def say(line: str) -> None:
    """For a person, and not into what the command writes to standard output."""
    typer.echo(line, err=True)
