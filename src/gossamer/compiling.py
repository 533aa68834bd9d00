"""Functions that numba compiles, and whose machine code is kept where there is a place for it.

Numba keeps it beside the source, else in the user's cache, or where NUMBA_CACHE_DIR says: written whole, so that
processes may share it. It refuses to compile where none of these can be written to, as in a read-only container.
There a function is compiled anew in every process that uses it, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(**options: Any) -> Callable[[Any], Any]:
    """As numba.njit(cache=True, …), on any file system."""

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no place to keep it
            return numba.njit(**options)(function)

    return decorate
