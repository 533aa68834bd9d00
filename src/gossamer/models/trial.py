"""What a user's module, loss, shape and labels must be, tried out before the first round: one sentence each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.nn.parameter import is_lazy

from gossamer.errors import GossamerError, NotProvable
from gossamer.records import Table, dense_rows

Tensor = Any


def sample_of(build: Any, name: str) -> nn.Module:
    """A first module, if `build` makes modules that can learn."""
    if isinstance(build, nn.Module):
        kind = type(build).__name__
        raise GossamerError(
            f"{name}: build is a module, {kind}, expected a function that makes one, since every learner needs its "
            f"own: give lambda: {kind}(…)."
        )
    if not callable(build):
        raise GossamerError(f"{name}: build is {build!r}, expected a function that makes a torch module.")
    sample = build()
    if not isinstance(sample, nn.Module):
        raise GossamerError(f"{name}: build() gives a {type(sample).__name__}, expected a torch module.")
    if any(map(is_lazy, sample.parameters())):
        raise GossamerError(f"{name} has lazy layers, whose sizes are not known: give them.")
    if not any(p.numel() for p in sample.parameters()):
        raise GossamerError(f"{name} has no parameters to learn: give a module with some, such as nn.Linear.")
    return sample


def try_out(model: Any, table: Table, at_once: int) -> None:
    """A few records forward through a module of its own, at most as many at once as a round has.

    Neither the random numbers of the run nor any buffers are used up.
    """
    if math.prod(model.shape) != table.columns:
        raise GossamerError(
            f"shape={model.shape} has {math.prod(model.shape)} numbers and a record {table.columns} features: give a "
            f"shape of {table.columns}, such as shape=({table.columns},)."
        )
    at_once = min(at_once, 4)
    some = np.resize([table.labels.argmin(), table.labels.argmax(), 0, len(table) - 1], 2 * at_once)
    few = replace(table, rows=table.rows[some], labels=table.labels[some])
    x, y = model.inputs(dense_rows(few)), model.targets(few.labels)
    with torch.random.fork_rng([model.device] if model.device.type == "cuda" else []):
        module = model.fresh()
        for part, labels in zip(x.split(at_once), y.split(at_once), strict=True):
            _try_loss(model, module, part, labels)


def refuse_memory(model: Any) -> None:
    """Refuse a module or a loss that carries records from a round to the next: nothing noises what it remembers.

    Its gradient on some records must be the same, bit by bit, whether it has seen others before or not. That finds
    running statistics that are used in training, a BatchNorm that freezes, state in attributes, and a loss that keeps
    some. What remembers in a way that this does not show, such as after a thousand rounds, it cannot find.
    """
    loss = model.loss
    if isinstance(loss, nn.Module) and any(True for _ in (*loss.parameters(), *loss.buffers())):
        raise NotProvable(
            f"{model.name}: the loss has parameters or buffers of its own, shared by all learners and never noised, so "
            "no privacy can be proved: use a loss without."
        )
    with torch.random.fork_rng([model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(0)
        first, second = torch.randn(2, 4, *model.shape, device=model.device, dtype=torch.float32).to(model.dtype)
        for of_each in (False, True) if model.clip is not None and model.clip.per == "record" else (False,):
            fresh = _gradients(model, _seeded(model), second, of_each)
            used = _seeded(model)
            _gradients(model, used, first, of_each)
            again = _gradients(model, used, second, of_each)
            if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(fresh, again, strict=True)):
                raise NotProvable(
                    f"{model.name} gives another gradient for the same records once it has seen others: it carries "
                    "records from a round to the next without noise, so no privacy can be proved; let it keep nothing."
                )


def _seeded(model: Any) -> nn.Module:
    torch.manual_seed(1)
    module: nn.Module = model.fresh().train()
    return module


def _gradients(model: Any, module: nn.Module, x: Tensor, of_each: bool) -> list[Tensor]:
    """The gradient of some records' mean loss, or each record's own, by parameter."""
    torch.manual_seed(2)
    y = torch.zeros(len(x), device=x.device).to(model.labels)
    if of_each:
        return list(model.record_gradients(module, x, y).values())
    with model.autocast():
        loss = model.loss(module(x), y)
    learnt = [p for p in module.parameters() if p.requires_grad]
    return [g for g in torch.autograd.grad(loss, learnt, allow_unused=True) if g is not None]


def _try_loss(model: Any, module: nn.Module, x: Tensor, y: Tensor) -> None:
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with model.autocast():
        try:
            out = functional_call(module, buffers, (x,))
        except Exception as error:  # whatever a module says
            raise GossamerError(
                f"{model.name} cannot take {len(x)} record{'s' * (len(x) > 1)} of shape {model.shape} at once "
                f"({_first_line(error)}): change shape=, the module, or how many records a round has."
            ) from error
        _check_outputs(model, out, y)
        try:
            loss = model.loss(out, y)
        except Exception as error:
            raise GossamerError(
                f"{model.name}: the loss cannot compare outputs of shape {tuple(out.shape)} with labels of shape "
                f"{tuple(y.shape)}, {y.dtype} ({_first_line(error)}): change the module, loss= or labels=."
            ) from error
    _check_loss(model.name, loss)


def _check_outputs(model: Any, out: Any, y: Tensor) -> None:
    """One output for each class, where the loss is cross-entropy."""
    if not isinstance(out, torch.Tensor):
        raise GossamerError(f"{model.name} gives a {type(out).__name__}, expected a tensor: one row for each record.")
    if model.loss is not cross_entropy:
        return
    outputs = out.shape[1] if out.ndim > 1 else 1
    for label in y.tolist():
        if label < 0:
            raise GossamerError(f"label {label:g}: expected a class, counted from 0; number the classes so.")
        if label >= outputs:
            raise GossamerError(
                f"label {label:g} and a module with {outputs} output{'s' * (outputs > 1)}: cross-entropy needs one for "
                f"each class, counted from 0; give the module {int(label) + 1}, or number the classes from 0."
            )


def _check_loss(name: str, loss: Any) -> None:
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        what = f"shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else f"a {type(loss).__name__}"
        raise GossamerError(f"{name}: the loss gives {what}, expected one number: give the mean over the records.")
    if not loss.requires_grad:
        raise GossamerError(f"{name}: the loss depends on no parameter, so nothing is learnt: unfreeze some.")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
