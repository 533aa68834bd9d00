"""Numpy's arrays and torch's tensors, told apart here and nowhere else.

Algorithms, boundaries and engines write `a + b`, `a @ b` and `a.clip(low, high)`, which both kinds understand. What has
to be written differently for each stands here twice, and is asked of `kind_of(value)`. Torch is an extra: it is
imported only where there is a tensor, or where one is to be made.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gossamer.lazy import worth_compiling

FLOAT = np.dtype(np.float64)


class Kind(Protocol):
    """Arrays of one library, in one precision, in one place."""

    @property
    def tensors(self) -> bool:
        """Whether they are torch's."""

    @property
    def place(self) -> str:
        """Where they lie: "cpu", or the kind of device, such as "cuda"."""

    @property
    def wide(self) -> bool:
        """Whether they hold float64, the only precision in which noise on messages is proved."""

    def make(self, numbers: Any) -> Any:
        """Numbers as an array of this kind."""

    def make_matrix(self, matrix: Any) -> Any:
        """A matrix, sparse as SciPy's CSR or dense, so that `matrix @ array` multiplies arrays of this kind."""

    def make_indices(self, numbers: Any) -> Any:
        """Whole numbers that pick entries out of arrays of this kind."""

    def to_numpy(self, value: Any) -> NDArray[Any]:
        """The same numbers as a numpy array; of the same precision, if numpy has it."""

    def widen(self, value: Any) -> Any:
        """In float64, from whatever precision."""

    def narrow(self, value: Any) -> Any:
        """Back in the precision of this kind."""

    def pick(self, rows: Any, columns: Any) -> Any:
        """rows[k, columns[k]] of every row k, as a column."""

    def cut_off(self, value: Any, largest: Any) -> Any:
        """No coordinate beyond ±largest, and 0 for NaN; `largest` is one number, or a column with one for each row."""

    def add_scaled(self, value: Any, factor: Any, other: Any) -> Any:
        """value + factor · other."""

    def zeros(self, like: Any) -> Any:
        """As many zeros."""

    def row_lengths(self, rows: Any) -> NDArray[np.float64]:
        """The L2 norm of every row, found in float64."""


class Numpy:
    """Numpy's arrays; what we compute with them is float64 throughout."""

    tensors, place, wide = False, "cpu", True

    def __reduce__(self) -> str:
        return "NUMPY"  # there is one

    def make(self, numbers: Any) -> Any:
        return np.asarray(numbers)

    def make_matrix(self, matrix: Any) -> Any:
        return matrix

    def make_indices(self, numbers: Any) -> Any:
        return np.asarray(numbers)

    def to_numpy(self, value: Any) -> NDArray[Any]:
        return np.asarray(value)

    def widen(self, value: Any) -> Any:
        return np.asarray(value, dtype=np.float64)

    def narrow(self, value: Any) -> Any:
        return value

    def pick(self, rows: Any, columns: Any) -> Any:
        if len(columns) == rows.shape[1]:  # of all learners, in their order
            return rows.diagonal()[:, None]
        return rows[np.arange(len(columns)), columns][:, None]

    def cut_off(self, value: Any, largest: Any) -> Any:
        return np.clip(np.nan_to_num(value), -largest, largest)

    def add_scaled(self, value: Any, factor: Any, other: Any) -> Any:
        return value + factor * other

    def zeros(self, like: Any) -> Any:
        return np.zeros_like(like)

    def row_lengths(self, rows: Any) -> NDArray[np.float64]:
        return np.asarray(np.linalg.norm(rows, axis=1))


class Tensors(NamedTuple):
    """Torch's tensors of one precision on one device."""

    dtype: Any
    device: Any

    @property
    def tensors(self) -> bool:
        return True

    @property
    def place(self) -> str:
        return str(self.device.type)

    @property
    def wide(self) -> bool:
        return bool(self.dtype == _torch().float64)

    def make(self, numbers: Any) -> Any:
        torch = _torch()  # what lies on a device already must not come back to be converted
        made = numbers if isinstance(numbers, torch.Tensor) else torch.as_tensor(np.array(numbers))
        return made.to(self.device, self.dtype, non_blocking=True)  # without waiting for the device

    def make_matrix(self, matrix: Any) -> Any:
        if isinstance(matrix, np.ndarray):
            return self.make(matrix)
        torch = _torch()  # indices of 32 bits are half of what 64 would move, and a network has fewer than 2^31 links
        starts, columns = (torch.from_numpy(np.array(part, dtype=np.int32)) for part in (matrix.indptr, matrix.indices))
        weights = torch.as_tensor(np.array(matrix.data), dtype=self.dtype)
        with warnings.catch_warnings(), torch.sparse.check_sparse_tensor_invariants(False):  # SciPy has checked them
            warnings.filterwarnings("ignore", message="Sparse")  # that CSR is in beta; that invariants are not checked
            made = torch.sparse_csr_tensor(starts, columns, weights, matrix.shape)
        return made.to(self.device)

    def make_indices(self, numbers: Any) -> Any:
        return _torch().as_tensor(numbers, device=self.device)

    def to_numpy(self, value: Any) -> NDArray[Any]:
        tensor = value.detach().cpu()
        array: NDArray[Any] = (tensor.float() if tensor.dtype == _torch().bfloat16 else tensor).numpy()
        return array

    def widen(self, value: Any) -> Any:
        return value.double()

    def narrow(self, value: Any) -> Any:
        return value.to(self.dtype)

    def pick(self, rows: Any, columns: Any) -> Any:
        return rows.gather(1, columns[:, None])

    def cut_off(self, value: Any, largest: Any) -> Any:
        one = isinstance(largest, float)  # narrower kinds have no number for it, or round it to ∞
        limit = min(largest, _torch().finfo(self.dtype).max) if one else self.make(largest)
        return value.nan_to_num(0.0).clip(-limit, limit)

    def add_scaled(self, value: Any, factor: Any, other: Any) -> Any:
        return value.add(other, alpha=factor) if np.ndim(factor) == 0 else value + self.make(factor) * other

    def zeros(self, like: Any) -> Any:
        return _torch().zeros_like(like)

    def row_lengths(self, rows: Any) -> NDArray[np.float64]:
        lengths: NDArray[np.float64] = rows.double().norm(dim=1).cpu().numpy()
        return lengths


NUMPY = Numpy()


def kind_of(value: Any) -> Kind:
    """The kind of a tensor, or else numpy's, which takes whatever makes an array."""
    if isinstance(value, np.ndarray):
        return NUMPY
    torch = sys.modules.get("torch")  # without it there is no tensor
    return Tensors(value.dtype, value.device) if torch is not None and isinstance(value, torch.Tensor) else NUMPY


def dense(matrix: Any) -> NDArray[Any]:
    """A matrix as an array, from an array or from one of SciPy's sparse ones."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def _torch() -> Any:
    return importlib.import_module("torch")


def go_in_one_pass(*arrays: Any) -> bool:
    """Whether these are NumPy's, all alike, and worth a compiled function that takes them at once."""
    first = arrays[0]
    if type(first) is not np.ndarray or not worth_compiling(first.size):
        return False
    for one in arrays:  # asked in every round: a generator would cost as much again
        if (
            type(one) is not np.ndarray
            or one.dtype is not FLOAT
            or one.shape != first.shape
            or not one.flags.c_contiguous
        ):
            return False
    return True
