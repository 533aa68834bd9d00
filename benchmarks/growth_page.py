"""What benchmarks/growth.py found, as a page and as a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

COMMAND = "OMP_NUM_THREADS=1 python benchmarks/growth.py --out docs/results/growth"
MILLION = 10**6
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
AXES = {"m": "learners m", "n": "features n", "degree": "links a learner", "rounds": "rounds T"}
SIZES = (16, 64, 256)  # GiB of a machine's memory

Sweep = Mapping[str, Any]  # as growth.py writes it


def page(results: Mapping[str, Any]) -> str:
    sweeps = results["sweeps"]
    rows = "\n".join(_row(sweep) for sweep in sweeps)
    return PAGE.format(
        command=COMMAND + " --quick" * results["quick"], turns="one turn" if results["turns"] == 1 else "two turns",
        version=results["version"], seed=results["seed"], cores=results["cores"],
        memory=results["memory"] / 2**30, minutes=results["seconds"] / 60, rows=rows,
        many="\n".join(_large(_named(sweeps, "learners"))), **_limits(_named(sweeps, "learners")),
    )  # fmt: skip


def _named(sweeps: list[Sweep], name: str) -> Sweep:
    return next(sweep for sweep in sweeps if sweep["name"] == name)


def _row(sweep: Sweep) -> str:
    found, (time, memory) = sweep["exponents"], sweep["expected"]
    values = [int(value) for value in sweep["costs"] if int(value) >= sweep["fitted_from"]]
    cells = [
        sweep["name"], f"{min(values):,} to {max(values):,}", _exponent(found["set-up"]),
        f"{_exponent(found['rounds'])} ({time:g})", _exponent(found["end"]),
        f"{_exponent(found['memory'])} ({memory:g})",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _exponent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _large(learners: Sweep) -> list[str]:
    """What the largest networks cost, as measured, and a million as the fits tell."""
    base, rows = learners["base"], []
    for value, cost in learners["costs"].items():
        start, one = cost["network"] + cost["start"], cost["rounds"] / base["rounds"]
        rows.append(_cells(f"{int(value):,}", start, one, cost["end"], cost["memory"]))
    m, last = max((int(value), cost) for value, cost in learners["costs"].items())
    powers = {name: 0 if math.isnan(power) else power for name, power in learners["exponents"].items()}
    factor = {name: (MILLION / m) ** power for name, power in powers.items()}
    rows.append(
        _cells(
            "1,000,000, from the fits",
            (last["network"] + last["start"]) * factor["set-up"],
            last["rounds"] / base["rounds"] * factor["rounds"],
            last["end"] * factor["end"],
            last["memory"] * factor["memory"],
        )
    )
    return rows


def _cells(name: str, start: float, one: float, end: float, memory: float) -> str:
    return f"| {name} | {start:.3g} s | {one:.3g} s | {end:.3g} s | {memory / 2**30:.3g} GiB |"


def _limits(learners: Sweep) -> dict[str, str]:
    """How many learners the memory of a machine is for, by the fit: 1/power is the exponent the other way."""
    m, last = max((int(value), cost) for value, cost in learners["costs"].items())
    records = learners["base"]["n"] * 8  # bytes of a learner's one record
    each = last["memory"] / m + records
    shown = [f"{size} GiB hold {size * 2**30 / each / 1e6:.1f} million" for size in SIZES]
    return {"limits": ", ".join(shown), "bytes": f"{each / learners['base']['n'] / 8:.1f}"}


def picture(results: Mapping[str, Any]) -> Figure:
    """Seconds of rounds above, memory below, for every number that grows; hollow points are not fitted."""
    sweeps = results["sweeps"]
    kinds = {variable: [sweep for sweep in sweeps if sweep["variable"] == variable] for variable in AXES}
    figure = Figure(figsize=(13, 6.4), dpi=130, layout="constrained")
    grid = figure.subplots(2, len(kinds), squeeze=False)
    for column, (variable, shown) in enumerate(kinds.items()):
        upper, lower = grid[0][column], grid[1][column]
        values = sorted({int(value) for sweep in shown for value in sweep["costs"]})
        for colour, sweep in zip(COLOURS, shown, strict=False):
            _drawn(upper, sweep, "rounds", colour)
            _drawn(lower, sweep, "memory", colour)
        for axes in (upper, lower):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(alpha=0.25, which="major")
            bottom, top = axes.get_ylim()
            axes.set_ylim(bottom, top * (top / bottom) ** (0.12 * len(axes.get_legend_handles_labels()[0])))  # its room
            axes.legend(frameon=False, fontsize=7, loc="upper left")
            axes.tick_params(labelsize=7, which="both")
            axes.set_xticks(values, [f"{value:,}" for value in values], rotation=45)
            axes.xaxis.set_minor_locator(NullLocator())
        lower.set_xlabel(AXES[variable])
    grid[0][0].set_ylabel("processor seconds of all rounds")
    grid[1][0].set_ylabel("peak memory beyond records, MiB")
    title = "What grows how: lines are fitted exponents, hollow points are not fitted"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def _drawn(axes: Any, sweep: Sweep, part: str, colour: str) -> None:
    x = [int(value) for value in sweep["costs"]]
    y = [cost[part] / (2**20 if part == "memory" else 1) for cost in sweep["costs"].values()]
    power, fitted = sweep["exponents"][part], [value >= sweep["fitted_from"] for value in x]
    for here in (True, False):
        some = [k for k, is_fitted in enumerate(fitted) if is_fitted is here and y[k] > 0]
        face = colour if here else "white"
        axes.plot([x[k] for k in some], [y[k] for k in some], "o", color=colour, markerfacecolor=face, markersize=4)
    if math.isnan(power):
        return
    inside = [k for k, is_fitted in enumerate(fitted) if is_fitted]
    middle = math.fsum(math.log(y[k]) - power * math.log(x[k]) for k in inside) / len(inside)
    ends = [x[inside[0]], x[inside[-1]]]
    line = [math.exp(middle + power * math.log(value)) for value in ends]
    axes.plot(ends, line, color=colour, linewidth=1.2, label=f"{sweep['name']}: {power:.2f}")


PAGE = """# What grows how

    {command}

Gossamer {version}, seed {seed}, {cores} cores, {memory:.0f} GiB; {minutes:.1f} minutes. Time is the processor's, of
one thread, the least of {turns}; memory is the peak of a process beyond its records. An exponent p says that what
doubles costs 2^p times as much; what is expected of rounds and memory is in brackets. `benchmarks/growth.py` has what
is varied, and how.

| what grows | fitted from … to | set-up | rounds | end | memory |
|---|---|---|---|---|---|
{rows}

![Seconds and memory against learners, features, links and rounds, with fitted lines](growth.png)

Learners with 100 features, mean degree 4 and one record each:

| learners | set-up | a round | end | memory beyond records |
|---|---|---|---|---|
{many}

With its record, a learner takes {bytes} times the memory of its θ: {limits} of learners.
"""
