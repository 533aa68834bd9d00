"""Links over gRPC with mutual TLS: a stream for every directed edge, dialled by the learner that sends on it.

The dialled side learns who calls from the certificate, which the run's authority has signed, and the caller accepts
only the certificate of the learner it means to reach. Frames go one way, acknowledgements back on the same stream.
A stream that breaks, or on which nothing moves, is opened again; what was not acknowledged is sent again by the node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from gossamer.peers.certificates import Pair, learner_of, name_of
from gossamer.peers.transport import Arrived
from gossamer.peers.wire import HEADER_LIMIT, PAYLOAD_LIMIT, PREFIX, Frame, Refusal, RefusedError, packed

METHOD = "/gossamer.Link/Open"
LARGEST = PREFIX.size + HEADER_LIMIT + PAYLOAD_LIMIT
FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0  # seconds between attempts to dial
OPTIONS = [
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.keepalive_time_ms", 3000),  # a silent partition is noticed
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.so_reuseport", 0),
]
log = logging.getLogger("gossamer.peers")


class Links:
    """A learner's links, as a transport; `take` is given what arrives, `opened` is told of every link that stands."""

    def __init__(
        self,
        i: int,
        listen: str,
        addresses: Mapping[int, str],
        hears: list[int],
        own: Pair,
        trusted: bytes,
        take: Callable[[Arrived], RefusedError | None],
        opened: Callable[[int], None],
        hello: Callable[[], bytes],
    ) -> None:
        self._i, self._listen, self._addresses, self._hears = i, listen, dict(addresses), set(hears)
        self._own, self._trusted = own, trusted
        self._take, self._opened, self._hello = take, opened, hello
        self._out: dict[int, asyncio.Queue[bytes]] = {j: asyncio.Queue() for j in addresses}
        self._back: dict[int, asyncio.Queue[bytes]] = {j: asyncio.Queue() for j in hears}
        self._tasks: list[asyncio.Task[None]] = []
        self._server: Any = None
        self.port = 0

    async def start(self) -> None:
        credentials = grpc.ssl_server_credentials([tuple(self._own)], self._trusted, require_client_auth=True)
        self._server = grpc.aio.server(options=OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(self._dialled)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("gossamer.Link", {"Open": handler}),)
        )
        self.port = self._server.add_secure_port(self._listen, credentials)
        await self._server.start()

    def dial(self) -> None:
        """Open all links on which this learner sends, and keep them open."""
        self._tasks = [asyncio.create_task(self._keep_open(j)) for j in self._addresses]

    def reach(self, j: int, address: str) -> None:
        self._addresses[j] = address

    def send(self, to: int, data: bytes) -> None:
        self._out[to].put_nowait(data)  # two rounds at most: no party goes on before they were used

    def reply(self, to: int, data: bytes) -> None:
        self._back[to].put_nowait(data)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.stop(0.2)

    async def _keep_open(self, j: int) -> None:
        wait = FIRST_WAIT
        while True:
            try:
                await self._open(j)
                wait = FIRST_WAIT
            except grpc.aio.AioRpcError as error:
                log.warning("link %d → %d: %s (%s)", self._i, j, error.code().name, error.details())
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _open(self, j: int) -> None:
        credentials = grpc.ssl_channel_credentials(self._trusted, *self._own)
        options = [*OPTIONS, ("grpc.ssl_target_name_override", name_of(j))]
        async with grpc.aio.secure_channel(self._addresses[j], credentials, options) as channel:
            stream = channel.stream_stream(METHOD)()
            queue = self._out[j] = asyncio.Queue()  # what waited for a link that is gone is sent anew by the node
            await stream.write(self._hello())
            self._opened(j)
            writer = asyncio.create_task(_pump(queue, stream.write))
            try:
                async for data in stream:
                    self._take(Arrived(j, data))
            finally:
                writer.cancel()

    async def _dialled(self, frames: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        sender = _identity(context)
        if sender is None or sender not in self._hears:
            sentence = (
                f"learner {self._i} does not hear {'this certificate' if sender is None else f'learner {sender}'}."
            )
            log.warning("link to %d refused: %s", self._i, sentence)
            yield packed(Frame(Refusal("stranger", sentence)))
            return
        queue = self._back[sender] = asyncio.Queue()
        queue.put_nowait(self._hello())
        reader = asyncio.create_task(self._read(sender, frames, queue))
        try:
            while True:
                data = await queue.get()
                if not data:
                    return
                yield data
        finally:
            reader.cancel()

    async def _read(self, sender: int, frames: AsyncIterator[bytes], queue: asyncio.Queue[bytes]) -> None:
        try:
            async for data in frames:
                refusal = self._take(Arrived(sender, data))
                if refusal is not None:
                    log.warning("from %d refused: %s: %s", sender, refusal.reason, refusal)
        finally:
            queue.put_nowait(b"")


async def _pump(queue: asyncio.Queue[bytes], write: Callable[[bytes], Any]) -> None:
    while True:
        await write(await queue.get())


def _identity(context: Any) -> int | None:
    """The learner that the caller's certificate names."""
    names = context.auth_context().get("x509_common_name", ())
    return learner_of(names[0].decode("utf-8", "replace")) if len(names) == 1 else None
