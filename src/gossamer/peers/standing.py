"""How each learner stands, in a word and a sentence, from what all of them last wrote to their status files.

Who waits is not to blame: it waits for another. So a learner is late where somebody waits for it and it does not wait
itself, or where it has not been heard of for a while.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

SILENT = 4.0  # seconds without a word, of which there is one a second
State = Literal["running", "waiting", "late", "stopped", "failed", "done", "unknown"]
STATES: Mapping[str, State] = {
    "not started": "waiting", "starting": "waiting", "waiting for records": "waiting", "waiting": "waiting",
    "held": "waiting", "put out": "waiting", "running": "running", "delivering": "running", "done": "done",
    "stopped": "stopped", "failed": "failed", "disk full": "stopped", "starting again": "stopped",
}  # fmt: skip
AGAIN = ("disk full", "starting again")  # ended for what passes by itself: see gossamer.peers.passing
OVER = ("done", "stopped", "failed")


class Standing(TypedDict):
    """One learner, for whoever watches; `t` is None where it has not said in which round it is."""

    state: State
    t: int | None
    said: str


def standings(
    statuses: Sequence[Mapping[str, Any]], pids: Mapping[str, int] | None = None, now: float | None = None
) -> list[Standing]:
    """How the learners stand at this moment.

    `pids` has the process of every learner that is known to run, by its folder's name: a status that another process
    has written is of one that was ended. Without it nothing is known but the files.
    """
    now = time.time() if now is None else now
    first = [_alone(one, pids, now) for one in statuses]
    waiting = {_number(one) for one, standing in zip(statuses, first, strict=True) if standing["state"] == "waiting"}
    waits = {j: whom for one in statuses if (j := _number(one)) in waiting and (whom := one.get("waits_for"))}
    for one, standing in zip(statuses, first, strict=True):
        blamed = [j for j, whom in waits.items() if _number(one) in whom]
        if standing["state"] == "running" and blamed:
            standing |= {"state": "late", "said": _joined([_waiting_for_it(blamed), standing["said"]])}
    return first


def _alone(one: Mapping[str, Any], pids: Mapping[str, int] | None, now: float) -> Standing:
    """What a learner's own status says."""
    state, t, life = STATES.get(one["state"], "running"), one.get("round"), one.get("life", 1)
    again = f"started {life} times" if life > 1 else ""
    if pids is not None and state not in OVER:
        runs = pids.get(one["folder"])
        if runs is None or one.get("pid", runs) != runs:
            return {
                "state": "stopped",
                "t": t,
                "said": "was ended" + ("" if runs is None else ", and is started again"),
            }
    quiet = now - one.get("updated", now)
    if quiet > SILENT and state not in OVER:
        return {"state": "late", "t": t, "said": _joined([f"silent for {quiet:.0f} s", again])}
    said = {"failed": str(one.get("why", "")), "stopped": f"in round {t or 0}"}.get(state, "")
    if one["state"] in AGAIN:
        said = f"{one['state']}: {one.get('why', '')}"
    if state == "waiting":
        whom = one.get("waits_for") or []
        where = f" in {one['file']}" if one.get("file") else ""
        alone = str(one["state"]).replace("not started", "starting") + where
        said = f"waits for {_learners(whom)}" if whom else alone
    if one.get("differs") and state == "waiting":
        said = "settings differ"
    if one["state"] == "put out":
        said = "is told that it was put out"
    if one["state"] == "held":
        said = f"held by what {_learners([int(j) for j in one.get('held') or {}])} said"
    return {"state": state, "t": t, "said": _joined([said, again])}


def _number(one: Mapping[str, Any]) -> int:
    """Which learner it is: it says so itself, and until then its folder does."""
    return int(one.get("learner", one["folder"].rpartition("-")[2]))


def _waiting_for_it(numbers: Sequence[int]) -> str:
    return f"{_learners(numbers)} wait{'' if len(numbers) > 1 else 's'} for it"


def _learners(numbers: Sequence[int]) -> str:
    return f"learner{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def _joined(parts: Sequence[str]) -> str:
    return "; ".join(part for part in parts if part)
