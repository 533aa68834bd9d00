"""Links over gRPC with mutual TLS: a stream for every directed edge, opened by the learner that sends on it, or by the
one that hears it where both have said so.

Both sides know each other by certificates, which the run's authority has signed or which are the ones that neighbours
were announced with: the dialled side from the handshake, and the caller accepts only the certificate of the learner it
means to reach. Frames go one way, acknowledgements back on the same stream, whoever has opened it. A stream that
breaks, or on which nothing moves, is opened again; what was not acknowledged is sent again by the node. Frames that are
sent together travel together.

    /gossamer.Link/Open    the caller sends: frames in its requests, acknowledgements in the responses
    /gossamer.Link/Hear    the caller hears: frames in the responses, acknowledgements in its requests

Whoever has no certificate of the run gets no further than the handshake. It may not last, and the number of connections
is limited, so that strangers do not take the descriptors that a learner needs for its journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import grpc
import grpc.aio

from gossamer.peers.backoff import Backoff, Outcome
from gossamer.peers.certificates import Identities, Pair
from gossamer.peers.descriptors import connections_allowed
from gossamer.peers.dials import Dials, decode_dials, encode_dials, tell_apart
from gossamer.peers.door import Door, peer_of
from gossamer.peers.logs import Rarely
from gossamer.peers.looking import Faces
from gossamer.peers.outbound import ANSWERS, Outbound
from gossamer.peers.passing import TryLater
from gossamer.peers.release import decode_release, encode_release
from gossamer.peers.transport import Arrived, Transport, Wiring
from gossamer.peers.wire import MESSAGE_LIMIT, Frame, Refusal, pack, quoted

METHOD, HEAR = "/gossamer.Link/Open", "/gossamer.Link/Hear"
FIRST_WORDS, HEARD_OUT = 2, 5.0  # messages of a stranger: its hello and its settings; seconds that it has for them
READ_OUT = 2.0  # seconds that a stream has to end when another has taken its place
COUNT = 60.0  # seconds between looks at how many connections became no link, and at who never came
NOT_DIALLED = (
    "learner {0} has to open it, and never has: it is not there yet, cannot reach where learner {1} listens, or leaves "
    "it to learner {1} (dial in [neighbours.{1}] of learner {0})"
)
OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.keepalive_time_ms", 3000),  # a silent partition is noticed
    ("grpc.keepalive_timeout_ms", 5000),  # and a machine that is only busy is not taken for one
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.min_reconnect_backoff_ms", 5000),  # also the time that a far neighbour has for its handshake
    ("grpc.enable_http_proxy", 0),
]
LISTENING = [
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", 6000),  # more than the caller takes for it
    ("grpc.max_connection_idle_ms", 60_000),  # a learner's connection without a stream
    ("grpc.max_concurrent_streams", 4),  # on one connection, where a neighbour needs one
]
REFUSED = (
    grpc.StatusCode.PERMISSION_DENIED,  # a stranger
    grpc.StatusCode.FAILED_PRECONDITION,  # the two do not agree on who dials
    grpc.StatusCode.UNIMPLEMENTED,  # of a release that is not dialled by who hears it
)


class Way(NamedTuple):
    """One directed link as one of its ends sees it."""

    neighbour: int
    sends: bool  # whether this learner sends on it


class Caller(NamedTuple):
    """Who has opened a stream, as the handshake has verified it, and what carries it here."""

    shown: Mapping[str, Sequence[bytes]]
    peer: str
    task: asyncio.Task[Any]


class Links(Transport):
    """A learner's links over gRPC."""

    def __init__(self, wiring: Wiring) -> None:
        self._i, self._listen = wiring.learner, wiring.listen
        self._addresses, self._sources = dict(wiring.addresses), dict(wiring.sources)
        self._hears, self._room = set(wiring.hears), wiring.room
        self._own, self._identities, self._faces = wiring.own, wiring.identities, Faces()
        self._take, self._hello, self._answer_stranger = wiring.take, wiring.hello, wiring.stranger
        self._tell_release = wiring.release or (lambda j, release: None)
        self._tell_apart = wiring.apart or (lambda j, why: None)
        self._queues: dict[Way, Outbound] = {}
        self._dialling: dict[Way, asyncio.Task[None]] = {}
        self._callers: dict[Way, Caller] = {}
        self._replaced: dict[Way, Caller] = {}  # the one before each of these, which is to end
        self._heard_out: set[Way] = set()  # those that are turned away, and are listened to before
        self._ever: set[Way] = set()  # links that others have opened at some time
        self._seen: dict[int, asyncio.Event] = {}  # neighbours that have opened a stream while they were waited for
        self._counting: asyncio.Task[None] | None = None
        self._server: Any = None
        self._door: Door
        self._renewed: Any = None  # certificates that the next handshake takes over
        self._failure: asyncio.Future[None] | None = None
        self.port = 0
        self.dials = Counter()
        self.links = 0  # streams that others have opened
        self._rarely = Rarely()

    async def start(self) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        if self._listen is None:
            return
        most = connections_allowed(len({*self._addresses, *self._hears}))
        self._server = grpc.aio.server(options=[*OPTIONS, *LISTENING, ("grpc.max_allowed_incoming_connections", most)])
        handlers = {
            name: grpc.stream_stream_rpc_method_handler(partial(self._dialled, sends))
            for name, sends in (("Open", False), ("Hear", True))
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("gossamer.Link", handlers),))
        credentials = grpc.dynamic_ssl_server_credentials(
            self._certificates(), self._for_handshake, require_client_authentication=True
        )
        try:
            self.port = self._server.add_secure_port(self._listen, credentials)
        except RuntimeError:
            raise TryLater(
                f"[party] listen = {self._listen!r} cannot be listened on: it is in use, or not of this machine; "
                "end who uses it, or choose another and tell the neighbours."
            ) from None
        await self._server.start()
        self._door = Door(self.port, most, lambda: [peer_of(one.peer) for one in self._callers.values()])
        self._counting = asyncio.create_task(self._count())

    def dial(self) -> None:
        for j, address in self._addresses.items():
            if address is not None:
                self._dial(Way(j, True))
        for j in self._sources:
            self._dial(Way(j, False))

    def _dial(self, way: Way) -> None:
        self._dialling[way] = asyncio.create_task(self._keep_open(way))

    def reach(self, j: int, address: str) -> None:
        """Say where a neighbour is, where that is known only after `start`."""
        if self._addresses.get(j) is not None:
            self._addresses[j] = address
        if j in self._sources:
            self._sources[j] = address

    def renew(self, own: Pair, identities: Identities) -> None:
        before, self._own, self._identities = self._identities, own, identities
        self._renewed = self._certificates()
        for way, caller in list(self._callers.items()):
            if identities.of(caller.shown) != way.neighbour:
                self._rarely.say("link closed", self._edge(way), "its certificate is no longer accepted")
                self._end(caller)
        for way, task in list(self._dialling.items()):
            if not self._faces.accepted(before, identities, way.neighbour):
                task.cancel()
                self._dial(way)

    def relink(self, addresses: Mapping[int, str | None], hears: Sequence[int], sources: Mapping[int, str]) -> None:
        self._addresses, self._hears, self._sources = dict(addresses), set(hears), dict(sources)
        wanted = {Way(j, True) for j, address in addresses.items() if address is not None}
        wanted |= {Way(j, False) for j in sources}
        for way in self._dialling.keys() - wanted:
            self._dialling.pop(way).cancel()
        for way in sorted(wanted - self._dialling.keys()):
            self._dial(way)
        for way, caller in list(self._callers.items()):
            if way.neighbour not in (self._addresses if way.sends else self._hears):
                self._end(caller)

    def _end(self, caller: Caller) -> None:
        caller.task.cancel()  # nothing of it is taken any more; gRPC tells the other side nothing of that
        self._door.end(peer_of(caller.peer))

    def _certificates(self) -> Any:
        """What this learner shows to whoever dials it, and whose word it takes."""
        return grpc.ssl_server_certificate_configuration([tuple(self._own)], self._identities.trusted)

    def _for_handshake(self) -> Any:
        """Asked by gRPC, in a thread of its own, at every handshake: new certificates, or none."""
        self._door.came()
        renewed, self._renewed = self._renewed, None
        return renewed

    def send(self, to: int, data: bytes) -> None:
        self._put(Way(to, True), data)

    def reply(self, to: int, data: bytes) -> None:
        self._put(Way(to, False), data)

    def _put(self, way: Way, data: bytes) -> None:
        if way in self._queues and not self._queues[way].put(data):
            self._rarely.say("dropped", self._edge(way), "more waits for it already than a link that is read leaves")

    async def failed(self) -> None:
        assert self._failure is not None
        await self._failure

    async def close(self) -> None:
        tasks = [*self._dialling.values(), *([self._counting] if self._counting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for queue in self._queues.values():
            queue.end()  # so that streams end, and are not broken off
        if self._server is not None:
            await self._server.stop(0.5)

    def _edge(self, way: Way) -> str:
        return f"{self._i} → {way.neighbour}" if way.sends else f"{way.neighbour} → {self._i}"

    def _hand_over(self, way: Way, data: bytes) -> None:
        """Give `take` what arrived; an error of ours, such as a full disk, ends the learner and not a stream."""
        if self._failure is None or self._failure.done():
            return
        try:
            self._take(Arrived(way.neighbour, data, answer=way.sends, intact=True))  # TLS has seen to that
        except Exception as error:
            self._failure.set_exception(error)

    # What this learner dials.

    async def _keep_open(self, way: Way) -> None:
        edge, backoff = self._edge(way), Backoff()
        while True:
            self.dials[way.neighbour] += 1
            opened: list[float] = []  # when the other side has first said something
            event, outcome = "link lost", Outcome.LOST
            try:
                await self._open(way, opened)
                event, outcome, why = "link closed", Outcome.REFUSED, "the other side ended it"
            except grpc.aio.AioRpcError as error:
                outcome = Outcome.REFUSED if error.code() in REFUSED else Outcome.LOST
                why = f"{error.code().name}: {quoted(error.details() or '')}"
            except Exception as error:  # whatever it was, the link is dialled again
                why = str(error) or type(error).__name__
            if not opened:
                self._faces.forget(way.neighbour)  # it may have another certificate by now
            self._rarely.say(event, edge, why)
            lasted = time.monotonic() - opened[0] if opened else 0.0
            await self._pause(way.neighbour, backoff.after(outcome, lasted))

    async def _pause(self, j: int, seconds: float) -> None:
        """Wait before the next dial, unless the neighbour shows before that it is there."""
        seen = self._seen.setdefault(j, asyncio.Event())
        seen.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(seen.wait(), seconds)

    async def _open(self, way: Way, opened: list[float]) -> None:
        """Use a new stream until it ends."""
        address = (self._addresses if way.sends else self._sources)[way.neighbour]
        assert address is not None  # or it would not be dialled
        trusted, name = await self._faces.expected(self._identities, way.neighbour, address)
        credentials = grpc.ssl_channel_credentials(trusted, *self._own)
        options = [*OPTIONS, ("grpc.ssl_target_name_override", name)]
        async with grpc.aio.secure_channel(address, credentials, options) as channel:
            stream = channel.stream_stream(METHOD if way.sends else HEAR)(metadata=self._metadata(way.neighbour))
            queue = self._begin(way)  # what waited for a link that is gone is sent anew by the node
            await stream.write(self._hello())
            writer = asyncio.create_task(_pump(queue, stream.write))
            try:
                async for data in stream:
                    if not opened:
                        opened.append(time.monotonic())
                        self._met(way.neighbour, await stream.initial_metadata())
                        self._rarely.changed(self._edge(way))
                        self._rarely.say("link open", self._edge(way), level=logging.INFO)
                    self._hand_over(way, data)
            finally:
                self._finish(way, queue)
                writer.cancel()

    # What others dial.

    async def _dialled(self, sends: bool, frames: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """A stream that somebody has opened; `sends`: to hear this learner."""
        shown = context.auth_context()
        caller = self._identities.of(shown)
        self.links += 1
        if caller is None or caller not in (self._addresses if sends else self._hears):
            await context.send_initial_metadata(encode_release())
            sentence = f"learner {self._i} does not {'send to' if sends else 'hear'} {_named(caller)}."
            async for frame in self._turn_away(caller, sends, sentence, frames):
                yield frame
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, sentence)
            return
        way = Way(caller, sends)
        await context.send_initial_metadata(self._metadata(caller))
        apart = self._met(caller, context.invocation_metadata())
        if self._opens(way):
            why = apart or f"learner {self._i} opens the link {self._edge(way)} itself."
            self._rarely.say("refused", self._edge(way), why)
            yield pack(Frame(Refusal("dial", why)))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)
            return
        self._replace(way)
        queue = self._begin(way)
        task = asyncio.current_task()
        assert task is not None
        self._callers[way] = mine = Caller(shown, context.peer(), task)
        self._ever.add(way)
        if caller in self._seen:
            self._seen[caller].set()
        queue.put(self._hello())
        reader = asyncio.create_task(self._read(way, frames, queue))
        try:
            while (data := await queue.next()) is not None:
                yield data
        finally:
            reader.cancel()
            self._finish(way, queue)
            if self._callers.get(way) is mine:
                del self._callers[way]

    def _replace(self, way: Way) -> None:
        """One stream for each edge: the one before ends, and is not waited for where nobody reads from it."""
        if way in self._queues:
            self._queues[way].end()
        before, last = self._replaced.pop(way, None), self._callers.get(way)
        if before is not None:
            self._end_late(before)
        if last is not None:
            self._replaced[way] = last
            asyncio.get_running_loop().call_later(READ_OUT, self._end_late, last)

    def _end_late(self, caller: Caller) -> None:
        if not caller.task.done():
            self._end(caller)

    async def _turn_away(
        self, caller: int | None, sends: bool, sentence: str, frames: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """Tell a stranger that it is one; a learner of the run also what this one has, and hear what it has, once at a
        time: what it has said of a message takes memory until it has said it all."""
        edge = f"{self._i} → {_number(caller)}" if sends else f"{_number(caller)} → {self._i}"
        self._rarely.say("refused", edge, f"stranger: {sentence}")
        if caller is None or self._answer_stranger is None or (way := Way(caller, sends)) in self._heard_out:
            yield pack(Frame(Refusal("stranger", sentence)))
            return
        self._heard_out.add(way)
        try:
            for frame in self._answer_stranger(caller, sends):
                yield frame
            with contextlib.suppress(TimeoutError, StopAsyncIteration, grpc.aio.AioRpcError):
                async with asyncio.timeout(HEARD_OUT):
                    for _ in range(FIRST_WORDS):
                        self._hand_over(way, await anext(frames))
        finally:
            self._heard_out.discard(way)

    async def _read(self, way: Way, frames: AsyncIterator[bytes], queue: Outbound) -> None:
        try:
            async for data in frames:
                self._hand_over(way, data)
        except grpc.aio.AioRpcError as error:  # it was cancelled, or broke; the other side dials again
            self._rarely.say("link lost", self._edge(way), str(error))
        finally:
            queue.end()

    # What both have in common.

    def _begin(self, way: Way) -> Outbound:
        queue = self._queues[way] = Outbound(self._room if way.sends else ANSWERS)
        return queue

    def _finish(self, way: Way, queue: Outbound) -> None:
        if self._queues.get(way) is queue:
            del self._queues[way]

    def _opens(self, way: Way) -> bool:
        """Whether this learner dials for a link, and not the other one."""
        return self._addresses[way.neighbour] is not None if way.sends else way.neighbour in self._sources

    def _metadata(self, j: int) -> tuple[tuple[str, str], ...]:
        return (*encode_release(), encode_dials(self._dials(j)))

    def _dials(self, j: int) -> Dials:
        """Who dials for the links to and from a neighbour."""
        return Dials(
            self._opens(Way(j, True)) if j in self._addresses else None,
            self._opens(Way(j, False)) if j in self._hears else None,
        )

    def _met(self, j: int, metadata: Any) -> str:
        """Take what a neighbour says beside a stream; a sentence where the two do not agree on who dials."""
        self._tell_release(j, decode_release(metadata))
        apart = tell_apart(self._i, j, self._dials(j), decode_dials(metadata))
        self._tell_apart(j, apart)
        return apart

    async def _count(self) -> None:
        """Say rarely that there were connections that became no link, of whom gRPC does not tell whose they were, and
        which links were never opened, where a firewall may be the reason."""
        known = 0
        while True:
            await asyncio.sleep(COUNT)
            now = max(known, self._door.arrived - self.links)
            if now > known:
                why = f"{now - known} connections in {COUNT:.0f} s showed no certificate of this run, or opened no link"
                self._rarely.say("strangers", f"? → {self._i}", why)
            known = now
            for way in sorted(self._awaited()):
                self._rarely.say("not dialled", self._edge(way), NOT_DIALLED.format(way.neighbour, self._i))

    def _awaited(self) -> set[Way]:
        """Links that others have to open, and never have."""
        ways = {Way(j, True) for j in self._addresses} | {Way(j, False) for j in self._hears}
        return {way for way in ways - self._ever if not self._opens(way)}


async def _pump(queue: Outbound, write: Callable[[bytes], Any]) -> None:
    while (data := await queue.next()) is not None:
        await write(data)


def _named(caller: int | None) -> str:
    return "this certificate" if caller is None else f"learner {caller}"


def _number(caller: int | None) -> str:
    return "?" if caller is None else str(caller)
