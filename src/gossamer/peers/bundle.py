"""What comes back to a party when its request was signed: one JSON file, with nothing secret in it.

    {"gossamer": "joins", "learner": 1, "files": {"party.toml": "…", "graph.json": "…", "authority.pem": "…",
                                                  "certificate.pem": "…", "members.pem": "…", "secrets.json": "…"}}

Who joins a run that has begun gets the signed documents as well that were given since: changes/1.json,
authority-1.json, revoked.json. "renews" instead of "joins": a new certificate for a party that has joined, and nothing
else. Names of files are from a fixed list, so that a bundle can write nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from gossamer.errors import GossamerError
from gossamer.files import replace_file

LIMIT = 1 << 26  # bytes: the graph of thousands
NEEDED = {
    "joins": ("party.toml", "graph.json", "authority.pem", "certificate.pem"),
    "renews": ("certificate.pem",),
}
PUBLIC = (*NEEDED["joins"], "members.pem", "secrets.json")
DOCUMENTS = re.compile(r"changes/[1-9][0-9]{0,5}\.json|authority-[1-9][0-9]{0,3}\.json|revoked\.json")


class Bundle(NamedTuple):
    kind: Literal["joins", "renews"]
    learner: int
    files: Mapping[str, str]


def bundle_of(place: Path, learner: int) -> Bundle:
    """All that goes back to a party from its place in the run's folder."""
    names = [name for name in PUBLIC if (place / name).exists()]
    names += [str(path.relative_to(place)) for pattern in ("*.json", "changes/*.json") for path in place.glob(pattern)]
    known = dict.fromkeys(name for name in names if name in PUBLIC or DOCUMENTS.fullmatch(name))
    return Bundle("joins", learner, {name: (place / name).read_text(encoding="utf-8") for name in known})


def write_bundle(path: Path, bundle: Bundle) -> None:
    whole = {"gossamer": bundle.kind, "learner": bundle.learner, "files": dict(bundle.files)}
    replace_file(path, (json.dumps(whole, indent=1) + "\n").encode())


def read_bundle(path: Path) -> Bundle:
    """A bundle whose parts are there; nothing in it is believed yet."""
    try:
        with path.open("rb") as file:
            given = file.read(LIMIT + 1)
        if len(given) > LIMIT:
            raise ValueError(f"it has more than {LIMIT} bytes")
        whole = json.loads(given)
        kind, learner, files = whole["gossamer"], whole["learner"], whole["files"]
        if kind not in NEEDED or type(learner) is not int or not all(isinstance(one, str) for one in files.values()):
            raise ValueError("it is of another kind")
        allowed = NEEDED[kind] if kind == "renews" else PUBLIC
        missing = set(NEEDED[kind]) - set(files)
        more = {one for one in files if one not in allowed and (kind == "renews" or not DOCUMENTS.fullmatch(one))}
        if missing or more:
            raise ValueError(f"it has {', '.join(sorted(missing or more))} {'not' if missing else 'too'}")
        for text in files.values():
            text.encode()  # half of a pair of surrogates has no bytes
        return Bundle(kind, learner, files)
    except OSError as error:
        raise GossamerError(f"{path} cannot be read ({error.strerror}): give the file that was sent.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GossamerError(
            f"{path} is no file of 'gossamer peers sign' ({error}): give the file that was sent back."
        ) from None
