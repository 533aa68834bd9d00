"""Nobody may take a model for private because the class that made it is called so."""

from __future__ import annotations

import warnings
from typing import Any


class NotPrivateWarning(UserWarning):
    """A model of a class that is called private was trained without noise, and nobody said that it may be."""


def warn_unless_said(epsilon: Any, depth: int) -> None:
    """Warn where no budget was given; math.inf says that none is wanted."""
    if epsilon is None:
        warnings.warn(
            "epsilon=None: the model is trained without noise and is not private; give epsilon=3.0, for example, or "
            "epsilon=math.inf if that is what you want.",
            NotPrivateWarning,
            stacklevel=depth + 1,
        )
