"""A view as one HTML file that loads nothing: style, scripts and numbers are all in it.

Its Content-Security-Policy allows the scripts and styles below by their digests and nothing else, so that no text in a
view, whatever a user's columns or learners are called, can run or load anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from gossamer.report.view import View

STYLES = ("uPlot.min.css", "page.css")
SCRIPTS = ("uPlot.iife.min.js", "chart.js", "network.js", "page.js")
LIVE_STYLES, LIVE_SCRIPTS = ("live.css",), ("live.js",)


def page(view: View, live: bool = False) -> str:
    """One self-contained page; `live` adds the script that goes on from where the view is."""
    styles = "\n".join(map(_part, (*STYLES, *(LIVE_STYLES if live else ()))))
    scripts = [_part(name) for name in (*SCRIPTS, *(LIVE_SCRIPTS if live else ()))]
    parts = {
        "POLICY": _policy(styles, scripts, live),
        "STYLES": styles,
        "VIEW": embed(view),
        "SCRIPTS": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    text = _part("page.html")
    head, *pieces = text.split("{{")
    filled = [head]
    for piece in pieces:  # what is put in is not searched for places again
        name, rest = piece.split("}}", 1)
        filled += [parts[name], rest]
    return "".join(filled)


def embed(value: Any) -> str:
    """JSON that can stand in a <script>: no text in it can end the element or start a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(styles: str, scripts: list[str], live: bool) -> str:
    allowed = " ".join(map(_digest, scripts))
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; style-src {_digest(styles)}; script-src {allowed}; connect-src {connect}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _part(name: str) -> str:
    return files("gossamer.report").joinpath("page", name).read_text(encoding="utf-8")
