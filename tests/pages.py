"""Pages of the documentation as programs: their code blocks, in order, run in a folder of their own.

    ```python      runs; all of a page share one set of names. A ```text block right below is what it prints
    ```console     `$ command` runs; the lines below it are what it prints
    ```text, ```toml …   is shown and not run

A comment right above a block says more of it:

    <!-- file: links.txt -->          the block is a file of that name
    <!-- exit code: 1 -->             how its commands end, where that is not 0
    <!-- not run: needs root -->      why it cannot run here
    <!-- run first: cp a b -->        a command that the page does not show, anywhere on the page

What is printed is compared lightly, because noise differs from run to run: each line shown must be printed, in this
order, with the same words. `…` stands for anything. An accuracy may differ by 0.05, another number by a factor of 1.8,
and the numbers of a line with three or more, as tables have, by anything.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# Notes in which results were written down, by studies of hours; what they show is no instruction.
STUDIES = ROOT / "docs" / "results"
BUILT = ROOT / "docs" / "_build"
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    + [page for page in (ROOT / "docs").rglob("*.md") if not {STUDIES, BUILT} & set(page.parents)]
)
CODE = ("python", "console")
SHOWN = ("text", "toml", "json", "{toctree}", "{eval-rst}", "{include}")  # the last three are for the site
FENCE = re.compile(r"^(?:<!-- ([^\n]*) -->\n)?```(\S+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FIRST = re.compile(r"^<!-- run first: (.*) -->$", re.MULTILINE)
NUMBER = re.compile(r"[-+−]?\d(?:[\d,.]*\d)?(?:e[-+]?\d+)?")
LIMIT = 600  # seconds for a command, on a machine that is busy with other things


class Block(NamedTuple):
    """A block of a page. `said` is the comment above it, and `prints` what the page says that it prints."""

    language: str
    text: str
    said: str
    prints: str

    @property
    def skipped(self) -> str:
        """Why it is not run; empty where it is."""
        return self.said.removeprefix("not run: ") if self.said.startswith("not run: ") else ""

    @property
    def file(self) -> str:
        """The file that it is; empty where it is none."""
        return self.said.removeprefix("file: ") if self.said.startswith("file: ") else ""

    @property
    def exit_code(self) -> int:
        return int(self.said.removeprefix("exit code: ")) if self.said.startswith("exit code: ") else 0


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    """A page's blocks in order; a command that the page does not show is a block in its place."""
    text = page.read_text(encoding="utf-8")
    found: list[tuple[int, Block]] = [
        (hidden.start(), Block("console", f"$ {hidden[1]}\n", "", "")) for hidden in FIRST.finditer(text)
    ]
    fences = list(FENCE.finditer(text))
    for fence, after in itertools.zip_longest(fences, fences[1:]):
        said, language, body = fence[1] or "", fence[2], fence[3]
        is_output = after and after[2] == "text" and not after[1] and not text[fence.end() : after.start()].strip()
        found.append((fence.start(), Block(language, body, said, after[3] if is_output else "")))
    return [block for _, block in sorted(found, key=lambda pair: pair[0])]


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with what it prints."""
    parts = re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.MULTILINE)
    assert not parts[0].strip(), f"a console block begins with `$ `: {parts[0]!r}"
    return [(lines.split("\n")[0], "\n".join(lines.split("\n")[1:])) for lines in parts[1:]]


def unlike(shown: str, printed: str) -> str:
    """The first line that is shown and was not printed; empty if all were, in order."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    at = 0
    for wanted in filter(None, (" ".join(line.split()) for line in shown.splitlines())):
        if wanted == "…":
            continue
        for k in range(at, len(lines)):
            if _like(wanted, lines[k]):
                at = k + 1
                break
        else:
            return wanted
    return ""


def _like(wanted: str, line: str) -> bool:
    words = NUMBER.split(wanted)
    pattern = f"({NUMBER.pattern})".join(re.escape(word).replace("…", ".*") for word in words)
    found = re.fullmatch(pattern, line)
    if found is None:
        return False
    numbers = zip(words[:-1], NUMBER.findall(wanted), found.groups(), strict=True)
    pairs = [(before, _number(a), _number(b)) for before, a, b in numbers]
    accuracies = [abs(a - b) for before, a, b in pairs if before.lower().endswith("accuracy ")]
    return all(apart <= 0.05 for apart in accuracies) and (len(pairs) > 2 or all(_near(a, b) for _, a, b in pairs))


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-")) if text.count(".") < 2 else math.nan


def _near(a: float, b: float) -> bool:
    return math.isnan(a) or a == b or (a * b > 0 and 1 / 1.8 <= a / b <= 1.8)


def run_page(page: Path, folder: Path, command, printed) -> None:
    """Run all of a page in `folder`, which is the current one and on Python's path.

    command   runs gossamer in this process: (words) -> (exit code, output)
    printed   gives what was printed since it was last asked
    """
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(page):
        if block.skipped:
            continue
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed()
            exec(compile(block.text, name_of(page), "exec"), names)
            told = printed()
            missing = unlike(block.prints, told)
            assert not missing, f"{name_of(page)} shows {missing!r}, which is not in:\n{told}"
        elif block.language == "console":
            for line, shown in commands_of(block):
                code, told = run_line(line, folder, command)
                assert code == block.exit_code, f"{name_of(page)}: $ {line}\nended with {code}:\n{told}"
                missing = unlike(shown, told)
                assert not missing, f"{name_of(page)}: $ {line}\nshows {missing!r}, which is not in:\n{told}"


def run_line(line: str, folder: Path, command) -> tuple[int, str]:
    """A line of a console: gossamer in this process, where that is quick and nothing else is in the line."""
    words = shlex.split(line, comments=True)
    if words[0] == "gossamer" and words[1:3] != ["peers", "up"] and not {"|", ">", "&&", ";"} & set(words):
        return command(words[1:])
    if words[0] == "mpiexec":
        beside = {"mpiexec": str(Path(sys.executable).with_name("mpiexec")), "python": sys.executable}
        line = shlex.join([beside.get(word, word) for word in words])
    if words[0] in ("gossamer", "python"):
        line = shlex.join([sys.executable, *(["-m", "gossamer"] if words[0] == "gossamer" else []), *words[1:]])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    ended = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
    )
    return ended.returncode, ended.stdout
