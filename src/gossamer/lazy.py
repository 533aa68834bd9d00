"""Modules that are imported when something of them is first asked for, so that importing gossamer costs nothing."""

from __future__ import annotations

import importlib
import sys
from functools import cache

FEW = 2048  # numbers for which NumPy or Python alone are quick enough

TYPE_CHECKING = False  # importing typing for it would cost more than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


@cache
def import_once(module: str) -> Any:
    """A module, for code that runs in every round: from the second call on this costs a tenth of `import`."""
    return importlib.import_module(module)


def worth_compiling(numbers: int) -> bool:
    """Whether so many numbers are for a compiled function, where another one gives the same bits without numba.

    Numba takes a tenth of a second and 100 MB to load, which a learner of few parameters, one process of many on a
    machine, never gets back. Where something else has loaded it, it is used.
    """
    return numbers > FEW or "numba" in sys.modules


def kernels_for(numbers: int, room: str) -> Any:
    """The module `compiled` of a room, or `few`, which has functions of the same names and results."""
    return import_once(f"{room}.{'compiled' if worth_compiling(numbers) else 'few'}")


def import_on_first_use(
    package: str, names: Mapping[str, Sequence[str]], otherwise: str | None = None
) -> Callable[[str], Any]:
    """The package's `__getattr__` (PEP 562).

    `names` are listed by the module that has them, or is the one named. A name that is not listed is looked for in the
    module `otherwise`.
    """
    places = {name: module for module, names_there in names.items() for name in names_there}

    def import_name(name: str) -> Any:
        place = places.get(name, None if name.startswith("_") else otherwise)
        module = None if place is None else importlib.import_module(place)
        if module is None or not (name in places or hasattr(module, name)):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = module if module.__name__ == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)  # from now on Python finds it without asking here
        return value

    return import_name
