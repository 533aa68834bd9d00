"""File descriptors: enough for a learner's own files and links, whatever others open on its port.

Every connection takes one, also that of somebody who only connects and says nothing. Where none is left a learner
could open no file. So the soft limit is raised to what the system allows, and connections are let in only as far as
the rest leaves RESERVED for journal, status, records and the links that this learner dials itself.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from gossamer.errors import GossamerError

if sys.platform != "win32":
    import resource

WANTED = 8192  # more would only help whoever opens connections
RESERVED = 128  # for a journal's files, of which there are up to 82, status, records and what answers /metrics
CONNECTIONS = 1024  # that come from outside, at most


def raise_limit() -> int:
    """Raise the soft limit as far as it goes, to WANTED at most; what it is then."""
    if sys.platform == "win32":
        return WANTED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = WANTED if hard == unlimited else min(hard, WANTED)
    if soft != unlimited and soft < wanted:
        with suppress(OSError, ValueError):  # a system may have a limit of its own beneath the one that it shows
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return WANTED if soft == unlimited else soft


def connections_allowed(neighbours: int) -> int:
    """How many connections may be open that others have opened.

    Half of what is left: gossamer.peers.door may look at all of them at once, through a copy of each. Refuses a limit
    that does not even leave two for each neighbour that dials: the old one, and the one that follows.
    """
    limit, taken = raise_limit(), _open_now() + RESERVED + 2 * neighbours
    least = 2 * (2 * neighbours + 8)
    if limit - taken < least:
        raise GossamerError(
            f"{limit} file descriptors are allowed (ulimit -n), and a learner with {neighbours} neighbours needs "
            f"{taken + least}: raise the limit (LimitNOFILE= in a systemd unit)."
        )
    return min(CONNECTIONS, (limit - taken) // 2)


def _open_now() -> int:
    for place in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return len(os.listdir(place))
    return RESERVED
