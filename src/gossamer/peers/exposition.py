"""Prometheus's text format: how /metrics is written, and how a party's answer is read by whoever watches it.

What is read comes from somebody else. A line that is not in the format is left out, a number may be anything that a
float can be, and what a label says is any text at all: whoever shows it makes it printable first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]  # ((label, its value), …)
Samples = dict[str, dict[Labels, float]]  # by the name of the metric
LINE = re.compile(r"(gossamer_\w{1,80})(?:\{(.*)\})? (\S{1,40})", re.ASCII)
LABEL = re.compile(r'(\w{1,80})="((?:[^"\\]|\\.)*)"(?:,|$)', re.ASCII)
ESCAPED = {"\\": "\\\\", "\n": "\\n", '"': '\\"'}
MEANT = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}


class Metric(NamedTuple):
    name: str
    help: str
    samples: float | Mapping[Labels, float]

    def lines(self) -> list[str]:
        """What is counted up has a name that says so."""
        kind = "counter" if self.name.endswith("_total") else "gauge"
        lines = [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} {kind}"]
        samples = self.samples if isinstance(self.samples, Mapping) else {(): self.samples}
        for labels, value in samples.items():
            inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
            number = "+Inf" if value == float("inf") else repr(float(value))
            lines.append(f"{self.name}{{{inner}}} {number}" if inner else f"{self.name} {number}")
        return lines


def _escaped(text: str) -> str:
    return "".join(ESCAPED.get(letter, letter) for letter in text)


def read_exposition(body: bytes) -> Samples:
    """All samples of names that begin with gossamer_."""
    found: Samples = {}
    for line in body.decode(errors="replace").split("\n"):
        matched = LINE.fullmatch(line.rstrip("\r"))
        if matched is None:
            continue
        name, inner, number = matched.groups()
        try:
            value = float(number)
        except ValueError:
            continue
        labels = tuple(
            (key, re.sub(r'\\[\\n"]', lambda one: MEANT[one[0]], text)) for key, text in LABEL.findall(inner or "")
        )
        found.setdefault(name, {})[labels] = value
    return found
