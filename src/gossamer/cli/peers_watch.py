"""`gossamer peers watch`: one table of a whole run, from /metrics of the parties that agree to it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gossamer.cli.json_output import console_beside, put_json
from gossamer.cli.peers_lines import TENTHS, say
from gossamer.cli.peers_troubles import Trouble, called, troubles_in
from gossamer.cli.words import lasting, printable
from gossamer.errors import GossamerError
from gossamer.peers.scraping import TARGETS, Target, parse_target
from gossamer.peers.watching import Answer, Seen, Watch

SHOW = 1.0  # seconds between two looks at what has come
WIDTH = 200  # letters of a line where there is no terminal
NOTES = 20  # troubles beneath the table


def targets_of(addresses: Sequence[str]) -> list[Target]:
    """What is to be asked, each once."""
    targets = list(dict.fromkeys(map(parse_target, addresses)))
    if not 0 < len(targets) <= TARGETS:
        raise GossamerError(
            f"{len(targets)} addresses to watch: expected 1 to {TARGETS}, as words or, one a line, in --file."
        )
    return targets


def look_once(watch: Watch, late: float, json: str | None) -> int:
    """One look, as a table or as JSON; the exit code: 1 where something is wrong."""
    seen = watch.wait_for_all()
    watch.stop()
    console = console_beside(json)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(view_of(seen, late))
    put_json(json, told(seen, late))
    return 1 if troubles_in(seen, late) else 0


def watch_until_done(watch: Watch, late: float) -> None:
    """Show what is seen, until all parties that have ever answered are done; ctrl-C ends it at any time."""
    seen = watch.wait_for_all()
    if sys.stdout.isatty() and not Console().is_dumb_terminal:
        with Live(view_of(seen, late), auto_refresh=False, vertical_overflow="visible") as live:
            while not all(one.done for one in seen):
                time.sleep(SHOW)
                seen = watch.seen()
                live.update(view_of(seen, late), refresh=True)
        return
    news = News()
    news.look(seen, late)
    while not all(one.done for one in seen):
        time.sleep(SHOW)
        seen = watch.seen()
        news.look(seen, late)


class News:
    """For a log: each piece of news once, when it is new."""

    def __init__(self) -> None:
        self._met: set[str] = set()
        self._troubles: dict[tuple[str, str], Trouble] = {}
        self._tenth, self._done = 0, set[str]()

    def look(self, seen: Sequence[Seen], late: float) -> None:
        for one in seen:
            self._meet(one)
        now = {(trouble.kind, trouble.whom): trouble for trouble in troubles_in(seen, late)}
        for key, trouble in now.items():
            if key not in self._troubles:
                say(f"{trouble.kind}: {trouble.sentence}")
        for kind, whom in self._troubles.keys() - now.keys():
            say(f"{kind}: no longer{f', {whom}' if whom else ''}")
        self._troubles = now
        self._tell_progress([one.answer for one in seen if one.answer is not None])

    def _meet(self, one: Seen) -> None:
        if one.answer is None:
            return
        if one.target not in self._met:
            self._met.add(one.target)
            say(f"{called(one)} at {one.target} is in round {one.answer.round} of {one.answer.steps}")
        if one.done and one.target not in self._done:
            self._done.add(one.target)
            say(f"{called(one)} has all its {one.answer.steps} rounds")

    def _tell_progress(self, answers: Sequence[Answer]) -> None:
        """A line at every tenth that all who have answered have behind them."""
        slowest = min(answers, key=lambda answer: answer.round / max(1, answer.steps), default=None)
        tenth = 0 if slowest is None else TENTHS * slowest.round // max(1, slowest.steps)
        if slowest is not None and tenth > self._tenth:
            self._tenth = tenth
            say(f"round {slowest.round} of {slowest.steps} is reached by all that answer")


def view_of(seen: Sequence[Seen], late: float) -> Group:
    """The table, and beneath it what is wrong."""
    troubles = troubles_in(seen, late)
    notes = [f"[red]•[/] {escape(printable(trouble.sentence))}" for trouble in troubles[:NOTES]]
    more = [f"[red]•[/] and {len(troubles) - NOTES} more"] if len(troubles) > NOTES else []
    return Group(table_of(seen), *map(Text.from_markup, notes + more))


def table_of(seen: Sequence[Seen]) -> Table:
    """The parties in the order of their numbers, and then those that have not said theirs."""
    versions = {one.answer.version for one in seen if one.answer is not None}
    several = ["release"] if len(versions) > 1 else []
    columns = ("learner", "at", *several, "state", "round", "behind", "waits for", "ε spent", "certificate", "answer")
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for one in sorted(seen, key=_place):
        answer = one.answer
        if answer is None:
            cells = [
                "?",
                one.target,
                *["" for _ in several],
                "unreachable",
                *[""] * 5,
                "none" if one.why else "waited for",
            ]
        else:
            cells = [
                "?" if answer.learner is None else str(answer.learner),
                one.target,
                *[answer.version or "none said" for _ in several],
                "done" if one.done else "unreachable" if one.why else answer.state,
                f"{answer.round}/{answer.steps}",
                _behind(one, answer, seen),
                _awaited(answer),
                _budget(answer),
                "" if answer.days_left is None else f"{max(0.0, answer.days_left):.0f} d",
                f"{lasting(one.age)} ago",
            ]
        table.add_row(*(escape(printable(cell)) for cell in cells))
    return table


def _place(one: Seen) -> tuple[float, str]:
    number = None if one.answer is None else one.answer.learner
    return (float("inf") if number is None else number, one.target)


def _behind(one: Seen, answer: Answer, seen: Sequence[Seen]) -> str:
    """How many rounds it is behind the first of its run; answers are of different moments, so a few mean nothing."""
    same = [(other.answer.round, called(other)) for other in seen if other.answer and other.answer.run == answer.run]
    most, first = max(same)
    return f"{most - answer.round} behind {first}" if most > answer.round else ""


def _awaited(answer: Answer) -> str:
    whom = ", ".join(map(str, answer.waits_for))
    return f"{whom} ({lasting(answer.waiting)})" if whom and answer.waiting >= SHOW else ""


def _budget(answer: Answer) -> str:
    if answer.spent is None:
        return "not private"
    return f"{answer.spent:.3g}" + ("" if answer.budget is None else f" of {answer.budget:.3g}")


def told(seen: Sequence[Seen], late: float) -> dict[str, Any]:
    """All that is seen, for programs."""
    return {
        "parties": [
            {"target": one.target, "age": round(one.age, 1), "why": one.why or None}
            | ({} if one.answer is None else one.answer._asdict())
            for one in seen
        ],
        "troubles": [trouble._asdict() for trouble in troubles_in(seen, late)],
    }
