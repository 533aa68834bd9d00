"""Environments of their own for other software, made by pip and kept; where one cannot be made, a sentence says why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".bench-peers"
PATIENCE = 900  # seconds that pip may take


class Skipped(Exception):
    """Why something is not measured here; printed in the place of its number."""


@dataclass(frozen=True)
class Environment:
    """What pip installs together, and the oldest Python that it runs on."""

    name: str
    requirements: tuple[str, ...]
    least: tuple[int, int] = (3, 11)

    def python(self, folder: Path = FOLDER) -> Path:
        """This environment's interpreter; the environment is made where it is not there yet."""
        place = folder / self.name
        interpreter, stamp = place / "bin" / "python", place / "made-of.txt"
        base = interpreter_of(self.least)
        made_of = "\n".join((base, *self.requirements))
        if stamp.is_file() and stamp.read_text() == made_of and interpreter.exists():
            return interpreter
        shutil.rmtree(place, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        _done(self.name, [base, "-m", "venv", str(place)])
        _done(self.name, [str(interpreter), "-m", "pip", "install", "--no-input", *self.requirements])
        stamp.write_text(made_of)
        return interpreter


def interpreter_of(least: tuple[int, int]) -> str:
    """A Python that is new enough: this one, else the newest that is found; else this one, and pip says why not."""
    if sys.version_info[:2] >= least:
        return sys.executable
    names = (f"python{least[0]}.{minor}" for minor in range(least[1] + 3, least[1] - 1, -1))
    found = (shutil.which(name) for name in names)
    return next((path for path in found if path is not None and _runs(path)), sys.executable)


def _runs(path: str) -> bool:
    """Whether it is an interpreter, and not a manager's stand-in for one that is not chosen."""
    return subprocess.run([path, "-c", ""], capture_output=True).returncode == 0


def alone() -> dict[str, str]:
    """The variables that other software is started with: none that leads to this project or pins its versions."""
    return {k: v for k, v in os.environ.items() if k not in ("PIP_CONSTRAINT", "PYTHONPATH", "VIRTUAL_ENV")}


def _done(name: str, command: list[str]) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, env=alone(), timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Skipped(f"{name} cannot be installed: {error}") from None
    if ended.returncode:
        raise Skipped(f"{name} cannot be installed: {reason(ended.stderr or ended.stdout)}")


def reason(output: str) -> str:
    """The last sentence of an error; where pip left versions out for Python's version, that they were."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or ["it said nothing"])[-1].rstrip(".")
    asked = [line for line in errors if "Requires-Python" in line]
    if not asked:
        return f"{last}."
    wanted = asked[-1].rsplit("Requires-Python", 1)[1].strip()
    return f"{last}: it asks for Python {wanted}, and none is on the PATH."
