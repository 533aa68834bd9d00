"""The words of a stream cipher, in order and each once, however many of them are made at a time.

Noise of one's own takes words of AES-256 in counter mode under a key from the operating system, a new one in every
process, forks included.
"""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

BUFFER = 9 << 12  # words made at a time, at most: some more than 2^15 values take; they stay in the cache
FEWEST = 1 << 13  # of one's own made at a time: what is left serves the next draw
_ZEROS = memoryview(bytes(8 * BUFFER))  # what is enciphered, so that the keystream itself comes out


class Words:
    """`ahead[used:]` are the next words; whoever takes some moves `used`. No fewer than `fewest` are made at a time."""

    def __init__(self, cipher: CipherContext, fewest: int = 1) -> None:
        self._cipher, self._fewest = cipher, fewest
        self._room: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self.ahead, self.used = self._room, 0

    def have(self, least: int, wanted: int = 0) -> None:
        """See to `least` unused words. Where there are fewer, `wanted` new ones are made, or what the buffer holds."""
        left = len(self.ahead) - self.used
        if left < least:
            self._make(left, max(least, self._fewest, min(wanted, BUFFER)))

    def _make(self, left: int, fresh: int) -> None:
        """Fresh words behind those that are left, in the same place if they fit: new pages cost more than the words."""
        unused, needed = self.ahead[self.used :].copy(), left + fresh + 2  # two more, which the cipher asks for
        if len(self._room) < needed:
            self._room = np.empty(needed, dtype=np.uint64)
        self._room[:left] = unused
        self._cipher.update_into(_ZEROS[: 8 * fresh], self._room[left:].view(np.uint8).data)
        self.ahead, self.used = self._room[: left + fresh], 0
        if sys.byteorder == "big":  # a word is eight bytes, the lowest first, on every machine
            self.ahead[left:].byteswap(inplace=True)

    def take(self) -> int:
        """The next word alone."""
        self.have(1, wanted=64)
        self.used += 1
        return int(self.ahead[self.used - 1])


class Keystream:
    """An endless stream of random words under a key that never leaves this process.

    Whoever takes words holds the `lock`: two threads must never draw the same.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew with the next draw, under a new key; also where another thread held the lock as we were forked."""
        self._process = -1
        self.lock = threading.Lock()

    def words(self) -> Words:
        """The words that come next."""
        if self._process != os.getpid():
            cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16)))
            self._words = Words(cipher.encryptor(), FEWEST)
            self._process = os.getpid()
        return self._words


own_words = Keystream()
os.register_at_fork(after_in_child=own_words.forget)
