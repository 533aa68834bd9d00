"""Ctrl-C ends the command quietly, whenever it comes: one line at most, exit code 130, no traceback.

While modules are imported nothing has been done yet, and a KeyboardInterrupt in the middle of an import is caught,
changed or printed by whatever is being imported. So then the process ends on the spot. From there on KeyboardInterrupt
is raised as usual, because what was begun has to be put in order; where it cannot be raised it is tried again.

Only what Python has mostly loaded already is imported here: this module must be there before anything else is.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import signal
import sys

TYPE_CHECKING = False  # importing typing for it would cost more than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

CODE = 130  # as a shell says it: 128 + SIGINT
SAID = "gossamer: stopped."

_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in the background of a script: it stays so
_asked: list[int] = []  # the signals that came
_usual = sys.unraisablehook


def start() -> None:
    """Take ctrl-C in hand; when Python itself ends, and nothing is left that could last, it is ignored."""
    end_on_ctrl_c()
    sys.unraisablehook = _try_again
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the first one is called last


def end_on_ctrl_c() -> None:
    """From now on ctrl-C ends the process at once."""
    _handle(_end)


def raise_on_ctrl_c() -> None:
    """From now on ctrl-C raises KeyboardInterrupt."""
    _handle(_raise)


def was_asked() -> bool:
    """Whether ctrl-C was pressed: libraries may have made another error of it."""
    return bool(_asked)


def import_command(module: str) -> Any:
    """A command's module; where ctrl-C raises KeyboardInterrupt, it ends the process at once until that is loaded."""
    guarded = signal.getsignal(signal.SIGINT) is _raise
    if guarded:
        end_on_ctrl_c()
    try:
        return importlib.import_module(module)
    finally:
        if guarded:
            raise_on_ctrl_c()


def leave() -> None:
    """The command is done: write out what it said; from now on ctrl-C ends what is left of the process in silence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # whoever read it has left, or there is no room; Python must not try it again
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    _handle(lambda *_: os._exit(CODE))


def _handle(handler: Callable[..., object]) -> None:
    if not _ignored:
        signal.signal(signal.SIGINT, handler)


def _end(*_: Any) -> NoReturn:
    os.write(2, f"{SAID}\n".encode())
    os._exit(CODE)


def _raise(number: int, _: Any) -> NoReturn:
    _asked.append(number)
    raise KeyboardInterrupt


def _try_again(unraisable: Any) -> None:
    """What came where nothing can be raised, as in a destructor, is raised once that has ended, and not printed."""
    if unraisable.exc_type is KeyboardInterrupt:
        signal.raise_signal(signal.SIGINT)
    else:
        _usual(unraisable)
