"""`gossamer peers up`: all learners of a folder as processes of this machine, watched until they are done."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from gossamer.cli.peers import table_of
from gossamer.peers.folders import learners_in
from gossamer.peers.status import read_statuses

PATIENCE = 20.0  # seconds for learners to stop before they are killed


class Fleet:
    """The learners' processes."""

    def __init__(self, places: list[Path], restarts: int) -> None:
        self._restarts = dict.fromkeys(places, restarts)
        self._running: dict[Path, subprocess.Popen[bytes]] = {}
        self.failed: dict[Path, int] = {}
        for place in places:
            self._start(place)

    def _start(self, place: Path) -> None:
        command = [sys.executable, "-m", "gossamer", "peer", "run", str(place), "--quiet"]
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


def watch_over(folder: Path, restarts: int) -> int:
    """Until all have ended, or ctrl-C; the exit code."""
    places, console = learners_in(folder), Console()
    asked: list[int] = []  # the signals that asked to stop
    both = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda asking, _: asked.append(asking)) for number in both}
    for place in places:
        (place / "status.json").unlink(missing_ok=True)
    fleet = Fleet(places, restarts)
    try:
        with Live(table_of(read_statuses(folder)), console=console, refresh_per_second=4, transient=False) as live:
            while fleet.look() and not asked and not fleet.failed:
                live.update(table_of(read_statuses(folder)))
                time.sleep(0.25)
            fleet.stop()
            live.update(table_of(read_statuses(folder)))
    finally:
        fleet.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
    for place, code in fleet.failed.items():
        said = (place / "stderr.log").read_text(errors="replace").strip().rpartition("\n")[2]
        why = said.removeprefix("gossamer: ") or f"its log is {place / 'log.jsonl'}."
        console.print(f"{place.name} ended with code {code}: {escape(why)}", highlight=False, soft_wrap=True)
    if asked:
        console.print(f"Stopped; go on with: gossamer peers up {folder}", highlight=False)
    return 1 if fleet.failed else 130 if asked else 0
