"""What was found, as pictures: the original first, then what the attack made of it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.attacks.kinds import KINDS
from gossamer.attacks.logistic import Outcome, Plain
from gossamer.attacks.membership import TOLD, Told, allowed_alarms, roc
from gossamer.attacks.suspects import most_guessed
from gossamer.report.curves import plain_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gossamer.attacks.images import Album

COLOURS = {"messages": "#b9770e", "latest": "#1f618d", "history": "#117864", "secrets": "#6c3483"}
RIGHT, WRONG, TRUE = "#c9e7cf", "#f6d3cf", "#eceff1"
ALARMS = 50  # of runs, from which on a logarithmic axis shows a share: below, chance draws the curve


def draw_record(plain: Plain, outcomes: Sequence[Outcome], title: str) -> Figure:
    """One record, column by column: as it is, as it was read without noise, and under each kind of noise."""
    from matplotlib.figure import Figure

    said = [plain.true, plain.read, *(outcome.first for outcome in outcomes)]
    heads = ["the record", "no noise", *(f"ε = {outcome.epsilon:g}" for outcome in outcomes)]
    names = list(plain.true)
    figure = Figure(figsize=(2.4 + 1.12 * len(said), 1.5 + 0.3 * len(names)), dpi=140)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-2.1, len(said) + 0.05), ylim=(len(names) + 0.1, -3.1))
    axes.axis("off")
    axes.text(-2.05, -2.6, title, fontsize=11, weight="bold", va="center")
    meant = "green: right, with noise mostly by luck; red: wrong"
    axes.text(len(said), -2.6, meant, fontsize=8.5, va="center", ha="right", color="#555")
    for k, head in enumerate(heads):
        axes.text(k + 0.5, -0.45, head, ha="center", va="center", fontsize=8.5, weight="bold")
    for kind, words in KINDS.items():
        places = [2 + k for k, outcome in enumerate(outcomes) if outcome.kind == kind]
        if places:
            axes.text(float(np.mean(places)) + 0.5, -1.3, words, ha="center", va="center", fontsize=9)
            axes.plot([places[0] + 0.06, places[-1] + 0.94], [-0.9, -0.9], color="#888", linewidth=0.8)
    for row, name in enumerate(names):
        axes.text(-0.1, row + 0.5, name, ha="right", va="center", fontsize=8.5)
        for k, one in enumerate(said):
            colour = TRUE if k == 0 else RIGHT if _same(one[name], plain.true[name]) else WRONG
            axes.fill_between([k + 0.02, k + 0.98], row + 0.04, row + 0.96, color=colour, linewidth=0)
            axes.text(k + 0.5, row + 0.5, _short(one[name]), ha="center", va="center", fontsize=7.5)
    return figure


def _same(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-6)
    except ValueError:
        return one == other


def _short(word: str) -> str:
    try:
        return f"{float(word):.4g}"
    except ValueError:
        return word if len(word) < 13 else word[:12] + "…"


def draw_named(outcomes: Sequence[Outcome], suspects: int, delta: float) -> Figure:
    """How surely the record is named among suspects, against what ε allows and what chance gives."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.8, 4.9), dpi=150, layout="constrained")
    axes = figure.subplots()
    epsilons = np.geomspace(min(o.epsilon for o in outcomes) / 1.5, max(o.epsilon for o in outcomes) * 1.5, 200)
    allowed = [most_guessed(float(epsilon), delta, suspects) for epsilon in epsilons]
    axes.fill_between(epsilons, allowed, 1.25, color="#f4e3e1", linewidth=0)
    axes.plot(epsilons, allowed, color="#c0392b", linewidth=1.4, label="the most that ε allows of any attack")
    for kind, words in KINDS.items():
        mine = sorted((o.epsilon, o.named) for o in outcomes if o.kind == kind)
        if mine:
            x, y = zip(*mine, strict=True)
            axes.plot(x, y, "o-", color=COLOURS[kind], label=words, linewidth=1.6, markersize=5)
    axes.axhline(1 / suspects, color="#777", linestyle=":", label=f"guessing: 1 of {suspects}")
    axes.set(xscale="log", yscale="log", xlabel="ε of one record", ylim=(0.5 / suspects, 1.25))
    axes.set_ylabel("chance that the best guess is right")
    axes.set_title(f"Which of {suspects} is it?", fontsize=11)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    plain_axes(axes)
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=2)
    return figure


def draw_images(album: Album, title: str) -> Figure:
    """A row for each image: as it is, as it was found without noise, and under each kind of noise at each ε."""
    from matplotlib.figure import Figure

    cases: list[tuple[Any, float]] = list(dict.fromkeys((one.kind, one.epsilon) for one in album.pictures))
    images, across = len(album.originals), len(cases) + 1
    wide, high = 1.0, 1.28
    figure = Figure(figsize=(wide * across + 0.3, high * images + 1.0), dpi=150)
    top = 1 - 0.86 / (high * images + 1.0)
    grid = figure.add_gridspec(images, across, left=0.012, right=0.988, top=top, bottom=0.05, wspace=0.08, hspace=0.22)
    figure.text(0.012, 1 - 0.2 / (high * images + 1.0), title, fontsize=11, weight="bold", va="center")
    for i, original in enumerate(album.originals):
        shown = [(original, "original"), *((p.image, _under(p)) for p in _row(album, i))]
        for k, (image, below) in enumerate(shown):
            axes = figure.add_subplot(grid[i, k])
            pixels = image[0] if len(image) == 1 else np.moveaxis(image, 0, 2)
            axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.set_xlabel(below, fontsize=7.5, labelpad=2)
            if i == 0:
                kind, epsilon = (None, math.inf) if k == 0 else cases[k - 1]
                head = "" if k == 0 else "no noise" if kind is None else f"ε = {epsilon:,.10g}"
                axes.set_title(head, fontsize=8.5, pad=3)
    _group(figure, [kind for kind, _ in cases], across, 1 - 0.6 / (high * images + 1.0))
    return figure


def _row(album: Album, i: int) -> list[Any]:
    return [one for one in album.pictures if one.learner == i]


def _under(picture: Any) -> str:
    from gossamer.attacks.images import decibels

    return f"{decibels(picture.error):.1f} dB"


def _group(figure: Figure, kinds: Sequence[Any], across: int, height: float) -> None:
    """The name of each kind above its columns."""
    from matplotlib.lines import Line2D

    for kind, words in KINDS.items():
        places = [k + 1 for k, one in enumerate(kinds) if one == kind]
        if not places:
            continue
        low, high = (0.012 + 0.976 * end / across for end in (places[0], places[-1] + 1))
        figure.text((low + high) / 2, height + 0.008, words, ha="center", va="bottom", fontsize=9)
        figure.add_artist(Line2D([low + 0.006, high - 0.006], [height, height], color="#888", linewidth=0.8))


def draw_roc(told: Sequence[Told]) -> Figure:
    """For each ε, true against false alarms of every kind of noise, and what ε allows; plain, and on logarithms."""
    from matplotlib.figure import Figure

    by_claim: dict[float, list[Told]] = {}
    for one in told:
        by_claim.setdefault(round(one.epsilon, 3), []).append(one)
    fewest = min(0.1, ALARMS / min(len(one.absent) for one in told))
    figure = Figure(figsize=(9.6, 4.3 * len(by_claim)), dpi=140, layout="constrained")
    grid: Any = figure.subplots(len(by_claim), 2, squeeze=False)
    for (claim, some), (plain, logged) in zip(by_claim.items(), grid, strict=True):
        for axes, x in ((plain, np.linspace(0, 1, 400)), (logged, np.geomspace(fewest, 1, 400))):
            allowed = allowed_alarms(x, claim, some[0].delta)
            axes.fill_between(x, allowed, 1.0, color="#f4e3e1", linewidth=0)
            axes.plot(x, allowed, color="#c0392b", linewidth=1.4, label=f"the most that ε = {claim:g} allows")
            axes.plot(x, x, color="#777", linestyle=":", linewidth=1, label="guessing")
            for one in some:
                rates = roc(one.present, one.absent)
                label = textwrap.shorten(TOLD[one.kind], 45)
                axes.plot(*rates, color=COLOURS[one.kind], linewidth=1.5, label=label)
            axes.set_xlabel("false alarms: another record was there")
            axes.set_ylabel("true alarms: the record was there")
            plain_axes(axes)
        plain.set_title(f"ε = {claim:g}", fontsize=11)
        logged.set(xscale="log", yscale="log", xlim=(fewest, 1), ylim=(fewest, 1))
        logged.set_title("the same, where false alarms are rare", fontsize=11)
        plain.legend(fontsize=7.5, frameon=False, loc="lower right")
    return figure
