"""The records that tuning looks at, and those of the run that it tunes for: read from files, in one of three ways."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, cast

from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.spec import Spec
from gossamer.spec.build import build, csv_arguments
from gossamer.spec.languages import names
from gossamer.spec.rules import learnt_by
from gossamer.streams import OnePass, from_csv

HELD = 0.2  # of the records that are tuned on, for scores


class Records(NamedTuple):
    """`read` are the records of the run, `sample` those that are tuned on, of which some are for scores."""

    read: OnePass
    sample: OnePass


@lru_cache(maxsize=2)
def records_of(spec: Spec, public: str | None) -> Records:
    """Of a public file; of the run's own first records, where it leaves some aside; or of all that it has."""
    if public is not None:
        read = read_all(spec)
        return Records(read, _kept_for_scores(_like(spec, read, public), spec.length.seed))
    if spec.data.aside is not None:
        first, rest = part(spec, "public_fraction")
        return Records(rest, _kept_for_scores(first, spec.length.seed))
    read = read_all(spec)
    return Records(read, _kept_for_scores(read, spec.length.seed))


def read_all(spec: Spec) -> OnePass:
    """The records of the run; refuses a description that contradicts itself."""
    return cast(OnePass, build(spec).stream)


def part(spec: Spec, option: str) -> tuple[OnePass, OnePass]:
    """The records that a run leaves aside, and its own; `option` is what said how many."""
    try:
        rest = read_all(spec)
    except BadValue as error:
        if error.argument != "aside":
            raise
        raise BadValue(option, spec.data.aside, error.requirement, error.remedy) from None
    alone = {"only_aside": True, "test": None, "test_fraction": None}
    first = from_csv(**{**csv_arguments(spec, learnt_by(spec, None), rest.learners), **alone})
    _refuse_unlike(rest, first, Argument(option, spec.data.aside))
    return first, rest


def _kept_for_scores(sample: OnePass, seed: int) -> OnePass:
    held, rest = sample.drawn(HELD, seed)
    rest.test = held.table
    return rest


def _like(spec: Spec, read: OnePass, public: str) -> OnePass:
    """A public file's records, dealt in turn to as many learners; refuses one with other features."""
    owner = [] if spec.data.split_by is None else [spec.data.split_by]
    known = spec.but(csv=public, split_by=None, test=None, test_fraction=None, aside=None)
    arguments = {**csv_arguments(known, learnt_by(spec, None), read.learners), "drop": names(spec.data.drop) + owner}
    sample = from_csv(**arguments)
    _refuse_unlike(read, sample, Argument("public", public))
    return sample


def _refuse_unlike(read: OnePass, sample: OnePass, way: Argument) -> None:
    """Refuse records that have other features or classes than those of the run."""
    for what in ("columns", "classes"):
        mine, theirs = (set(map(str, cast(Any, one.description[what]) or [])) for one in (read, sample))
        unlike = sorted(mine ^ theirs)
        if unlike:
            raise GossamerError(
                way, f": its {what} are not those of the run, which differ in {', '.join(unlike[:4])}: declare ",
                Argument("categories"), " and ", Argument("classes"), ", and have the same columns.",
            )  # fmt: skip
