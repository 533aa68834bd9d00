"""Where results go: checked before a run starts, written whole after it ends."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from gossamer.cli.words import in_command
from gossamer.errors import Argument, GossamerError
from gossamer.spec.description import Spec

PICTURES = (".png", ".svg", ".pdf")


def check_picture(path: Path) -> None:
    if path.suffix.lower() not in PICTURES:
        raise GossamerError(f"--plot {path}: expected a name that ends in {', '.join(PICTURES)}.")
    check_place(path)


def check_place(path: Path) -> None:
    """Refuse a place that cannot be written before hours of work go there."""
    try:
        if path.is_dir():
            raise GossamerError(f"{path} is a folder, expected the name of a file.")
        nearest = next(parent for parent in [path, *path.absolute().parents] if parent.exists())
    except OSError as error:
        raise GossamerError(f"{path} cannot be written ({error.strerror}): choose another place.") from None
    if not os.access(nearest, os.W_OK) or (nearest != path and not nearest.is_dir()):
        raise GossamerError(f"{path} cannot be written ({nearest} does not allow it): choose another place.")


def check_apart(**places: Path | None) -> None:
    """Refuse two options that name one file, so that nothing overwrites what it reads or another result."""
    seen: dict[Path, str] = {}
    for option, path in places.items():
        if path is not None:
            real = Path(os.path.realpath(path))
            for other, name in seen.items():
                if real == other or other in real.parents or (real in other.parents and name == "out"):
                    raise GossamerError(f"--{option} {path} and --{name} are one place: rename one of them.")
            seen[real] = option


def fresh_folder(name: str) -> Path:
    """Make `name`, or `name-2`, `name-3`, …: the first that does not exist yet, so that no run overwrites another."""
    for k in range(1, 10**6):
        folder = Path(name if k == 1 else f"{name}-{k}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
        except OSError as error:
            raise GossamerError(f"no folder can be made here ({error.strerror}): give --out FOLDER.") from None
    raise GossamerError(f"there are a million folders {name}-… here: give --out FOLDER.")


def command_line() -> str:
    """What was typed, for a page that says how it was made."""
    return shlex.join(["gossamer", *sys.argv[1:]])


def command_for(name: str, spec: Spec) -> str:
    """The command line that gives this description."""
    words = ["gossamer", name, *([spec.data.dataset] if spec.data.dataset else [])]
    for setting, value in spec.given().items():
        if setting == "dataset":
            continue
        for one in value if isinstance(value, tuple) else [value]:
            words += in_command(Argument(setting, f"{one:g}" if isinstance(one, float) else one)).split(" ", 1)
    return shlex.join(words)
