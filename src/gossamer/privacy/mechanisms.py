"""Laplace and Gaussian noise with a proved budget, on the messages (the paper) or at the source (ours).

**On messages**, every learner adds noise of scale ν_{i,t} = ν_i0/(t+1)^ς to the states that it sends. Budgets follow
from the recursion in gossamer.privacy.recursion.

**At the source** a learner adds noise once, to the clipped gradient of the *new* records, and sends its states as they
are. Proof that this is private: let ξ be a record of round k. Before round k nothing depends on it. In round k the
noised gradient g̃_k is a Laplace (Gaussian) mechanism on the round's mean gradient, whose sensitivity to ξ, whatever
the state, is 2c/N; the ridge's r θ is a function of the state. After round k the learner's states, and all that it
sends, are functions of earlier noised gradients, of what it received, and of *other* records' mechanisms:
post-processing. So ε = 2c/(Nν), for every horizon, any model, any graph, without a Lipschitz constant, and by
parallel composition the same for every record, since each enters one release. That needs gradient="latest", each
record read once, and a start that does not depend on data; whatever breaks one of these is refused.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from gossamer.privacy.accountant import Accountant, Law, Terms, Where, total, total_for_ever
from gossamer.privacy.exact import LARGEST, exact_gaussian, exact_laplace
from gossamer.privacy.gaussian import mu_for
from gossamer.privacy.recursion import GradientBound
from gossamer.schedules import Decay, decay
from gossamer.types import Array, Dynamics, GossamerError

Numbers = float | Sequence[float]
CLAMP = LARGEST - 1  # noise scales


class Setting(NamedTuple):
    """What a run tells a mechanism, so that it can prove its claim."""

    learners: int
    coordinates: int
    steps: int
    history: bool
    records: Sequence[int]  # N of each learner
    per_round: bool  # adjacency is a round's records, not one record
    reach: Callable[[int], tuple[float, float]]  # (c, L) in the L1 or L2 norm; refuses where nothing bounds them
    ridge: float
    dynamics: Callable[[int, int], Dynamics]  # of a learner, over so many rounds; refuses where none is known
    settles: float
    step_exponent: float | None
    read_once: bool


@dataclass(frozen=True)
class Mechanism(ABC):
    """A law of noise, where it goes, and either its scale or the budget to find one for."""

    scale: Decay | None = None
    where: Where = "messages"
    epsilon: tuple[float, ...] | float | None = None
    delta: float = 0.0
    horizon: float | None = None  # rounds to calibrate for; None: the run's own
    exponent: float | None = None  # ς to calibrate with; None: halfway between ½ and the step's v, or 0 at the source
    ratio: float = 1.0  # and the factor from round to round

    @property
    @abstractmethod
    def law(self) -> Law: ...

    def __post_init__(self) -> None:
        if self.where not in ("messages", "source"):
            raise GossamerError(f"where={self.where!r}: expected 'messages' or 'source'.")
        if (self.scale is None) == (self.epsilon is None):
            raise GossamerError(
                "a mechanism has a scale or a budget: use Laplace(scale) or Laplace.for_budget(epsilon)."
            )
        if self.scale is not None and not isinstance(self.scale, Decay):
            object.__setattr__(self, "scale", decay(self.scale, 0.0))
        if self.scale is not None and min(np.ravel(self.scale.initial)) <= 0:
            raise GossamerError(f"noise of scale {self.scale}: expected above 0.")
        budgets = self.epsilon if isinstance(self.epsilon, tuple) else (self.epsilon,)
        if self.epsilon is not None and not all(e is not None and 0 < e < math.inf for e in budgets):
            raise GossamerError(f"epsilon={self.epsilon!r}: expected a finite number above 0, or one for each learner.")
        if self.horizon is not None and not (isinstance(self.horizon, int | float) and self.horizon >= 1):
            raise GossamerError(f"horizon={self.horizon!r}: expected a number of rounds ≥ 1, or math.inf.")

    def over(self, rounds: float) -> Mechanism:
        """The same with so many rounds to calibrate for, where it says none itself."""
        return replace(self, horizon=rounds) if self.epsilon is not None and self.horizon is None else self

    @property
    def message_scale(self) -> Decay | None:
        """How the noise on messages goes with time, as far as it was said: what an algorithm's assumptions look at."""
        return self.scale if self.scale is not None or self.exponent is None else Decay(1.0, self.exponent, self.ratio)

    def terms(self, setting: Setting) -> list[Terms]:
        """Every learner's terms, with scales found for its budget where none were given."""
        self._check_learners(setting.learners)
        if self.where == "source":
            self._check_source(setting)
        c, L = setting.reach(1 if self.law == "laplace" else 2)
        exponent = self.exponent
        if exponent is None:
            v = setting.step_exponent
            exponent = 0.0 if self.where == "source" else 0.5 if v is None else (0.5 + v) / 2
        found = []
        for i in range(setting.learners):
            records = 1 if setting.per_round else setting.records[i]
            terms = Terms(
                law=self.law,
                where=self.where,
                bound=GradientBound(c, L, setting.ridge, records),
                history=setting.history,
                dynamics=_once(setting.dynamics, i),
                settles=setting.settles,
                initial=1.0 if self.scale is None else _of(self.scale.initial, i),
                exponent=exponent if self.scale is None else _of(self.scale.exponent, i),
                coordinates=setting.coordinates,
                ratio=self.ratio if self.scale is None else self.scale.ratio,
            )
            found.append(
                terms if self.scale is not None else self._calibrated(terms, _of(self.epsilon, i), setting.steps)
            )
        return found

    def _calibrated(self, unit: Terms, epsilon: float, steps: int) -> Terms:
        """Totals fall as 1/scale, so one evaluation at scale 1 gives the scale, rounded up by 1e-9."""
        horizon = steps if self.horizon is None else self.horizon
        squared = self.law == "gaussian"
        rounds = steps if math.isinf(horizon) else int(horizon)
        whole = total_for_ever(unit, squared) if math.isinf(horizon) else total(unit, rounds, squared)
        room = epsilon - unit.surcharge(rounds)
        if not math.isfinite(whole):
            raise GossamerError(
                "no noise gives a finite budget for ever here: give a finite horizon, a step exponent above the "
                "noise's, a model with a Lipschitz constant, or noise at the source."
            )
        if room <= 0:
            raise GossamerError(
                f"ε = {epsilon:g} is below the grid's own charge {unit.surcharge(rounds):.1e}: allow more."
            )
        scale = math.sqrt(whole) / mu_for(room, self.delta) if squared else whole / room
        return replace(unit, initial=max(scale, 1e-300) * (1 + 1e-9))

    def _check_learners(self, learners: int) -> None:
        if isinstance(self.epsilon, tuple) and len(self.epsilon) != learners:
            raise GossamerError(f"{len(self.epsilon)} budgets for {learners} learners: give one for all, or one each.")
        if self.scale is not None and self.scale.learners not in (None, learners):
            raise GossamerError(f"noise for {self.scale.learners} learners and the run has {learners}: give one each.")

    def _check_source(self, setting: Setting) -> None:
        if setting.history:
            raise GossamerError(
                "noise at the source with gradient='history' would release a record again in every round: use 'latest'."
            )
        if not setting.read_once:
            raise GossamerError(
                "noise at the source needs every record to be read once: use a one-pass stream (draw='once') "
                "and no more rounds than it has."
            )

    def bind(self, setting: Setting) -> PrivateBoundary:
        """The boundary of one run, with a ledger for each learner."""
        terms = self.terms(setting)
        budgets = [math.inf if self.epsilon is None else _of(self.epsilon, i) for i in range(setting.learners)]
        ledgers = [Accountant(t, b, self.delta) for t, b in zip(terms, budgets, strict=True)]
        return PrivateBoundary(self, ledgers, setting.steps)

    def __str__(self) -> str:
        aim = f"scale {self.scale}" if self.scale is not None else f"for ε = {self.epsilon}, δ = {self.delta:g}"
        shape = f"horizon {self.horizon}, exponent {self.exponent}, ratio {self.ratio:g}"
        return f"exact {self.law} noise on {self.where}, {aim}, {shape}"


class PrivateBoundary:
    """Draws exact noise, charges the ledgers, and holds back what a budget does not allow."""

    def __init__(self, mechanism: Mechanism, ledgers: list[Accountant], steps: int) -> None:
        self.mechanism, self.ledgers = mechanism, ledgers
        self._draw = exact_laplace if mechanism.law == "laplace" else exact_gaussian
        self._initial = np.array([[ledger.terms.initial] for ledger in ledgers])
        self._exponent = np.array([[ledger.terms.exponent] for ledger in ledgers])
        self._ratio = np.array([[ledger.terms.ratio] for ledger in ledgers])
        self.stops = np.array([ledger.affordable_rounds(steps) for ledger in ledgers])
        if mechanism.where == "messages" and not ledgers[0].terms.dynamics(1).channels:
            raise GossamerError("the algorithm's dynamics name no channel: say which of its messages differ by what.")
        self.channels = ("gradient",) if mechanism.where == "source" else tuple(ledgers[0].terms.dynamics(1).channels)
        self._last: dict[str, Array] = {}
        self.clamped = 0  # values beyond the grid so far
        place = "on messages" if mechanism.where == "messages" else "at the source"
        at = f", δ = {mechanism.delta:g}" if mechanism.delta else ""
        self.claim = f"private: exact {mechanism.law} noise {place}{at}"

    def release(self, channel: str, t: int, value: Array) -> Array:
        """What learners send on a private channel; a learner whose budget is spent repeats its last message."""
        if self.mechanism.where == "source":
            return value
        if channel not in self.channels:
            raise GossamerError(
                f"a message on channel {channel!r}, and the algorithm's recursion knows {', '.join(self.channels)}: "
                "nothing is known of what it would cost; add the channel to its dynamics."
            )
        noisy = self._noised(t, value)
        frozen = t >= self.stops
        if frozen.any():
            noisy[frozen] = self._last[channel][frozen] if channel in self._last else 0.0
        self._last[channel] = noisy
        return noisy

    def gradient(self, t: int, grad: Array) -> Array:
        """The round's gradients, noised where noise goes to the source."""
        if self.mechanism.where == "messages":
            return grad
        noisy = self._noised(t, grad)
        frozen = t >= self.stops
        if frozen.any():
            noisy[frozen] = 0.0
        return noisy

    def _noised(self, t: int, value: Array) -> Array:
        """Clamped to what the grid holds, and noised: clamping moves no two values apart, where refusing would tell."""
        scale: Any = self._scale(t)
        exact: Any = value
        if hasattr(value, "new_tensor"):  # in float64: a scale rounded to the tensor's kind could be a smaller one
            exact = exact.double()
            scale = exact.new_tensor(scale)
        most = CLAMP * scale
        if not -most.min() <= exact.min() <= exact.max() <= most.min():  # hardly ever
            self.clamped += int((abs(exact) > most).sum())
            exact = exact.clip(-most, most)
        noisy: Any = self._draw(exact, scale)
        kept: Array = noisy.to(value.dtype) if hasattr(value, "new_tensor") else noisy
        return kept

    def charge(self, t: int) -> None:
        """Round t's messages, before they are sent."""
        for ledger, stop in zip(self.ledgers, self.stops, strict=True):
            if t < stop:
                ledger.step()

    def _scale(self, t: int) -> Array:
        scale: Array = self._initial * (t + 1.0) ** -self._exponent * self._ratio**t
        return scale

    def epsilon(self) -> Array:
        delta = self.mechanism.delta
        return np.array([ledger.get_epsilon(delta) for ledger in self.ledgers])

    def epsilon_for_ever(self) -> Array:
        delta = self.mechanism.delta
        return np.array([min(ledger.epsilon_for_ever(delta), ledger.budget) for ledger in self.ledgers])

    def budget(self) -> Array:
        """(m, 2): each learner's ε so far and for ever."""
        return np.column_stack([self.epsilon(), self.epsilon_for_ever()])

    @property
    def description(self) -> dict[str, Any]:
        """The noise that was found for each learner, for a run's record."""
        return {"noise": [[each.terms.initial, each.terms.exponent, each.terms.ratio] for each in self.ledgers]}

    def notes(self, t: int) -> list[str]:
        """Who stopped sending, when and why."""
        said = []
        if self.clamped:
            said.append(f"{self.clamped} values were beyond {CLAMP:g} noise scales and were clamped to that.")
        spent = [f"{i} from round {stop}" for i, stop in enumerate(self.stops) if stop < t]
        if not spent:
            return said
        shown = ", ".join(spent[:12]) + (", …" if len(spent) > 12 else "")
        return [*said, f"Learners whose budget is spent send nothing new: {shown} on."]

    def kept(self, t: int) -> dict[str, Array]:
        """The last messages, by name, where a learner has stopped and goes on sending its own."""
        return {f"sent.{c}": last for c, last in self._last.items()} if (t >= self.stops).any() else {}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        self._last = {name.removeprefix("sent."): last for name, last in kept.items() if name.startswith("sent.")}


def _once(dynamics: Callable[[int, int], Dynamics], i: int) -> Callable[[int], Dynamics]:
    return lambda rounds: dynamics(i, rounds)


def _of(value: Any, i: int) -> float:
    return float(value[i] if isinstance(value, tuple) else value)


def _each(epsilon: Numbers) -> tuple[float, ...] | float:
    try:
        if isinstance(epsilon, Sequence | np.ndarray) and not isinstance(epsilon, str):
            return tuple(float(e) for e in epsilon)
        return float(epsilon)
    except (TypeError, ValueError):
        raise GossamerError(f"epsilon={epsilon!r}: expected a number above 0, or one for each learner.") from None


@final
class Laplace(Mechanism):
    """Laplace noise: pure ε. `Laplace(scale)` states the noise, `Laplace.for_budget(epsilon)` finds it."""

    @property
    def law(self) -> Law:
        return "laplace"

    @classmethod
    def for_budget(
        cls,
        epsilon: Numbers,
        *,
        horizon: float | None = None,
        where: Where = "messages",
        exponent: float | None = None,
        ratio: float = 1.0,
    ) -> Laplace:
        """Noise for a budget ε, one for all learners or one each, over `horizon` rounds (math.inf: for ever)."""
        return cls(None, where, _each(epsilon), 0.0, horizon, exponent, ratio)


@final
class Gaussian(Mechanism):
    """Gaussian noise: (ε, δ). `Gaussian(scale, delta=1e-5)` states its standard deviation, `.for_budget` finds it."""

    @property
    def law(self) -> Law:
        return "gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 1:
            raise GossamerError(f"delta={self.delta!r}: Gaussian noise needs 0 < δ < 1, such as 1e-5.")

    @classmethod
    def for_budget(
        cls,
        epsilon: Numbers,
        delta: float,
        *,
        horizon: float | None = None,
        where: Where = "messages",
        exponent: float | None = None,
        ratio: float = 1.0,
    ) -> Gaussian:
        """Noise for a budget (ε, δ), ε one for all learners or one each, over `horizon` rounds (math.inf: for ever)."""
        return cls(None, where, _each(epsilon), float(delta), horizon, exponent, ratio)
