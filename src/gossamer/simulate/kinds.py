"""The kind of array that a run computes with: numpy's, or torch tensors on a device. Algorithms take either."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.models import Model
from gossamer.networks import Network
from gossamer.types import Array, Matrix, Rows


class Numpy:
    """Arrays in memory; every run starts at θ = 0."""

    def start(self, m: int, size: int, seed: int) -> Any:
        return np.zeros((m, size))

    def rows(self, network: Network, mixes: Sequence[Matrix]) -> Rows:
        return network.rows(mixes=mixes)

    def weights(self, network: Network, over: Matrix) -> Any:
        return network.off_diagonal(over)

    def array(self, value: Any) -> Array:
        return np.asarray(value)

    def back(self, value: Array) -> Any:
        return value


class Torch:
    """Tensors on the model's device, in its precision."""

    def __init__(self, model: Any) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._model = model

    @property
    def on_gpu(self) -> bool:
        return bool(self._model.device.type == "cuda")

    def _tensor(self, value: Any) -> Any:
        made = self._torch.as_tensor(np.array(value), dtype=self._model.dtype)
        return made.to(self._model.device, non_blocking=True)  # without waiting for the device

    def start(self, m: int, size: int, seed: int) -> Any:
        return self._model.start(m, seed)

    def rows(self, network: Network, mixes: Sequence[Matrix]) -> Rows:
        rows = network.rows(mixes=mixes)
        own = {name: self._tensor(getattr(rows, name)) for name in ("R_ii", "C_ii", "W_ii", "D_ii")}
        return rows._replace(ids=self._torch.as_tensor(rows.ids, device=self._model.device), **own)

    def weights(self, network: Network, over: Matrix) -> Any:
        off = network.off_diagonal(over)
        return self._tensor(off if isinstance(off, np.ndarray) else off.toarray())

    def array(self, value: Any) -> Array:
        if not hasattr(value, "detach"):
            return np.asarray(value)
        whole = value.ndim == 2 and value.shape[1] == self._model.size
        tensor = (self._model.canonical(value) if whole else value).detach().cpu()
        found: Array = (tensor.float() if tensor.dtype == self._torch.bfloat16 else tensor).numpy()
        return found

    def back(self, value: Array) -> Any:
        made = self._tensor(value)
        return self._model.placed(made) if made.ndim == 2 and made.shape[1] == self._model.size else made


def kind_of(model: Model) -> Numpy | Torch:
    return Torch(model) if hasattr(model, "device") else Numpy()
