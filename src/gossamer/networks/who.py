"""Who is which learner, where a network's file has ids and the data name learners.

Ids and names are both in ascending order. So where they are the same, each learner has its own place by itself. Where
they are not, places go by that order alone, and nobody can see it in the numbers of a run: it is said, or refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gossamer.errors import GossamerError, Sentence

WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
MOST_SAID = 4  # learners


def are_names(words: Sequence[str]) -> bool:
    """Whether they say who is meant; whole numbers count places."""
    return not all(map(WHOLE.fullmatch, words))


def check_same(source: str, ids: Sequence[str], names: Sequence[str]) -> None:
    """Refuse ids and learners' names that are not the same, where both are names."""
    if not are_names(ids) or not are_names(names) or set(ids) == set(names):
        return
    without = [f"{one!r} there has no records" for one in ids if one not in set(names)]
    left_out = [f"{one!r} of the data has no place there" for one in names if one not in set(ids)]
    wrong = " and ".join([*without[:1], *left_out[:1]])
    raise GossamerError(
        f"{source} and the data do not name the same learners, {wrong}: correct the file, or number its ids from 0 on "
        "in the order of the learners' names."
    )


def order_note(source: str, ids: Sequence[str], names: Sequence[str], most: int = MOST_SAID) -> list[Sentence]:
    """Which learner is which id, where these are not the same and one of them is more than a place's number."""
    if list(ids) == list(names) or (not are_names(ids) and list(names) == [str(i) for i in range(len(names))]):
        return []
    each = [f"learner {name} is {one}" for one, name in list(zip(ids, names, strict=True))[:most]]
    each += ["…"] * (len(ids) > most)
    return [Sentence(f"In {source}, whose ids are taken in ascending order, {', '.join(each)}.")]
