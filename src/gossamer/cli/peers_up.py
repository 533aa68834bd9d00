"""`gossamer peers up`: all learners of a folder as processes of this machine, watched until they are done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from gossamer.cli import live
from gossamer.cli.output import command_line
from gossamer.cli.peers import view_of
from gossamer.cli.peers_lines import Lines, say
from gossamer.errors import GossamerError
from gossamer.peers import passing
from gossamer.peers.config import read_config
from gossamer.peers.declaration import refuse_without_word
from gossamer.peers.folders import learners_in
from gossamer.peers.following import Following
from gossamer.peers.status import read_statuses

PATIENCE = 20.0  # seconds for learners to stop before they are killed
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds before a learner is started again that ended for what passes by itself


class Fleet:
    """The learners' processes."""

    def __init__(self, places: list[Path], restarts: int, said: tuple[str, ...] = ()) -> None:
        self._said = said  # what the owner has said, for all of them
        self._restarts = dict.fromkeys(places, restarts)
        self._due: dict[Path, float] = {}  # when those are started again that wait for what passes by itself
        self._waits: dict[Path, float] = {}  # for how long they waited last
        self._put: dict[Path, int] = {}  # how often, since they last ran well
        self._since: dict[Path, float] = {}
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
        self._due.pop(place, None)
        self._since[place] = time.monotonic()
        try:
            with ExitStack() as ended:
                self._running[place] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=_errors(place, ended),
                    start_new_session=True,
                )  # fmt: skip
        except OSError as error:  # too many processes or files open
            self._put_off(place, f"could not be started ({error.strerror})")

    def _put_off(self, place: Path, why: str) -> None:
        """Start it again in a while: twice as long as the last time, unless it has run well in between.

        However often: what passes by itself may take a day. It is said the first time, the second, the fourth, …
        """
        well = time.monotonic() - self._since[place] > LONGEST_WAIT
        wait = FIRST_WAIT if well else min(2 * self._waits.get(place, FIRST_WAIT / 2), LONGEST_WAIT)
        self._waits[place], self._due[place] = wait, time.monotonic() + wait
        self._put[place] = times = 1 if well else self._put.get(place, 0) + 1
        if times & (times - 1) == 0:
            often = f" ({times} times)" if times > 1 else ""
            self.news.append(f"{place.name.replace('-', ' ')} {why}, and is started again in {wait:.0f} s{often}")

    def look(self) -> bool:
        """Start again who was killed, or ended for what passes by itself; whether anybody still runs, or will."""
        for place in [place for place, due in self._due.items() if time.monotonic() >= due]:
            self._start(place)
        for place, process in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            del self._running[place]
            if code < 0 and self._restarts[place] > 0:  # by a signal that was not ours
                self._restarts[place] -= 1
                self.news.append(f"{place.name.replace('-', ' ')} was ended by signal {-code}, and is started again")
                self._start(place)
            elif code == passing.CODE:
                self._put_off(place, f"ended with code {code}: {last_words(place)}".rstrip("."))
            elif code:
                self.failed[place] = code
        return bool(self._running or self._due)

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
        self._due.clear()


def _errors(place: Path, ended: ExitStack) -> Any:
    """A learner's standard error, its owner's alone; nowhere, where there is no room for it."""
    try:
        return ended.enter_context(
            open(place / "stderr.log", "ab", opener=lambda path, flags: os.open(path, flags, 0o600))
        )
    except OSError:
        return subprocess.DEVNULL


def last_words(place: Path) -> str:
    """What a learner said last, as one sentence."""
    try:
        said = (place / "stderr.log").read_text(errors="replace").strip().rpartition("\n")[2]
    except OSError:
        said = ""
    return said.removeprefix("gossamer: ") or f"its log is {place / 'log.jsonl'}."


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


def _refuse_others_keys(places: Sequence[Path]) -> None:
    """Learners whose keys are with their owners: what is here is what goes back to them."""
    own = [place for place in places if (place / "certificate.pem").exists() and not (place / "key.pem").exists()]
    if own:
        raise GossamerError(
            f"{own[0]} has no key.pem, because its party has made its own: each party runs its learner in its own "
            "folder, with gossamer peer run FOLDER."
        )


def watch_over(folder: Path, restarts: int, asked_live: live.Wanted | None = None, not_private: bool = False) -> int:
    """Until all have ended, or ctrl-C; the exit code."""
    places, seen = learners_in(folder), sys.stdout.isatty() and not Console().is_dumb_terminal
    _refuse_others_keys(places)
    _refuse_without_word(places, not_private)
    console = Console(force_terminal=seen)  # whatever the environment says: a log has no colours
    asked: list[int] = []  # the signals that asked to stop
    stops = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        stops.append(signal.SIGHUP)  # the terminal was closed: nobody watches over the learners any more
    before = {number: signal.signal(number, lambda asking, _: asked.append(asking)) for number in stops}
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
        console.print(
            f"{place.name} ended with code {code}: {escape(last_words(place))}", highlight=False, soft_wrap=True
        )
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
