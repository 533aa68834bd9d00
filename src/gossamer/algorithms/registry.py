"""The methods by name: each algorithm's file declares its own, with `@method(…)` above the function that builds it.

    @method(label="Push–Pull", source="V", step_exponent=0.6, noise_exponent=0.55, order=1)
    def push_pull(step: Schedule, noise: Schedule | None = None, *, strict: bool = True) -> Algorithm[State]: ...

A method of one's own needs no declaration: `find_method("mypackage.mymodule:factory")` takes any function that builds
an algorithm from a step schedule.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gossamer.algorithms.base import Algorithm
from gossamer.errors import BadValue
from gossamer.schedules import decay

Factory = TypeVar("Factory", bound=Callable[..., Algorithm[Any]])
LAST = 1000  # the place of methods that do not say theirs


@dataclass(frozen=True)
class Method:
    """A method as it is run by name and compared.

    The exponents are fixed by its paper's own constraints, so that tuning has one number, λ0, for every method. Noise
    that a method's links fade by themselves (γ_t) stays constant, as exponent 0 says.
    """

    name: str
    factory: Callable[..., Algorithm[Any]]  # from a step schedule
    label: str
    source: str = ""  # of its equations: V verbatim, S a secondary source, M memory; S and M checked by simulation
    step_exponent: float = 0.6  # v: λ_t = λ0/(t+1)^v
    noise_exponent: float = 0.55  # ς: noise falls as (t+1)^-ς
    noise_ratio: float = 1.0  # and by this factor from round to round
    compared: bool = True  # or shown apart, as a misuse is
    order: int = LAST  # its place in tables

    def build(self, step: float) -> Algorithm[Any]:
        """The method with steps λ0/(t+1)^v, from λ0."""
        return self.factory(decay(step, self.step_exponent))


_DECLARED: dict[str, Method] = {}


def method(
    *,
    label: str,
    source: str = "",
    step_exponent: float = 0.6,
    noise_exponent: float = 0.55,
    noise_ratio: float = 1.0,
    compared: bool = True,
    order: int = LAST,
) -> Callable[[Factory], Factory]:
    """Declare the method that the function below builds; what is said of it is in `Method`."""

    def declare(factory: Factory) -> Factory:
        name, steps, noise = _name_of(factory), step_exponent, (noise_exponent, noise_ratio)
        _DECLARED[name] = Method(name, factory, label, source, steps, *noise, compared, order)
        return factory

    return declare


def methods() -> dict[str, Method]:
    """The methods of this package, in the order of their tables; one without a place comes last."""
    ours = [one for name, one in _DECLARED.items() if ":" not in name]
    return {one.name: one for one in sorted(ours, key=lambda one: (one.order, one.name))}


def find_method(name: str) -> Method:
    """A method by its name, or "package.module:factory" of one's own; modules in the current folder are found, too."""
    if ":" in name:
        factory = _imported(name)
        return _DECLARED.get(_name_of(factory)) or Method(name, factory, label=name.rpartition(":")[2])
    known = methods()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        remedy = f"the nearest is {near[0]!r}" if near else "or give one of your own, 'package.module:factory'"
        raise BadValue("algorithm", name, f"expected one of {', '.join(known)}", remedy)
    return known[name]


def _name_of(factory: Callable[..., Algorithm[Any]]) -> str:
    """Its plain name, if it is one of this package's; others' names carry their module, and clash with none."""
    ours = str(factory.__module__).startswith(f"{__package__}.")
    return factory.__name__ if ours else f"{factory.__module__}:{factory.__name__}"


def _imported(name: str) -> Callable[..., Algorithm[Any]]:
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, ValueError, AttributeError) as error:
        raise BadValue("algorithm", name, f"it cannot be imported ({error})", "write package.module:factory") from error
    if not callable(factory):
        raise BadValue("algorithm", name, "expected a function that builds an Algorithm from a step schedule")
    made: Callable[..., Algorithm[Any]] = factory
    return made
