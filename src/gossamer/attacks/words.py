"""What was found, in words: a page for each attack, with its table, its pictures and its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.attacks import pictures
from gossamer.attacks.kinds import KINDS
from gossamer.attacks.logistic import Attacked, Outcome, Plain, least_chance
from gossamer.attacks.membership import (
    LEARNERS,
    MOST_RUNS,
    PLANTED,
    ROUNDS,
    TOLD,
    Told,
    allowed_alarms,
    reach_of,
    runs_to_refute,
)
from gossamer.experiments.pages import Page

if TYPE_CHECKING:
    from gossamer.attacks.images import Album, Pictured


CLEAR = 20.0  # dB from which on an image counts as found again
LEARNT = (  # on the mushrooms, Algorithm 1, by either law: docs/results/frontier
    "over a pass of the mushrooms at ε of 1 to 10 its accuracy is 0.53 to 0.67, where the commonest class has 0.52 and "
    "noise at the source over all records so far 0.86 to 0.91 (docs/results/frontier)."
)


def explain_logistic(suspects: int) -> str:
    """What the columns of the table are."""
    return (
        "*Columns read right*: from the first message that has the record in it. *Best*: the likeliest value of each "
        "column, by all messages. *Unseen*: the commonest value among the suspects, said without a look at any "
        "message: an attack is worth what it adds to that. *Named*: the chance that the likeliest of "
        f"{suspects} suspects, by all messages, is the record. *ε allows*: the most that this can be, by any attack."
    )


def tell_logistic(
    attacked: Attacked, plain: Plain, outcomes: Sequence[Outcome], name: str, unnoised: str = "", own: bool = False
) -> Page:
    """`unnoised` says why no noise was tried, where none was; `own`: the records are somebody's, not public ones."""
    m, numbers = attacked.network.m, attacked.layout.numeric
    at = "" if attacked.law == "laplace" else f" at δ = {attacked.delta:g}"
    about = (
        f"Logistic regression by Algorithm 1 on {name}: {m} learners, {attacked.rounds} rounds, a record a round; "
        "somebody reads every message. Without noise all records are read one after the other, without any list. "
        f"Under noise every learner's first record is attacked, in {attacked.runs} runs: {attacked.trials} records. "
        f"Noise is exact, {attacked.law}, for ε of one record{at} over these rounds; the attacker knows all other "
        f"records of the learner. {explain_logistic(attacked.suspects)}"
    )
    head = ["noise", "ε", "columns read right", "best", "unseen", "named", "ε allows"]
    head += [f"{each.name}: error read / best / unseen" for each in numbers]
    rows = [head, _row_plain(plain)]
    for one in outcomes:
        named = f"{one.named:.3f}"
        row = [KINDS[one.kind], f"{one.epsilon:g}", _share(one.read), _share(one.columns), _share(one.guessed), named]
        row += [f"{one.allowed:.3f}"]
        rows.append(row + [" / ".join(f"{error:.3g}" for error in one.number_errors[each.name]) for each in numbers])
    title = f"A record of {name}, read off the messages"
    figures: dict[str, tuple[str, Any]] = {}
    chosen = _some(outcomes)
    figures["record.png"] = "One record as it was read", pictures.draw_record(plain, chosen, title)
    if outcomes:
        delta = 0.0 if attacked.law == "laplace" else attacked.delta
        drawn = pictures.draw_named(outcomes, attacked.suspects, delta)
        figures["named.png"] = "How surely a record is named among suspects", drawn
    found = [_said_plain(plain), *_said_noised(outcomes, attacked)]
    found += [unnoised] if unnoised else []
    found += [_said_own(name)] if own else []
    settings = {"data": name, "learners": m, "rounds": attacked.rounds, "runs": attacked.runs, "seed": attacked.seed}
    settings |= {"suspects": attacked.suspects, "law": attacked.law, "delta": attacked.delta}
    told = {"plain": plain._asdict(), "noised": [one._asdict() for one in outcomes]}
    return Page(title, about, rows, found, settings | told, figures)


def _some(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Three ε of every kind, for a picture that has room for no more."""
    known = sorted({one.epsilon for one in outcomes}, reverse=True)
    shown = known if len(known) <= 3 else [known[0], known[(len(known) - 1) // 2], known[-1]]
    return [one for one in outcomes if one.epsilon in shown]


def _row_plain(plain: Plain) -> list[str]:
    """Without noise what is read is the best that can be said, and a record is named where it was read exactly."""
    read, named = _share(plain.columns), f"{plain.exact / plain.records:.3f}"
    row = [f"none: {plain.exact:,} of {plain.records:,} read", "∞", read, read, "–", named, "1"]
    return row + [f"{error:.2g} / {error:.2g} / –" for error in plain.number_errors.values()]


def _said_own(name: str) -> str:
    return (
        f"What is printed and written here has a real record of {name} in it (README.md, report.html, record.png, "
        "record.pdf, results.json): show it to nobody who may not see that file."
    )


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _said_plain(plain: Plain) -> str:
    words = ", ".join(f"{name} {value}" for name, value in list(plain.read.items())[:7])
    more = ", …" if len(plain.read) > 7 else ""
    return (
        f"Without noise {plain.exact:,} of {plain.records:,} records were read exactly, label and all (largest "
        f"relative error {plain.largest_error:.1g}). Learner 0's first: {words}{more}."
    )


def _said_noised(outcomes: Sequence[Outcome], attacked: Attacked) -> list[str]:
    if not outcomes:
        return []
    least = min(one.epsilon for one in outcomes)
    few = [one for one in outcomes if one.epsilon == least]
    said = [
        f"At ε = {least:g} the best guess among {attacked.suspects} suspects is right with a chance of "
        f"{min(o.named for o in few):.3f} to {max(o.named for o in few):.3f}; ε allows {few[0].allowed:.3f}, and "
        f"guessing gives {1 / attacked.suspects:g}.",
        _said_above(outcomes, attacked.trials),
    ]
    beyond = [one for one in outcomes if least_chance(attacked.trials, attacked.trials) <= one.allowed]
    if beyond:
        first = min(beyond, key=lambda one: one.epsilon)
        said.append(
            f"A claim of ε = {first.epsilon:g} or more cannot be refuted by {attacked.trials} records, even if all "
            f"were named: ε allows {first.allowed:.3f}."
        )
    return said + _said_learnt(outcomes)


def _said_learnt(outcomes: Sequence[Outcome]) -> list[str]:
    """What noise on messages costs, beside how little it tells."""
    some = [one for one in outcomes if 1 <= one.epsilon <= 10]
    on_messages = {one.epsilon: one.named for one in some if one.kind == "messages"}
    if not on_messages:
        return []
    if all(on_messages[one.epsilon] <= one.named for one in some):
        return [f"Noise on messages tells least, and it learns least, so that safety is paid with learning: {LEARNT}"]
    return [f"Noise on messages learns least: {LEARNT}"]


def _said_above(outcomes: Sequence[Outcome], trials: int) -> str:
    above = [one for one in outcomes if one.named > one.allowed]
    surely = [one for one in outcomes if one.surely_above(trials)]
    if surely:
        worst = max(surely, key=lambda one: one.hits / one.allowed)
        return (
            f"ABOVE what ε allows: {KINDS[worst.kind]} at ε = {worst.epsilon:g} ({worst.hits} of {trials} named, a "
            f"chance of {worst.allowed:.3f} allowed; luck does that less than once in a million times): the claim is "
            "false."
        )
    if above:
        return (
            f"In {len(above)} of {len(outcomes)} rows it is above what ε allows, in the mean over {trials} records, "
            "and not by more than luck does: nothing is refuted."
        )
    return "Nowhere is it above what ε allows."


# -- images ------------------------------------------------------------------------------------------------------------


def tell_images(pictured: Pictured, album: Album, name: str) -> Page:
    from gossamer.attacks.images import RELEASES, decibels
    from gossamer.attacks.images import ROUNDS as IMAGE_ROUNDS

    about = (
        f"A small CNN (two convolutions and a linear head) on {name} by Algorithm 1: {pictured.network.m} learners, "
        f"{IMAGE_ROUNDS} rounds, an image a round. Attacked is the first image of {pictured.images} learners, by "
        f"gradient inversion in {pictured.searches} steps. Noise is exact and Gaussian, for ε of one image at δ = "
        f"{pictured.delta:g} over these rounds, each image's gradient clipped to 1; over all records so far it is "
        f"released in rounds {', '.join(str(t) for t in RELEASES.before(IMAGE_ROUNDS))}. The attacker knows all other "
        "images of the learner. dB: the peak signal to noise ratio of what was found, higher is nearer; saying the "
        f"mean of other images without a look gives {decibels(float(np.mean(album.guessed))):.1f} dB. *Named*: the "
        f"chance that the likeliest of {album.suspects} images, by what was read, is the one; on messages that is "
        "the first message that has the image in it."
    )
    rows = [["noise", "ε", "dB, mean", "squared error of pixels", "labels read right", "named", "ε allows"]]
    for kind, epsilon in dict.fromkeys((one.kind, one.epsilon) for one in album.pictures):
        some = album.of(kind, epsilon)
        error = float(np.mean([one.error for one in some]))
        right = sum(one.label == album.labels[one.learner] for one in some)
        row = ["none" if kind is None else KINDS[kind], "∞" if kind is None else f"{epsilon:g}"]
        row += [f"{np.mean([decibels(one.error) for one in some]):.1f}", f"{error:.4f}", f"{right} of {len(some)}"]
        rows.append([*row, f"{np.mean([one.named for one in some]):.3f}", f"{album.allowed(epsilon):.3f}"])
    title = f"An image of {name}, found again from its gradient"
    figures = {"images.png": ("Images as they are, and as they were found", pictures.draw_images(album, title))}
    cells = [
        {"kind": one.kind, "epsilon": one.epsilon, "learner": one.learner, "error": one.error}
        | {"decibels": decibels(one.error), "label": one.label, "named": one.named}
        for one in album.pictures
    ]
    settings = {"data": name, "learners": pictured.network.m, "rounds": IMAGE_ROUNDS, "seed": pictured.seed}
    settings |= {"searches": pictured.searches, "suspects": album.suspects, "delta": album.delta}
    told = {"labels": album.labels, "guessed": album.guessed, "pictures": cells}
    return Page(title, about, rows, _said_images(album), settings | told, figures)


def _said_images(album: Album) -> list[str]:
    from gossamer.attacks.images import decibels

    plain = [decibels(one.error) for one in album.of(None, math.inf)]
    noised = [one for one in album.pictures if one.kind is not None]
    guessed = decibels(float(np.mean(album.guessed)))
    clear = sum(one >= CLEAR for one in plain)
    said = [
        f"Without noise {clear} of {len(plain)} images are found again, at {CLEAR:g} dB or more; the worst is at "
        f"{min(plain):.1f} dB."
    ]
    if not noised:
        return said
    hidden = list(takewhile(lambda epsilon: _best(noised, epsilon) < guessed, sorted({one.epsilon for one in noised})))
    if hidden:
        said.append(
            f"At ε = {hidden[-1]:g}{' and below' if len(hidden) > 1 else ''}, under every kind of noise, what is found "
            f"is in the mean farther from the image than the mean of other images ({guessed:.1f} dB), which takes no "
            "look at all."
        )
    known = [one for one in noised if one.named > 0.5 and decibels(one.error) < guessed]
    if known:
        most = min(known, key=lambda one: one.epsilon)
        said.append(
            f"A picture of noise proves nothing: at ε = {most.epsilon:g} ({_kind(most)}) the picture shows "
            f"nothing, and yet who has {album.suspects} images to choose from is {most.named:.0%} sure which it is."
        )
    return said


def _kind(picture: Any) -> str:
    return KINDS[picture.kind]


def _best(noised: Sequence[Any], epsilon: float) -> float:
    """dB in the mean over images, under the kind of noise that hides them least."""
    from gossamer.attacks.images import decibels

    by_kind = {
        kind: [decibels(one.error) for one in noised if (one.kind, one.epsilon) == (kind, epsilon)] for kind in KINDS
    }
    return max(float(np.mean(some)) for some in by_kind.values() if some)


# -- membership --------------------------------------------------------------------------------------------------------


def tell_membership(told: Sequence[Told], law: str, runs: int, planted: bool) -> Page:
    less = f", with {PLANTED:g} times less noise than is claimed, which the attack has to find" if planted else ""
    about = (
        f"Logistic regression by Algorithm 1 on a ring of {LEARNERS} learners, {ROUNDS} rounds: the two worst worlds "
        f"that a sceptic found, which differ in one record, and {runs:,} runs of each with exact {law} noise{less}. "
        "Each run gets its likelihood ratio. *Certified*: an ε below which no claim is true, with 95 % confidence "
        "(Clopper–Pearson, on runs that did not choose the threshold). *True alarms*: runs with the record that are "
        "found where 1 in 100 without it are taken for one, against what ε allows. *Refuted*: where chance would do "
        "that once in a million times; a curve that lies on the limit is above it here and there by chance. *Reach*: "
        "the most that so many runs certify at that confidence, if none is taken for the other. A claim of that ε or "
        "more cannot be refuted by them."
    )
    head = ["noise", "claimed ε", "δ", "certified ε ≥", "reach", "true alarms at 0.01", "ε allows", "area", "verdict"]
    rows = [head]
    for one in told:
        most = float(allowed_alarms(np.array([0.01]), one.epsilon, one.delta)[0])
        row = [TOLD[one.kind], f"{one.epsilon:.3g}", f"{one.delta:g}", f"{one.certified():.2f}"]
        row += [f"{one.reach:.2f}", f"{one.true_alarms(0.01):.3f}", f"{most:.3f}", f"{one.area:.3f}"]
        rows.append([*row, _verdict(one)])
    refuted = [one for one in told if one.refuted]
    found = [f"{len(refuted)} of {len(told)} claims are refuted.", *_said_reach(told, runs)]
    nearest = max(told, key=lambda one: one.certified() / one.epsilon)
    share = nearest.certified() / nearest.epsilon
    found.append(f"Nearest to its claim: {TOLD[nearest.kind]}, ε ≥ {nearest.certified():.2f}, {share:.0%} of it.")
    numbers = {"law": law, "runs": runs, "planted": planted, "rounds": ROUNDS, "learners": LEARNERS}
    cells = [
        {"kind": one.kind, "epsilon": one.epsilon, "delta": one.delta, "certified": one.certified()}
        | {"reach": one.reach, "true_alarms": one.true_alarms(0.01), "area": one.area, "refuted": one.refuted}
        | {"refutable": one.reach > one.epsilon}
        for one in told
    ]
    figures = {"roc.png": ("True against false alarms, and what ε allows", pictures.draw_roc(told))}
    return Page("Was this record there?", about, rows, found, {**numbers, "told": cells}, figures)


def _verdict(one: Told) -> str:
    if one.refuted:
        return "REFUTED"
    if one.reach > one.epsilon:
        return "not refuted"
    enough = runs_to_refute(one.epsilon, one.delta)
    return "cannot be refuted with so many runs: " + (
        f"give --runs {enough}" if enough else f"nor with {MOST_RUNS}, the most"
    )


def _said_reach(told: Sequence[Told], runs: int) -> list[str]:
    beyond = [one for one in told if one.reach <= one.epsilon]
    if not beyond:
        return []
    return [
        f"{len(beyond)} of {len(told)} claims cannot be refuted with {runs:,} runs, not even if no noise were drawn: "
        f"these certify ε ≥ {beyond[0].reach:.2f} at most. That they stand says nothing. "
        f"({MOST_RUNS:,} runs, the most that are run, certify ε ≥ {reach_of(MOST_RUNS, beyond[0].delta):.2f}.)"
    ]
