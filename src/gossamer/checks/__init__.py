"""Checks that try to prove us wrong: audits of claims, and the conformance suite for algorithms."""

from __future__ import annotations

from typing import NamedTuple

ALARM = 1e-6  # the probability with which each statistical check raises a false alarm


class Finding(NamedTuple):
    """One check: what was measured, what was allowed, and whether that holds."""

    check: str
    measured: float
    allowed: float
    holds: bool


def within(check: str, measured: float, allowed: float, slack: float = 1e-9) -> Finding:
    """A finding that holds where what was measured is not above what is allowed."""
    return Finding(check, measured, allowed, bool(measured <= allowed * (1 + slack)))


def says(check: str, wrong: str) -> Finding:
    """A check whose outcome is a sentence: what is wrong, or nothing."""
    return Finding(f"{check}: {wrong}" if wrong else check, float(bool(wrong)), 0.0, not wrong)
