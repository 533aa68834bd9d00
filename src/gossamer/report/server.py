"""The live page: one page and one stream of events, over HTTP, from a thread of the process that runs (extra `live`).

It is read-only: GET alone, and nothing that is asked for changes anything. On this machine's own address it answers
only to names of this machine, so that no web page can have a browser read it under another name. On any other address,
and wherever a token is asked for, it answers only to who brings the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import ipaddress
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

from gossamer.errors import GossamerError
from gossamer.report.feed import Delta, Event, Feed

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

EVERY = 0.2  # seconds between deltas: five a second
BEAT = 5.0  # seconds of silence, after which a page is told that the connection stands
STREAMS = 32  # open at once
WAITING = 128  # connections that the system holds until they are accepted
PATIENCE = 5.0  # seconds that pages get at the end to take the last event
PORT, PORTS = 7373, 50  # where it listens unless told otherwise: the first of these that is free
HERE = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # all else is in the page
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
Page = Callable[[Any], str]  # from a view to HTML, with its own Content-Security-Policy in it


class Address(NamedTuple):
    """Where to listen; without a port on the first usual one that is free."""

    host: str = "127.0.0.1"
    port: int | None = None

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str, option: str) -> Address:
    """`8000`, `0.0.0.0:8000` or `[::1]:8000`."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536) or (":" in text and not host):
        raise GossamerError(f"{option} {text}: expected PORT or HOST:PORT, such as 8000 or 0.0.0.0:8000.")
    return Address(host.strip("[]") or Address().host, int(port))


def check_extra() -> None:
    if any(importlib.util.find_spec(module) is None for module in ("starlette", "uvicorn")):
        raise GossamerError("--live needs Starlette and uvicorn: install gossamer-learning[live].")


class Server:
    """Serves a feed. `take` is asked five times a second for what is new, in the server's own thread.

    `option` is the one with which its user says where.
    """

    _loop: asyncio.AbstractEventLoop
    _news: asyncio.Event  # set when there is something new, and then another one

    def __init__(
        self,
        feed: Feed,
        take: Callable[[], Delta | None],
        page: Page,
        at: Address,
        *,
        secret: bool = False,
        option: str = "--live-at",
    ) -> None:
        check_extra()
        self._option = option
        self.feed, self._take, self._page, self._at = feed, take, page, at
        self.token = secrets.token_urlsafe(24) if secret or not at.local else None
        self._streams, self._closing = 0, False
        self._asking = threading.Lock()

    def start(self) -> str:
        """Listen; the page's address."""
        import uvicorn

        from gossamer.report.connections import AT_ONCE, Connection

        self._socket = _listen(self._at, self._option)
        config = uvicorn.Config(
            self.application(), loop="asyncio", http=Connection, backlog=AT_ONCE, ws="none", lifespan="off",
            log_config=None, log_level="critical", access_log=False, server_header=False, timeout_graceful_shutdown=2,
        )  # fmt: skip
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="live page", daemon=True)
        self._thread.start()
        while not self._uvicorn.started and self._thread.is_alive():
            time.sleep(0.005)
        if not self._uvicorn.started:
            self._socket.close()
            raise GossamerError("the live page cannot be served here: leave --live out, or allow more open files.")
        self._socket.listen(WAITING)  # the loop accepts a few at a time; who comes meanwhile need not call again
        return self.url

    @property
    def streams(self) -> int:
        """How many pages are open."""
        return self._streams

    @property
    def url(self) -> str:
        port, host = self._socket.getsockname()[1], self._at.host
        shown = f"[{host}]" if ":" in host else host
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else shown
        return f"http://{shown}:{port}/" + (f"?token={self.token}" if self.token else "")

    def close(self, last: Delta | None = None) -> None:
        """Tell pages the last thing, wait until those that are open have it, and stop."""
        if last is not None:
            self._ask_once()
            self.push(last)
            until = time.monotonic() + PATIENCE
            while self._streams and time.monotonic() < until and self._thread.is_alive():
                time.sleep(0.02)
        self._closing = True
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake)
        self._uvicorn.should_exit = True
        self._thread.join(PATIENCE)

    def push(self, delta: Delta) -> None:
        """Add to the feed, and wake those who listen; from any thread."""
        self.feed.push(delta)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so has everybody who listened
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _serve(self) -> None:
        async def both() -> None:
            self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
            self._loop.set_exception_handler(lambda *_: None)  # a connection that cannot be had is no news of the run
            asking = asyncio.create_task(self._ask())
            try:
                await self._uvicorn.serve(sockets=[self._socket])
            finally:
                asking.cancel()

        with contextlib.suppress(Exception):  # whatever ends the page does not speak into the run
            asyncio.run(both())

    async def _ask(self) -> None:
        """Five times a second: what is new. A mistake here ends the page, and not the run."""
        try:
            while not self.feed.ended:
                self._ask_once()
                await asyncio.sleep(EVERY)
        except Exception as error:
            self.push({"said": f"This page cannot follow the run any further: {error}", "ended": True})

    def _ask_once(self) -> None:
        with self._asking:
            delta = None if self.feed.ended else self._take()
            if delta is not None:
                self.push(delta)

    def application(self) -> ASGIApp:
        """The two things that can be asked for, behind the guard."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        routes = [Route("/", self._show), Route("/events", self._events)]
        return _Guard(Starlette(routes=routes), self.token, HERE if self._at.local else None)

    async def _show(self, _: Request) -> Response:
        from starlette.responses import HTMLResponse

        return HTMLResponse(self.feed.shown(self._page))

    async def _events(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse, StreamingResponse

        if self._streams >= STREAMS:
            return PlainTextResponse(f"{STREAMS} pages are open already: close one.\n", 503)
        last = request.headers.get("last-event-id") or request.query_params.get("after")
        return StreamingResponse(self._stream(last), media_type="text/event-stream")

    async def _stream(self, last: str | None) -> AsyncIterator[str]:
        """Everything after `last`, until the end."""
        self._streams += 1
        try:
            yield "retry: 1000\n\n"
            while not self._closing:
                news, ended = self._news, self.feed.ended  # asked first: then what follows has the end in it
                for event in self.feed.after(last):
                    yield _in_stream(event)
                    last = event.id
                if ended:
                    return
                try:
                    await asyncio.wait_for(news.wait(), BEAT)
                except TimeoutError:
                    yield "event: beat\ndata:\n\n"
        finally:
            self._streams -= 1


class _Guard:
    """Refuses what is not a GET by somebody who may read; and says on every answer what a browser may do with it."""

    def __init__(self, app: ASGIApp, token: str | None, names: tuple[str, ...] | None) -> None:
        self._app, self._token, self._names = app, token, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            return
        status, why = self._refused(scope)
        answer: ASGIApp = PlainTextResponse(why, status) if why else self._app

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                more = {name.lower().encode(): value.encode() for name, value in HEADERS.items()}
                message["headers"] = [*message["headers"], *((k, v) for k, v in more.items() if k not in known)]
            await send(message)

        await answer(scope, receive, send_guarded)

    def _refused(self, scope: Scope) -> tuple[int, str]:
        if scope["method"] != "GET":
            return 405, "This page can only be read.\n"
        headers = dict(scope["headers"])
        if self._names is not None and _host(headers.get(b"host", b"")) not in self._names:
            return 403, "This page answers to localhost alone: open the address that the command printed.\n"
        if self._token is not None:
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if not secrets.compare_digest(given.encode(), self._token.encode()):
                return 403, "The token is missing or wrong: open the whole address that the command printed.\n"
        return 200, ""


def _host(header: bytes) -> str:
    """The name in a Host header, without its port: a tunnel may have another."""
    name = header.decode("latin-1").lower()
    return name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]


def _in_stream(event: Event) -> str:
    """As server-sent events have it; JSON in one line needs no more."""
    return f"id: {event.id}\nevent: {event.kind}\ndata: {event.text}\n\n"


def _listen(at: Address, option: str) -> socket.socket:
    """A socket at the address; where no port is given at the first of the usual ones that is free."""
    usual = range(PORT, PORT + PORTS)
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    error = OSError()
    for port in usual if at.port is None else [at.port]:
        try:
            return socket.create_server((at.host, port), family=family)
        except OSError as refused:
            error = refused
    where = f"{at.host}:{f'{PORT} to {usual[-1]}' if at.port is None else at.port}"
    why = str(error.strerror).partition(" (while ")[0]  # the address is said already
    raise GossamerError(f"the live page cannot listen at {where} ({why}): give another {option}.") from error
