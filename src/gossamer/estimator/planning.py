"""What is fixed before the first record of an ongoing run is learnt from: columns, model, noise, pace, for how long.

A budget is proved for a plan. So all of it follows from what is declared and from how many rows of which learner the
first call has, which is public; nothing of it changes later, whatever comes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossamer.algorithms.base import AUTO
from gossamer.errors import BadValue, GossamerError
from gossamer.estimator.asked import Asked
from gossamer.estimator.given import Given
from gossamer.estimator.training import read_off, refuse_undeclared
from gossamer.models import LinearModel
from gossamer.networks import Network
from gossamer.privacy import Mechanism
from gossamer.records import Table
from gossamer.spec import Spec
from gossamer.spec.build import build_mechanism, build_model
from gossamer.spec.description import OWN_STEPS
from gossamer.spec.rules import check_model_settings, check_privacy, decide_noise, ridge_of, standardises
from gossamer.streams.inferring import notes_of, undeclared_of
from gossamer.streams.own import Dealing, in_turn_of_names, schema_of
from gossamer.streams.schema import Schema
from gossamer.types import Array, Integers

# Of a quantity nothing bounds the gradient, and a stream may leave the spreads that were seen when it began. So a
# record that is so many spreads off pulls no harder the farther it is off; with a budget the rule's clipper is shorter.
FAR_OFF = 3.0
ROUNDS_AT_FIRST = 100  # that the first call's rows make, where nobody says how many arrive a round


@dataclass(frozen=True, eq=False)
class Plan:
    """All that decides an ongoing run but its records."""

    spec: Spec  # with what the rules decided
    schema: Schema
    table: Table  # without records: what was declared of them
    names: tuple[str, ...]  # of the learners
    dealt: bool  # whether rows are dealt to them in turn, or say whose they are
    pace: Integers  # (m,) records of each that a round takes in
    model: LinearModel
    network: Network
    mechanism: Mechanism | None
    steps: int  # rounds that releases and steps are planned for
    horizon: float  # rounds that there will ever be; ∞: it goes on
    notes: tuple[str, ...]

    @property
    def weights(self) -> Array | None:
        """(m,) the learners' weights in the objective, by their pace; None where all have the same."""
        if self.spec.data.weight == "equal" or (self.pace == self.pace[0]).all():
            return None
        return np.asarray(self.pace / self.pace.mean())


def plan_for(asked: Asked, given: Given) -> Plan:
    """The plan of a run that starts with these records; they say which columns there are, and who learns."""
    columns = given.columns
    dealing = Dealing(split_by=given.owner)
    schema, found, left_out = schema_of(columns, asked.declared(columns, given.target, given.owner), dealing)
    refuse_undeclared(asked, undeclared_of(found, schema) or "")
    names, counts = _learners(asked, given)
    said = [*columns.notes, *notes_of(found, schema), *read_off(asked)]
    said += [f"Left out, because the name says that it only numbers the records: {name}." for name in left_out]
    table = schema.packed_table(np.empty((0, schema.columns)), np.empty(0))
    asked = asked.among(names, named_by_rows=given.owner is not None)
    return plan_of(asked, schema, table, names, _pace(asked, counts), given.owner is None, said)


def plan_of(
    asked: Asked,
    schema: Schema,
    table: Table,
    names: Sequence[str],
    pace: Integers,
    dealt: bool = False,
    notes: Sequence[str] = (),
) -> Plan:
    """What is to be learnt of records that look so, by the library's rules; budgets are in the order of the names.

    As many records are counted on as the planned rounds bring.
    """
    steps = OWN_STEPS if asked.steps is None else asked.steps
    horizon = math.inf if asked.horizon is None else float(asked.horizon)
    learnt = asked.learnt
    spec = asked.spec(schema.target, steps, horizon if asked.private else None)
    check_privacy(spec)
    spec = decide_noise(spec, None)
    spec = spec.but(standardise=standardises(spec, None), step=AUTO)
    check_model_settings(spec, learnt.kind)
    if learnt.kind.quantity and spec.model.clip is None and not spec.private:
        spec = spec.but(clip=FAR_OFF * (table.bounds or schema.bounds).l1)
    ridge = ridge_of(spec, learnt.kind, int(steps * pace.sum()))
    model: Any = build_model(spec, learnt, (table.columns,), table, ridge, intercept=True)
    network = asked.network_of(spec, names)
    mechanism = build_mechanism(spec, len(names), horizon) if spec.private else None
    said = (*notes, *asked.notes_of(names))
    return Plan(spec, schema, table, tuple(names), dealt, pace, model, network, mechanism, steps, horizon, said)


def _learners(asked: Asked, given: Given) -> tuple[tuple[str, ...], Integers]:
    """The learners' names, and how many records each has in the first call."""
    if given.owner is None:
        learners = asked.learners_for(math.inf)  # how few the first call brings says nothing of what will come
        if learners < 2:
            raise BadValue("learners", learners, "expected at least 2, one alone has nobody to learn with")
        return tuple(map(str, range(learners))), np.full(learners, len(given.columns) // learners)
    words = given.columns.words(given.owner)
    held = {words.names[k]: int((words.codes == k).sum()) for k in np.unique(words.codes)}
    if len(held) < 2:
        raise GossamerError(f"learner is {next(iter(held))!r} in every row: it must name at least two learners.")
    names = in_turn_of_names(held)
    return tuple(names), np.array([held[name] for name in names])


def _pace(asked: Asked, counts: Integers) -> Integers:
    """Records a round of every learner: the given number, or what spreads the first call over a hundred rounds."""
    if asked.per_round is not None:
        given = asked.per_round
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
            raise BadValue("per_round", given, "expected a whole number ≥ 1, or None")
        return np.full(len(counts), int(given))
    rounds = max(1, min(ROUNDS_AT_FIRST, int(counts.min())))
    return np.maximum(1, counts // rounds)


def with_rows(table: Table, schema: Schema, X: Array, y: Array) -> Table:
    """Encoded records as the plan's table has them."""
    made = schema.packed_table(X, y)
    return replace(table, rows=made.rows, labels=made.labels)
