"""docs/design.md names the rooms that import-linter knows, and all files of a party."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")


def layers_of(container):
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (found,) = [one["layers"] for one in contracts if one.get("containers") == [container]]
    return {name for layer in found for name in re.split(r" [|:] ", layer)}


def test_every_room_is_in_the_picture():
    picture = TEXT[TEXT.index("┌") : TEXT.index("└")]
    words = {word for line in picture.splitlines() for word in re.findall(r"\w+", line)}
    assert layers_of("gossamer") - words == set()
    assert {len(line) for line in picture.splitlines()[1:-1]} == {110}, "its sides are straight"


def test_every_file_of_a_party_has_its_row():
    rows = TEXT[TEXT.index("## A party, file by file") :]
    named = set(re.findall(r"`(\w+)`", rows[: rows.index("\n## ", 5)]))
    files = {path.stem for path in (ROOT / "src/gossamer/peers").glob("*.py")} - {"__init__"}
    assert files - named == set()
    assert layers_of("gossamer.peers") == files
