"""A run as a view: from the plain numbers of its record, as Record.summary() and record.json have them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.privacy.releases import first_round
from gossamer.report.tables import HIGH, LOW, Summary, confusion_of, names_of, rounded, table_of
from gossamer.report.verdict import baseline_words
from gossamer.report.view import (
    FEW_LEARNERS,
    VERSION,
    Chart,
    Epsilon,
    Fact,
    Kind,
    Line,
    Network,
    Series,
    Spending,
    View,
    network_view,
    now,
    odds,
)

ERRORS = {
    "tracking_error": "distance to the optimum ‖θ − θ*‖",
    "optimality_gap": "excess loss F(θ) − F(θ*)",
    "consensus_error": "disagreement ‖θ − θ̄‖",
}
PROGRESSIVE = "before each was learned from"  # nothing is known of it before the first records have come


def run_view(
    summary: Summary,
    *,
    title: str,
    kind: Kind = "run",
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    command: str = "",
    config: str = "",
    when: str | None = None,
) -> View:
    """The view of a run, or of parties whose outcomes were collected.

    `summary` is a record's, with None for what is not finite; `warnings` go before those that its numbers give.
    """
    about, said = summary["config"], list(summary["notes"])
    delta = (about.get("course") or {}).get("delta") or 0.0
    assumed = [note for note in said if note.startswith("Assumption")]  # what a broken assumption costs
    return {
        "version": VERSION,
        "kind": kind,
        "title": title,
        "subtitle": _subtitle(summary),
        "claim": claim_words(summary["claim"]),
        "private": summary["epsilon"] is not None,
        "against": about.get("against") or "",
        "meaning": _meaning(summary, delta),
        "warnings": [*warnings, *_stopped(summary), *_unbounded(summary), *assumed],
        "notes": [*notes, *(note for note in said if note not in assumed)],
        "facts": _facts(summary, delta),
        "command": command,
        "config": config,
        "software": f"gossamer {about.get('version', '')}".strip(),
        "seed": about.get("seed"),
        "when": when or now(),
        "network": _network(summary),
        "charts": charts_of(summary["history"], about),
        "epsilon": _epsilon(summary, delta),
        "table": table_of(summary, delta),
        "confusion": confusion_of(about),
        "live": None,
    }


def claim_words(claim: str) -> str:
    """A claim as a sentence."""
    said = claim.replace("on source", "at the source")
    return said[:1].upper() + said[1:] + "."


def _subtitle(summary: Summary) -> str:
    about, done = summary["config"], summary["t"]
    asked = about.get("steps") or done
    links, seed = about["network"].get("links"), about.get("seed")
    said = [f"{links:,} links"] if links else []
    said.append(f"{done:,} rounds" if done >= asked else f"{done:,} of {asked:,} rounds")
    return " · ".join([*said, *([] if seed is None else [f"seed {seed}"])])


def _meaning(summary: Summary, delta: float) -> str:
    """What the claim says, to somebody who has not met ε."""
    if summary["epsilon"] is None:
        return "What learners send may tell others about single records: no ε is claimed for this run."
    most = _most(summary["epsilon"])
    unit = "the records of one of its rounds" if "per='round'" in str(summary["config"]["model"]) else "one record"
    but = f", but for a probability of δ = {delta:g}" if delta else ""
    far = f"by a factor of at most {odds(most)} (e^ε){but}" if math.isfinite(most) else "without a proved limit"
    return (
        f"Whoever sees all that a learner sends may change the odds of a guess about {unit} {far}. That is of what is "
        "sent: the accuracies and errors on this page are computed without noise."
    )


def _most(values: Sequence[float | None]) -> float:
    return max(math.inf if value is None else value for value in values)


def _stopped(summary: Summary) -> list[str]:
    asked = summary["config"].get("steps") or 0
    if summary["t"] >= asked:
        return []
    return [f"The run was stopped after {summary['t']:,} of {asked:,} rounds."]


def _unbounded(summary: Summary) -> list[str]:
    ever = summary.get("epsilon_for_ever")
    if ever is None or None not in ever:
        return []
    some = "Every learner's" if set(ever) == {None} else f"The ε of {ever.count(None)} of {len(ever)} learners'"
    return [f"{some.removesuffix(chr(39) + 's')} has no finite limit: if the run went on for ever, so would ε."]


def _facts(summary: Summary, delta: float) -> list[Fact]:
    """The numbers that a reader wants first, each with what to read it beside."""
    about, last = summary["config"], summary["final"]
    score, base = about["score"], about.get("baselines")
    facts: list[Fact] = []
    if last.get("accuracy") is not None:
        which = "mean over the learners"
        if base is not None:
            records = f"{base['records']:,} records"
            which += f", on {records} nobody learned from" if base["tested"] else f", on the {records} learned from"
        facts.append({"name": score.capitalize(), "value": short_share(last["accuracy"]), "beside": which})
    for name, words in baseline_words(score).items() if base is not None else ():
        if base.get(name) is not None:
            facts.append({"name": _capital(words), "value": short_share(base[name]), "beside": BESIDE[name]})
    facts.append(_cost(summary, delta))
    return facts


BESIDE = {"majority": "needs no learning", "optimum": "what all records in one place would give"}


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _cost(summary: Summary, delta: float) -> Fact:
    if summary["epsilon"] is None:
        return {"name": "ε", "value": "none", "beside": "not private"}
    low, high = min(e if e is not None else math.inf for e in summary["epsilon"]), _most(summary["epsilon"])
    ends = [_epsilon_text(low), _epsilon_text(high)]
    ever = _epsilon_text(_most(summary["epsilon_for_ever"]))
    at = f"δ = {delta:g}, " if delta else ""
    value = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return {"name": "ε of a learner", "value": value, "beside": f"{at}for ever {ever}"}


def _epsilon_text(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "∞"


def short_share(share: float) -> str:
    """An accuracy, or an R², which may be anything below 1."""
    return f"{share:.3f}" if abs(share) < 100 else f"{share:.1e}"


# -- curves ------------------------------------------------------------------------------------------------------------


def charts_of(history: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> list[Chart]:
    """Accuracy with what to read it beside, and the errors; what was not measured is left out."""
    t, score = history["t"], about["score"]
    base = about.get("baselines") or {}
    words = baseline_words(score)
    lines: list[Line] = [{"name": words[name], "y": base[name]} for name in words if base.get(name) is not None]
    where = "on records nobody learned from" if "train_accuracy" in history else "on the records learned from"
    curves = {
        place: [one for one in series if any(value is not None for value in one["y"])]
        for place, series in curves_of(history, about).items()
    }
    charts: list[Chart] = [
        {"id": "accuracy", "title": score.capitalize(), "unit": where, "log": False, "t": t, "lines": lines,
         "series": curves["accuracy"]},
        {"id": "errors", "title": "Errors", "unit": "mean over the learners", "log": True, "t": t, "lines": [],
         "series": curves["errors"]},
    ]  # fmt: skip
    if any("low" in one for one in curves["accuracy"]):
        charts[0]["band"] = "The band holds nine in ten learners."
    reading = reading_rounds(about)
    for chart in charts if reading else ():
        chart["shaded"] = (0, reading)
        chart["shaded_is"] = f"nothing is released before round {reading:,}"
    return [chart for chart in charts if chart["series"] and len(t) > 1]


def curves_of(history: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> dict[str, list[Series]]:
    """The curves of every chart over the rows of a history, also of what was not measured in them."""
    each = history.get("learners_accuracy") or ()
    names = names_of(about, len(each[0])) if each else []
    many = len(names) > FEW_LEARNERS
    quality = _named(history, {"accuracy": "mean over the learners"})
    if many and quality:
        quality[0]["low"], quality[0]["high"] = _band(each)
    quality += _named(history, {"train_accuracy": "on training records", "progressive": PROGRESSIVE})
    for one in quality[1:]:
        one["dashed"] = True
    errors = _named(history, ERRORS)
    for one in errors:
        one["loose"] = one["name"] == ERRORS["consensus_error"]  # learners may agree to the last digit
    return {"accuracy": [*quality, *([] if many else _learners(each, names))], "errors": errors}


def _named(history: Mapping[str, Sequence[Any]], names: Mapping[str, str]) -> list[Series]:
    """The curves of these quantities, where a history has them."""
    return [
        {"name": words, "y": [rounded(v) for v in history[name]], "group": "mean"}
        for name, words in names.items()
        if name in history
    ]


def _learners(rows: Sequence[Sequence[float | None]], names: Sequence[str]) -> list[Series]:
    """A curve for each learner; `rows` have one of their numbers each."""
    return [
        {"name": f"learner {name}", "y": [rounded(row[i]) for row in rows], "group": "learner"}
        for i, name in enumerate(names)
    ]


def _band(rows: Sequence[Sequence[float | None]]) -> tuple[list[float | None], list[float | None]]:
    """Between which values nine in ten learners are."""
    low, high = np.nanquantile(np.array(rows, dtype=float), [LOW, HIGH], axis=1)
    return list(map(rounded, low)), list(map(rounded, high))


def reading_rounds(about: Mapping[str, Any]) -> int:
    """Rounds before anybody's first release, in which learners send nothing of their records."""
    releases = about.get("releases")
    return min(map(first_round, releases)) if releases else 0


# -- network and ε ------------------------------------------------------------------------------------------------


def _network(summary: Summary) -> Network | None:
    return network_view(summary["config"].get("graph"), names_of(summary["config"], len(summary["learners"])))


def _epsilon(summary: Summary, delta: float) -> Epsilon | None:
    """ε over the rounds of a few learners, or of the cheapest, the middle and the dearest of many."""
    about, spent = summary["config"], summary["epsilon"]
    if spent is None:
        return None
    m = len(spent)
    told = about.get("course") or {"t": [0, summary["t"]], "epsilon": [[0.0, e] for e in spent], "budget": [None] * m}
    names = names_of(about, m)
    shown = range(m)
    if m > 2 * FEW_LEARNERS:
        order = sorted(shown, key=lambda i: math.inf if spent[i] is None else spent[i])
        shown = dict.fromkeys((order[0], order[m // 2], order[-1]))  # type: ignore[assignment]
    learners: list[Spending] = [
        {"name": f"learner {names[i]}", "y": [rounded(e) for e in told["epsilon"][i]]} for i in shown
    ]
    for one, i in zip(learners, shown, strict=True):
        one["y"] = [*one["y"][:-1], spent[i]]
    collude = summary.get("epsilon_if_all_collude")
    return {
        "t": told["t"],
        "learners": learners,
        "budget": [told["budget"][i] for i in shown],
        "for_ever": [summary["epsilon_for_ever"][i] for i in shown],
        "if_all_collude": None if collude is None else [collude[i] for i in shown],
        "delta": delta,
        "against": about.get("against") or "",
    }
