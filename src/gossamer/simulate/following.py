"""A simulation as a live page sees it: its callback keeps what is new, and another thread makes something of it.

A round costs the run one comparison and one assignment. All else, from numbers to JSON, is done five times a second in
the page's thread. The first round is dearer: the run's record of that moment is made once, for what does not change.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gossamer.report.feed import Delta
from gossamer.report.live import more_points, points_after
from gossamer.report.run import PROGRESSIVE, curves_of, run_view, short_share
from gossamer.report.view import Chart, Fact
from gossamer.run_record import Record, plain
from gossamer.simulate.engine import Progress

FINE = 200  # points of a curve of ε that stands still, over the whole run


class Begun(NamedTuple):
    """A run after its first round."""

    record: Record
    course: Mapping[str, Any] | None  # ε of all rounds to come, as planned
    steps: int


class Follower:
    """A callback of simulate(), and what it has to tell: `take()` is called by another thread, now and then.

    `told` is what run_view() takes beside a record's summary.
    """

    def __init__(self, **told: Any) -> None:
        self._told = told
        self._rows: deque[np.recarray[Any, Any]] = deque()  # evaluations that were not told yet
        self._newest: object = None
        self._begun: Begun | None = None
        self._t = self._told_t = self._known = -1  # rounds done, told, and evaluated
        self._started = 0.0
        self._charts: Sequence[Chart] | None = None  # as at the beginning: which curves there are
        self._planned: Sequence[Fact] = ()
        self._about: Mapping[str, Any] = {}
        self._course: dict[str, Any] | None = None
        self._drawn = 0  # the newest round of which ε was told
        self._score = math.nan

    def __call__(self, progress: Progress) -> None:
        """After every round, in the run's thread."""
        if self._begun is None:
            self._started = time.monotonic()
            self._begun = Begun(progress.record(), progress.course(), progress.steps)
        if progress.last is not self._newest:
            self._newest = progress.last
            self._rows.append(progress.last)
        self._t = progress.t

    def take(self) -> Delta | None:
        """What is new since it was asked last; None where nothing is."""
        begun, t = self._begun, self._t
        if begun is None or (t == self._told_t and not self._rows):
            return None
        if self._charts is None:
            return self._begin(begun, t)
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        rows = [row for row in rows if int(row.t[0]) > self._known]
        delta: dict[str, Any] = {"t": t, "seconds": round(time.monotonic() - self._started, 2), "messages": "all"}
        if rows:
            self._known = int(rows[-1].t[0])
            joined = np.concatenate(rows)
            history = plain({name: joined[name].tolist() for name in joined.dtype.names or ()})
            delta["charts"] = more_points(self._charts, history, self._about)
            self._score = float(joined["accuracy"][-1])
        if self._course is not None:
            rounds, at = self._spent_in(self._course, t, begun.steps)
            if rounds:
                self._drawn = rounds[-1]
                y = [[one["y"][k] for k in at] for one in self._course["learners"]]
                delta["epsilon"] = {"t": rounds, "learners": y}
        if len(delta) > 3:
            delta["facts"] = self._facts(t)
        self._told_t = t
        return delta

    def _begin(self, begun: Begun, t: int) -> Delta:
        """The whole view, of a plan of which almost nothing is done."""
        record, steps = begun.record, begun.steps
        every, done = record.config["evaluate_every"], int(record.t)
        summary = plain(record.summary())
        planned: dict[str, Any] = {"t": steps}
        if begun.course is not None:
            planned |= {"epsilon": [each[-1] for each in begun.course["epsilon"]], "epsilon_if_all_collude": None}
            planned["config"] = summary["config"] | {"course": plain(begun.course)}
        view = run_view(summary | planned, **{"title": record.title, **self._told})
        view |= {"table": None, "confusion": None}  # of the end
        evaluated = done % every == 0 or done == steps
        self._known = done if evaluated else int(summary["history"]["t"][-2])
        curves = curves_of(summary["history"], summary["config"])
        for chart in view["charts"]:
            kept = {PROGRESSIVE, *(one["name"] for one in chart["series"])}
            chart["series"] = [one for one in curves[chart["id"]] if one["name"] in kept]
            _cut(chart, len(chart["t"]) - (0 if evaluated else 1))
        if view["epsilon"] is not None:
            self._course = {**view["epsilon"]}
            upto = points_after(view["epsilon"]["t"], -1, t).stop
            learners = [{**one, "y": list(one["y"][:upto])} for one in view["epsilon"]["learners"]]
            self._drawn = self._course["t"][upto - 1]
            view["epsilon"] |= {"t": list(view["epsilon"]["t"][:upto]), "learners": learners}  # type: ignore[typeddict-item]
        self._charts, self._planned, self._about, self._told_t = view["charts"], view["facts"], summary["config"], t
        view["facts"] = self._facts(t)
        view["live"] = {"t": t, "steps": steps, "seconds": 0.0, "said": ""}
        return {"t": t, "view": view}

    def _spent_in(self, course: Mapping[str, Any], t: int, steps: int) -> tuple[list[int], list[int]]:
        """Rounds of which ε is news, and where in the course each has it: those of the course, and where ε stands t."""
        new = points_after(course["t"], self._drawn, t)
        rounds, at = list(course["t"][new]), list(range(new.start, new.stop))
        last = rounds[-1] if rounds else self._drawn
        if t > last and t - last >= steps / FINE and _stands(course, new.stop - 1):
            return [*rounds, t], [*at, new.stop - 1]
        return rounds, at

    def _facts(self, t: int) -> list[Any]:
        """The numbers at the top: the newest score, and what was spent of the budgets."""
        facts: list[Any] = [{**one} for one in self._planned]
        if math.isfinite(self._score) and facts[0]["name"] == str(self._about["score"]).capitalize():
            facts[0]["value"] = short_share(self._score)
        if self._course is not None:
            at = points_after(self._course["t"], -1, t).stop - 1
            spent = [one["y"][at] for one in self._course["learners"]]
            by = t if _stands(self._course, at) else self._course["t"][at]
            facts[-1] |= {"name": f"ε by round {by:,}", "beside": f"of {facts[-1]['value']} in all"}
            ends = ["∞"] if None in spent else [f"{end:.3g}" for end in (min(spent), max(spent))]
            facts[-1]["value"] = " to ".join(dict.fromkeys(ends))
        return facts


def _stands(course: Mapping[str, Any], at: int) -> bool:
    """Whether ε is the same until the course's next point: it never falls, so it is known for all rounds between."""
    return at + 1 < len(course["t"]) and all(one["y"][at] == one["y"][at + 1] for one in course["learners"])


def _cut(chart: Any, points: int) -> None:
    """Leave so many points."""
    chart["t"] = list(chart["t"][:points])
    for series in chart["series"]:
        for name in ("y", "low", "high"):
            if name in series:
                series[name] = list(series[name][:points])
