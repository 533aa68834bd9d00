"""`gossamer peers up`: all learners of a folder as processes of this machine, watched until they are done."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from gossamer.cli import live
from gossamer.cli.output import command_line
from gossamer.cli.peers import view_of
from gossamer.cli.peers_lines import Lines, say
from gossamer.errors import GossamerError
from gossamer.peers.config import read_config
from gossamer.peers.declaration import refuse_without_word
from gossamer.peers.folders import learners_in
from gossamer.peers.following import Following
from gossamer.peers.status import read_statuses

PATIENCE = 20.0  # seconds for learners to stop before they are killed


class Fleet:
    """The learners' processes."""

    def __init__(self, places: list[Path], restarts: int, said: tuple[str, ...] = ()) -> None:
        self._said = said  # what the owner has said, for all of them
        self._restarts = dict.fromkeys(places, restarts)
        self._running: dict[Path, subprocess.Popen[bytes]] = {}
        self.failed: dict[Path, int] = {}
        self.news: list[str] = []
        for place in places:
            self._start(place)

    def pids(self) -> dict[str, int]:
        """The processes that run, by the names of their folders."""
        return {place.name: process.pid for place, process in list(self._running.items())}

    def _start(self, place: Path) -> None:
        command = [sys.executable, "-m", "gossamer", "peer", "run", str(place), "--quiet", *self._said]
        with (place / "stderr.log").open("ab") as errors:
            self._running[place] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )

    def look(self) -> bool:
        """Start again who was killed; whether anybody still runs."""
        for place, process in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            del self._running[place]
            if code < 0 and self._restarts[place] > 0:  # by a signal that was not ours
                self._restarts[place] -= 1
                self.news.append(f"{place.name.replace('-', ' ')} was ended by signal {-code}, and is started again")
                self._start(place)
            elif code:
                self.failed[place] = code
        return bool(self._running)

    def stop(self) -> None:
        """End all, each after it has committed what it was at."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        for process in self._running.values():
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()


class Screen:
    """The learners' table on a terminal, always as it is now."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._folder = folder
        self._live = Live(view_of(read_statuses(folder)), console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def show(self, _: list[str]) -> None:
        self._live.update(view_of(read_statuses(self._folder)))

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class Log:
    """Lines for a log, and the table at the end."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._folder, self._console, self._lines = folder, console, Lines()

    def __enter__(self) -> Log:
        return self

    def show(self, news: list[str]) -> None:
        for line in news:
            say(line)
        self._lines.look(read_statuses(self._folder))

    def __exit__(self, *_: object) -> None:
        self._console.print(view_of(read_statuses(self._folder)))
        self._console.file.flush()


def watch_over(folder: Path, restarts: int, asked_live: live.Wanted | None = None, not_private: bool = False) -> int:
    """Until all have ended, or ctrl-C; the exit code."""
    places, seen = learners_in(folder), sys.stdout.isatty() and not Console().is_dumb_terminal
    _refuse_without_word(places, not_private)
    console = Console(force_terminal=seen)  # whatever the environment says: a log has no colours
    asked: list[int] = []  # the signals that asked to stop
    both = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda asking, _: asked.append(asking)) for number in both}
    for place in places:
        (place / "status.json").unlink(missing_ok=True)
    fleet = Fleet(places, restarts, ("--not-private",) if not_private else ())
    try:
        with _live(folder, fleet, asked_live), Screen(folder, console) if seen else Log(folder, console) as shown:
            while fleet.look() and not asked and not fleet.failed:
                shown.show(_taken(fleet.news))
                time.sleep(0.25)
            fleet.stop()
            shown.show(_taken(fleet.news))
    finally:
        fleet.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
    for place, code in fleet.failed.items():
        said = (place / "stderr.log").read_text(errors="replace").strip().rpartition("\n")[2]
        why = said.removeprefix("gossamer: ") or f"its log is {place / 'log.jsonl'}."
        console.print(f"{place.name} ended with code {code}: {escape(why)}", highlight=False, soft_wrap=True)
    if asked:
        console.print(f"Stopped; go on with: gossamer peers up {folder}", highlight=False, soft_wrap=True)
    return 1 if fleet.failed else 130 if asked else 0


def _refuse_without_word(places: list[Path], not_private: bool) -> None:
    """Before anything is started; what is wrong with a file otherwise its own learner says."""
    for place in places:
        try:
            privacy = read_config(place).config.privacy
        except GossamerError:
            continue
        refuse_without_word(privacy, place, not_private)


def _live(folder: Path, fleet: Fleet, asked: live.Wanted | None) -> AbstractContextManager[live.Page | None]:
    """A page of all learners, if one was asked for; their own figures are for their owner alone: a token, always."""
    if asked is None:
        return nullcontext()
    following = Following(folder, fleet.pids, asked.at.local, command_line())
    return live.served(asked, following.first_view, following.take, secret=True)


def _taken(news: list[str]) -> list[str]:
    """All of it, which leaves none."""
    taken, news[:] = news[:], []
    return taken
