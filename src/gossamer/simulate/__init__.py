"""All learners in one process: the fast way to try a network, a method or a budget."""

from typing import TYPE_CHECKING

from gossamer.lazy import import_on_first_use

if TYPE_CHECKING:
    from gossamer.simulate.engine import Progress, simulate
    from gossamer.simulate.record import Record
else:
    __getattr__ = import_on_first_use(
        __name__, {"gossamer.simulate.engine": ["Progress", "simulate"], "gossamer.simulate.record": ["Record"]}
    )

__all__ = ["Progress", "Record", "simulate"]
