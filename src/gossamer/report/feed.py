"""What open pages are told while a run goes on: the whole view so far, and what was added to it since.

A delta adds to the view: points at the end of charts, how far the learners are, which links carried something. The feed
keeps the view with all deltas in it, and the newest deltas one by one. A page that comes back says which it saw last:
it gets those after it, or the whole view where they are no longer kept. Either way it has every point.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

KEPT = 600  # deltas; at five a second two minutes, after which a page gets the whole view again
DIGITS = 18  # of an event's number: more than any run has, and few enough to be read
Delta = Mapping[str, Any]  # see docs/live.md
Shown = TypeVar("Shown")


class Event(NamedTuple):
    """What goes to a page: a delta, or a whole view; `id` is what the page says to go on from here."""

    id: str
    kind: str
    text: str  # JSON
    ended: bool


class Feed:
    """The view so far and the newest deltas; any thread may push and read."""

    def __init__(self, view: dict[str, Any], kept: int = KEPT) -> None:
        self._name = secrets.token_hex(4)  # a page that was open when another run was served here starts anew
        self._lock = threading.Lock()
        self._view = view
        self._log: deque[Event] = deque(maxlen=kept)
        self._seq, self._ended = 0, False
        view["live"] = dict(view.get("live") or {}) | {"seq": 0, "id": self._id(0)}

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._ended

    def push(self, delta: Delta) -> None:
        """Add to the view; what is pushed after the end is dropped."""
        with self._lock:
            if self._ended:
                return
            self._seq += 1
            told = {"seq": self._seq, "id": self._id(self._seq), **delta}
            self._ended = bool(delta.get("ended"))
            if delta.get("view") is not None:  # instead of what there was; how far the run is goes on
                live = (self._view.get("live") or {}) | (delta["view"].get("live") or {})
                self._view = told["view"] = {**delta["view"], "live": live}
            add_to_view(self._view, told)
            self._log.append(Event(self._id(self._seq), "delta", _json(told), self._ended))

    def shown(self, show: Callable[[dict[str, Any]], Shown]) -> Shown:
        """What `show` makes of the view so far, which nobody changes meanwhile."""
        with self._lock:
            return show(self._view)

    def whole(self) -> Event:
        """The view so far."""
        with self._lock:
            return Event(self._id(self._seq), "view", _json(self._view), self._ended)

    def after(self, last: str | None) -> list[Event]:
        """What a page lacks whose newest event is `last`: deltas, or the whole view."""
        with self._lock:
            seen = self._seq_of(last)
            missing = self._seq - seen
            if 0 <= missing <= len(self._log):
                return [self._log[k] for k in range(len(self._log) - missing, len(self._log))]
        return [self.whole()]

    def _id(self, seq: int) -> str:
        return f"{self._name}.{seq}"

    def _seq_of(self, last: str | None) -> int:
        """Where a page is; beyond all where its id is not of this feed."""
        name, _, seq = (last or "").partition(".")
        ours = name == self._name and seq.isascii() and seq.isdecimal() and len(seq) <= DIGITS
        return int(seq) if ours else self._seq + 1


def add_to_view(view: Any, delta: Delta) -> None:
    """The view with the delta in; page.js does the same."""
    if delta.get("view") is None:  # a whole view has its points
        for chart in view.get("charts") or []:
            more = (delta.get("charts") or {}).get(chart["id"])
            if more is not None:
                chart["t"].extend(more["t"])
                for series in chart["series"]:
                    for part, suffix in (("y", ""), ("low", " low"), ("high", " high")):
                        if part in series:
                            series[part].extend(more["series"][series["name"] + suffix])
        spent, more = view.get("epsilon"), delta.get("epsilon")
        if spent is not None and more is not None:
            spent["t"].extend(more["t"])
            for learner, y in zip(spent["learners"], more["learners"], strict=True):
                learner["y"].extend(y)
    if "facts" in delta:
        view["facts"] = delta["facts"]
    live = dict(view.get("live") or {})
    live |= {name: delta[name] for name in ("seq", "id", "t", "seconds", "said", "failed", "ended") if name in delta}
    if "learners" in delta:
        before = live.get("learners") or [{} for _ in delta["learners"]]
        live["learners"] = [old | new for old, new in zip(before, delta["learners"], strict=True)]
    view["live"] = live


def _json(value: Any) -> str:
    """JSON in one line; numbers as Python writes them, so that a page has the very same."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
