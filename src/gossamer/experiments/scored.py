"""Candidates of tuning as jobs: plain values that any worker can score, each kept by content."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from gossamer.experiments import named
from gossamer.experiments.runs import Runs
from gossamer.experiments.samples import records_of
from gossamer.experiments.tuning import Attempt, Candidate, Rehearsals, Trial, attempted
from gossamer.experiments.workers import Result
from gossamer.spec import Spec
from gossamer.version import __version__


@dataclass(frozen=True)
class Scored:
    """A candidate for a description, on the records that it is tuned on: of a public file, or of its own."""

    spec: Spec
    public: str | None
    seeds: int
    candidate: Candidate

    def key(self) -> str:
        about = {"tuning": __version__, "named": list(self.named().values()), **asdict(self)}
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]

    def named(self) -> dict[str, str]:
        public = {} if self.public is None else named.files([self.public])
        return named.digests(self.spec) | public

    def placed(self) -> Scored:
        public = None if self.public is None else os.path.abspath(self.public)
        return replace(self, spec=named.placed(self.spec), public=public)

    def outcome(self) -> Result:
        """Its score, or why it has none."""
        score = Rehearsals(self.spec, *records_of(self.spec, self.public), self.seeds)
        trial = attempted(self.candidate, score)
        return {"score": trial.score, "why": trial.why}


def score_with(runs: Runs, spec: Spec, public: str | None, seeds: int) -> Attempt:
    """What scores several candidates at once."""

    def attempt(candidates: Sequence[Candidate]) -> list[Trial]:
        found = runs(Scored(spec, public, seeds, candidate) for candidate in candidates)
        return [Trial(candidate, said["score"], said["why"]) for candidate, said in zip(candidates, found, strict=True)]

    return attempt
