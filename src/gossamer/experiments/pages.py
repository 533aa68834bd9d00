"""How a study is told: one writer of its page and numbers, and the words that all studies share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import scipy

from gossamer.algorithms import find_method
from gossamer.experiments.study import Entry, Studied
from gossamer.experiments.tasks import data_of, gradient_of
from gossamer.experiments.workers import Result
from gossamer.files import replace_file
from gossamer.networks import read_network
from gossamer.privacy import Secrets
from gossamer.privacy.secrets import AGAINST_ALL
from gossamer.run_record import plain
from gossamer.spec import Spec
from gossamer.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gossamer.report.view import Chart
    from gossamer.report.view import Network as NetworkView


@dataclass(frozen=True)
class Page:
    """What a reader of a study gets."""

    title: str
    about: str  # how it was run, in a paragraph
    rows: list[list[str]]  # a table, its header first
    findings: list[str] = field(default_factory=list)  # sentences that can be checked against the table
    numbers: Mapping[str, Any] = field(default_factory=dict)  # for results.json
    figures: Mapping[str, tuple[str, Figure]] = field(default_factory=dict)  # by file: what it shows, and the picture
    charts: Sequence[Chart] = ()  # the same to hover and zoom in, for report.html
    network: NetworkView | None = None
    against: str = ""  # whom ε would hold against

    def markdown(self, command: str) -> str:
        pictures = [line for file, (shows, _) in self.figures.items() for line in (f"![{shows}]({file})", "")]
        lines = [f"# {self.title}", "", f"    {command}        # version {__version__}", "", self.about, "", *pictures]
        head, *body = self.rows
        lines += [_row(head), "|" + "---|" * len(head), *map(_row, body), ""]
        if self.findings:
            lines += ["What was found:", "", *(f"- {sentence}" for sentence in self.findings), ""]
        return "\n".join(lines)

    def results(self, command: str) -> dict[str, Any]:
        """All numbers, as plain JSON values."""
        return dict(plain({"version": __version__, "command": command, **self.numbers}))

    def write(self, folder: Path, command: str) -> None:
        """results.json, README.md, the pictures as PNG and PDF, and report.html, each whole or not at all."""
        from gossamer.report.folder import REPORT, save_pictures
        from gossamer.report.html import page
        from gossamer.report.study import embed_picture, study_view

        replace_file(folder / "results.json", (json.dumps(self.results(command)) + "\n").encode())
        replace_file(folder / "README.md", self.markdown(command).encode())
        for file, (_, figure) in self.figures.items():
            save_pictures(figure, folder / Path(file).stem)
        pictures = [] if self.charts else [embed_picture(shows, folder / f) for f, (shows, _) in self.figures.items()]
        view = study_view(
            self.title, self.about, self.rows, findings=self.findings, command=command, charts=self.charts,
            software=f"gossamer {__version__}", pictures=pictures, network=self.network, against=self.against,
        )  # fmt: skip
        replace_file(folder / REPORT, page(view).encode())


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def problem_of(studied: Studied) -> dict[str, Any]:
    """What a study was run on, as plain values."""
    spec = studied.problem
    data, csv = spec.data, {name: value for name, value in spec.given().items() if spec.data.csv is not None}
    return {
        "data": "csv" if data.csv else data.dataset, "split": data.split, "rows": data.rows,
        "draw": data.draw or "random", "graph": spec.network.graph, "l2": spec.model.l2, "clip": spec.model.clip,
        "csv": csv,
    }  # fmt: skip


def network_of(studied: Studied) -> NetworkView | None:
    """The network that a study was run on, to be drawn."""
    from gossamer.report.view import network_view

    stream = data_of(studied.problem)[0]
    network = read_network(
        studied.problem.network.graph or ("paper" if stream.learners == 10 else "random"), stream.learners
    )
    return network_view(network.drawing(), stream.description.get("names") or ())


def say_against(studied: Studied) -> str:
    """Against whom ε holds in a study, by kind of noise where they differ."""
    with_secrets = {entry.case.secrets is not None for entry in studied.entries}
    alone = Secrets().against
    if with_secrets == {True}:
        return alone
    return AGAINST_ALL + (f" (with pair secrets {alone})" if True in with_secrets else "")


def say_data(spec: Spec) -> str:
    """What a study was run on, in words."""
    data = spec.data
    return f"{data.dataset}, {data.split}" if data.csv is None else Path(data.csv).name


def score_of(studied: Studied) -> str:
    """What a study's accuracy is called: of a quantity among own data it is R²."""
    return "accuracy" if studied.problem.data.csv is None else str(data_of(studied.problem)[1].score)


def say_gradient(spec: Spec) -> str:
    """Of which records a run's gradients are, in words, as its description decides."""
    latest = gradient_of(spec) == "latest"
    return "the newest round's records alone ('latest')" if latest else "all records so far ('history')"


def compact(run: Result, names: Sequence[str], digits: int) -> dict[str, Any]:
    """What a reader needs of a run, to so many digits."""
    kept: dict[str, Any] = {name: run[name] for name in ("seed", "diverged", "why") if name in run}
    for name in ("noise", "epsilon", "t", *names):
        if name in run:
            kept[name] = run[name] if name == "t" else [rounded(value, digits) for value in run[name]]
    return kept


def rounded(value: float | None, digits: int = 6) -> float | None:
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None


def spread(values: Sequence[float], *, quantiles: tuple[float, float]) -> str:
    """A mean, and in brackets the range between two quantiles of the seeds."""
    if not all(math.isfinite(v) for v in values):
        return "diverged"
    low, high = np.quantile(values, quantiles)
    return f"{np.mean(values):.3g} ({low:.3g}–{high:.3g})"


class Difference(NamedTuple):
    """A mean of differences, seed by seed, with its 95 % interval by Student's t."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3g} ({self.low:+.3g} to {self.high:+.3g})"


def paired(entry: Entry, other: Entry, name: str) -> Difference | None:
    """How much more of a quantity one has than the other at the end of the same seeds; None where that says nothing.

    Runs of one seed read the same records in the same order and, where they send on channels of the same name, draw
    the same noise but for its scale. So differences vary less than the quantities.
    """
    apart = np.array(entry.final(name)) - np.array(other.final(name))
    if len(apart) < 2 or not np.isfinite(apart).all():
        return None
    half = float(scipy.special.stdtrit(len(apart) - 1, 0.975) * apart.std(ddof=1) / math.sqrt(len(apart)))
    mean = float(apart.mean())
    return Difference(mean, mean - half, mean + half)


def write_choice(entry: Entry) -> list[str]:
    """λ0, the exponents and the split, as a table has them."""
    v, power, ratio = entry.exponents
    falls = f"{power:g}" if ratio == 1 else f"{power:g}, q {ratio:g}"
    noise = falls if entry.case.published is None else "as published"
    split = "–" if not find_method(entry.method).splits else f"{entry.choice.split or 1:g}"
    return [f"{entry.step:.3g}", f"{v:g}", noise, split]


def write_epsilon(value: float) -> str:
    """An ε as people write it: 0.5, 8, 632, 454,300, 1.89e+11."""
    if value >= 1e7:
        return f"{value:.3g}"
    return f"{float(f'{value:.4g}'):,.0f}" if value >= 1000 else f"{value:.4g}"


def epsilon_range(entry: Entry) -> str:
    """What a case costs its learners, least to most."""
    known = [e for run in entry.runs for e in run.get("epsilon", [])]
    if not known or None in known:
        return "∞"
    low, high = min(known), max(known)
    return write_epsilon(high) if high - low < 1e-3 * high else f"{write_epsilon(low)} to {write_epsilon(high)}"


def say_who_diverged(entries: Sequence[Entry]) -> list[str]:
    wild = sorted({e.label for e in entries if e.diverged})
    return [f"Diverged on at least one seed: {', '.join(wild)}."] if wild else []


def sort_entries(studied: Studied, ranked: Sequence[Entry]) -> list[Entry]:
    """Methods in the order of their ranks, each with its best first."""
    order = {e.method: k for k, e in enumerate(ranked)}
    return sorted(studied.entries, key=lambda e: (order.get(e.method, 99), e.which != "best", e.which))


def draw_methods(
    studied: Studied,
    figures: Mapping[str, tuple[str, str, str]],
    tails: Mapping[str, str],
    title: str,
    yscale: Literal["log", "logit"] = "log",
) -> dict[str, tuple[str, Figure]]:
    """A figure for each file: (what it shows, which quantity, its label); the best solid, `tails` dashed."""
    from gossamer.report.bands import draw_bands

    dashed = {e.label + tails[e.which]: e.label for e in studied.entries if e.which in tails}
    drawn = {}
    for file, (shows, name, label) in figures.items():
        curves = list_curves(studied, name, tails)
        drawn[file] = shows, draw_bands(curves, ylabel=label, title=title, dashed=dashed, yscale=yscale)
    return drawn


def chart_methods(
    studied: Studied, figures: Mapping[str, tuple[str, str, str]], tails: Mapping[str, str], log: bool = True
) -> list[Chart]:
    """The same as charts to hover and zoom in."""
    from gossamer.report.study import chart_of_methods

    dashed = [e.label + tails[e.which] for e in studied.entries if e.which in tails]
    return [
        chart_of_methods(name, shows, list_curves(studied, name, tails), unit=label, log=log, dashed=dashed)
        for shows, name, label in figures.values()
    ]


def list_curves(studied: Studied, name: str, tails: Mapping[str, str]) -> dict[str, tuple[Any, Any]]:
    curves = {}
    for which, tail in {"best": "", **tails}.items():
        for entry in studied.entries:
            if entry.which == which and (curve := entry.curve(name)) is not None:
                curves[entry.label + tail] = curve
    return curves
