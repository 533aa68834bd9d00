"""Links over gRPC with mutual TLS: a stream for every directed edge, dialled by the learner that sends on it.

The dialled side learns who calls from the certificate, which the run's authority has signed or which is the one that
the neighbour was announced with; the caller accepts only the certificate of the learner it means to reach. Frames go
one way, acknowledgements back on the same stream. A stream that breaks, or on which nothing moves, is opened again;
what was not acknowledged is sent again by the node. Frames that are sent together travel together.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from gossamer.peers.logs import log, warn_rarely
from gossamer.peers.passing import TryLater
from gossamer.peers.release import decode_release, encode_release
from gossamer.peers.transport import Arrived, Transport, Wiring
from gossamer.peers.wire import MESSAGE_LIMIT, TOGETHER, Frame, Refusal, pack

METHOD = "/gossamer.Link/Open"
FIRST_WORDS, HEARD_OUT = 2, 5.0  # messages of a stranger: its hello and its settings; seconds that it has for them
FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0  # seconds between attempts to dial
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
    ("grpc.so_reuseport", 0),
]


class Outbound:
    """What waits to go out on one stream. Small frames are joined; a new stream starts with nothing waiting."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._waiting: set[int] = set()  # which objects wait: a frame that waits already is not put a second time
        self._some = asyncio.Event()
        self._ended = False

    def put(self, data: bytes) -> None:
        if id(data) not in self._waiting:
            self._waiting.add(id(data))
            self._frames.append(data)
            self._some.set()

    def end(self) -> None:
        self._ended = True
        self._some.set()

    async def next(self) -> bytes | None:
        """Frames to be written at once; None when the stream has ended."""
        while not self._frames:
            if self._ended:
                return None
            self._some.clear()
            await self._some.wait()
        first = self._pop()
        if not self._frames or len(first) > TOGETHER:
            return first
        together, size = [first], len(first)
        while self._frames and size + len(self._frames[0]) <= TOGETHER:
            together.append(self._pop())
            size += len(together[-1])
        return b"".join(together)

    def _pop(self) -> bytes:
        data = self._frames.popleft()
        self._waiting.discard(id(data))
        return data


class Links(Transport):
    """A learner's links over gRPC."""

    def __init__(self, wiring: Wiring) -> None:
        self._i, self._listen = wiring.learner, wiring.listen
        self._addresses, self._hears = dict(wiring.addresses), set(wiring.hears)
        self._own, self._identities = wiring.own, wiring.identities
        self._take, self._hello, self._answer_stranger = wiring.take, wiring.hello, wiring.stranger
        self._tell_release = wiring.release or (lambda j, release: None)
        self._out: dict[int, Outbound] = {}
        self._back: dict[int, Outbound] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._server: Any = None
        self._failure: asyncio.Future[None] | None = None
        self.port = 0
        self.dials = Counter()
        self._complaints: Counter[str] = Counter()  # of each edge, since it was last open

    async def start(self) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        own, trusted = [tuple(self._own)], self._identities.trusted
        credentials = grpc.ssl_server_credentials(own, trusted, require_client_auth=True)
        self._server = grpc.aio.server(options=OPTIONS)
        handlers = {"Open": grpc.stream_stream_rpc_method_handler(self._dialled)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("gossamer.Link", handlers),))
        try:
            self.port = self._server.add_secure_port(self._listen, credentials)
        except RuntimeError:
            raise TryLater(
                f"[party] listen = {self._listen!r} cannot be listened on: it is in use, or not of this machine; "
                "end who uses it, or choose another and tell the neighbours."
            ) from None
        await self._server.start()

    def dial(self) -> None:
        self._tasks = [asyncio.create_task(self._keep_open(j)) for j in self._addresses]

    def reach(self, j: int, address: str) -> None:
        """Say where a listener is, where that is known only after `start`."""
        self._addresses[j] = address

    def send(self, to: int, data: bytes) -> None:
        if to in self._out:
            self._out[to].put(data)

    def reply(self, to: int, data: bytes) -> None:
        if to in self._back:
            self._back[to].put(data)

    async def failed(self) -> None:
        assert self._failure is not None
        await self._failure

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for back in self._back.values():
            back.end()  # so that streams end, and are not broken off
        if self._server is not None:
            await self._server.stop(0.5)

    def _hand_over(self, sender: int, data: bytes, answer: bool) -> None:
        """Give `take` what arrived; an error of ours, such as a full disk, ends the learner and not a stream."""
        if self._failure is None or self._failure.done():
            return
        try:
            self._take(Arrived(sender, data, answer, intact=True))  # TLS has seen to that
        except Exception as error:
            self._failure.set_exception(error)

    def _complain(self, event: str, edge: str, why: str) -> None:
        warn_rarely(self._complaints, edge, event, {"edge": edge, "why": why})

    async def _keep_open(self, j: int) -> None:
        wait = FIRST_WAIT
        while True:
            edge = f"{self._i} → {j}"
            self.dials[j] += 1
            try:
                if await self._open(j):
                    wait = FIRST_WAIT
                self._complain("link closed", edge, "the other side ended it")
            except grpc.aio.AioRpcError as error:
                self._complain("link lost", edge, f"{error.code().name}: {error.details()}")
            except Exception as error:  # whatever it was, the link is dialled again
                self._complain("link lost", edge, repr(error))
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _open(self, j: int) -> bool:
        """Use a new stream until it ends; says whether anything came back on it."""
        trusted, name = self._identities.expected(j)
        credentials = grpc.ssl_channel_credentials(trusted, *self._own)
        options = [*OPTIONS, ("grpc.ssl_target_name_override", name)]
        answered = False
        async with grpc.aio.secure_channel(self._addresses[j], credentials, options) as channel:
            stream = channel.stream_stream(METHOD)(metadata=encode_release())
            out = self._out[j] = Outbound()  # what waited for a link that is gone is sent anew by the node
            await stream.write(self._hello())
            writer = asyncio.create_task(_pump(out, stream.write))
            try:
                async for data in stream:
                    if not answered:
                        answered, edge = True, f"{self._i} → {j}"
                        self._tell_release(j, decode_release(await stream.initial_metadata()))
                        self._complaints.pop(edge, None)
                        log.info("link open", extra={"edge": edge})
                    self._hand_over(j, data, answer=True)
            finally:
                self._out.pop(j, None)
                writer.cancel()
        return answered

    async def _dialled(self, frames: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        sender = self._identities.of(context.auth_context())
        await context.send_initial_metadata(encode_release())
        if sender is None or sender not in self._hears:
            who = "this certificate" if sender is None else f"learner {sender}"
            sentence = f"learner {self._i} does not hear {who}."
            self._complain("refused", f"{'?' if sender is None else sender} → {self._i}", f"stranger: {sentence}")
            if sender is None or self._answer_stranger is None:
                yield pack(Frame(Refusal("stranger", sentence)))
                return
            for frame in self._answer_stranger(sender):
                yield frame
            await self._hear_out(sender, frames)
            return
        self._tell_release(sender, decode_release(context.invocation_metadata()))
        if sender in self._back:
            self._back[sender].end()  # one stream for each edge
        back = self._back[sender] = Outbound()
        back.put(self._hello())
        reader = asyncio.create_task(self._read(sender, frames, back))
        try:
            while (data := await back.next()) is not None:
                yield data
        finally:
            reader.cancel()
            if self._back.get(sender) is back:
                del self._back[sender]

    async def _hear_out(self, sender: int, frames: AsyncIterator[bytes]) -> None:
        """Take a stranger's first words, which say why it thinks that it is heard, and nothing after them."""
        with contextlib.suppress(TimeoutError, StopAsyncIteration, grpc.aio.AioRpcError):
            async with asyncio.timeout(HEARD_OUT):
                for _ in range(FIRST_WORDS):
                    self._hand_over(sender, await anext(frames), answer=False)

    async def _read(self, sender: int, frames: AsyncIterator[bytes], back: Outbound) -> None:
        try:
            async for data in frames:
                self._hand_over(sender, data, answer=False)
        except grpc.aio.AioRpcError as error:  # it was cancelled, or broke; the sender dials again
            self._complain("link lost", f"{sender} → {self._i}", str(error))
        finally:
            back.end()


async def _pump(out: Outbound, write: Callable[[bytes], Any]) -> None:
    while (data := await out.next()) is not None:
        await write(data)
