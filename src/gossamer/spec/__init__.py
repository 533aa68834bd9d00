"""One description of a run, and what is built from it."""

from gossamer.spec.description import SETTINGS, Spec

__all__ = ["SETTINGS", "Spec"]
