"""What comes back to a party when its request was signed: one JSON file, with nothing secret in it.

    {"gossamer": "joins", "learner": 1, "files": {"party.toml": "…", "graph.json": "…", "authority.pem": "…",
                                                  "certificate.pem": "…", "members.pem": "…", "secrets.json": "…"}}

"renews" instead of "joins": a new certificate for a party that has joined, and nothing else. Names of files are from a
fixed list, so that a bundle can write nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from gossamer.errors import GossamerError
from gossamer.files import replace_file

LIMIT = 1 << 26  # bytes: the graph of thousands
NEEDED = {
    "joins": ("party.toml", "graph.json", "authority.pem", "certificate.pem", "members.pem"),
    "renews": ("certificate.pem",),
}
ALLOWED = {"joins": (*NEEDED["joins"], "secrets.json"), "renews": NEEDED["renews"]}


class Bundle(NamedTuple):
    kind: Literal["joins", "renews"]
    learner: int
    files: Mapping[str, str]


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
        missing, more = set(NEEDED[kind]) - set(files), set(files) - set(ALLOWED[kind])
        if missing or more:
            raise ValueError(f"it has {', '.join(sorted(missing or more))} {'not' if missing else 'too'}")
        return Bundle(kind, learner, files)
    except OSError as error:
        raise GossamerError(f"{path} cannot be read ({error.strerror}): give the file that was sent.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GossamerError(
            f"{path} is no file of 'gossamer peers sign' ({error}): give the file that was sent back."
        ) from None
