"""Names in a list that somebody types: age,dose and, as a CSV file has it, "weight, kg" in quotes.

A name stands in quotes where it has a sign of the list in it, begins with a quote, or begins or ends with a space. A
quote within is then doubled. Where no second quote follows, and within other names, a quote is a letter as any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

QUOTED = r'"(?:[^"]|"")*"'


def split(text: str, separator: str) -> list[str]:
    """The words between separators, as they were typed; a separator in quotes is none."""
    word = re.compile(rf"(?:\s*{QUOTED}(?=\s*(?:[={re.escape(separator)}]|$)))?[^{re.escape(separator)}]*")
    words, at = list[str](), 0
    while True:
        found = word.match(text, at)
        assert found is not None  # it may be empty
        words.append(found.group())
        at = found.end() + 1
        if at > len(text):
            return words


def name_and_rest(word: str) -> tuple[str, str]:
    """NAME=REST, split at the first = outside of the name's quotes; no rest where there is none."""
    quoted = re.match(rf"\s*({QUOTED})\s*=", word)
    return (quoted.group(1), word[quoted.end() :]) if quoted else word.partition("=")[::2]


def name_of(word: str) -> str:
    """A name without its quotes, or the spaces around it."""
    plain = word.strip()
    return plain[1:-1].replace('""', '"') if re.fullmatch(QUOTED, plain) else plain


def typed(name: str, signs: str = ",=") -> str:
    """A name as it is typed in a list in which these signs mean something."""
    plain = name and name.strip() == name and not name.startswith('"') and not any(sign in name for sign in signs)
    return name if plain else '"' + name.replace('"', '""') + '"'


def typed_list(names: Iterable[str], between: str = ",") -> str:
    return between.join(map(typed, names))
