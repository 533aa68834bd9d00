"""A run whose records keep coming: the simulator's rounds, one by one, each as soon as every learner has its records.

**What is proved.** A learner's records wait until it and all others have as many as a round takes in. Then the round
is run: records enter in the order in which they came, each once, and with a budget the gradient over all so far is
released as the plan says. That is the run that the simulator makes of the same records with as many a round, and the
proof of gossamer.privacy.source is its proof: it asks for a number of records in every round that is public, and has
it. With an endless horizon the budget holds for ever, however many calls there are; otherwise records are refused once
the rounds that it was meant for are done. A row that is given twice is two records, and pays twice.

**Copies.** A pickled copy predicts, saves and goes on. But two copies of a private run that both go on would release
the same state twice: whichever goes on second, in the same process, is refused.

**Calls that are stopped.** Nobody can tell which of a stopped call's records have been learnt from. To give them again
would be to use some twice, and a budget is for once: so nothing goes on after it.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter, deque
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.automatic import found_step, step_words
from gossamer.errors import Argument, Diverged, GossamerError
from gossamer.estimator.asked import Asked
from gossamer.estimator.given import Given
from gossamer.estimator.planning import Plan, plan_for, with_rows
from gossamer.estimator.words import told, words_for
from gossamer.models.standard import StandardMemory
from gossamer.networks import Network
from gossamer.predictions import FittedModel, fitted_model
from gossamer.privacy import PrivateBoundary, Setting, Unproved
from gossamer.privacy.boundary import UNNOISED, all_colluding
from gossamer.records import Batch
from gossamer.rounds import Rounds
from gossamer.run_record import LEARNER, Record, mean_row
from gossamer.setting import setting_for
from gossamer.simulate.engine import OF_WHAT_IS_SENT
from gossamer.simulate.mixer import Mixer
from gossamer.simulate.play import one_round
from gossamer.simulate.progressive import Progressive
from gossamer.spec.build import build_algorithm
from gossamer.standardising import looks_of
from gossamer.streams.columns import Columns
from gossamer.streams.own import clipped_notes
from gossamer.types import Array, Integers
from gossamer.version import __version__

EVALUATIONS, SELDOM = 100, 10  # rows of the history in the planned rounds, and rounds from one to the next at least
ROOM = 64  # rounds that memory is made for at first; it grows
_GONE_ON: dict[str, int] = {}  # of private runs in this process: the last round that one of their copies has sent


def start(asked: Asked, given: Given) -> Ongoing:
    """An ongoing run, planned from its first records; they are not learnt from yet."""
    return Ongoing(plan_for(asked, given))


class Ongoing:
    """A planned run, its state, and the records that wait for their round."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.t = plan, 0
        self._name = secrets.token_hex(16)  # what all copies of this run share
        self._past: deque[Batch] = deque(maxlen=plan.model.remember)  # what a copy has to see again
        self._waiting: list[deque[tuple[Array, float]]] = [deque() for _ in plan.names]
        self._broken = False  # whether a call began to take records in, and did not come to its end
        self._dealt = 0  # rows that came without a learner's name so far
        self._clipped: dict[str, int] = {}
        self.no_class = 0  # labels that were none of the classes, and count as the first
        self._history = list[Any]()
        self._assemble()
        self._history.append(self._look())

    def _assemble(self) -> None:
        """The parts that follow from the plan alone, as the simulator puts them together."""
        plan = self.plan
        learners, table, model, weights = len(plan.names), plan.table, plan.model, plan.weights
        mechanism = plan.mechanism
        algorithm: Algorithm[Any] = build_algorithm(plan.spec, None, learners)
        assert algorithm.with_step is not None

        def setting() -> Setting:
            return setting_for(
                range(learners), algorithm, plan.network, model, table, gradient="history", steps=plan.steps,
                size=model.theta_size(table.columns), per_round=plan.pace.tolist(), read_once=True,
                weights=[] if weights is None else weights.tolist(),
            )  # fmt: skip

        found = found_step(algorithm, plan.network, model, table, mechanism, plan.steps, setting, weights)
        self._steps = step_words(found, algorithm)
        algorithm = algorithm.with_step(found)
        self._algorithm = algorithm
        self._memory = model.memory(table, "history", ROOM * plan.pace)
        rows = plan.network.rows(mixes=algorithm.mixes)
        self._boundary: PrivateBoundary | Unproved = Unproved(None)
        if mechanism is not None:
            self._boundary = mechanism.bind(setting()._replace(planned=plan.steps))
        if isinstance(self._memory, StandardMemory):
            looks = looks_of(self._memory, self._boundary, mechanism, plan.steps, plan.network, weights)
            self._memory.prepare(looks)
        self._mix = Mixer(plan.network, algorithm.mixes)
        self._rounds = Rounds(
            algorithm, rows, self._memory, self._boundary, model.ridge(table.columns), finite=mechanism is not None,
            weights=weights,
        )  # fmt: skip
        self._state = self._rounds.start(algorithm.init(rows, model.start(learners, 0, table.columns)))
        self._seen = Progressive(model, table, self._predicts())

    # -- records in ----------------------------------------------------------------------------------------------------

    def take(self, given: Given) -> None:
        """Take records in, all or none of them; they wait for their rounds. `done` says that the call has ended."""
        self._encode(given.columns, self._owners(given))
        self._dealt += len(given.columns) if given.owner is None else 0

    def done(self) -> None:
        """All that the call was to do is done, and the next may come."""
        self._broken = False

    def learn_encoded(self, learner: int, row: Array, label: float) -> None:
        """Take in one record of a learner, as the plan's table has it."""
        self.refuse_more()
        self._broken = True
        self._waiting[learner].append((row, label))
        self.advance()
        self.done()

    def _encode(self, columns: Columns, owners: Integers) -> None:
        clipped: Counter[str] = Counter()
        records = with_rows(self.plan.table, self.plan.schema, *self.plan.schema.encode(columns, clipped=clipped))
        self.refuse_more()
        self._broken = True
        for name, count in clipped.items():
            self._clipped[name] = self._clipped.get(name, 0) + count
        for owner, row, label in zip(owners.tolist(), records.rows, records.labels, strict=True):
            self._waiting[owner].append((row, label))

    def refuse_more(self) -> None:
        """Refuse records that no round may take in any more."""
        if self._broken:
            raise GossamerError(
                "a call was stopped before its end, and some of its records may have been learnt from already: given "
                "again they would be used twice, for which the budget does not hold; start anew with a clone, which is "
                "a new run with a budget of its own."
            )
        if self.t >= self.plan.horizon:
            raise GossamerError(
                f"the {self.plan.horizon:g} rounds that this run was planned for are done, and its budget is for no "
                "more: start anew, with a larger ", Argument("horizon"), ", or with none, for a budget that holds for "
                "ever.",
            )  # fmt: skip
        if _GONE_ON.get(self._name, -1) >= self.t:
            raise GossamerError(
                f"a copy of this private run has gone on from round {self.t}: a second time would release the same "
                "state twice, and its budget would not hold; use the copy that is ahead."
            )

    def _owners(self, given: Given) -> Integers:
        """Whose each record is: as it says, or in turn, which is a matter of how many came before."""
        names = self.plan.names
        if given.owner is None:
            if not self.plan.dealt:
                raise GossamerError(
                    f"learner=None: the first call named {', '.join(names[:12])}; say whose each row is."
                )
            return (self._dealt + np.arange(len(given.columns))) % len(names)
        words = given.columns.words(given.owner)
        place = {name: k for k, name in enumerate(names)}
        strange = [words.names[k] for k in np.unique(words.codes) if words.names[k] not in place]
        if strange:
            raise GossamerError(
                f"learner {strange[0]!r} was not there in the first call, which had {', '.join(names[:12])}: a "
                "network is fixed when it starts; start anew with all of them."
            )
        return np.array([place.get(name, -1) for name in words.names])[words.codes]

    # -- rounds --------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Every round that all learners have the records for."""
        with np.errstate(over="ignore", invalid="ignore"):  # a diverging run is refused below
            self._run_rounds()
        if not np.isfinite(self._predicts()).all():
            raise Diverged(
                f"the run diverged: parameters are not finite at round {self.t}; start anew with a smaller ",
                Argument("l2"), ", or with narrower bounds.",
            )  # fmt: skip

    def _run_rounds(self) -> None:
        while self.t < self.plan.horizon and all(
            len(own) >= n for own, n in zip(self._waiting, self.plan.pace.tolist(), strict=True)
        ):
            self._one_round()
            if self.t % max(SELDOM, self.plan.steps // EVALUATIONS) == 0:
                self._history.append(self._look())

    def _one_round(self) -> None:
        pairs = [own.popleft() for own, n in zip(self._waiting, self.plan.pace.tolist(), strict=True) for _ in range(n)]
        batch = Batch(
            np.stack([row for row, _ in pairs]), np.array([label for _, label in pairs]), self.plan.pace.copy()
        )
        boundary = self._boundary
        if isinstance(boundary, PrivateBoundary):
            _GONE_ON[self._name] = self.t
            boundary.lasts(self.t + 1)
        self._seen.see(self._predicts(), batch)
        self._state = one_round(self._rounds, self._mix, self._state, batch, self.t)
        self._past.append(batch)
        self.t += 1

    # -- what came of it -----------------------------------------------------------------------------------------------

    def _predicts(self) -> Array:
        """(m, n) what predicts, of the algorithm's θ."""
        return self.plan.model.parameters(self._state.theta, self.plan.table.columns)

    def _look(self) -> Any:
        """One row of the history: how well records were predicted before they were learnt from."""
        return mean_row(self.t, self._errors(), progressive=self._seen.value)

    def _errors(self) -> np.recarray[Any, Any]:
        theta = self._predicts()
        errors = np.recarray(len(theta), dtype=LEARNER)
        errors.tracking_error = errors.optimality_gap = np.nan
        errors.consensus_error = np.linalg.norm(theta - theta.mean(axis=0), axis=1)
        errors.accuracy = self._seen.value
        return errors

    @property
    def network(self) -> Network:
        return self.plan.network

    def margins(self, learner: int, row: Array) -> Array:
        """(outputs,) what one learner's own model says of a row, as the plan's table has it."""
        own = self._predicts()[learner].reshape(-1, self.plan.model.outputs)
        return np.asarray(row @ own)

    def fitted(self, learner: str | int | None = None) -> FittedModel:
        """The model so far: the mean of all learners', or one learner's."""
        return fitted_model(self._predicts(), self._config(), self.claim, learner)

    @property
    def claim(self) -> str:
        budget = None if self.plan.mechanism is None or self.plan.mechanism.secrets is None else self._boundary.budget()
        return self._boundary.claim + ("" if budget is None else all_colluding(budget))

    def spent(self, learner: int | None = None) -> float:
        """A learner's ε so far, or the largest of all; ∞ where nothing is claimed."""
        boundary = self._boundary
        if not isinstance(boundary, PrivateBoundary):
            return math.inf
        some = boundary.ledgers if learner is None else [boundary.ledgers[learner]]
        return max(ledger.get_epsilon(boundary.mechanism.delta) for ledger in some)

    def notes(self) -> list[str]:
        """What a reader must know."""
        said = [*self.plan.notes, *clipped_notes(self.plan.schema, self._clipped), *self._boundary.notes(self.t)]
        said.append(self._steps)
        if self.no_class:
            labels = "1 label was" if self.no_class == 1 else f"{self.no_class} labels were"
            said.append(f"{labels} none of the classes, and counted as {self.plan.schema.classes[0]}.")
        waits = [f"{name} {len(own)}" for name, own in zip(self.plan.names, self._waiting, strict=True) if own]
        if waits:
            said.append(f"Records that wait until all learners have a round's: {', '.join(waits[:12])}.")
        said += [] if self.plan.mechanism is None else [OF_WHAT_IS_SENT]
        return told(said, words_for(self.plan.schema.target))

    def record(self) -> Record:
        """The run record of this moment; accuracy is that of predictions before records were learnt from."""
        last = [] if self._history[-1].t[0] == self.t else [self._look()]
        kept = self._state._asdict() | self._memory.kept()
        history = np.concatenate([*self._history, *last]).view(np.recarray)
        return Record(
            self.t, kept, history, self._errors(), np.full(1, np.nan), {**self._config(), **self._boundary.description},
            tuple(self.notes()), self.claim, self._boundary.budget(),
        )  # fmt: skip

    def _config(self) -> dict[str, Any]:
        plan, algorithm = self.plan, self._algorithm
        return {
            "title": f"{algorithm.name}, {len(plan.names)} learners",
            "version": __version__,
            "algorithm": {"name": algorithm.name, **algorithm.parameters},
            "network": {"learners": len(plan.names), "links": len(plan.network.edges())},
            "stream": {
                "kind": "ongoing", "records": self.t * int(plan.pace.sum()), "per_round": plan.pace.tolist(),
                "target": plan.schema.target, "features": plan.schema.features,
                "columns": plan.schema.column_names, "names": list(plan.names), "classes": list(plan.schema.classes),
                "schema": plan.schema.described(),
            },
            "model": str(plan.model),
            "score": plan.model.score,
            "privacy": None if plan.mechanism is None else repr(plan.mechanism),
            "gradient": "history",
            "horizon": plan.horizon,
            "seed": plan.spec.length.seed,
            "steps": self.t,
            "planned": plan.steps,
            "parameters": plan.table.columns * plan.model.outputs,
        }  # fmt: skip

    # -- copies --------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Plain values; what was built from the plan is built again."""
        return {
            "plan": self.plan,
            "t": self.t,
            "name": self._name,
            "past": [tuple(batch) for batch in self._past],
            "waiting": [list(own) for own in self._waiting],
            "broken": self._broken,
            "dealt": self._dealt,
            "clipped": dict(self._clipped),
            "no_class": self.no_class,
            "history": list(self._history),
            "state": {name: np.array(value) for name, value in self._state._asdict().items()},
            "memory": self._memory.kept(),
            "seen": self._seen.kept(),
            "boundary": self._boundary.kept(self.t),
        }

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.plan, self.t, self._name, self._dealt = kept["plan"], kept["t"], kept["name"], kept["dealt"]
        self._broken, self.no_class = kept["broken"], kept["no_class"]
        self._past = deque((Batch(*batch) for batch in kept["past"]), maxlen=self.plan.model.remember)
        self._waiting = [deque(own) for own in kept["waiting"]]
        self._clipped, self._history = dict(kept["clipped"]), list(kept["history"])
        self._assemble()
        self._state = self._state._replace(**kept["state"])
        self._memory.go_on(kept["memory"])
        self._seen.go_on(kept["seen"])
        for batch in self._past:
            self._memory.observe(batch)
        for t in range(self.t):
            if isinstance(self._boundary, PrivateBoundary):
                self._boundary.lasts(t + 1)
            self._boundary.charge(t)
        self._boundary.go_on({n: v for n, v in kept["boundary"].items() if not n.startswith(UNNOISED)})
