"""Where results go: checked before a run starts, written whole after it ends."""

from __future__ import annotations

import io
import os
from pathlib import Path

from matplotlib.figure import Figure

from gossamer.simulate.record import replace_file
from gossamer.types import GossamerError

PICTURES = (".png", ".svg", ".pdf")


def check_picture(path: Path) -> None:
    if path.suffix.lower() not in PICTURES:
        raise GossamerError(f"--plot {path}: expected a name that ends in {', '.join(PICTURES)}.")
    check_place(path)


def check_place(path: Path) -> None:
    """Refuse a place that cannot be written before hours of work go there."""
    if path.is_dir():
        raise GossamerError(f"{path} is a folder, expected the name of a file.")
    nearest = next(parent for parent in [path, *path.absolute().parents] if parent.exists())
    if not os.access(nearest, os.W_OK) or (nearest != path and not nearest.is_dir()):
        raise GossamerError(f"{path} cannot be written ({nearest} does not allow it): choose another place.")


def fresh_folder(name: str) -> Path:
    """`name`, or `name-2`, `name-3`, …: the first that does not exist yet, so that no run overwrites another."""
    tried = (Path(name if k == 1 else f"{name}-{k}") for k in range(1, 10**6))
    return next(folder for folder in tried if not folder.exists())


def save_picture(figure: Figure, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lower().removeprefix("."))
    replace_file(path, buffer.getvalue())
