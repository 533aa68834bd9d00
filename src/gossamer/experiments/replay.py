"""How much of what a recursion charges can be brought about: the largest loss that was replayed, for a study's entry.

An adversary that chooses a learner's records, the one that is replaced and all messages climbs to where what the
learner sends differs most in the two worlds (gossamer.checks.climb), through the method, the network, the model and the
noise scales that the study ran. The recursion is attained by some sequences of gradients; a model need not give them.
So the difference between the two is what the recursion may charge in vain, or what the climber did not find: the truth
lies between.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from gossamer.checks.climb import worst_found
from gossamer.checks.worlds import Case
from gossamer.errors import BudgetUnmet
from gossamer.experiments.tasks import Task, data_of, gradient_of, scales_of, with_split
from gossamer.experiments.workers import Result
from gossamer.models import LinearModel
from gossamer.setting import full_rounds, setting_of
from gossamer.spec.build import build_algorithm, state_mechanism


@dataclass(frozen=True)
class Replay:
    """The first rounds of a task, replayed in two neighbouring worlds by an adversary that climbs so many times."""

    task: Task
    rounds: int
    climbs: int = 120

    def key(self) -> str:
        about = f"replay {self.task.key()} {self.rounds} {self.climbs}"
        return hashlib.sha256(about.encode()).hexdigest()[:32]

    def named(self) -> dict[str, str]:
        return self.task.named()

    def placed(self) -> Replay:
        return replace(self, task=self.task.placed())

    def outcome(self) -> Result:
        """Of the learner that comes nearest to its claim: the loss, Σ δ/ν or √Σ (δ/σ)², and what the recursion says.

        Nothing for data or a model that cannot be replayed.
        """
        try:
            case = self._case()
        except BudgetUnmet:  # no noise keeps to the budget, so that nothing is sent
            case = None
        if case is None:
            return {}
        losses = worst_found(case, climbs=self.climbs).losses
        i = int((losses / case.claims).argmax())
        loss, claim = (case.law.one_shift(float(value)) for value in (losses[i], case.claims[i]))
        return {"learner": i, "rounds": case.rounds, "loss": loss, "claim": claim}

    def _case(self) -> Case | None:
        spec = self.task.spec.but(strict=False)
        stream, model, network = data_of(spec)
        if not isinstance(model, LinearModel) or stream.table.bounds is None:
            return None
        gradient: Any = gradient_of(spec)
        steps = spec.length.steps or int(full_rounds(stream))
        algorithm = build_algorithm(spec.but(noise="0", epsilon=None), None, network.m)
        stated = state_mechanism(spec, scales_of(self.task.terms(steps)))
        mechanism = with_split(stated, setting_of(algorithm, network, stream, model, gradient, 1), self.task.split)
        return Case(
            algorithm, network, model, mechanism, gradient, min(self.rounds, steps), int(stream.room(1)[0]),
            bounds=stream.table.bounds,
        )  # fmt: skip
