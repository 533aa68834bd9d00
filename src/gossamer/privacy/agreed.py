"""Pair secrets among learners with unlike needs: the noise that all agree on, and what each adds beside it."""

from __future__ import annotations

import math
from dataclasses import replace

from gossamer.errors import GossamerError
from gossamer.privacy.accountant import Terms
from gossamer.privacy.pairs import Grid
from gossamer.privacy.secrets import Shared, seen_of


def agreed_terms(units: list[Terms], floor: float | None, stated: bool) -> list[Terms]:
    """Terms with pair secrets that were found as if everybody's noise were the same, with one agreed noise for all.

    The agreed noise, `floor`, is the least that anybody needs: nobody counts on more. Who needs more adds it alone.
    With its own noise ϱ times the agreed one it pays f/(1 + (ϱ² − 1) f) instead of f of a shift's square, so that
    ϱ² = 1 + (s² − 1)/f, where s times the agreed noise would do if all had it. Noise that was stated stays as it is.
    """
    wanted = [unit.initial * _shared_of(unit).weight for unit in units]  # on weighted gradients
    floor = min(wanted) if floor is None else floor
    agreed = []
    for unit, own in zip(units, wanted, strict=True):
        shared = _shared_of(unit)
        left, times = shared.seen**2, max(own / floor, 1.0)
        ratio = times if stated else math.sqrt(1 + (times * times - 1) / left) * (1 + 1e-9 * (times > 1))
        shared = shared._replace(seen=seen_of(left, ratio), floor=floor, pair=shared.pair * floor)
        agreed.append(replace(unit, initial=ratio * floor / shared.weight, shared=shared))
    known = [(unit.initial, _shared_of(unit)) for unit in agreed]
    Grid.of([own * shared.weight for own, shared in known], floor, known[0][1].pair)  # refuses what does not go on one
    return agreed


def _shared_of(terms: Terms) -> Shared:
    if terms.shared is None:
        raise GossamerError("terms without pair secrets: use them for all learners, or for none.")
    return terms.shared
