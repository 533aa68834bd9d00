"""The files with which a party, or an authority, is who it is: their names, and how they are written."""

from __future__ import annotations

from pathlib import Path

from gossamer.errors import GossamerError
from gossamer.files import replace_file
from gossamer.peers.certificates import Pair, check_pair

KEY, CERTIFICATE = "key.pem", "certificate.pem"
AUTHORITY, MEMBERS, SECRET = "authority.pem", "members.pem", "secret.pem"  # of a party alone


def write_pair(folder: Path, own: Pair) -> None:
    """Into a folder that, where it is new, is its owner's alone from the beginning."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise GossamerError(f"{folder} cannot be made ({error.strerror}): give another place.") from None
    replace_file(folder / CERTIFICATE, own.certificate)
    replace_file(folder / KEY, own.key, private=True)


def read_authority(folder: Path) -> Pair:
    """An authority's key and certificate, wherever they are kept."""
    try:
        found = Pair((folder / KEY).read_bytes(), (folder / CERTIFICATE).read_bytes())
    except OSError as error:
        raise GossamerError(
            f"{error.filename} cannot be read ({error.strerror}): say where the authority is, --authority FOLDER."
        ) from None
    check_pair(found)
    return found
