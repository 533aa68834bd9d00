"""What a learner has sent and somebody may not have used yet: by round, for every listener.

An acknowledgement of round t says that the listener has committed the round that used it, and with it all before. What
all listeners have used is forgotten; what is left is what goes out again on a link that begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


class Outbox:
    """Messages by round and listener, and the newest round that each listener has used."""

    def __init__(self, listeners: Iterable[int]) -> None:
        self.used = dict.fromkeys(listeners, -1)
        self._rounds: dict[int, dict[int, list[bytes]]] = {}

    def __iter__(self) -> Iterator[int]:
        """The rounds of which something is left."""
        return iter(self._rounds)

    def __len__(self) -> int:
        return len(self._rounds)

    def put(self, t: int, addressed: Mapping[int, list[bytes]]) -> None:
        """Round t's messages for its listeners."""
        if addressed:
            self._rounds[t] = dict(addressed)

    def to(self, listener: int, since: int) -> list[bytes]:
        """All that it may not have used yet, oldest first, from round `since` on."""
        unused = []
        for t in sorted(self._rounds):
            if t > self.used[listener] and t >= since:
                unused += self._rounds[t].get(listener, [])
        return unused

    def has_used(self, listener: int, t: int) -> bool:
        """Take note that it has used all up to round t; False where that is nothing new."""
        if t <= self.used[listener]:
            return False
        self.used[listener] = t
        return True

    def forget_used(self) -> None:
        """Drop what all listeners have used."""
        for t in [t for t, told in self._rounds.items() if all(t <= self.used[j] for j in told)]:
            del self._rounds[t]

    def unused(self) -> list[int]:
        """The rounds that somebody has not used."""
        return [t for t, told in self._rounds.items() if any(self.used[j] < t for j in told)]

    def waited_for(self, oldest: int | None = None, late: Mapping[int, int] | None = None) -> list[int]:
        """Listeners that have not used what they were sent, up to round `oldest` less what each may be late."""
        waiting = [(t, told) for t, told in self._rounds.items() if oldest is None or t <= oldest]
        if not waiting:
            return []
        late = late or {}
        return [
            j for j, used in self.used.items()
            if any(used < t and j in told and (oldest is None or t <= oldest - late.get(j, 0)) for t, told in waiting)
        ]  # fmt: skip

    def listeners(self) -> set[int]:
        """Who was sent something that is left."""
        return {j for told in self._rounds.values() for j in told}

    def sizes(self) -> list[int]:
        """Bytes of every listener's messages of a round."""
        return [sum(map(len, messages)) for told in self._rounds.values() for messages in told.values()]

    def add(self, listeners: Iterable[int]) -> None:
        """Who listens from some round on, and was sent nothing before."""
        self.used |= {j: -1 for j in listeners if j not in self.used}

    def drop(self, listeners: Iterable[int]) -> None:
        """Who listens no more, whatever it has used."""
        for j in listeners:
            self.used.pop(j, None)
            for told in self._rounds.values():
                told.pop(j, None)
