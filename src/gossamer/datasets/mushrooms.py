"""The UCI Mushroom data, shipped with the package: 8124 mushrooms, 22 categories each, edible or poisonous.

Mushroom [Dataset]. (1981). UCI Machine Learning Repository. https://doi.org/10.24432/C5959T, licensed CC BY 4.0.
Drawn from The Audubon Society Field Guide to North American Mushrooms (1981). The packed file holds the original bytes
of agaricus-lepiota.data below a header that names its origin; they are checked against their SHA-256 when read.
"""

from __future__ import annotations

import hashlib
import lzma
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gossamer.datasets.registry import dataset
from gossamer.errors import BadValue, GossamerError
from gossamer.records import FeatureBounds, Table, one_hot_table
from gossamer.streams.stream import BY_CLASS, Draws, OnePass, check_choice
from gossamer.types import Array, Integers

SHA256 = "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e"
STALK_ROOT = 10  # the one category with unknown values, which the LIBSVM version leaves out
NAMES = [  # of the columns, as UCI documents them
    "class", "cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment", "gill-spacing",
    "gill-size", "gill-color", "stalk-shape", "stalk-root", "stalk-surface-above-ring", "stalk-surface-below-ring",
    "stalk-color-above-ring", "stalk-color-below-ring", "veil-type", "veil-color", "ring-number", "ring-type",
    "spore-print-color", "population", "habitat",
]  # fmt: skip
OWN_CLASS = 0.9  # by-class: the share of a learner's records that are of its own class


@dataset(label="Mushrooms", options=("draw", "split", "rows"), step="1,0.6", noise="1,0.51:0.6")
def mushrooms(
    learners: int = 10,
    seed: int = 0,
    draw: Literal["random", "once"] = "random",
    split: Literal["iid", "by-class"] = "iid",
    stalk_root: bool = True,
    rows: Literal["raw", "l1", "l2"] = "raw",
) -> Draws | OnePass:
    """One mushroom a learner and round; label 1 is poisonous.

    draw="random"     drawn anew each round, with replacement, for ever (the paper's experiment)
    draw="once"       every mushroom at most once: ⌊8124/learners⌋ rounds (812 for ten learners)
    split="iid"       every learner sees the same mixture
    split="by-class"  the first half of the learners see mostly edible ones, the others mostly poisonous ones (9 in 10);
                      labels then decide who gets what, so that no privacy can be claimed
    stalk_root        117 one-hot columns; False: the 112 of the LIBSVM version
    rows              features 0 and 1, or scaled so that every mushroom has ‖a‖₁ = 1 or ‖a‖₂ = 1
    """
    if not 2 <= learners <= 4062:
        raise BadValue("learners", learners, "expected 2 to 4062, so that each has mushrooms of its own")
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise BadValue("seed", seed, "expected a whole number from 0 to 2^63 − 1")
    check_choice("draw", draw, "random", "once")
    check_choice("split", split, "iid", "by-class")
    check_choice("rows", rows, "raw", "l1", "l2")
    table = _scaled(load(stalk_root), rows)
    rng = np.random.default_rng(seed)
    description = {"dataset": "mushrooms", "draw": draw, "split": split, "columns": table.columns, "rows": rows}
    if split == "by-class":
        pools = _by_class(table.labels, learners, rng)
        table = replace(table, undeclared=BY_CLASS)
    elif draw == "once":
        pools = list(rng.permutation(len(table))[: len(table) // learners * learners].reshape(learners, -1))
    else:
        pools = [np.arange(len(table))] * learners
    if draw == "random":
        return Draws(table, pools, seed, description=description)
    return OnePass(table, pools, description={"seed": seed, **description})


@cache
def raw() -> NDArray[Any]:
    """(8124, 23) letters as published: the class, e or p, and the categories."""
    packed = resources.files("gossamer.datasets").joinpath("mushrooms.data.xz").read_bytes()
    _, original = lzma.decompress(packed).split(b"\n\n", 1)
    if hashlib.sha256(original).hexdigest() != SHA256:
        raise GossamerError(
            "the mushroom file of this installation is damaged (wrong SHA-256): reinstall gossamer-learning."
        )
    return np.array([line.split(",") for line in original.decode("ascii").split()])


@cache
def load(stalk_root: bool = True) -> Table:
    """All 8124 records as one-hot codes."""
    cells = raw()
    labels, categories = (cells[:, 0] == "p").astype(float), cells[:, 1:]
    if not stalk_root:
        categories = np.delete(categories, STALK_ROOT, axis=1)
    names, digits = zip(*(np.unique(column, return_inverse=True) for column in categories.T), strict=True)
    return one_hot_table(np.stack(digits, axis=1).astype(np.uint8), [len(n) for n in names], labels)


def _scaled(table: Table, rows: str) -> Table:
    assert table.bounds is not None
    if rows == "raw":
        return table
    scale = 1 / (table.bounds.l1 if rows == "l1" else table.bounds.l2)
    return replace(table, scale=scale, bounds=FeatureBounds(*(scale * norm for norm in table.bounds)))


def _by_class(labels: Array, learners: int, rng: np.random.Generator) -> list[Integers]:
    """Equal, disjoint pools; each takes 9 in 10 from its own class while that lasts."""
    edible, poisonous = (list(rng.permutation(np.flatnonzero(labels == c))) for c in (0, 1))
    size = len(labels) // learners
    few = size - round(OWN_CLASS * size)
    pools: list[list[int]] = [[] for _ in range(learners)]
    own = [edible if i < (learners + 1) // 2 else poisonous for i in range(learners)]
    for i, pool in enumerate(pools):
        other = poisonous if own[i] is edible else edible
        pool += [other.pop() for _ in range(few)]
    even = {id(c): min(size - few, len(c) // max(1, sum(o is c for o in own))) for c in (edible, poisonous)}
    for i, pool in enumerate(pools):
        pool += [own[i].pop() for _ in range(even[id(own[i])])]
    rest = edible + poisonous
    for pool in pools:
        pool += [rest.pop() for _ in range(size - len(pool))]
    return [rng.permutation(pool) for pool in pools]
