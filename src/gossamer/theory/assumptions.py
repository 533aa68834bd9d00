"""Whether the paper's guarantees hold for a problem: Assumptions 1 to 5 of Chen & Wang, and which theorems follow.

    report = gossamer.theory.assumptions(network, model, stream, step=gs.decay(1.0, 0.8), noise=gs.decay(1.0, 0.6))
    report[4].verdict         "holds", "fails" or "cannot be known"
    report.broken             ("2(ii)", "5(b)")

An assumption is as good as the worst of its parts. What a number was obtained from is said with it: from what was
declared, or from the records at hand. With `look=False` no record is looked at, as a private run must not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gossamer.errors import GossamerError, Sentence
from gossamer.models import Gradient, Model
from gossamer.networks import Network
from gossamer.schedules import Schedule
from gossamer.streams.stream import Stream
from gossamer.theory.exponents import Fading, Where, fading, schedules
from gossamer.theory.findings import FAILS, HOLDS, UNKNOWN, Applies, Finding, Report, Verdict
from gossamer.theory.graphs import Matrices, graphs
from gossamer.theory.losses import Loss, gradient_bound, objective, samples
from gossamer.theory.rates import rates

Noise = Schedule | Sequence[Schedule | None] | None
SAYS = {
    1: "θ_i nears the optimum of the records so far",
    2: "θ_i nears θ*",
    3: "F(θ_i) nears F(θ*)",
    4: "ε is finite, for ever",
}
NEEDS = {1: 4, 2: 4, 3: 4, 4: 5}  # Assumptions 1 to …
# What can fail and leave a theorem something to say: D and κ are needed where learners come, ς < v for the budget
# alone, and the ridge's gradient is the same for all records.
CONVERGES = {"2(ii)", "3(ii)", "4(d)"}
SPARED = {1: CONVERGES, 2: CONVERGES, 3: CONVERGES, 4: {"2(ii)", "5(b)"}}


def assumptions(
    network: Network | Matrices,
    model: Model,
    stream: Stream | None = None,
    *,
    step: Schedule | None = None,
    noise: Noise = None,
    gradient: Gradient = "history",
    where: Where = "messages",
    laplace: bool = True,
    steps: int | None = None,
    look: bool = True,
    other: str = "",
) -> Report:
    """Assumptions 1 to 5 of a problem, one finding each, and which theorems apply.

    network   a network, or matrices (R, C) that were refused as one
    step      λ_t; None: not known
    noise     the scales of the noise on messages: one schedule for all, or one for s and one for θ; None: no noise
    gradient  the paper's theorems are about "history"
    where     on messages, as in the paper, or at the source
    laplace   whether the noise is Laplace noise, which Theorem 4 is about
    steps     how many rounds are meant, where it is known
    look      whether records may be looked at; not in a private run
    other     the name of a method that is not Algorithm 1
    """
    both = tuple(noise) if isinstance(noise, Sequence) else (noise, noise)
    if len(both) != 2:
        raise GossamerError(f"noise of {len(both)} schedules: give one for all messages, or one for s and one for θ.")
    loss = Loss(model, stream, steps, look)
    known = loss.constants()
    findings = (
        graphs(network),
        objective(loss, known),
        samples(loss, known),
        schedules(step, both, where),
        gradient_bound(loss, known),
    )
    departs = _departures(model, gradient, where, other)
    fades = fading(step, both)
    return Report(findings, tuple(_theorem(n, findings, departs, fades, known.mu.value, laplace) for n in SAYS))


def _departures(model: Model, gradient: Gradient, where: Where, other: str) -> list[str]:
    """In what the run is not Algorithm 1 as the theorems have it."""
    departs = []
    if other:
        departs.append(f"the paper's theorems are about Algorithm 1, and this is {other}")
    if where == "source":
        departs.append("the paper's theorems are about noise on messages, and here it is at the source")
    if gradient == "latest":
        departs.append("the paper's gradients are over all records so far, and here over the newest")
    elif model.remember is not None:
        departs.append(f"the paper's gradients are over all records so far, and here over {model.remember} rounds'")
    return departs


def _theorem(
    number: int, findings: Sequence[Finding], departs: list[str], fades: Fading, mu: float, laplace: bool
) -> Applies:
    """Whether it applies to the run as the paper states it, and what it says."""
    missing = list(departs)
    if number <= 2 and not mu > 0:
        missing.append("it needs μ > 0")
    if number == 4 and not departs:
        missing += [] if fades.noise else ["there is no noise" if fades.zeta == () else "the noise is not known"]
        missing += ["it is about Laplace noise"] if fades.noise and not laplace else []
    needed = Report(tuple(f for f in findings if f.assumption <= NEEDS[number]), ())
    broken, unknown = needed.broken, needed.named(UNKNOWN)
    spared = set(broken) <= SPARED[number] and not missing
    if broken:
        missing.append(
            f"Assumption{'s' if len(broken) > 1 else ''} {', '.join(broken)} fail{'' if broken[1:] else 's'}"
        )
    verdict: Verdict = FAILS if missing else UNKNOWN if unknown else HOLDS
    if spared and unknown:
        missing.append(f"if {', '.join(unknown)} hold{'' if unknown[1:] else 's'}, it says the following")
    why = [*missing, *(_promised(number, fades, broken) if spared else [])]
    return Applies(number, SAYS[number], verdict, Sentence("; ".join(why), "."))


def _promised(number: int, fades: Fading, broken: tuple[str, ...]) -> list[str]:
    """What it says of the run, or would say where all that fails is what its proof can do without."""
    if number == 4:
        return ["`gossamer budget` says how large ε is"]
    unused = ["its proof does not use max ς < v"] if "4(d)" in broken else []
    bounded = [what for label, what in (("2(ii)", "‖∇f_i‖ ≤ D"), ("3(ii)", "the variance ≤ κ²")) if label in broken]
    inside = f"as long as learners stay where {' and '.join(bounded)}, " if bounded else ""
    return [*unused, inside + _rate(number, fades)]


def _rate(number: int, fades: Fading) -> str:
    """The rate, for exponents that Assumption 4 allows, but for max ς < v."""
    if fades.v is None or fades.zeta is None or fades.theta is None:
        return "at a rate that is not known"
    known = rates(fades.v, fades.zeta or math.inf, fades.theta or math.inf)
    if number == 3:
        return f"E[F(θ_i) − F(θ*)] = O(t^−{known.convex:.3g}); its proof has a gap, see docs/errata.md"
    whom = "θ*_t" if number == 1 else "θ*"
    return f"E‖θ_i − {whom}‖² falls like t^−β for every β below {known.beta:.3g}"
