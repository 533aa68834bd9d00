"""Docstrings here are plain text with indented equations. This turns them into what Sphinx reads, and changes no word.

A paragraph stays a paragraph, and in it `code`, *words* and **words** are marked. A block that is indented is shown as
it stands. A block of lines `name   what it is` becomes a list of names. So does scikit-learn's kind: a heading that is
underlined, then names, each with what it is indented below. A block of lines that begin with "- " becomes a list.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

NAMED = re.compile(r"(\S(?:.*?\S)?) {2,}(\S.*)")
MARKED = re.compile(r"(`[^`]+`|(?<![\w*])\*\*?[^\W\d_][^*`]*[^\W_]\*\*?(?![\w*]))")  # `code`, *so*, **so**
INDENT = "   "


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", name_aliases)
    return {"parallel_read_safe": True}


def rewrite(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Sphinx asks for a docstring to be changed in place."""
    lines[:] = as_markup(lines)


def name_aliases(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Types that have a name of their own are shown by it: Array, Schedule."""
    shown = [text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (signature, returns)]
    return shown[0], shown[1]


def as_markup(lines: list[str]) -> list[str]:
    """A plain docstring's lines in reStructuredText."""
    out: list[str] = []
    for block in _blocks(lines):
        out += [*_block_as_markup(block), ""]
    return out


def _blocks(lines: list[str]) -> list[list[str]]:
    """What stands between empty lines, except that blocks indented one after another are one block."""
    blocks: list[list[str]] = []
    after_gap = True
    for line in lines:
        if not line.strip():
            after_gap = True
            continue
        indented = line.startswith(" ")
        if after_gap and indented and blocks and blocks[-1][0].startswith(" "):
            blocks[-1] += ["", line]
        elif after_gap:
            blocks.append([line])
        else:
            blocks[-1].append(line)
        after_gap = False
    return blocks


def _block_as_markup(block: list[str]) -> list[str]:
    if block[0].startswith(" "):
        return ["::", "", *(INDENT + line if line else "" for line in block)]
    if len(block) > 1 and re.fullmatch("-{3,}", block[1]):
        below = [INDENT + _inline(line.strip()) if line.startswith(" ") else _code(line) for line in block[2:]]
        return [f"**{block[0]}**", "", *below]
    if NAMED.fullmatch(block[0]) and all(line.startswith(" ") or NAMED.fullmatch(line) for line in block):
        return _names(block)
    if block[0].startswith("- "):
        return ["- " + _inline(line[2:]) if line[:2] == "- " else "  " + _inline(line.strip()) for line in block]
    ends = [k for k, line in enumerate(block) if line.startswith((" ", "- ")) or (k and NAMED.fullmatch(line))]
    cut = min(ends, default=None)
    if cut is None:
        return [_inline(line) for line in block]
    return [*(_inline(line) for line in block[:cut]), "", *_block_as_markup(block[cut:])]


def _names(block: list[str]) -> list[str]:
    out: list[str] = []
    for line in block:
        named = None if line.startswith(" ") else NAMED.fullmatch(line)
        if named:
            out += [_code(named[1]), INDENT + _inline(named[2])]
        else:
            out.append(INDENT + _inline(line.strip()))
    return out


def _inline(line: str) -> str:
    """A line in which nothing but `code`, *words* and **words** is markup."""
    parts = MARKED.split(line)
    told = "".join(_marked(part) if k % 2 else re.sub(r"([\\*_|`])", r"\\\1", part) for k, part in enumerate(parts))
    # A line must not look like a list, a field or a directive where it is none.
    return re.sub(r"^([-+•:.>]|\w+[.)] |\()", r"\\\1", told)


def _marked(part: str) -> str:
    return _code(part[1:-1]) if part.startswith("`") else f"\\ {part}\\ "


def _code(text: str) -> str:
    return f"\\ ``{text.strip()}``\\ " if text.strip() else ""
