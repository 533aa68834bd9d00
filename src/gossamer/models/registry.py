"""Models by name: what a description of a run says, made into the model that it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from gossamer.arrays import NUMPY
from gossamer.arrays import Kind as Arrays
from gossamer.errors import BadValue
from gossamer.models.bounds import Clip
from gossamer.models.linear import LogisticRegression, RidgeRegression, SoftmaxRegression
from gossamer.models.standard import Standardise
from gossamer.models.tensors import tensors
from gossamer.registry import Registry


class Wanted(NamedTuple):
    """What a model is made from."""

    l2: float
    clip: Clip | None
    outputs: int  # classes of the labels
    shape: tuple[int, ...]  # of a record: (columns,), or of an image (channels, height, width)
    norm: str = "batch"
    stem: str = "imagenet"
    device: str = "cpu"
    amp: bool = False
    remember: int | None = None
    intercept: bool = False  # whether the last column is one
    standardise: Standardise | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of model."""

    make: Callable[[Wanted], Any]
    name: str
    _: KW_ONLY
    options: tuple[str, ...] = ()  # the settings that it takes beside l2 and clip
    quantity: bool = False  # its labels are numbers, not classes
    images: bool = False  # its records are images
    classes_at_most: int | None = None


MODELS: Registry[Kind] = Registry(
    "model", "gossamer.models", lambda name, make: Kind(make, name), heavy=("kernels", "torch", "trial", "images")
)
model = MODELS.decorator(Kind)  # declares a function that makes a model: it can then be named wherever a model can


def _linear(wanted: Wanted) -> tuple[float, Clip | None, bool, Standardise | None, int | None]:
    """What every linear model takes, in the order in which it does."""
    return wanted.l2, wanted.clip, wanted.intercept, wanted.standardise, wanted.remember


def _arrays(wanted: Wanted) -> Arrays:
    """NumPy's arrays on a CPU, and torch's tensors in float32 elsewhere."""
    return NUMPY if wanted.device == "cpu" else tensors(wanted.device)


@model("logistic", options=("standardise", "remember", "device"), classes_at_most=2)
def make_logistic(wanted: Wanted) -> LogisticRegression:
    return LogisticRegression(*_linear(wanted), arrays=_arrays(wanted))


@model("softmax", options=("standardise", "remember", "device"))
def make_softmax(wanted: Wanted) -> SoftmaxRegression:
    return SoftmaxRegression(wanted.outputs, *_linear(wanted), arrays=_arrays(wanted))


@model("ridge", options=("standardise", "remember", "device"), quantity=True)
def make_ridge(wanted: Wanted) -> RidgeRegression:
    return RidgeRegression(*_linear(wanted), arrays=_arrays(wanted))


@model("resnet18", options=("clip_per", "norm", "stem", "remember", "device", "bf16"), images=True)
def make_resnet18(wanted: Wanted) -> Any:
    return _network(wanted, "resnet18", f"ResNet-18, {wanted.norm} norm, {wanted.stem} stem")


@model("cnn", options=("clip_per", "remember", "device", "bf16"), images=True)
def make_cnn(wanted: Wanted) -> Any:
    return _network(wanted, "cnn", "small CNN")


def _network(wanted: Wanted, kind: str, name: str) -> Any:
    """A network of ours as a model; torch is an extra, and takes seconds to import."""
    _check_device(wanted.device)
    from gossamer.models import images
    from gossamer.models.torch import NeuralNetwork

    channels, side = wanted.shape[:2]

    def build() -> Any:
        if kind == "cnn":
            return images.small_cnn(wanted.outputs, channels, side)
        return images.resnet18(wanted.outputs, channels, wanted.norm, wanted.stem)  # type: ignore[arg-type]

    rounds: dict[str, Any] = {} if wanted.remember is None else {"remember": wanted.remember}
    return NeuralNetwork(
        build, shape=wanted.shape, clip=wanted.clip, l2=wanted.l2, device=wanted.device, amp=wanted.amp, name=name,
        **rounds,
    )  # fmt: skip


def _check_device(device: str) -> None:
    try:
        import torch
    except ImportError:
        raise BadValue(
            "model", "a neural network", "it needs torch", "install the extra, pip install 'gossamer-learning[nn]'"
        ) from None
    try:
        known = torch.device(device).type in ("cpu", "cuda")
    except RuntimeError:
        known = False
    if not known:
        raise BadValue("device", device, "expected cpu, cuda, or one such as cuda:1")
