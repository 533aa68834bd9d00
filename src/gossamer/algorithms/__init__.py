"""Algorithms: one file each, all of the same form. A file that is put here is found; nothing else lists it.

Each method is a name of this package, too: `from gossamer.algorithms import push_pull` gives the function.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from gossamer.algorithms.base import Algorithm, AlgorithmState, Emit, Init, Step
from gossamer.algorithms.registry import Method, find_method, method, methods

if TYPE_CHECKING:  # a type checker runs nothing, and would take these names for the files
    from gossamer.algorithms.diadsp import diadsp as diadsp
    from gossamer.algorithms.dsgd import dsgd as dsgd
    from gossamer.algorithms.dsgd import dsgd_naive as dsgd_naive
    from gossamer.algorithms.ldol import ldol as ldol
    from gossamer.algorithms.ldp_gradient_tracking import ldp_gradient_tracking as ldp_gradient_tracking
    from gossamer.algorithms.push_pull import push_pull as push_pull
    from gossamer.algorithms.robust_push_pull import robust_push_pull as robust_push_pull
    from gossamer.algorithms.stochastic_subgradient import stochastic_subgradient as stochastic_subgradient
    from gossamer.algorithms.subgradient_rescaling import subgradient_rescaling as subgradient_rescaling
    from gossamer.algorithms.tailored_gradient_tracking import tailored_gradient_tracking as tailored_gradient_tracking
    from gossamer.algorithms.wang_basar import wang_basar as wang_basar

for _file in sorted(iter_modules(__path__), key=lambda file: file.name):
    import_module(f"{__name__}.{_file.name}")
globals().update({name: one.factory for name, one in methods().items()})

__all__ = ["Algorithm", "AlgorithmState", "Emit", "Init", "Method", "Step", "find_method", "method", "methods"]
