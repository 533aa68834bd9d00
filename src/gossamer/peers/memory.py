"""Memory for long vectors, in large pages and kept from round to round.

A round makes and drops some twenty vectors. Where each of them is mapped anew, or lies on pages of 4 KiB, a processor
that ten learners share spends a third of its time on finding pages: its table of them holds few, and is emptied with
every change of process. So a learner with long vectors asks for all of its heap in pages of 2 MiB, before it begins,
and gives nothing of it back until it ends.

This asks glibc and Linux, in that order, and does nothing elsewhere, or where large pages are switched off: they are
for speed alone.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

LONG = 1 << 18  # bytes of a vector; shorter ones fit into few pages
VECTORS = 48  # of one round: states, messages, what is made in between, and as much again for what lies between these
MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD, ARENA_MAX = -3, -1, -2, -8  # names in glibc's malloc.h
LARGEST = 32 << 20  # bytes, from which on glibc always maps anew
HUGE, PAGE = 14, 1 << 21  # MADV_HUGEPAGE, and the size of a large page


def keep_large_pages(size: int) -> bool:
    """Ask for a heap for vectors of `size` numbers; whether there was somebody to ask. To be called before threads."""
    if sys.platform != "linux" or 8 * size < LONG:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "gnu_get_libc_version"):
        return False
    room = min(VECTORS * 8 * size, 1 << 30)
    for name, value in ((ARENA_MAX, 1), (MMAP_THRESHOLD, LARGEST), (TRIM_THRESHOLD, 2 * room), (TOP_PAD, room)):
        libc.mallopt(name, value)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.free(libc.malloc(LARGEST - PAGE))  # more than is left at its end: the heap grows, by the room besides
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return any(libc.madvise(start, end - start, HUGE) == 0 for start, end in heaps())


def heaps() -> list[tuple[int, int]]:
    """Where the heap lies: from, to."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[heap]"):
            start, end = (int(word, 16) for word in line.split(maxsplit=1)[0].split("-"))
            found.append((start, end))
    return found
