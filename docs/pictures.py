"""Draws the pictures of the pages on concepts: python docs/pictures.py writes docs/pictures/*.png."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Circle, FancyArrowPatch

import gossamer as gs

FOLDER = Path(__file__).parent / "pictures"
Point = tuple[float, float]
BLUE, RED, GREEN, GREY = "#1f618d", "#b03a2e", "#117864", "#5d6d7e"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        draw().savefig(FOLDER / f"{name}.png")


def _figure(panels: int = 2, width: float = 9.0, height: float = 3.8) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height), dpi=120, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
    return figure, list(np.ravel(figure.subplots(1, panels)))


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)


def _arrow(axes: Axes, start: Point, end: Point, colour: str = GREY, bend: float = 0.12, gap: float = 15) -> None:
    """From one circle to another; `gap` points are left free at both ends."""
    look = {"arrowstyle": "-|>", "mutation_scale": 13, "color": colour, "connectionstyle": f"arc3,rad={bend}"}
    arrow: Any = FancyArrowPatch
    axes.add_patch(arrow(start, end, shrinkA=gap, shrinkB=gap, **look))


# -- directed graphs -------------------------------------------------------------------------------------------------


def draw_directed_graphs() -> Figure:
    figure, (left, right) = _figure()
    network = gs.Network.paper()
    weights = np.asarray(network.perron)
    R = np.asarray(network.R)
    graph = nx.DiGraph([(j, i) for i in range(10) for j in range(10) if i != j and R[i, j] > 0])
    places = {k: (math.sin(2 * math.pi * k / 10), math.cos(2 * math.pi * k / 10)) for k in range(10)}
    for sender, receiver in graph.edges:
        _arrow(left, places[sender], places[receiver])
    for k, (x, y) in places.items():
        left.add_patch(Circle((x, y), 0.085 * math.sqrt(weights[k] / 0.7), color=BLUE, zorder=3))
        left.text(x, y, str(k), color="white", ha="center", va="center", fontsize=9, zorder=4)
    left.set(xlim=(-1.35, 1.35), ylim=(-1.25, 1.25), aspect="equal")
    left.axis("off")
    left.set_title("who sends to whom", loc="left", fontsize=11)
    right.bar(range(10), weights, color=BLUE)
    right.axhline(1, color=RED, linewidth=1)
    right.text(9.6, 1.04, "all alike", color=RED, ha="right", fontsize=9)
    right.set(xlabel="learner", xticks=range(10), ylabel="weight in the common model")
    _plain(right, "how much each counts, if nothing is done about it")
    return figure


# -- gradient tracking -----------------------------------------------------------------------------------------------


def _unlike_learners() -> gs.streams.OnePass:
    """Ten learners, each with a linear model of its own: at the common optimum no own gradient is zero."""
    rng = np.random.default_rng(0)
    X, truths = rng.normal(size=(10, 30, 3)), 2 * rng.normal(size=(10, 3))
    return gs.streams.from_arrays(X, np.einsum("irn,in->ir", X, truths), per_round=30)


def draw_gradient_tracking() -> Figure:
    figure, (left, right) = _figure()
    network, model = gs.Network.paper(), gs.RidgeRegression(l2=0.1)
    constant, falling = gs.decay(0.02, 0.0), gs.decay(0.3, 0.6)
    without = {"DSGD": (gs.dsgd(constant, strict=False), RED), "gradient tracking": (gs.push_pull(constant), GREEN)}
    for name, (method, colour) in without.items():
        history = gs.simulate(method, network, _unlike_learners(), model=model, steps=1500, evaluate_every=10).history
        left.semilogy(history.t, history.tracking_error, color=colour, label=name)
    noise = gs.privacy.simulated(gs.decay(0.5, 0.55))
    noisy = {
        "Push–Pull": (gs.push_pull(falling, strict=False), RED),
        "Algorithm 1": (gs.ldp_gradient_tracking(falling, strict=False), GREEN),
    }
    for name, (method, colour) in noisy.items():
        history = gs.simulate(
            method, network, _unlike_learners(), model=model, privacy=noise, steps=1500, evaluate_every=10
        ).history
        right.semilogy(history.t, history.tracking_error, color=colour, label=name)
    for axes, title in ((left, "without noise, constant steps"), (right, "with noise on every message")):
        axes.set(xlabel="round", ylabel="distance to the optimum")
        axes.legend(frameon=False)
        _plain(axes, title)
    return figure


# -- ε ---------------------------------------------------------------------------------------------------------------


def draw_epsilon() -> Figure:
    figure, (left, middle, right) = _figure(3, width=11.0)
    x = np.linspace(-5, 8, 600)
    for axes, epsilon in ((left, 0.5), (middle, 3.0)):
        scale = 1 / epsilon  # Laplace noise on a value that one row moves by 1
        for place, colour, name in ((0, BLUE, "with your row"), (1, RED, "with another in its place")):
            density = np.exp(-np.abs(x - place) / scale) / (2 * scale)
            axes.plot(x, density, color=colour, label=name)
            axes.fill_between(x, density, color=colour, alpha=0.12, linewidth=0)
        axes.set(xlabel="what is seen", yticks=[])
        _plain(axes, f"ε = {epsilon:g}: " + ("hard to tell apart" if epsilon < 1 else "often easy"))
    middle.legend(frameon=False, fontsize=8, loc="upper right")
    epsilons = np.linspace(0, 8, 200)
    right.plot(epsilons, 100 / (1 + np.exp(-epsilons)), color=GREY)
    for epsilon in (0.5, 1, 3):
        sure = 100 / (1 + math.exp(-epsilon))
        right.plot([epsilon], [sure], "o", color=GREEN)
        right.annotate(f"{sure:.0f} %", (epsilon, sure), xytext=(6, -12), textcoords="offset points", fontsize=9)
    right.set(xlabel="ε", ylabel="sure to at most, in %", ylim=(48, 102))
    _plain(right, "from a 50 % guess")
    return figure


# -- trust -----------------------------------------------------------------------------------------------------------


def draw_trust() -> Figure:
    figure, panels = _figure(3, width=11.0, height=3.6)
    corners = [(0.0, 0.9), (-0.85, -0.55), (0.85, -0.55)]
    for axes in panels:
        axes.set(xlim=(-1.5, 1.5), ylim=(-1.25, 1.35), aspect="equal")
        axes.axis("off")
    server, own, pairs = panels
    server.set_title("a trusted server (not here)", loc="left", fontsize=11)
    _node(server, (0, 0), "server", RED)
    for corner in corners:
        _arrow(server, corner, (0, 0), RED, 0, gap=28)
        _node(server, corner, "rows", BLUE)
    server.text(0, -1.15, "it sees every row", ha="center", color=RED, fontsize=9)
    own.set_title("noise of one's own", loc="left", fontsize=11)
    pairs.set_title("noise that cancels", loc="left", fontsize=11)
    for axes in (own, pairs):
        for k, corner in enumerate(corners):
            _arrow(axes, corner, corners[(k + 1) % 3], GREEN, 0.1, gap=28)
            _node(axes, corner, "rows\n+ noise", BLUE)
    own.text(0, -1.15, "all others may collude", ha="center", color=GREEN, fontsize=9)
    for k in range(3):
        (a, b), (c, d) = corners[k], corners[(k + 1) % 3]
        pairs.plot([a, c], [b, d], ":", color=RED, zorder=1)
        pairs.text((a + c) / 2 * 0.62, (b + d) / 2 * 0.62 + 0.02, "±", color=RED, ha="center", va="center", fontsize=13)
    pairs.text(0, -1.15, "up to q others may collude; pairs share a key (dotted)", ha="center", color=GREEN, fontsize=9)
    return figure


def _node(axes: Axes, place: Point, text: str, colour: str) -> None:
    axes.add_patch(Circle(place, 0.3, color=colour, zorder=3))
    axes.text(*place, text, color="white", ha="center", va="center", fontsize=8, zorder=4)


PICTURES = {
    "directed-graphs": draw_directed_graphs,
    "gradient-tracking": draw_gradient_tracking,
    "epsilon": draw_epsilon,
    "trust": draw_trust,
}

if __name__ == "__main__":
    main()
