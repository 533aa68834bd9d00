"""A law of noise as a value: all that differs between Laplace and Gaussian noise, and nothing else does.

One record moves what a learner sends in round t by x_t, measured in the law's norm. In noise scales that is a shift
x_t/ν_t. A law says what shifts cost:

    Laplace     ε = Σ x_t/ν_t; with δ > 0 less, by privacy loss distributions or zCDP     (gossamer.privacy.laplace)
    Gaussian    μ² = Σ (x_t/σ_t)²: (ε, δ) of one Gaussian mechanism with that μ           (gossamer.privacy.gaussian)

To each comes what the grid costs, which the noise lies on (gossamer.privacy.exact).

A new law is one more value in LAWS, here, and a class for it in gossamer.privacy.mechanisms. What takes long to load is
imported where it is used: the names of all laws are there at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gossamer.errors import BadValue, near
from gossamer.lazy import import_once
from gossamer.types import Array

if TYPE_CHECKING:
    from gossamer.privacy.tensors import Draws

SURCHARGE = 2.0**-39  # noise scales by which a number may move when it is put on the grid, beside another's
SHAPE_SURCHARGE = 2.0**-58  # ε for each number with Gaussian noise, for being discrete
DELTA_CUT = 2.0**-41  # of δ, for each number with Laplace noise, for being discrete


@dataclass(frozen=True)
class Shifts:
    """How far the worst record moves what is sent, in noise scales; worked out only as far as a law asks for it."""

    numbers: int  # noised numbers that one record can be seen in: the grid costs something for each
    total: Callable[[bool], float]  # the sum of all shifts, or of their squares
    of_messages: Callable[[], Array | None] = lambda: None  # each message's shift; None: only totals are known


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """One law of noise. It is written, hashed into records and kept in files as its name."""

    name: str
    letter: str  # of its scale
    norm: Literal[1, 2]  # in which differences, gradients and features are measured
    squared: bool  # shifts add up as squares do: what counts is √Σ shift²; otherwise Σ shift
    needs_delta: bool  # at δ = 0 no ε is finite
    surcharge: float  # on ε, for each noised number, because it lies on a grid
    epsilon: Callable[[Shifts, float], float]  # ε at δ, with what the grid costs
    shift_within: Callable[[float, float, int], float]  # the largest shift in all for ε, δ and so many noised numbers
    power: Literal[1, 2]  # p of its exact noise, P(k) ∝ exp(−(|k|/S)^p / p)
    on_tensors: Callable[[], Draws]  # its exact and its seeded noise on torch tensors
    triton_branch: int | None  # which branch of the Triton kernels draws it; None: none does
    quantile: Callable[[Array], Array]  # of scale 1, in floating point: what makes seeded noise, not private
    mean_size: float  # E|noise| at scale 1
    variance: float  # at scale 1
    in_scipy: str  # its name in scipy.stats
    in_dp_accounting: str  # the name of its event in the dp-accounting library

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return repr(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return law_named, (self.name,)

    def seeded(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Noise of scale 1 in floating point, from a generator: for simulation, and not private."""
        return self.quantile(rng.random(shape))

    def exact(self, values: Any, scale: Any) -> Any:
        """`values` plus exact noise on the grid scale/2^40; `scale` is a number or broadcasts against `values`."""
        return import_once("gossamer.privacy.exact").released(values, scale, self)

    def one_shift(self, total: float) -> float:
        """The one shift that costs as much as a total does: Σ shift itself, or the root of Σ shift²."""
        return math.sqrt(total) if self.squared else total

    def norm_of_ones(self, n: int) -> float:
        """The norm of n ones: what an error of 1 in each of n numbers comes to."""
        return math.sqrt(n) if self.norm == 2 else n


def exact_laplace(values: Any, scale: Any) -> Any:
    """`values` plus exact Laplace noise, on the grid scale/2^40; `scale` is a number or broadcasts against `values`.

    Takes arrays and torch tensors; on a GPU it is drawn there (gossamer.privacy.tensors).
    """
    return LAPLACE.exact(values, scale)


def exact_gaussian(values: Any, scale: Any) -> Any:
    """`values` plus exact Gaussian noise of standard deviation `scale`, on the grid scale/2^40; see exact_laplace."""
    return GAUSSIAN.exact(values, scale)


# -- Laplace -----------------------------------------------------------------------------------------------------------


def delta_left(delta: float, numbers: int) -> float:
    """What of δ is left for the loss itself: noise on a grid is not quite Laplace's (gossamer.privacy.laplace)."""
    return delta * (1 - DELTA_CUT * numbers)


def _laplace_epsilon(shifts: Shifts, delta: float) -> float:
    from gossamer.privacy.gaussian import epsilon_zcdp
    from gossamer.privacy.laplace import epsilon_composed, epsilon_single

    epsilon, left = shifts.total(False), delta_left(delta, shifts.numbers)
    if left > 0:
        epsilon = min(epsilon, epsilon_zcdp(math.sqrt(shifts.total(True)), left))
        each = shifts.of_messages()
        if each is not None:
            composed = epsilon_single(float(each[0]), left) if len(each) == 1 else epsilon_composed(each, left)
            epsilon = min(epsilon, composed)
    return epsilon + SURCHARGE * shifts.numbers


def _laplace_quantile(uniform: Array) -> Array:
    """±log 2 min(u, 1 − u); u = 0, one of 2^53, counts as half the next."""
    nearer = np.minimum(uniform, 1.0 - uniform)
    quantile: Array = np.copysign(np.log(2 * np.maximum(nearer, 2.0**-54)), uniform - 0.5)
    return quantile


LAPLACE = Law(
    name="laplace",
    letter="ν",
    norm=1,
    squared=False,
    needs_delta=False,
    surcharge=SURCHARGE,
    epsilon=_laplace_epsilon,
    shift_within=lambda epsilon, delta, numbers: max(epsilon - SURCHARGE * numbers, 0.0),
    power=1,
    on_tensors=lambda: import_once("gossamer.privacy.tensors").LAPLACE_DRAWS,
    triton_branch=0,
    quantile=_laplace_quantile,
    mean_size=1.0,
    variance=2.0,
    in_scipy="laplace",
    in_dp_accounting="LaplaceDpEvent",
)


# -- Gaussian ----------------------------------------------------------------------------------------------------------


def _gaussian_epsilon(shifts: Shifts, delta: float) -> float:
    from gossamer.privacy.gaussian import epsilon_exact

    if delta <= 0:
        return math.inf
    mu = math.sqrt(shifts.total(True)) + _grid_shift(shifts.numbers)
    return epsilon_exact(mu, delta) + SHAPE_SURCHARGE * shifts.numbers


def _gaussian_shift_within(epsilon: float, delta: float, numbers: int) -> float:
    from gossamer.privacy.gaussian import mu_for

    room = epsilon - SHAPE_SURCHARGE * numbers
    return mu_for(room, delta) - _grid_shift(numbers) if room > 0 else 0.0


def _grid_shift(numbers: int) -> float:
    """What goes onto μ for the grid: √n steps of it in a message of n numbers, and messages add up as squares do."""
    return SURCHARGE * math.sqrt(numbers)


def _gaussian_quantile(uniform: Array) -> Array:
    """Φ^-1(u); u = 0, one of 2^53, counts as half the next."""
    from scipy.special import ndtri

    quantile: Array = ndtri(np.maximum(uniform, 2.0**-54))
    return quantile


GAUSSIAN = Law(
    name="gaussian",
    letter="σ",
    norm=2,
    squared=True,
    needs_delta=True,
    surcharge=SHAPE_SURCHARGE,
    epsilon=_gaussian_epsilon,
    shift_within=_gaussian_shift_within,
    power=2,
    on_tensors=lambda: import_once("gossamer.privacy.tensors").GAUSSIAN_DRAWS,
    triton_branch=1,
    quantile=_gaussian_quantile,
    mean_size=math.sqrt(2 / math.pi),
    variance=1.0,
    in_scipy="norm",
    in_dp_accounting="GaussianDpEvent",
)

LAWS = {law.name: law for law in (LAPLACE, GAUSSIAN)}


def law_named(name: str) -> Law:
    """The law of this name."""
    law = LAWS.get(name) if isinstance(name, str) else None
    if law is None:
        raise BadValue("law", name, f"expected {' or '.join(LAWS)}", near(str(name), LAWS))
    return law
