"""What a check of the paper's assumptions comes to: parts with a verdict each, findings made of them, and a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gossamer.errors import Argument, Sentence, in_python

Verdict = Literal["holds", "cannot be known", "fails"]
HOLDS: Verdict = "holds"
UNKNOWN: Verdict = "cannot be known"
FAILS: Verdict = "fails"
FROM_BEST = (HOLDS, UNKNOWN, FAILS)
Words = Callable[[Argument], str]


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of some verdicts; holds, where there are none."""
    return max(verdicts, key=FROM_BEST.index, default=HOLDS)


@dataclass(frozen=True)
class Part:
    """One thing that an assumption asks for: whether it is so, with the numbers, and what to change if it is not.

    Its name starts with the paper's own number, (i), (ii) or (iii), or with a letter of ours where it has none.
    """

    name: str  # "(ii) bounded gradients"
    verdict: Verdict
    why: Sentence
    how: str  # where the numbers come from: "declared", "by construction", "8124 records", …
    change: Sentence | None = None

    @property
    def label(self) -> str:
        return self.name.split(" ")[0]

    def told(self, words: Words) -> dict[str, Any]:
        """Plain values, with arguments in a reader's words."""
        change = None if self.change is None else self.change.said(words)
        why = self.why.said(words)
        return {"part": self.name, "verdict": self.verdict, "why": why, "how": self.how, "change": change}


@dataclass(frozen=True)
class Finding:
    """One of the paper's assumptions; its verdict is the worst of its parts'."""

    assumption: int
    about: str
    parts: tuple[Part, ...]

    @property
    def verdict(self) -> Verdict:
        return worst([part.verdict for part in self.parts])

    @property
    def decisive(self) -> tuple[Part, ...]:
        """The parts that the verdict is due to."""
        return tuple(part for part in self.parts if part.verdict == self.verdict)

    def told(self, words: Words) -> dict[str, Any]:
        parts = [part.told(words) for part in self.parts]
        return {"assumption": self.assumption, "about": self.about, "verdict": self.verdict, "parts": parts}


@dataclass(frozen=True)
class Applies:
    """Whether a theorem says something of this run, and what."""

    theorem: int
    says: str
    verdict: Verdict  # holds: it applies; fails: it does not
    why: Sentence

    def told(self, words: Words) -> dict[str, Any]:
        return {"theorem": self.theorem, "says": self.says, "verdict": self.verdict, "why": self.why.said(words)}


@dataclass(frozen=True)
class Report:
    """Assumptions 1 to 5, and which theorems follow."""

    findings: tuple[Finding, ...]
    theorems: tuple[Applies, ...]

    def __getitem__(self, assumption: int) -> Finding:
        return next(finding for finding in self.findings if finding.assumption == assumption)

    @property
    def verdict(self) -> Verdict:
        return worst([finding.verdict for finding in self.findings])

    @property
    def broken(self) -> tuple[str, ...]:
        """What fails, such as "2(ii)"."""
        return self.named(FAILS)

    def named(self, verdict: Verdict) -> tuple[str, ...]:
        """The parts with this verdict, such as "2(ii)"."""
        return tuple(
            f"{finding.assumption}{part.label}"
            for finding in self.findings
            for part in finding.parts
            if part.verdict == verdict
        )

    def told(self, words: Words = in_python) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "verdict": self.verdict,
            "broken": list(self.broken),
            "assumptions": [finding.told(words) for finding in self.findings],
            "theorems": [theorem.told(words) for theorem in self.theorems],
        }

    def kept(self) -> list[dict[str, Any]]:
        """What a run record keeps: each assumption with its verdict, and why it is no better."""
        return [
            {
                "assumption": finding.assumption,
                "verdict": finding.verdict,
                "why": " ".join(f"{part.label} {part.why}" for part in finding.decisive),
            }
            for finding in self.findings
        ]
