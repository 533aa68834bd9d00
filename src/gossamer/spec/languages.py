"""What the settings' little languages mean: '1,0.6' is a step size, '1,2,4' a budget for each of three learners."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from gossamer.errors import BadValue, GossamerError
from gossamer.privacy.releases import Releases, every, thinning
from gossamer.privacy.secrets import LEAST_SHARE, MOST_SHARE
from gossamer.quoting import name_and_rest, name_of, split
from gossamer.schedules import Decay, decay
from gossamer.streams.cells import day
from gossamer.streams.schema import End


def step_schedule(text: str) -> Decay:
    """'1,0.6' is λ_t = 1/(t+1)^0.6."""
    numbers = _numbers("step", text, "λ0,v such as 1,0.6", text.split(","))
    if len(numbers) != 2:
        raise BadValue("step", text, "expected two numbers λ0,v such as 1,0.6")
    return _decay("step", text, *numbers)


def noise_schedule(text: str, learners: int) -> Decay | None:
    """'1,0.51:0.6' is ν_{i,t} = 1/(t+1)^ς_i with ς evenly from 0.51 to 0.6 over the learners; '0' is no noise."""
    form = "0 for none, or ν0,ς or ν0,ς_first:ς_last such as 1,0.51:0.6"
    if text.strip() in ("0", "none"):
        return None
    initial, _, exponents = text.partition(",")
    (start,) = _numbers("noise", text, form, [initial])
    ends = _numbers("noise", text, form, exponents.split(":"))
    if len(ends) > 2:
        raise BadValue("noise", text, f"expected {form}")
    apart = (ends[-1] - ends[0]) / max(learners - 1, 1)
    spread = [round(ends[0] + i * apart, 12) for i in range(learners)]
    return _decay("noise", text, [start] * learners, spread)


def release_schedule(text: str) -> Releases:
    """'1,400' is every round from round 400 on, '2,400,800' every other before round 800, 'thin:1.1,400' ever fewer."""
    form = "r,W or r,W,E such as 1,400, or thin:q,W such as thin:1.1,400"
    thin, numbers = text.startswith("thin:"), _numbers("releases", text, form, text.removeprefix("thin:").split(","))
    whole = all(number == int(number) for number in numbers[thin:] if math.isfinite(number))
    if len(numbers) not in (2, 3) or not whole or not all(map(math.isfinite, numbers)):
        raise BadValue("releases", text, f"expected {form}")
    first, after, *until = numbers
    end = {"until": int(until[0])} if until else {}
    try:
        return thinning(first, after=int(after), **end) if thin else every(int(first), after=int(after), **end)
    except BadValue as error:
        raise BadValue("releases", text, error.requirement, error.remedy) from None


def rounds(text: str) -> float:
    """'2000', or 'inf' for ever."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not number >= 1 or (math.isfinite(number) and number != int(number)):
        raise BadValue("horizon", text, "expected a whole number of rounds ≥ 1, or inf")
    return number


def budgets(text: str, learners: int) -> list[float]:
    """'8' is ε = 8 for all, '1,2,4' one for each of three learners."""
    numbers = _numbers("epsilon", text, "one ε, or one for each learner: 1,2,4", text.split(","))
    if len(numbers) not in (1, learners):
        raise BadValue("epsilon", text, f"{len(numbers)} budgets for {learners} learners", "give one, or one each")
    if not all(0 < number < math.inf for number in numbers):
        raise BadValue("epsilon", text, "expected a finite number above 0, or one for each learner")
    return numbers * learners if len(numbers) == 1 else numbers


def names(texts: Sequence[str]) -> list[str]:
    """['a,b', '"c, d"'] is ['a', 'b', 'c, d']."""
    return [name_of(word) for word in _words(texts)]


def column_ranges(texts: Sequence[str]) -> dict[str, tuple[End, End]]:
    """['age=0:120', '"weight, kg"=0:200', 'day=2020-01-01:2024-12-31'] declares what columns may hold; dates stay text.

    No end of a range has an = in it, so that a=b=0:9 can only be of the column a=b.
    """
    ranges = {}
    for part in _words(texts):
        name, _, ends = part.rpartition("=")
        form = "COLUMN=LOW:HIGH such as age=0:120, or '\"weight, kg\"=0:200' where a name has a comma in it"
        words = [word.strip() for word in ends.split(":")]
        low_high = words if all(map(day, words)) else _numbers("range", part, form, words)
        if len(low_high) != 2 or not name.strip():
            raise BadValue("range", part, f"expected {form}")
        ranges[name_of(name)] = (low_high[0], low_high[1])
    return ranges


def column_categories(texts: Sequence[str]) -> dict[str, list[str]]:
    """['ward=a|b|c', '"a=b"=x|"y|z"'] declares what columns of categories may hold."""
    categories: dict[str, list[str]] = {}
    for part in texts:
        typed, listed = name_and_rest(part)
        name, values = name_of(typed), split(listed, "|")
        if not typed.strip() or len(values) < 2:
            raise BadValue("categories", part, "expected COLUMN=A|B|…, in quotes, such as 'ward=north|south'")
        if name in categories:
            raise BadValue("categories", part, f"column {name!r} is declared twice", "list all at once")
        categories[name] = [name_of(value) if value.strip().startswith('"') else value for value in values]
    return categories


def separator_of(text: str | None) -> str | None:
    """';', or 'tab' for one, which is hard to type."""
    return "\t" if text in ("tab", "\\t") else text


def class_names(text: str | None) -> list[str] | None:
    """'0,1' or 'well,ill': the target's classes in the order of their numbers."""
    return None if text is None else [name_of(word) for word in split(text, ",")]


def _words(texts: Sequence[str]) -> list[str]:
    """What stands between commas, as it was typed."""
    return [word for text in texts for word in split(text, ",") if word.strip()]


def _decay(setting: str, text: str, initial: float | list[float], exponent: float | list[float]) -> Decay:
    try:
        return decay(initial, exponent)
    except BadValue as error:  # names an argument of decay(), which whoever wrote the setting has never seen
        raise BadValue(setting, text, error.requirement, error.remedy) from None
    except GossamerError as error:
        raise BadValue(setting, text, str(error).partition(": ")[2].rstrip(".")) from None


def _numbers(setting: str, text: str, form: str, words: list[str]) -> list[float]:
    try:
        return [float(word) for word in words]
    except ValueError:
        raise BadValue(setting, text, f"expected {form}") from None


def pair_share(text: str | None) -> float | Literal["auto"]:
    """τ/σ of pair secrets: a number, or auto."""
    if text is None or text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        requirement = f"expected auto, or a number from {LEAST_SHARE:g} to {MOST_SHARE:g}"
        raise BadValue("share", text, requirement) from None
