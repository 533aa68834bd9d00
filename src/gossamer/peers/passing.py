"""What passes by itself: a learner that ends for it should be started again with nothing changed.

A full disk, too many open files, a port that somebody still has, an address that is not there yet, a clock that is not
set. Such an end has the exit code 75 (EX_TEMPFAIL of sysexits.h), and not 2, after which nobody starts it again. What
was committed stays, and nothing of the round that failed was sent: starting again is what it is after any crash.
"""

from __future__ import annotations

import errno
import sqlite3

from gossamer.errors import GossamerError

CODE = 75
DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
OTHERS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EADDRINUSE, errno.EADDRNOTAVAIL})
FULL, AGAIN = "disk full", "starting again"  # states of a learner that has ended so


class TryLater(GossamerError):
    """A sentence about something that passes by itself."""


def passing_state(error: BaseException | None) -> str | None:
    """The state of a learner that ends with this error: `disk full` or `starting again`; None where it will not pass.

    A sentence is made while the system's own error is handled, which is looked at, too.
    """
    while error is not None:
        if isinstance(error, TryLater):
            return AGAIN
        if isinstance(error, OSError) and error.errno in DISK | OTHERS:
            return FULL if error.errno in DISK else AGAIN
        if isinstance(error, sqlite3.Error):
            name = getattr(error, "sqlite_errorname", "")
            if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
                return FULL if name == "SQLITE_FULL" else AGAIN
        error = error.__cause__ or error.__context__
    return None
