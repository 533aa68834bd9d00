"""What an estimator's parameters ask for, as the description of a run that the rest of the library knows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossamer.errors import UNSAID, Argument, BadValue
from gossamer.models.registry import MODELS
from gossamer.networks import Network, NetworkSchedule
from gossamer.spec import Spec
from gossamer.spec.build import build_network
from gossamer.spec.description import OWN_STEPS
from gossamer.spec.rules import Learnt
from gossamer.streams.columns import Columns, Numbers, text_of
from gossamer.streams.own import Declared
from gossamer.streams.schema import few

SOURCE = "X"  # what errors call the records
FEWEST_STEPS = 100  # rounds, however few records there are
MOST_LEARNERS = 10  # where nobody says how many


@dataclass(frozen=True)
class Asked:
    """Parameters as PrivateDecentralizedClassifier documents them.

    `classes` are names, and None of a quantity; `read_off` are the classes as y has them, where nobody declared them.
    """

    epsilon: Any = None
    delta: float | None = None
    learners: int | None = None
    network: Any = None
    bounds: Any = None
    categories: Mapping[Any, Sequence[Any]] | None = None
    classes: Sequence[str] | None = None
    read_off: Sequence[Any] | None = None
    target_bounds: tuple[float, float] | None = None
    missing: str = "refuse"
    clip: float | None = None
    l2: float | None = None
    standardise: bool | None = None
    remember: int | None = None
    weight: str | None = None
    algorithm: str = "ldp_gradient_tracking"
    steps: int | None = None
    per_round: int | None = None
    horizon: float | None = None
    secrets: str | None = None
    colluders: int | None = None
    seed: int = 0

    @property
    def private(self) -> bool:
        """Whether a budget is asked for; None and ∞ ask for none."""
        return self.epsilon is not None and not _is_infinite(self.epsilon)

    @property
    def quantity(self) -> bool:
        return self.classes is None

    @property
    def learnt(self) -> Learnt:
        """The model: a ridge regression of a quantity, logistic of two classes, softmax of more."""
        if self.classes is None:
            return Learnt(MODELS.find("ridge"), 1)
        return Learnt(MODELS.find("logistic" if len(self.classes) == 2 else "softmax"), len(self.classes))

    def spec(self, target: str, steps: int | None = None, horizon: float | None = None) -> Spec:
        """The run that is asked for, on records that are here already; all else is decided by the library's rules."""
        wanted: dict[str, Any] = {
            "graph": self.network if isinstance(self.network, str) else None,
            "clip": None if self.clip is None else float(self.clip),
            "l2": None if self.l2 is None else float(self.l2),
            "standardise": self.standardise,
            "remember": _whole("remember", self.remember),
            "weight": self.weight,
            "steps": _whole("steps", self.steps if steps is None else steps),
        }
        if self.private:
            wanted["epsilon"] = _numbers("epsilon", self.epsilon)
        if self.private or self.epsilon is None:  # an infinite budget needs none of these, and is a budget
            wanted["delta"], wanted["secrets"] = self.delta, self.secrets
            wanted["colluders"] = _whole("colluders", self.colluders)
            wanted["horizon"] = None if horizon is None else str(horizon)
        given = {name: value for name, value in wanted.items() if value is not None}
        kind = self.learnt.kind.name
        return Spec.of(csv=SOURCE, target=target, model=kind, algorithm=self.algorithm, seed=self.seed, **given)

    def among(self, names: Sequence[str], named_by_rows: bool = False) -> Asked:
        """The same with budgets in the order of these learners; refuses a list that leaves open whose each is."""
        given = self.epsilon
        if hasattr(given, "keys"):  # a mapping, or a series of pandas
            said = [(text_of(name), given[name]) for name in given.keys()]  # noqa: SIM118  (a series has values, too)
            if sorted(name for name, _ in said) != sorted(names):
                raise BadValue("epsilon", dict(said), f"expected one for each of the learners {few(names)}")
            return replace(self, epsilon=[dict(said)[name] for name in names])
        if named_by_rows and self.private and np.size(given) > 1 and not _numbered(names):
            each = ", ".join(f"{name!r}: …" for name in names[:3]) + ", …" * (len(names) > 3)
            raise BadValue("epsilon", given, "a list leaves open whose each is, as learners have names", [
                "give ", Argument("epsilon", UNSAID, f"epsilon={{{each}}}"),
            ])  # fmt: skip
        return self

    def notes_of(self, names: Sequence[str]) -> list[str]:
        """Who has which budget, and who is which in a given network, where that is not plain."""
        notes = list[str]()
        if self.private and len(set(each := [float(one) for one in np.ravel(self.epsilon)])) > 1:
            notes.append(f"ε by learner: {', '.join(f'{n} {one:g}' for n, one in zip(names, each, strict=True))}.")
        if self.network is not None and not _numbered(names):
            notes.append(f"Learners in the order of the network's: {', '.join(names)}.")
        return notes

    def steps_for(self, records: int) -> int:
        """Rounds: as many as for a file, or as there are records where those are few. How many there are is public."""
        if self.steps is not None:
            return self.steps
        return min(OWN_STEPS, max(FEWEST_STEPS, records))

    def learners_for(self, records: float) -> int:
        """How many learners rows are dealt to: the network's, or ten, or fewer where each would have one row only."""
        if self.learners is not None:
            return self.learners
        if isinstance(self.network, Network):
            return self.network.m
        return max(2, int(min(MOST_LEARNERS, records // 2)))

    def network_of(self, spec: Spec, names: Sequence[str]) -> Network:
        """Who talks to whom; a network of one's own must be for so many learners."""
        if isinstance(self.network, NetworkSchedule):
            raise BadValue("network", self.network, "estimators have one network in all rounds", "give that")
        if not isinstance(self.network, Network):
            return build_network(spec, len(names), names)
        if self.network.m != len(names):
            raise BadValue(
                "network", self.network, f"there are {len(names)} learners",
                "give a network of as many, or learner= for as many as it has",
            )  # fmt: skip
        return self.network

    def declared(self, columns: Columns, target: str, owner: str | None) -> Declared:
        """What is declared of the records' columns."""
        features = [name for name in columns.header if name not in (target, owner)]
        categories = {
            column_named("categories", key, features): [text_of(one) for one in listed]
            for key, listed in (self.categories or {}).items()
        }
        ranges = ranges_of(self.bounds, columns, features, categories)
        if self.quantity and self.target_bounds is not None:
            ranges[target] = _pair("target_bounds", self.target_bounds)
        missing: Any = self.missing
        return Declared(
            target, categories=categories, classes=self.classes, ranges=ranges, missing=missing,
            regression=self.quantity,
        )  # fmt: skip


def ranges_of(
    bounds: Any, columns: Columns, features: Sequence[str], categories: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Bounds by column: of a mapping those that it names; of a pair, numbers or one each, all columns of numbers."""
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        return {column_named("bounds", key, features): _pair("bounds", ends) for key, ends in bounds.items()}
    low, high = _pair("bounds", bounds)
    numbers = [name for name in features if name not in categories and isinstance(columns.columns[name], Numbers)]
    try:
        lows, highs = (np.broadcast_to(np.asarray(end, dtype=float), len(features)).tolist() for end in (low, high))
    except (TypeError, ValueError):
        raise BadValue(
            "bounds", bounds, f"expected (low, high), each a number or one for each of {len(features)} columns"
        ) from None
    return {name: (lows[k], highs[k]) for k, name in enumerate(features) if name in numbers}


def column_named(argument: str, key: Any, features: Sequence[str]) -> str:
    """A column by its name, or by its number."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and str(key) not in features:
        if not -len(features) <= key < len(features):
            raise BadValue(argument, key, f"expected a column's number up to {len(features) - 1}, or its name")
        return features[int(key)]
    return str(key)  # a name that no column has is refused where columns are read


def _pair(argument: str, given: Any) -> tuple[Any, Any]:
    try:
        low, high = given
    except (TypeError, ValueError):
        raise BadValue(argument, given, "expected (low, high)") from None
    return low, high


def _numbers(argument: str, given: Any) -> str:
    try:
        return ",".join(repr(float(one)) for one in np.ravel(given))
    except (TypeError, ValueError):
        raise BadValue(argument, given, "expected a number above 0, {learner: ε}, or None") from None


def _numbered(names: Sequence[str]) -> bool:
    return list(names) == [str(k) for k in range(len(names))]


def _whole(argument: str, given: Any) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise BadValue(argument, given, "expected a whole number, or None")
    return int(given)


def _is_infinite(epsilon: Any) -> bool:
    return isinstance(epsilon, float | np.floating) and float(epsilon) == math.inf
