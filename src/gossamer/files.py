"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gossamer.errors import GossamerError


def replace_file(
    path: Path, content: bytes | memoryview, *, remedy: str = "choose another place", private: bool = False
) -> None:
    """Write a file whole or not at all; one that is `private` was its owner's alone at every moment."""
    try:
        path = path.resolve()  # a link stays a link
        if path.exists() and not path.is_file():  # a pipe or a device is written to, not replaced
            path.write_bytes(content)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=".gossamer-")  # of its own, whoever else writes here
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            if not private:  # mkstemp has made it so
                umask = os.umask(0)  # it can be read only by setting it
                os.umask(umask)
                os.chmod(fresh, 0o666 & ~umask)
            os.replace(fresh, path)
        except BaseException:
            os.unlink(fresh)
            raise
    except OSError as error:
        raise GossamerError(f"{path} cannot be written ({error.strerror}): {remedy}.") from None
