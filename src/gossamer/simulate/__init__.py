"""All learners in one process: the fast way to try a network, a method or a budget."""

from gossamer.lazy import import_on_first_use

TYPE_CHECKING = False  # importing typing for it would cost more than all the rest
if TYPE_CHECKING:
    from gossamer.run_record import Record
    from gossamer.simulate.engine import Progress, simulate
else:
    __getattr__ = import_on_first_use(
        __name__, {"gossamer.simulate.engine": ["Progress", "simulate"], "gossamer.run_record": ["Record"]}
    )

__all__ = ["Progress", "Record", "simulate"]
