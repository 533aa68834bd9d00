"""Names of a package that are imported when they are first asked for, so that importing the package costs nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def import_on_first_use(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The package's `__getattr__` (PEP 562); `names` are listed by the module that has them, or is the one named."""
    places = {name: module for module, found_there in names.items() for name in found_there}

    def import_name(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(places[name])
        value = module if module.__name__ == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    return import_name
