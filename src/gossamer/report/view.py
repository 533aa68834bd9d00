"""What a page shows, as plain JSON values: report.html and the live page are both drawn from one View.

A View is made of a run's numbers by gossamer.report.run, of a study's by gossamer.report.study. Nothing in it is HTML:
the page puts every text in as text.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

VERSION = 1
FEW_LEARNERS = 12  # more than these are drawn as a band
MOST_ROWS = 50  # more learners than these are told by the best, the worst and quantiles

Kind = Literal["run", "comparison", "peers"]
Number = float | int | None  # None where there is none, or none that is finite
Cell = str | float | int | None


class Series(TypedDict):
    name: str
    y: Sequence[Number]
    group: Literal["mean", "learner", "method"]
    low: NotRequired[Sequence[Number]]  # a band around y
    high: NotRequired[Sequence[Number]]
    dashed: NotRequired[bool]
    loose: NotRequired[bool]  # may leave the picture: it does not decide from where to where y is shown


class Line(TypedDict):
    """A level to read curves beside."""

    name: str
    y: float


class Chart(TypedDict):
    id: str
    title: str
    unit: str  # what y is, in a few words; "" where the title says it
    log: bool
    t: Sequence[int | float]
    series: Sequence[Series]
    lines: Sequence[Line]
    x: NotRequired[str]  # what t is, where it is not rounds
    logx: NotRequired[bool]
    band: NotRequired[str]  # what a band shows
    shaded: NotRequired[tuple[float, float]]  # rounds in which learners only read
    shaded_is: NotRequired[str]


class Network(TypedDict):
    m: int
    names: Sequence[str]
    edges: Sequence[tuple[int, int]]  # (from, to)
    perron: Sequence[float]
    positions: Sequence[tuple[float, float]]  # in 0..1
    links: int  # how many there are: `edges` is empty where these are too many to draw


class Spending(TypedDict):
    name: str
    y: Sequence[Number]


class Epsilon(TypedDict):
    """ε over the rounds. The lists have one entry for each of `learners`, which are a few of them where many."""

    t: Sequence[int]
    learners: Sequence[Spending]
    budget: Sequence[Number]
    for_ever: Sequence[Number]
    if_all_collude: Sequence[Number] | None
    delta: float
    against: str


class Column(TypedDict):
    title: str
    unit: NotRequired[str]
    form: NotRequired[Literal["text", "share", "number", "count", "epsilon"]]  # how numbers are written


class Table(TypedDict):
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    foot: Sequence[Sequence[Cell]]
    caption: NotRequired[str]


class Fact(TypedDict):
    """A number that is told at the top."""

    name: str
    value: str
    beside: str  # what to read it beside


class Picture(TypedDict):
    """A picture where there is no chart."""

    title: str
    data: str  # a data: address


class View(TypedDict):
    version: int
    kind: Kind
    title: str
    subtitle: str
    claim: str
    private: bool
    against: str
    meaning: str  # of the claim, in plain words
    warnings: Sequence[str]  # the verdict first
    notes: Sequence[str]
    facts: Sequence[Fact]
    command: str
    config: str
    software: str
    seed: int | None
    when: str
    network: Network | None
    charts: Sequence[Chart]
    epsilon: Epsilon | None
    table: Table | None
    confusion: Table | None
    live: Mapping[str, Any] | None
    pictures: NotRequired[Sequence[Picture]]


def draw_circle(m: int) -> list[tuple[float, float]]:
    """Places of m learners on a circle in the unit square, the first at the top, clockwise."""
    angles = (2 * math.pi * i / m for i in range(m))
    return [(round(0.5 + 0.5 * math.sin(a), 4), round(0.5 - 0.5 * math.cos(a), 4)) for a in angles]


def network_view(drawing: Mapping[str, Any] | None, names: Sequence[str] = ()) -> Network | None:
    """A network from what Network.drawing() says of it; None where that is nothing."""
    if drawing is None:
        return None
    m = len(drawing["perron"])
    return {
        "m": m,
        "names": [str(name) for name in names] or [str(i) for i in range(m)],
        "edges": [(int(j), int(i)) for j, i in drawing["edges"]],
        "perron": list(drawing["perron"]),
        "positions": draw_circle(m),
        "links": drawing["links"],
    }


def now() -> str:
    """The date and the time here, as people write them."""
    moment = datetime.datetime.now().astimezone()
    return f"{moment.day} {moment:%B %Y, %H:%M %Z}".strip()


def odds(epsilon: float) -> str:
    """e^ε as people say it: 1.6, 20, 1,100 or 3e+08."""
    factor = math.exp(min(epsilon, 700))
    if factor >= 1e6:
        return f"{factor:.0e}"
    return f"{factor:.1f}" if factor < 10 else f"{float(f'{factor:.2g}'):,.0f}"
