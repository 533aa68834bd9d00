"""A party on a transport: says hello, sends what the journal holds, takes what comes, and goes on when all is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gossamer.peers.party import Party
from gossamer.peers.transport import Arrived, Transport
from gossamer.peers.wire import Ack, Assembly, Frame, Hello, Part, Refusal, RefusedError, packed, parts_of, unpacked

Hook = Callable[[str], None]


class Node:
    """Drives one party. `hook` is called at named moments, where tests end the process."""

    def __init__(self, party: Party, transport: Transport, run: str, epoch: int, hook: Hook | None = None) -> None:
        self._party, self._transport, self._run, self._epoch = party, transport, run, epoch
        self._hook: Hook = hook or (lambda moment: None)
        self._assemblies: dict[tuple[int, int, str], Assembly] = {}
        self._barred: set[int] = set()
        self.refused: Counter[tuple[int, str]] = Counter()  # by sender and reason

    @property
    def done(self) -> bool:
        return self._party.finished and self._party.delivered

    @property
    def hello(self) -> bytes:
        """What is said first on a link, by either side."""
        party = self._party
        return packed(Frame(Hello(self._run, party.i, self._epoch, party.round, party.size, party.dtype)))

    def greet(self) -> None:
        for j in self._party.tells:
            self._transport.send(j, self.hello)
        for j in self._party.hears:
            self._transport.reply(j, self.hello)
        self.resend()

    def resend(self, since: int = 0) -> None:
        """All that some listener may not have used; the same bytes as ever."""
        for j in self._party.tells:
            self.send_all(j, since)
        self._hook("sent")

    def send_all(self, to: int, since: int = 0) -> None:
        """All that one listener may not have used, of this round on."""
        for t, channel, payload in self._party.outgoing(to):
            for frame in parts_of(t, channel, payload) if t >= since else ():
                self._transport.send(to, packed(frame))

    def turn(self, timeout: float) -> bool:
        """The next frame that the transport has, and all that follows from it; False where none came."""
        arrived = self._transport.receive(timeout)
        if arrived is None:
            return False
        self.take(arrived)
        return True

    def take(self, arrived: Arrived) -> RefusedError | None:
        """A frame, and all that follows from it; the refusal, where it is one."""
        try:
            self._take(arrived, unpacked(arrived.data))
        except RefusedError as refusal:
            self.refused[arrived.sender, refusal.reason] += 1
            return refusal
        while self._party.ready:
            used = self._party.advance()
            self._hook("committed")
            self.resend(since=self._party.round)
            for j in self._party.hears:
                self._transport.reply(j, packed(Frame(Ack(used))))
        return None

    def _take(self, arrived: Arrived, frame: Frame) -> None:
        header, sender = frame.header, arrived.sender
        if isinstance(header, Hello):
            self._hello(sender, header)
        elif sender in self._barred:
            raise RefusedError(
                "old journal", f"learner {sender} was refused when it said hello: nothing of it is used."
            )
        elif isinstance(header, Part):
            self._part(sender, header, bytes(frame.payload))
        elif isinstance(header, Ack):
            self._party.acknowledged(sender, header.round)
        elif isinstance(header, Refusal):
            raise RefusedError("refused", f"learner {sender} refuses this one: {header.sentence}")

    def _hello(self, sender: int, hello: Hello) -> None:
        party = self._party
        if hello.sender != sender:
            raise RefusedError("forged", f"learner {sender} says that it is learner {hello.sender}.")
        if sender not in party.hears and sender not in party.tells:
            raise RefusedError("stranger", f"learner {sender} is no neighbour.")
        if (hello.run, hello.size, hello.dtype) != (self._run, party.size, party.dtype):
            raise RefusedError(
                "run", f"learner {sender} is in run {hello.run!r} with {hello.size} {hello.dtype}, expected this run's."
            )
        self._barred.add(sender)  # whose past is shorter than what it showed is heard no more
        party.met(sender, hello.epoch, hello.round)
        self._barred.discard(sender)
        if sender in party.tells:
            self.send_all(sender)

    def _part(self, sender: int, part: Part, payload: bytes) -> None:
        party = self._party
        if sender not in party.hears:
            raise RefusedError("stranger", f"learner {sender} is not heard here.")
        if part.round < party.round:
            self._transport.reply(sender, packed(Frame(Ack(part.round))))  # it was used; the ack was lost
            return
        key, length = (sender, part.round, part.channel), party.length(sender, part.round, part.channel)
        if part.part == 0:
            self._assemblies[key] = Assembly(length, party.dtype)
        elif key not in self._assemblies:
            raise RefusedError(
                "parts", f"learner {sender} sent part {part.part} of a vector whose first part is missing."
            )
        whole = self._assemblies[key].add(part, payload)
        if whole is not None:
            del self._assemblies[key]
            party.receive(sender, part.round, part.channel, whole)
