"""Sums that tell whether what a journal has written is still what it was.

The checksum of a round's row and file is two sums modulo 2^64 over the words of 64 bits of each piece, Σ w_k and
Σ k w_k, a last word filled up with zeros, and the number of bytes: whatever changes within one word changes the first
sum, so that any bit that flips is seen, and most words that change places change the second. It is no defence against
somebody who writes to the disk on purpose: nothing in a journal is.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from gossamer.peers.summing import add_words


def checksum_of(pieces: Iterable[Any]) -> bytes:
    """16 bytes that are others as soon as one bit of the pieces is: see above."""
    plain = weighted = 0
    for piece in pieces:
        data = np.frombuffer(piece, np.uint8)
        if not len(data):
            weighted *= 31
            continue
        words, rest = data[: len(data) // 8 * 8].view("<u8"), data[len(data) // 8 * 8 :].tobytes()
        first, second = add_words(words)
        last = int.from_bytes(rest, "little")
        plain += first + last + (len(data) << 32)
        weighted = 31 * weighted + second + (len(words) + 1) * last
    return struct.pack("<QQ", plain % 2**64, weighted % 2**64)


def sum_of_messages(messages: Iterable[Any]) -> int:
    """The sum that rows had before they had a checksum: of all messages' bytes, four at a time."""
    total = 0
    for data in messages:
        whole = np.frombuffer(data, np.uint8)
        words, rest = whole[: len(whole) // 4 * 4].view("<u4"), whole[len(whole) // 4 * 4 :]
        total += int(words.sum(dtype=np.uint64)) + int(rest.sum(dtype=np.uint64))
    return total % 2**63


def late_word(late: tuple[int, int]) -> int:
    """Of one row of the table `late`, for the sum of all."""
    return int.from_bytes(hashlib.blake2b(b"%d %d" % late, digest_size=7).digest(), "little")


def digest_of_rows(rows: Iterable[tuple[bytes, bytes]]) -> str:
    """Of a small table, in its order."""
    return hashlib.blake2b(msgspec.msgpack.encode(list(rows)), digest_size=16).hexdigest()
