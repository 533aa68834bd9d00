"""What the end of a run says: one table, what its accuracy is read beside, and where it went wrong if it did."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.bullets import say as bullet
from gossamer.cli.words import in_command
from gossamer.errors import GossamerError, Sentence
from gossamer.privacy.releases import first_round
from gossamer.report.verdict import Verdict, baseline_words, verdict
from gossamer.run_record import Record
from gossamer.simulate.evidence import Ran, facts_of
from gossamer.spec.build import Parts

ERRORS = {"accuracy": "", "tracking_error": "‖θ−θ*‖", "optimality_gap": "F(θ)−F(θ*)"}  # the first: the model's score
TESTED = {"accuracy": "test ", "train_accuracy": "training "}  # and the model's score
MOST_ROWS, FIRST_ROWS = 200, 10  # learners up to which all are listed, and how many of more
NEURAL = {"accuracy": "test accuracy", "train_accuracy": "training accuracy", "consensus_error": "‖θ−θ̄‖"}


class Ended(NamedTuple):
    """A run that has ended, and what was found out about it."""

    record: Record
    said: list[Sentence]  # what the rules decided
    delta: float
    verdict: Verdict | None = None
    without_noise: Record | None = None


def ran(parts: Parts) -> Ran:
    """What was run, as simulate() was given it."""
    gradient: Any = parts.spec.algorithm.gradient
    where = (parts.algorithm, parts.network, parts.stream, parts.model)
    return Ran(*where, parts.mechanism, gradient, parts.spec.length.seed, parts.changes)


def judged(parts: Parts, record: Record, without_noise: Record | None) -> Verdict | None:
    """Why the run ended where it did, where it ended badly; nothing is said of one that was stopped."""
    quiet = None if without_noise is None else float(without_noise.history.accuracy[-1])
    try:
        facts = facts_of(record, ran(parts), quiet) if record.finished else None
    except GossamerError:  # a method that cannot be rehearsed: nothing is known of why
        return None
    return None if facts is None else verdict(facts)


def told(ended: Ended) -> dict[str, Any]:
    """All that the end of a run says, as JSON values."""
    record, quiet = ended.record, ended.without_noise
    config = record.summary()["config"]
    end: dict[str, Any] = {
        "baselines": config.get("baselines"),
        "confusion": config.get("confusion"),
        "progressive": _last(record, "progressive"),
        "without_noise": None if quiet is None else quiet.summary()["final"],
        "verdict": None,
    }
    if ended.verdict is not None:
        end["verdict"] = {"cause": ended.verdict.cause, "says": ended.verdict.sentence.said(in_command)}
    return record.summary() | end


def show(console: Console, ended: Ended) -> None:
    """The table, what to read its accuracy beside, the verdict and the notes."""
    record = ended.record
    table = Table("learner", box=None, header_style="bold", pad_edge=False)
    columns = columns_of(record)
    for title in [*columns.values(), *_privacy_titles(record, ended.delta)]:
        table.add_column(title, justify="right")
    names = record.config["stream"].get("names") or range(len(record.learners))
    each = zip(names, record.learners, _privacy_cells(record), strict=True)
    few = len(record.learners) if len(record.learners) <= MOST_ROWS else FIRST_ROWS
    for name, row, cost in islice(each, few):
        table.add_row(escape(str(name)), *numbers(row, columns), *cost)
    if few < len(record.learners):
        table.add_row("…")
    table.add_section()
    table.add_row("mean", *numbers(record.history[-1], columns), "", style="bold")
    console.print(table)
    if few < len(record.learners):
        console.print(f"and {len(record.learners) - few:,} other learners, who are in the record", highlight=False)
    for line in _beside(ended):
        console.print(escape(line), highlight=False)
    confusion = _confusion(record)
    if confusion is not None:
        console.print(confusion)
    say_verdict(console, ended.verdict)
    say(console, (claim_of(record), *ended.said, *record.notes))


def claim_of(record: Record) -> str:
    """What privacy the run may claim, as a sentence."""
    claim = record.claim.replace("on source", "at the source")
    return claim[:1].upper() + claim[1:] + "."


def say(console: Console, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        shown = sentence.said(in_command) if isinstance(sentence, Sentence) else sentence
        bullet(console, shown)


def say_verdict(console: Console, found: Verdict | None) -> None:
    if found is not None:
        console.print(f"[bold yellow]![/] [bold]{escape(found.sentence.said(in_command))}[/]", highlight=False)


def columns_of(record: Record) -> dict[str, str]:
    """Which numbers the table has, by name, and what it calls them."""
    score, names = record.config["score"], record.learners.dtype.names or ()
    if "train_accuracy" not in names:
        return ERRORS | {"accuracy": score}
    if "baselines" not in record.config:
        return NEURAL
    return {name: which + score for name, which in TESTED.items()} | {n: t for n, t in ERRORS.items() if t}


def numbers(row: Any, columns: Iterable[str]) -> list[str]:
    shares = {name: name.endswith("accuracy") and abs(float(row[name])) < 100 for name in columns}
    return [f"{float(row[name]):.4f}" if share else f"{float(row[name]):.4g}" for name, share in shares.items()]


def short(share: float) -> str:
    """An accuracy, or an R², which may be anything below 1."""
    return f"{share:.3f}" if abs(share) < 100 else f"{share:.1e}"


def _beside(ended: Ended) -> list[str]:
    """The accuracy, on which records it is, and what to read it beside."""
    record, quiet = ended.record, ended.without_noise
    about, score = record.config.get("baselines"), record.config["score"]
    if about is None:
        return []
    words = baseline_words(score)
    which = f"{about['records']:,} records nobody learned from"
    which = which if about["tested"] else f"the {about['records']:,} records learned from"
    lines = [
        f"{score} {short(record.history.accuracy[-1])} on {which}; mean over the learners",
        f"{words['majority']} {about['majority']:.3f}",
    ]
    if about["optimum"] is not None:
        lines.append(f"{words['optimum']} {about['optimum']:.3f}")
    if quiet is not None:
        lines.append(f"the same run without noise {short(quiet.history.accuracy[-1])}")
    progressive = _last(record, "progressive")
    if progressive is not None:
        lines.append(f"progressive {short(progressive)}: each record before it was learned from; mean over the records")
    return lines


def _confusion(record: Record) -> Table | None:
    """How many records of each class are taken for which."""
    counts: Sequence[Sequence[float]] | None = record.config.get("confusion")
    if counts is None:
        return None
    names = [str(name) for name in record.config["stream"].get("classes") or range(len(counts))]
    table = Table("true \\ predicted", box=None, header_style="bold", pad_edge=False)
    for name in names:
        table.add_column(escape(name), justify="right")
    for name, row in zip(names, counts, strict=True):
        table.add_row(escape(name), *(f"{count:,.0f}" for count in row))
    return table


def _last(record: Record, name: str) -> float | None:
    """A number of the whole run at its end; None where it is not kept, or says nothing."""
    if name not in (record.history.dtype.names or ()):
        return None
    value = float(record.history[name][-1])
    return value if math.isfinite(value) else None


def _privacy_titles(record: Record, delta: float) -> list[str]:
    if record.epsilon is None:
        return ["ε"]
    at = f" (δ = {delta:g})" if delta else ""
    own = "first own noise σ" if record.has_secrets else "first noise " + ("σ" if delta else "ν")
    noise = [own] if record.config.get("noise") else []
    alone = ["ε if all others collude"] if record.has_secrets else []
    return [*noise, f"ε{at}", "ε for ever", *alone]


def _privacy_cells(record: Record) -> list[list[str]]:
    """The noise of each learner's first release, where the record knows it, and what it has spent."""
    if record.epsilon is None:
        return [["not private"]] * len(record.learners)
    scales, releases = record.config.get("noise") or (), record.config.get("releases")
    rounds = [0] * len(scales) if releases is None else list(map(first_round, releases))
    first = [scale * (t + 1) ** -falls * ratio**t for t, (scale, falls, ratio) in zip(rounds, scales, strict=True)]
    noise = [[f"{value:.4g}"] for value in first] or [[]] * len(record.epsilon)
    spent = [["∞" if math.isinf(value) else f"{value:.4g}" for value in row] for row in record.epsilon]
    return [before + then for before, then in zip(noise, spent, strict=True)]
