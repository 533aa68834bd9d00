"""Pictures as files, whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.files import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's name asks for."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lower().removeprefix("."))
    replace_file(path, buffer.getvalue())
