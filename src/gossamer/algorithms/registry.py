"""Methods by name: how each is built from a step size λ0, and how its steps and its noise may go with time.

Exponents lie within each paper's own constraints: those a method is usually run with, and a few others (`also`) that
studies try as well. Noise that a method's links fade by themselves (γ_t) may stay constant; DiaDSP's falls
geometrically; the others' as in Algorithm 1. A method that noises two values may have more noise on the one and less on
the other (`splits`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast

from gossamer.algorithms.base import AUTO, Algorithm
from gossamer.errors import BadValue
from gossamer.registry import Registry, digest_source
from gossamer.schedules import Schedule, decay

Factory = TypeVar("Factory", bound=Callable[..., Algorithm[Any]])
LAST = 1000  # a new method comes after those of the paper
SPLITS = (0.5, 2.0)  # of a method with two noised channels: the first one's noise, in units of the second one's


class Exponents(NamedTuple):
    """How steps and noise go with time: λ0/(t+1)^v, and ν0 q^t/(t+1)^ς."""

    step: float  # v
    noise: float  # ς
    ratio: float = 1.0  # q


@dataclass(frozen=True)
class Method:
    """A method as it is named, compared and shown."""

    factory: Callable[..., Algorithm[Any]]  # (step, noise=None, *, strict=True)
    _: KW_ONLY
    label: str  # as people call it
    source: str  # where its equations come from: V verbatim, S a secondary source, M memory; both checked by simulation
    step_exponent: float  # v: steps fall as (t+1)^-v
    noise_exponent: float  # ς: noise falls as (t+1)^-ς
    noise_ratio: float = 1.0  # and by this factor from round to round
    also: tuple[tuple[float, ...], ...] = ()  # other (v, ς) or (v, ς, q) within the paper's constraints
    splits: tuple[float, ...] = ()  # what studies try beside equal noise on both channels
    noises_own: bool = False  # whether a learner's own term carries the noise that it sends, as published
    compared: bool = True  # whether comparisons have it unless they are told otherwise
    order: int = LAST  # its place in tables
    own_name: str | None = None  # where it is not the factory's

    @property
    def name(self) -> str:
        return self.own_name or self.factory.__name__

    def make(self, step: Schedule | str, noise: Schedule | None = None, *, strict: bool = True) -> Algorithm[Any]:
        """The algorithm; a user's function need not take what every Algorithm has anyhow."""
        if isinstance(step, str) and step == AUTO:
            return automatic(lambda step: self.make(step, noise, strict=strict), self.step_exponent)
        taken = inspect.signature(self.factory).parameters
        more: dict[str, Any] = {"noise": noise, "strict": strict}
        made = self.factory(step, **{name: value for name, value in more.items() if name in taken})
        return replace(made, **{name: value for name, value in more.items() if name not in taken})

    @property
    def exponents(self) -> tuple[Exponents, ...]:
        """All that studies try, the usual ones first."""
        usual = Exponents(self.step_exponent, self.noise_exponent, self.noise_ratio)
        return (usual, *(Exponents(*other) for other in self.also))

    @property
    def code(self) -> str:
        return digest_source(self.factory)

    def build(self, step: float) -> Algorithm[Any]:
        """The method with steps λ0/(t+1)^v, and without noise of its own."""
        return self.make(decay(step, self.step_exponent), strict=False)


def _adopt(name: str, factory: Callable[..., Algorithm[Any]]) -> Method:
    """A user's function that nobody declared: steps and noise that fall as Algorithm 1's do."""
    label = name.partition(":")[2]
    return Method(factory, label=label, source="own", step_exponent=0.6, noise_exponent=0.55, own_name=name)


METHODS: Registry[Method] = Registry("algorithm", "gossamer.algorithms", _adopt, order=lambda method: method.order)


def find_method(name: str) -> Method:
    return METHODS.find(name)


class Makes(Protocol):
    """A function that makes an algorithm, with a step schedule, or one that a run finds by rule."""

    def __call__(
        self, step: Schedule | Literal["auto"], noise: Schedule | None = None, *, strict: bool = True, **more: Any
    ) -> Algorithm[Any]: ...


def method(**about: Any) -> Callable[[Factory], Makes]:
    """Declares a function that makes an algorithm: it can then be named in runs, comparisons and parties' files.

    With step="auto" it gives an algorithm whose steps a run finds by rule.
    """
    declare = METHODS.decorator(Method)

    def decorate(factory: Factory) -> Makes:
        @functools.wraps(factory)
        def made(step: Schedule | str, *given: Any, **more: Any) -> Algorithm[Any]:
            if not isinstance(step, str):
                return factory(step, *given, **more)
            if step != AUTO:
                raise BadValue("step", step, "expected a schedule such as decay(1.0, 0.6), or 'auto'")
            return automatic(lambda step: factory(step, *given, **more), entry.step_exponent)

        entry = METHODS.of(declare(**about)(made))
        return cast(Makes, made)

    return decorate


def automatic(build: Callable[[Schedule], Algorithm[Any]], exponent: float) -> Algorithm[Any]:
    """An algorithm whose λ0 is still to be found; it runs as if that were 1."""
    sample = build(decay(1.0, exponent))
    return replace(
        sample,
        with_step=lambda first: build(decay(first, exponent)),
        falls=exponent,
        parameters={**sample.parameters, "step": AUTO},
    )
