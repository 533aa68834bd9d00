"""What goes over a link: small typed frames, checked before anything is made of them. Nothing is ever unpickled.

    magic "GSMR"  version u16  length of the header u32  length of the payload u32  CRC-32 of both u32
    header        MessagePack of one of the types below, at most 4 KiB
    payload       raw little-endian numbers, at most 1 MiB; a longer vector comes in several parts. Of settings, which
                  go only to a neighbour that has others: MessagePack, at most 64 KiB. Of a membership: a signed
                  document, at most 1 MiB

All integers of the prefix are little-endian. Whoever reads knows from the prefix how much is to come, and refuses
before it is allocated; a vector's size and kind are those that the run has, whatever a frame says.

A transport may carry several frames as one message, of MESSAGE_LIMIT bytes at most. A vector's numbers are copied once
on their way out, into their frame, and on their way in they are read where they came, part by part.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from gossamer.errors import GossamerError
from gossamer.peers.mixing import all_within, narrow
from gossamer.types import Array

MAGIC, VERSION = b"GSMR", 1
PREFIX = struct.Struct("<4sHIII")
HEADER_LIMIT, PAYLOAD_LIMIT, SETTINGS_LIMIT = 4096, 1 << 20, 1 << 16
TOGETHER = 1 << 16  # bytes of small frames that travel as one message
MESSAGE_LIMIT = PREFIX.size + HEADER_LIMIT + PAYLOAD_LIMIT + TOGETHER
QUOTED = 300  # letters of what a neighbour says that are shown
FAR = 1e120  # no run that learns has numbers so large; sums and products of such ones would not stay finite
NARROW = 3e38  # the largest number that is sent as float32

Dtype = Literal["f8", "f4"]
DTYPES: dict[Dtype, np.dtype[Any]] = {"f8": np.dtype("<f8"), "f4": np.dtype("<f4")}
LIMITS: dict[Dtype, Any] = {"f8": np.float64(FAR), "f4": np.float32(np.inf)}  # every finite float32 is below FAR
Payload = bytes | bytearray | memoryview


def quoted(text: str, most: int = QUOTED) -> str:
    """What somebody else has said, so that it can be shown: letters that print, and not too many."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


class RefusedError(GossamerError):
    """A frame that is not accepted; `reason` is its short name, for logs, counters and the sender."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Hello(msgspec.Struct, tag="hello", forbid_unknown_fields=True, frozen=True):
    """The first frame on a link: who speaks, in which run and epoch, and from which round on."""

    run: str
    sender: int
    epoch: int  # how many times the sender's process was started on its journal; logs call it life
    round: int  # the oldest round that it may still send
    size: int
    dtype: Dtype


class Part(msgspec.Struct, tag="part", forbid_unknown_fields=True, frozen=True):
    """One piece of one channel's vector of one round; its numbers are the payload."""

    round: int
    channel: str
    part: int
    parts: int


class Ack(msgspec.Struct, tag="ack", forbid_unknown_fields=True, frozen=True):
    """The receiver has committed the round that used this one's messages: they need not be sent again."""

    round: int


class Done(msgspec.Struct, tag="done", forbid_unknown_fields=True, frozen=True):
    """The sender has no round left, and all it sent was used: nobody need stay for its sake."""


class Refusal(msgspec.Struct, tag="refusal", forbid_unknown_fields=True, frozen=True):
    """Why the other side will hear nothing more on this link."""

    reason: str
    sentence: str


class Settings(msgspec.Struct, tag="settings", forbid_unknown_fields=True, frozen=True):
    """What the sender's run is, for a neighbour whose hello was of another; the settings are the payload."""


class Membership(msgspec.Struct, tag="membership", forbid_unknown_fields=True, frozen=True):
    """A document that changes who takes part; the payload is it. It goes only to neighbours that can read it."""

    version: int


class Known(msgspec.Struct, tag="known", forbid_unknown_fields=True, frozen=True):
    """Which document of membership is the newest that the sender has accepted, and its digest."""

    version: int
    digest: str


Header = Hello | Part | Ack | Done | Refusal | Settings | Membership | Known
LARGEST: dict[type, int] = {Part: PAYLOAD_LIMIT, Settings: SETTINGS_LIMIT, Membership: PAYLOAD_LIMIT}
_decoder = msgspec.msgpack.Decoder(Header)
_encoder = msgspec.msgpack.Encoder()


class Frame(NamedTuple):
    header: Header
    payload: bytes | memoryview = b""


def split_frames(data: bytes) -> Iterator[memoryview]:
    """The frames that lie one after the other in what arrived at once.

    The last piece is whatever is left: a frame, or trailing bytes that form no frame, which `unpack` refuses.
    """
    rest = memoryview(data)
    while len(rest) > PREFIX.size:
        _, _, header_size, payload_size, _ = PREFIX.unpack_from(rest)
        end = PREFIX.size + header_size + payload_size
        if end >= len(rest):
            break
        yield rest[:end]
        rest = rest[end:]
    yield rest


def pack(frame: Frame) -> bytes:
    return b"".join(_pieces(frame))


def _pieces(frame: Frame) -> tuple[bytes, bytes, bytes | memoryview]:
    """What a frame is made of, not yet copied together: prefix, header, payload."""
    header = _encoder.encode(frame.header)
    if len(header) > HEADER_LIMIT or len(frame.payload) > PAYLOAD_LIMIT:
        raise GossamerError(
            f"a frame of {len(header)} + {len(frame.payload)} bytes: expected at most {HEADER_LIMIT} + "
            f"{PAYLOAD_LIMIT}; send it in parts."
        )
    check = zlib.crc32(frame.payload, zlib.crc32(header))
    return PREFIX.pack(MAGIC, VERSION, len(header), len(frame.payload), check), header, frame.payload


def pack_vectors(round_: int, payloads: Iterable[tuple[str, Payload]]) -> list[bytes]:
    """A round's vectors, (channel, bytes) in order, as few messages: frames beside each other where there is room."""
    messages: list[bytes] = []
    waiting: list[bytes | memoryview] = []
    size = 0
    for channel, payload in payloads:
        for frame in split_vector(round_, channel, payload):
            pieces = _pieces(frame)
            more = sum(map(len, pieces))
            if waiting and size + more > MESSAGE_LIMIT:
                messages.append(b"".join(waiting))
                waiting, size = [], 0
            waiting += pieces
            size += more
    return [*messages, b"".join(waiting)] if waiting else messages


def unpack(data: bytes | memoryview, intact: bool = False) -> Frame:
    """The one frame that `data` is; RefusedError where it is not exactly one.

    `intact` says that the transport has made sure that it is what was sent: then it is not summed up once more.
    """
    if len(data) < PREFIX.size:
        raise RefusedError("short", f"a frame of {len(data)} bytes, expected at least {PREFIX.size}: it was cut off.")
    magic, version, header_size, payload_size, check = PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise RefusedError(
            "magic", f"a frame that begins with {magic!r}, expected {MAGIC!r}: this is no learner's message."
        )
    if version != VERSION:
        raise RefusedError(
            "version",
            f"a frame of version {version}, expected {VERSION}: install the same release of gossamer at both.",
        )
    if header_size > HEADER_LIMIT or payload_size > PAYLOAD_LIMIT:
        raise RefusedError(
            "oversize",
            f"a frame that announces {header_size} + {payload_size} bytes, expected at most {HEADER_LIMIT} + "
            f"{PAYLOAD_LIMIT}.",
        )
    size, announced = len(data), PREFIX.size + header_size + payload_size
    if size != announced:
        raise RefusedError(
            "length", f"a frame of {size} bytes that announces {announced}: it was cut off, or something follows it."
        )
    body = memoryview(data)[PREFIX.size :]
    if not intact and zlib.crc32(body) != check:
        raise RefusedError("checksum", "a frame whose checksum is wrong: it was damaged on the way.")
    try:
        header = _decoder.decode(body[:header_size])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RefusedError(
            "header",
            f"a frame whose header cannot be read ({quoted(str(error), 120)}), expected one of this release of "
            "gossamer: install the same at both.",
        ) from None
    limit = LARGEST.get(type(header), 0)
    if payload_size > limit:
        raise RefusedError(
            "payload",
            f"a {type(header).__name__.lower()} with {payload_size} bytes of payload, expected {limit} at most.",
        )
    return Frame(header, body[header_size:])


def count_parts(size: int, dtype: Dtype) -> int:
    """In how many parts a vector of `size` numbers travels."""
    return max(1, -(-size * DTYPES[dtype].itemsize // PAYLOAD_LIMIT))


def split_vector(round_: int, channel: str, payload: Payload) -> list[Frame]:
    """A vector's bytes in frames of at most 1 MiB; an empty one is a frame, too."""
    whole = memoryview(payload)
    cut = [whole[k : k + PAYLOAD_LIMIT] for k in range(0, len(whole), PAYLOAD_LIMIT)] or [whole]
    return [Frame(Part(round_, channel, k, len(cut)), piece) for k, piece in enumerate(cut)]


def encode(vector: Array, dtype: Dtype) -> memoryview:
    """The numbers' bytes as they travel; what float32 has no number for is cut off at its largest.

    Float64 is not copied: what these are bytes of must not be written to afterwards.
    """
    if dtype == "f4":
        whole = np.ascontiguousarray(vector, dtype=np.float64).reshape(-1)
        numbers = np.empty(len(whole), dtype=np.float32)
        narrow(whole, numbers, NARROW)
        numbers = numbers.astype(DTYPES[dtype], copy=False)  # only where bytes lie the other way round is this a copy
    else:
        numbers = np.ascontiguousarray(vector, dtype=DTYPES[dtype]).reshape(-1)
    return numbers.view(np.uint8).data


def decode(payload: Payload, dtype: Dtype) -> Array:
    """The numbers, as they lie in the payload; RefusedError where one is not finite, or not below FAR."""
    vector: Array = np.frombuffer(payload, dtype=DTYPES[dtype])
    if not all_within(vector, LIMITS[dtype]):
        raise RefusedError(
            "not finite", f"a message with a number that is not below {FAR:g}: its sender's run has diverged."
        )
    return vector


class Assembly:
    """The parts of one vector, in order: together they have the size that the run has, and none is copied."""

    def __init__(self, size: int, dtype: Dtype) -> None:
        self._bytes = size * DTYPES[dtype].itemsize
        self._parts = count_parts(size, dtype)
        self._pieces: list[Payload] = []

    def add(self, part: Part, payload: Payload) -> tuple[Payload, ...] | None:
        """The vector's pieces once it is whole, until then None; RefusedError leaves what was there as it was."""
        at = len(self._pieces)
        if part.parts != self._parts or part.part != at:
            raise RefusedError(
                "parts",
                f"part {part.part} of {part.parts} of a vector, expected part {at} of {self._parts}: its size or order "
                "is not this run's.",
            )
        wanted = min(PAYLOAD_LIMIT, self._bytes - at * PAYLOAD_LIMIT)
        if len(payload) != wanted:
            raise RefusedError(
                "size", f"a part of {len(payload)} bytes, expected {wanted}: its vector is not of this run's size."
            )
        self._pieces.append(payload)
        return tuple(self._pieces) if len(self._pieces) == self._parts else None
