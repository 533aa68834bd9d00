"""`gossamer run --repeat 5`: the same run with other seeds, and how far its numbers spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.ending import Ended, claim_of, columns_of, numbers, say, say_verdict, short
from gossamer.report.verdict import baseline_words
from gossamer.spec.description import Spec

Once = Callable[[Spec, Path | None], tuple[Ended, Path | None]]  # and where it was kept


def repeated(spec: Spec, times: int, folder: Path | None, once: Once) -> tuple[list[Ended], list[Path]]:
    """Run once with each of the seeds, each into a folder of its own, until one is stopped; the runs and folders."""
    ended, folders = list[Ended](), list[Path]()
    for seed in range(spec.length.seed, spec.length.seed + times):
        run, kept = once(spec.but(seed=seed), None if folder is None else folder / f"seed-{seed}")
        ended.append(run)
        folders += [] if kept is None else [kept]
        if not run.record.finished:
            break
    return ended, folders


def show_spread(console: Console, runs: Sequence[Ended]) -> None:
    """A row for each seed, the mean, and from the least to the greatest; then what to read them beside."""
    first = runs[0].record
    columns = columns_of(first)
    lasts = [run.record.history[-1] for run in runs]
    if "progressive" in (first.history.dtype.names or ()) and np.isfinite([last.progressive for last in lasts]).all():
        columns |= {"progressive": "progressive"}
    table = Table("seed", box=None, header_style="bold", pad_edge=False)
    for title in columns.values():
        table.add_column(title, justify="right")
    for run, last in zip(runs, lasts, strict=True):
        table.add_row(str(run.record.config["seed"]), *numbers(last, columns))
    table.add_section()
    each = {name: np.array([last[name] for last in lasts]) for name in columns}
    for label, of in (("mean", np.mean), ("least", np.min), ("greatest", np.max)):
        table.add_row(label, *numbers({name: of(values) for name, values in each.items()}, columns), style="bold")
    console.print(table)
    for line in _beside(runs):
        console.print(escape(line), highlight=False)
    worst = min(runs, key=lambda run: run.record.history.accuracy[-1])
    if worst.verdict is not None:
        console.print(f"Of seed {worst.record.config['seed']}:", highlight=False)
        say_verdict(console, worst.verdict)
    say(console, [claim_of(first), *_cost(runs), *runs[0].said, *first.notes])


def _beside(runs: Sequence[Ended]) -> list[str]:
    about = [run.record.config["baselines"] for run in runs if run.record.config.get("baselines")]
    lines = []
    for name, words in baseline_words(runs[0].record.config["score"]).items() if about else ():
        values = [one[name] for one in about if one[name] is not None]
        if values:
            lines.append(f"{words} {_spread(values)}")
    quiet = [run.without_noise.history.accuracy[-1] for run in runs if run.without_noise is not None]
    return [*lines, *([f"the same runs without noise {_spread(quiet)}"] if quiet else [])]


def _spread(values: Sequence[float]) -> str:
    mean, low, high = (short(float(of(values))) for of in (np.mean, np.min, np.max))
    return mean if low == high else f"{mean} ({low} to {high})"


def _cost(runs: Sequence[Ended]) -> list[str]:
    """Of private runs: what all of them cost together, whoever had a record in which."""
    spent = [run.record.epsilon.spent.max() for run in runs if run.record.epsilon is not None]
    if not spent:
        return []
    delta = sum(run.delta for run in runs)
    at = f", δ = {delta:g}" if delta else ""
    return [
        f"Each of the {len(runs)} repetitions draws other noise and costs its ε again: all of them together cost "
        f"ε = {sum(spent):.3g}{at}, by composition."
    ]
