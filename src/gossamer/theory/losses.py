"""Assumptions 2, 3 and 5 of Chen & Wang: what they ask of the losses and of how records arrive."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gossamer.errors import Argument, GossamerError, Sentence
from gossamer.models import LinearModel, Model
from gossamer.records import Population, Table
from gossamer.streams.stream import Draws, Stream, weights_of
from gossamer.theory.constants import Constants, clips, constants, minimiser
from gossamer.theory.findings import FAILS, HOLDS, UNKNOWN, Finding, Part, Verdict

L2_0 = Argument("l2", 0)
CLIP = Argument("clip", "C", python="clip=clip_l1(c)")
COLUMNS = Argument("columns", python="columns")
NO_STANDARD = Argument("standardise", False)


@dataclass(frozen=True)
class Loss:
    """A model and the records that it learns from, with what is known of both.

    `population` is None where records may not be looked at, or there are none.
    """

    model: Model
    stream: Stream | None
    steps: int | None
    look: bool

    @property
    def table(self) -> Table | None:
        return None if self.stream is None else self.stream.table

    @property
    def population(self) -> Population | None:
        linear = isinstance(self.model, LinearModel)
        return self.stream.population if self.look and linear and self.stream is not None else None

    @property
    def records(self) -> int:
        """Records that arrive at a learner in a round, at least."""
        return 1 if self.stream is None else int(self.stream.room(1).min())

    def constants(self) -> Constants:
        weights = None if self.stream is None else weights_of(self.stream)
        heaviest = 1.0 if weights is None else float(weights.max())
        return constants(self.model, self.table, self.population, records=self.records, weight=heaviest)


def objective(loss: Loss, known: Constants) -> Finding:
    """Assumption 2: an optimum, bounded gradients, convexity."""
    return Finding(2, "the objective", (_optimum(loss), _bounded(loss, known), _convex(loss, known)))


def _optimum(loss: Loss) -> Part:
    name, model = "(i) an optimum", loss.model
    if not isinstance(model, LinearModel):
        return Part(name, UNKNOWN, Sentence("whether its loss has a least value is not known."), "–")
    if not model.bounded:
        return Part(name, HOLDS, Sentence("a squared loss has a least value, whatever the records."), "the model")
    if model.l2 > 0 and not model.intercept:
        return Part(name, HOLDS, Sentence(f"l2 = {model.l2:g} on every parameter: there is exactly one."), "the model")
    if loss.population is None:
        why = "l2 = 0: there is one unless a plane separates the classes, which only records can tell."
        if model.l2 > 0:
            why = "there is no ridge on the intercept: there is one if every class occurs, which only records can tell."
        return Part(name, UNKNOWN, Sentence(why), "declared", _more_ridge(model))
    how = f"{len(loss.population.share)} records"
    try:
        size = float((minimiser(model, loss.population) ** 2).sum()) ** 0.5
    except GossamerError as error:
        return Part(name, FAILS, Sentence(*error.parts), how, _more_ridge(model))
    return Part(name, HOLDS, Sentence(f"θ* was found, with ‖θ*‖ = {size:.3g}."), how)


def _more_ridge(model: LinearModel) -> Sentence:
    if model.l2 > 0:
        return Sentence("See to it that every class occurs.")
    return Sentence("Use a ridge, such as ", Argument("l2", 0.01), ", at the price of (ii).")


def _bounded(loss: Loss, known: Constants) -> Part:
    name, model, D, pull = "(ii) bounded gradients", loss.model, known.D, known.pull
    if math.isfinite(D.value):
        return Part(name, HOLDS, Sentence(f"‖∇f_i(θ)‖ ≤ D = {D.value:.4g} for all θ."), D.how)
    if isinstance(model, LinearModel) and model.standardise is not None:
        return Part(name, UNKNOWN, Sentence(f"no D: {D.how}."), "–", Sentence("Use ", NO_STANDARD, "."))
    if math.isinf(pull.value):
        why = "a squared loss's gradient a (aᵀθ − b) grows with θ without bound: there is no D."
        change = Sentence("Clip gradients with ", CLIP, " and use ", L2_0, ", at the price of Assumption 3(i).")
        return Part(name, FAILS, Sentence(why), "the model", change)
    if model.l2 > 0:
        return _unbounded_ridge(name, model, known)
    if isinstance(model, LinearModel):
        declare = Sentence("Declare what columns may hold (", COLUMNS, ").")
        return Part(name, UNKNOWN, Sentence(f"no D is known: {D.how}."), "–", declare)
    return Part(name, UNKNOWN, Sentence(f"no D is known: {D.how}."), "–", Sentence("Clip gradients with ", CLIP, "."))


def _unbounded_ridge(name: str, model: Model, known: Constants) -> Part:
    """Where the ridge alone breaks it: what D is on the ball that θ* lies in."""
    why = f"with l2 = {model.l2:g} the ridge's l2 θ grows without bound: no D holds for all θ."
    if math.isfinite(known.near):
        clipped = known.pull.how == "the clipper"  # θ* of the clipped loss is another one
        why += f" On ‖θ‖ ≤ {known.radius:.4g}{'' if clipped else ', where θ* lies'}, D = {known.near:.4g}"
        why += " of gradients as they are clipped." if clipped else "."
    if known.mu.value > 0:
        why += " No F with μ > 0 has a D on all of Rⁿ, since ‖∇F(θ)‖ ≥ μ‖θ − θ*‖."
    change = Sentence(
        "Use ",
        L2_0,
        " if an optimum exists without a ridge (Theorem 3 is then left, μ = 0), or see that learners stay near θ*.",
    )
    return Part(name, FAILS, Sentence(why), known.pull.how, change)


def _convex(loss: Loss, known: Constants) -> Part:
    name, mu = "(iii) convexity", known.mu
    if known.convex is None:
        return Part(name, UNKNOWN, Sentence("whether this model's loss is convex is not known."), "–")
    if not known.convex:
        change = Sentence("Learn a linear model instead, such as ", Argument("features", "scattering"), " of images.")
        return Part(name, FAILS, Sentence("a network's loss is not convex: there is no μ ≥ 0."), "the model", change)
    if mu.value > 0:
        also = ": a loss of classes flattens out as margins grow, and adds nothing" if loss.model.bounded else ""
        return Part(name, HOLDS, Sentence(f"μ = {mu.value:.4g}{also}."), mu.how)
    why = "F is convex, and μ = 0 is all that is known: Theorem 3 can apply, Theorems 1 and 2 cannot."
    return Part(name, HOLDS, Sentence(why), mu.how)


def samples(loss: Loss, known: Constants) -> Finding:
    """Assumption 3: independent records, unbiased gradients of bounded variance, Lipschitz in θ."""
    parts = (_independent(loss), _unbiased(loss), _variance(loss, known), _lipschitz(known))
    return Finding(3, "the records", parts)


def _independent(loss: Loss) -> Part:
    name, stream = "(a) independent records", loss.stream
    if stream is None:
        return Part(name, UNKNOWN, Sentence("nothing is known of how records arrive."), "–")
    if isinstance(stream, Draws):
        why = "every round draws anew from a learner's own records, with replacement."
        return Part(name, HOLDS, Sentence(why), "by construction")
    change: Sentence | None = None
    if stream.description.get("draw") is not None and loss.look:  # a private run reads each record once
        change = Sentence("Use ", Argument("draw", "random"), ".")
    ends = stream.rounds
    if ends is not None and loss.steps is not None and loss.steps > ends:
        why = f"no record arrives after round {ends} of {loss.steps}: θ then nears the optimum of these records only."
        change = change or Sentence("Use ", Argument("steps", ends), " or fewer.")
        return Part(name, FAILS, Sentence(why), "the stream", change)
    why = "each record arrives once, and whether they are independent is known to whoever collected them."
    return Part(name, UNKNOWN, Sentence(why), "the stream", change)


def _unbiased(loss: Loss) -> Part:
    name, model = "(i) unbiased gradients", loss.model
    if isinstance(model, LinearModel) and model.standardise is not None:
        why = "how numbers are seen changes while learners find their middles and spreads, and f_i with it."
        return Part(name, FAILS, Sentence(why), "the model", Sentence("Use ", NO_STANDARD, "."))
    if model.clip is None or not clips(model, loss.table):
        return Part(name, HOLDS, Sentence("learners use their records' gradients as they are."), "by construction")
    why = f"gradients longer than {model.clip.c:g} are scaled back: their mean is not ∇f_i."
    if isinstance(model, LinearModel) and model.outputs == 1 and model.clip.per == "record":
        why += " What is learnt is the optimum of a loss whose slope is cut off there; it is convex as well."
    looser = Sentence("Use a larger ", Argument("clip"), ", or none; with a proved budget that takes more noise.")
    return Part(name, FAILS, Sentence(why), "the clipper", looser)


def _variance(loss: Loss, known: Constants) -> Part:
    name, kappa, seen = "(ii) bounded variance", known.kappa, known.seen
    now = "" if seen is None else f" {seen.how[0].upper()}{seen.how[1:]}: {seen.value:.3g}."
    if math.isfinite(kappa.value):
        return Part(name, HOLDS, Sentence(f"κ = {kappa.value:.4g} for all θ.{now}"), kappa.how)
    if math.isinf(kappa.value):
        why = f"a squared loss's gradient varies more the larger θ is: no κ holds for all θ.{now}"
        return Part(name, FAILS, Sentence(why), "the model", Sentence("Clip gradients with ", CLIP, "."))
    return Part(name, UNKNOWN, Sentence(f"no κ is known: {kappa.how}.{now}"), "–", _bound_it(loss))


def _lipschitz(known: Constants) -> Part:
    name, L = "(iii) Lipschitz gradients", known.L
    if math.isfinite(L.value):
        return Part(name, HOLDS, Sentence(f"L = {L.value:.4g}."), L.how)
    if math.isinf(L.value):
        return Part(name, FAILS, Sentence(f"there is no L: {L.how}."), "the model")
    return Part(name, UNKNOWN, Sentence(f"no L is known: {L.how}."), "–")


def _bound_it(loss: Loss) -> Sentence:
    if isinstance(loss.model, LinearModel) and loss.model.standardise is not None:
        return Sentence("Use ", NO_STANDARD, ".")
    return Sentence("Clip gradients with ", CLIP, ".")


def gradient_bound(loss: Loss, known: Constants) -> Finding:
    """Assumption 5: ‖∇l‖₁ ≤ c_l, and who sees to it."""
    parts = [_of_records(loss, known)]
    if loss.model.l2 > 0:
        why = f"the ridge's part, {loss.model.l2:g} θ, has no bound; it depends on no record, and ε is counted with it."
        change = Sentence("Nothing is needed for ε; for Assumption 5 as printed use ", L2_0, ".")
        parts.append(Part("(b) the ridge's part", FAILS, Sentence(why), "the model", change))
    return Finding(5, "the gradient bound", tuple(parts))


def _of_records(loss: Loss, known: Constants) -> Part:
    name, c = "(a) the records' part", known.c
    if c.how == "the clipper":
        why = f"‖∇l‖₁ ≤ c_l = {c.value:.4g}: a clipper enforces it."
        return Part(name, HOLDS, Sentence(why), c.how)
    if not math.isfinite(c.value):
        why = "nobody enforces a bound: neither declared features nor a clipper."
        verdict: Verdict = FAILS if loss.table is not None or not isinstance(loss.model, LinearModel) else UNKNOWN
        return Part(name, verdict, Sentence(why), "–", Sentence("Clip gradients with ", CLIP, "."))
    if c.how == "declared":
        why = f"‖∇l‖₁ ≤ c_l = {c.value:.4g}: the features' declared range enforces it."
        return Part(name, HOLDS, Sentence(why), c.how)
    why = f"‖∇l‖₁ ≤ {c.value:.4g} for the records at hand, and nobody enforces it for others."
    change = Sentence(
        "Declare what columns may hold (", Argument("columns", python="columns"), "), or give ", CLIP, "."
    )
    return Part(name, UNKNOWN, Sentence(why), c.how, change)
