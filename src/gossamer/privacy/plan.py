"""When to release, and how noise goes with time, where nobody says it: rules from public numbers alone.

**How far to move.** Let λ_t be the steps, ρ the rounds that release, σ_t the noise. The m learners' models are moved by
Σ_{t∈ρ} λ_t g_t and by noise of deviation √(Σ λ_t² σ_t²/m) in every coordinate. For a given budget the second grows in
proportion to the first, Σ λ_t = τ, however many releases there are. So there is a movement beyond which noise does more
harm than learning does good. For classes we take the τ with which a record's margin aᵀθ, whose natural unit is 1, would
be moved by noise of deviation 1: √(Σ λ_t² σ_t²/m) ‖a‖ = 1. (Measured on three data sets at four budgets each, tuned
runs move by 0.8 to 3 times that.)

**When to start.** A late release costs less, Δ_t = 2c/n_t, but the τ above has to be covered with steps that do not
overshoot, at most `LONGEST_STEP`/L with L the smoothness of the mean loss. The first release is at ¾ of the run if the
rest has room for that, otherwise at ½, otherwise at ¼. A budget that has to last for ever is spent after the run as
well: there it is ½ (for constant noise, W (T − W) is what matters).

**How noise falls.** At the end noise is Σ λ_t² σ_t². For a given Σ Δ_t²/σ_t² (Gaussian), or Σ Δ_t/ν_t (Laplace), it is
least with σ_t² ∝ Δ_t/λ_t, or ν_t³ ∝ Δ_t/λ_t²: with Δ_t ∝ 1/(t+1), λ_t ∝ (t+1)^−v that is (t+1)^−α with α = (1−v)/2, or
(1−2v)/3. For ever, Gaussian noise stays constant: then Σ λ_t² σ_t² < ∞ and Σ Δ_t² < ∞. Laplace noise does, too, and
releases thin out.

**How often.** Gaussian noise at the end does not depend on how many releases share τ, and Laplace noise grows with
the root of their number: the former releases in every round, the latter in about `LAPLACE_RELEASES`.

**Windows.** Where a gradient is over the newest R rounds' records, fewer than the run has, a late release costs as much
as an early one, and a record pays for R rounds at most: releases start as soon as the window is full, or at ¼ of the
run, noise is constant, and they end with the records, because the last of these are never forgotten. With Gaussian
noise there is a release in every round.
Of Laplace's, releases R rounds apart show each record once: with spacing r ≤ R a record pays (R/r) 2c/(RNν), so that
noise at the end is less the larger r is; but there are `LAPLACE_RELEASES` at least.

**Pair secrets.** Noise that cancels in the mean of all models does not in a learner's own until it has mixed, which
takes Q = 1/(2 gap) rounds. With a release in every k-th round, what is left of all before when the next gradient is
taken is 1/(e^(k/Q) − 1) of one release's: k rounds apart, pairs may add far more noise. But the movement has to be
covered with fewer steps that do not overshoot. Of the starts above and k = 1, 2, 4, … those with the largest movement
are taken, where noise in a learner's own model moves a margin by MARGIN; unless the usual ones have nearly as much.

**Standardised numbers.** Where a model looks at moments first (gossamer.models.standard), releases start at ½, when all
learners have read half of what they will read, or all of it; before them go a tenth as many releases of moments, and a
pause as long as the graph takes to mix.

**The end.** The last rounds, as many as the graph takes to mix, do not release.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gossamer.errors import Argument, NotProvable
from gossamer.privacy.laws import Law
from gossamer.privacy.releases import Releases

if TYPE_CHECKING:
    from gossamer.privacy.accountant import Terms
    from gossamer.privacy.mechanisms import Setting

LONGEST_STEP = 2.0  # times 1/L: what never overshoots
LAPLACE_RELEASES = 24
HEAD = 0.1  # releases of moments for each of a gradient, where numbers are standardised
STARTS = (0.75, 0.5, 0.25)  # of the run, the latest that will do
MARGIN = 1.5  # deviation of the noise in a record's margin
SPACINGS = (1, 2, 4, 8, 16)  # rounds from release to release, with pair secrets
WORTH = 1.25
MIXED = 6  # Setting.quiet, 3/gap rounds, is so many times the Q = 1/(2 gap) that a release's variance takes to mix


def usual_exponent(law: Law, v: float, horizon: float) -> float:
    """α of σ_t ∝ (t+1)^−α with the least noise at the end; for ever, one with which the budget is finite."""
    if math.isinf(horizon):
        return 0.0
    return (1 - v) / 2 if law.squared else (1 - 2 * v) / 3


def planned(terms: Terms, setting: Setting, horizon: float, shift: float | None) -> Terms:
    """The terms with a release schedule; `shift` is what the budget allows in all, None where the scale is stated."""
    steps, for_ever = setting.steps, math.isinf(horizon)
    quiet = min(setting.quiet, steps // 10)
    end = math.inf if for_ever else max(int(min(horizon, steps)) - quiet, 1)
    if terms.window < min(steps, terms.brings):
        return _over_window(terms, setting, end)
    if setting.prepares:  # all learners look at the same time, whatever their budgets are
        return with_head(_with_start(terms, steps // 2, end, steps), setting)
    starts = (0.5,) if for_ever else STARTS
    candidates = [_with_start(terms, int(start * steps), end, steps) for start in starts]
    for candidate in candidates:
        if _has_room(candidate, setting, shift):
            return candidate
    return candidates[-1]


def _over_window(terms: Terms, setting: Setting, end: float) -> Terms:
    """The terms with releases over a window of rounds."""
    until = min(end, terms.brings)
    span, length = int(min(until, setting.steps)), int(terms.window)
    after = min(length - 1, span // 4)
    if setting.prepares:
        after += round(HEAD * span) + min(setting.quiet, span // 10)
    after = min(after, span - 1)
    step = 1 if terms.law.squared else max(1, min(length, (span - after) // LAPLACE_RELEASES))
    found = replace(terms, releases=Releases(step, after, until=until))
    return with_head(found, setting) if setting.prepares else found


def with_head(terms: Terms, setting: Setting) -> Terms:
    """The terms with a head, which releases moments, and a pause before gradients are released."""
    releases, steps = terms.releases, setting.steps
    head = max(1, round(HEAD * releases.count(steps)))
    pause = min(setting.quiet, steps // 10)
    first = max(releases.after, head + pause)
    if first >= min(releases.until, steps):
        raise NotProvable(
            f"{steps} rounds have no room for moments before gradients: use more ", Argument("steps"), ", or ",
            Argument("standardise", False), ".",
        )  # fmt: skip
    return replace(terms, releases=replace(releases, after=first, head=head, pause=pause))


def _with_start(terms: Terms, after: int, end: float, steps: int) -> Terms:
    after = min(after, int(min(end, steps)) - 1)
    if terms.law.squared:
        return replace(terms, releases=Releases(1, after, until=end))
    room = max(1, int(min(end, steps)) - after)
    if math.isinf(end):
        ratio = (steps / max(after, 1)) ** (1 / LAPLACE_RELEASES)
        return replace(terms, releases=Releases(1, after, max(ratio, 1 + 1 / steps)))
    return replace(terms, releases=Releases(max(1, room // LAPLACE_RELEASES), after, until=end))


def spaced(terms: Terms, setting: Setting, horizon: float, shift: float | None) -> Releases:
    """With pair secrets: when to release, where the usual rule says terms.releases."""
    usual = terms.releases
    if usual.ratio > 1 or terms.window == 1 or (shift is not None and shift <= 0):
        return usual
    fixed = setting.prepares or math.isinf(horizon)  # when to start
    starts = {usual.after} | (set() if fixed else {int(start * setting.steps) for start in STARTS})
    options = [_every(usual, k, after, setting.steps) for after in starts if after < usual.until for k in SPACINGS]
    reached = {one: _reached(replace(terms, releases=one), setting, shift) for one in [usual, *options]}
    best = max(reached, key=lambda one: reached[one])
    return best if reached[best] > WORTH * reached[usual] else usual


def _every(usual: Releases, k: int, after: int, steps: int) -> Releases:
    """A release in every k-th round, with a head in proportion."""
    changed = replace(usual, step=k, after=after)
    return replace(changed, head=max(1, round(HEAD * len(changed.learning(steps))))) if usual.head else changed


def unmixed(setting: Setting, rounds: int) -> float:
    """How much of the variance of one release is left, of all before, when the next comes so many rounds later."""
    return 1 / math.expm1(MIXED * rounds / max(setting.quiet, 1))


def _reached(terms: Terms, setting: Setting, shift: float | None) -> float:
    """The movement with these releases: what noise in a learner's own model allows, or what steps can cover."""
    shared, count = terms.shared, len(terms.releases.learning(setting.steps))
    if shared is None or not count or not setting.curvature > 0:
        return 0.0
    m, left_over = shared.learners, unmixed(setting, terms.releases.step)
    share = shared.secrets.share_for(m, count, left_over)
    shared = shared._replace(seen=math.sqrt(max(shared.secrets.left(m, share))))
    in_mean, longest = _noise_and_longest(replace(terms, shared=shared), setting, shift)
    partners = 2 * shared.secrets.pairs(m) / m
    own = in_mean * math.sqrt(1 + m * left_over * (1 + partners * share**2) / count)
    wanted = MARGIN / (own * setting.margin) if own > 0 else math.inf
    return min(wanted, LONGEST_STEP / (setting.curvature * longest))


def _has_room(terms: Terms, setting: Setting, shift: float | None) -> bool:
    """Whether the releases cover, with steps that do not overshoot, the movement at which noise moves margins by 1."""
    if shift is not None and shift <= 0:  # the budget will be refused
        return False
    noise, longest = _noise_and_longest(terms, setting, shift)
    wanted = MARGIN / (noise * setting.margin)
    return bool(wanted * longest <= LONGEST_STEP / setting.curvature)


def _noise_and_longest(terms: Terms, setting: Setting, shift: float | None) -> tuple[float, float]:
    """For a movement of 1: the deviation of noise in the mean of all models, and the longest of the steps."""
    from gossamer.privacy.accountant import total

    law, t = terms.law, terms.releases.learning(setting.steps)
    scale = terms.initial
    if shift is not None and shift > 0:
        scale = terms.initial * law.one_shift(total(terms, setting.steps, law.squared)) / shift
    steps = (t + 1.0) ** -(setting.step_exponent or 0.0)
    shares = steps / steps.sum()
    noise = scale * np.sqrt(law.variance * (shares**2 * (t + 1.0) ** (-2 * terms.exponent)).sum() / setting.parties)
    return float(noise), float(shares[0])
