"""Any torch module as a model: every learner's parameters are one row of an (m, n) tensor on the device.

    NeuralNetwork(lambda: resnet18(channels=1), shape=(1, 28, 28), clip=clip_l2(1.0, per="round"), device="cuda")

Learner i's module looks at row i through views, its gradients land in row i of another tensor, and the algorithms'
`step` works on the rows as they are. Buffers, such as BatchNorm's running means, stay with their learner and are
never sent.

**Bounds.** A network has no Lipschitz constant that could be proved, so L = ∞, and nothing bounds its gradients but
a clipper: on each round's mean (`per="round"`; a round's batch is what is replaced, as in the paper's Definition 1),
or on each record's gradient (`per="record"`; one image is). BatchNorm mixes the records of a batch, so that no
record has a gradient of its own: with `per="record"` it is refused. What is clipped is float64 from there until it
is noised, whatever the network computes in: narrower sums are off by more than a record may move them.

**History.** gradient="history" is the mean over the newest `remember` rounds, at the current θ: images are not kept
for ever. With L = ∞ the accountant charges 2c for each round's gradient whatever it is the mean of, so the claim
holds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from gossamer.arrays import Tensors
from gossamer.errors import Argument, BadValue, GossamerError, NotProvable
from gossamer.models.base import Gradient
from gossamer.models.bounds import LARGEST, MOST, UNIT, UNKNOWN, Clip, Norm, Reach, Sizes, reach
from gossamer.models.trial import refuse_memory, sample_of, try_out
from gossamer.records import Batch, FeatureBounds, Table, dense_rows
from gossamer.types import Array, Integers

Tensor = Any
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
EVALUATED, ON_CPU = 1000, 100  # records at a time; on a CPU, larger blocks of memory are mapped anew each time
ALIGNED = 64  # numbers from which a row may start
WIDENED = 2**22  # numbers of records' gradients that are float64 at once: 32 MiB, or one record's
ON_DEVICE = 1 << 25  # numbers of records' gradients that a device works out at once


class NeuralNetwork:
    """A model from a function that builds a module; see the module's text."""

    score = "accuracy"
    bounded = False

    def __init__(
        self,
        build: Callable[[], nn.Module],
        *,
        shape: Sequence[int],
        loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
        labels: torch.dtype = torch.int64,
        clip: Clip | None = None,
        l2: float = 0.0,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        amp: bool = False,
        remember: int = 10,
        name: str = "neural network",
    ) -> None:
        if not 0 <= l2 < math.inf:
            raise BadValue("l2", l2, "expected a finite number ≥ 0", python=f"{name} with l2 = {l2!r}")
        if str(device).startswith("cuda") and not torch.cuda.is_available():
            raise BadValue("device", str(device), "torch sees no GPU here", ("use ", Argument("device", "cpu")))
        if not all(isinstance(n, int | np.integer) and n >= 1 for n in shape):
            requirement = "expected whole numbers ≥ 1, such as (1, 28, 28)"
            raise BadValue("shape", shape, requirement, python=f"{name} with shape={tuple(shape)}")
        self.build, self.shape, self.loss, self.labels = build, tuple(shape), loss, labels
        self.clip, self.l2, self.device, self.dtype = clip, l2, torch.device(device), dtype
        self.amp, self.remember, self.name = amp, remember, name
        self.arrays = Tensors(dtype, self.device)
        sample = sample_of(build, name)
        self._shapes = [tuple(p.shape) for p in sample.parameters()]
        self.size = sum(map(math.prod, self._shapes))
        mixes = any(isinstance(layer, BATCH_NORMS) for layer in sample.modules())
        # Tensor cores want a pixel's channels side by side; torch's GroupNorm would turn them round at every layer.
        self.channels_last = mixes and self.device.type == "cuda"
        if mixes and clip is not None and clip.per == "record":
            raise GossamerError(
                f"{name} has BatchNorm, which mixes the records of a batch, and clips each record: use ",
                Argument("norm", "group", python="GroupNorm"), ", or ",
                Argument("clip_per", "round", python=f"clip_l{clip.norm}(c, per='round')"),
                ", which protects a whole round's batch.",
            )  # fmt: skip

        if not dtype.is_floating_point:
            requirement = "expected floating-point numbers, such as torch.float32"
            raise BadValue("dtype", dtype, requirement, python=f"{name} with dtype={dtype}")
        if not isinstance(remember, int | np.integer) or remember < 1:
            python = f"{name} with remember={remember!r}"
            raise BadValue("remember", remember, "expected a whole number of rounds ≥ 1", python=python)
        owners = {name.rpartition(".")[0] for name, _ in sample.named_buffers(remove_duplicate=False)}
        norms = {name for name, layer in sample.named_modules() if type(layer) in BATCH_NORMS}
        self._unknown_buffers = sorted(owners - norms)

    def __str__(self) -> str:
        about = f"{self.size} parameters, shape={self.shape}, l2={self.l2:g}, clip={self.clip}, {self.dtype}"
        return f"{self.name}, {about}, amp={self.amp}, remember={self.remember}"

    def check_labels(self, labels: Array) -> None:
        """Whole numbers, where the loss is given whole numbers: torch would make 0 of 0.5 without a word."""
        broken = labels != np.floor(labels)
        if not self.labels.is_floating_point and broken.any():
            raise GossamerError(
                f"label {labels[broken][0]:g}: expected a class, counted from 0; number the classes, or for quantities "
                "give a loss= that takes them and labels=torch.float32."
            )

    def theta_size(self, columns: int) -> int:
        """As many as the module has parameters."""
        return self.size

    def reach(self, features: FeatureBounds | None, norm: Norm, sizes: Sizes = MOST) -> Reach:
        """The clipper's c alone: whatever the features and sizes are, nothing else is known."""
        if self._unknown_buffers:
            places = ", ".join(name or "itself" for name in self._unknown_buffers)
            raise NotProvable(
                f"{self.name} has buffers in {places}, which may carry records from a "
                "round to the next without noise, so no privacy can be proved: keep constants in attributes instead."
            )
        refuse_memory(self)
        return reach(UNKNOWN, None, self.clip, norm, self.name, MOST)

    def start(self, m: int, seed: int, columns: int | None = None) -> Tensor:
        """The same random start for all learners; the module alone decides how large it is."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self.build()
        row = torch.cat([self.flat(p.detach()) for p in module.parameters()])
        return row.to(self.device, self.dtype).repeat(m, 1)

    def module(self, row: Any) -> nn.Module:
        """A module with one learner's parameters, such as `model.module(record.theta[0])`; buffers as they start."""
        module = self.build().to(self.device, self.dtype)
        values = torch.as_tensor(np.array(row) if isinstance(row, np.ndarray) else row).to(self.device, self.dtype)
        with torch.no_grad():
            for p, part in zip(module.parameters(), values.split(list(map(math.prod, self._shapes))), strict=True):
                p.copy_(part.view(p.shape))
        return module

    def canonical(self, rows: Tensor) -> Tensor:
        """Rows in the order of torch's own parameters, which records have, whatever order the device works in."""
        return self._turned(rows, (0, 1, 4, 2, 3), lambda o, i, h, w: (o, h, w, i))

    def placed(self, rows: Tensor) -> Tensor:
        """The other way round."""
        return self._turned(rows, (0, 1, 3, 4, 2), lambda o, i, h, w: (o, i, h, w))

    def to_record(self, value: Tensor) -> Array:
        return self.arrays.to_numpy(self.canonical(value) if self._is_theta(value) else value)

    def from_record(self, stored: Array) -> Tensor:
        value = self.arrays.make(stored)
        return self.placed(value) if self._is_theta(value) else value

    def _is_theta(self, value: Tensor) -> bool:
        """Whether the rows are parameters, or as many numbers that go with them, and not something about the graph."""
        return bool(value.ndim == 2 and value.shape[1] == self.size)

    def _turned(self, rows: Tensor, order: tuple[int, ...], lies: Callable[..., tuple[int, ...]]) -> Tensor:
        if not self.channels_last:
            return rows
        parts = []
        for part, shape in zip(rows.split([math.prod(s) for s in self._shapes], dim=1), self._shapes, strict=True):
            turned = part.reshape(len(rows), *lies(*shape)).permute(order) if len(shape) == 4 else part
            parts.append(turned.reshape(len(rows), -1))
        return torch.cat(parts, dim=1)

    def memory(self, table: Table, keep: Gradient, room: Integers) -> Fleet:
        if len(table):  # a party's table is empty, its records come later
            self.check_labels(table.labels)
            try_out(self, table, int(min(room)))
        return Fleet(self, len(room), keep, table)

    def fresh(self) -> nn.Module:
        """A new module on the device, with its own random start."""
        with torch.device(self.device):
            return self.build().to(self.dtype)

    def targets(self, labels: Array) -> Tensor:
        return torch.from_numpy(labels).to(self.labels).to(self.device, non_blocking=True)

    def inputs(self, rows: Any) -> Tensor:
        """Records as the module takes them; bytes become numbers between −1 and 1."""
        x = torch.from_numpy(np.array(rows)).to(self.device, non_blocking=True)
        x = x.to(self.dtype) / 127.5 - 1 if x.dtype == torch.uint8 else x.to(self.dtype)
        x = x.reshape(len(x), *self.shape)
        return x.contiguous(memory_format=torch.channels_last) if self.channels_last else x

    def autocast(self) -> Any:
        """Where modules compute: in bfloat16 as far as torch thinks fit, if the model is to."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.amp)

    def record_gradients(self, module: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Each record's own gradient, by parameter; each goes through the module as a batch of its own."""
        values, buffers = {name: p.detach() for name, p in module.named_parameters()}, dict(module.named_buffers())

        def loss(values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            with self.autocast():
                return self.loss(functional_call(module, (values, buffers), (x[None],)), y[None])

        each: dict[str, Tensor] = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(values, x, y)
        return each

    def flat(self, p: Tensor) -> Tensor:
        """A parameter as it lies in a row: a convolution's channels last, where images' are."""
        return p.permute(0, 2, 3, 1).reshape(-1) if self.channels_last and p.ndim == 4 else p.reshape(-1)

    def viewed(self, part: Tensor, p: Tensor) -> Tensor:
        """Part of a row, looked at as the parameter p."""
        if not self.channels_last or p.ndim != 4:
            return part.view(p.shape)
        out, inside, height, width = p.shape
        return part.view(out, height, width, inside).permute(0, 3, 1, 2)


class Fleet:
    """All learners' modules over one tensor of parameters and one of gradients, and the records they look at."""

    def __init__(self, model: NeuralNetwork, m: int, keep: Gradient, table: Table | None = None) -> None:
        if keep not in ("history", "latest"):
            raise BadValue("gradient", keep, "expected 'history' (the newest rounds) or 'latest'")
        self.model, self.keep = model, keep
        self._coded = table if table is not None and table.codebook is not None else None
        self.theta, self.grad = (self._rows(m) for _ in range(2))
        self.modules = [model.fresh().train() for _ in range(m)]
        parts = [part for module in self.modules for part in (*module.parameters(), *module.buffers())]
        if len({id(module) for module in self.modules}) < m or len(set(map(id, parts))) < len(parts):
            raise GossamerError(
                f"{model.name}: build() gives the same module, or a part of it, again; let it make all of it anew."
            )
        for i, module in enumerate(self.modules):
            at = 0
            for p in module.parameters():  # views of row i from now on
                p.data = model.viewed(self.theta[i, at : at + p.numel()], p)
                p.grad = model.viewed(self.grad[i, at : at + p.numel()], p)
                at += p.numel()
        most = model.remember if keep == "history" else 1
        self._kept: list[deque[tuple[Tensor, Tensor]]] = [deque(maxlen=most) for _ in range(m)]  # rounds with records
        self._replay: _Replay | None = None

    def _rows(self, m: int, dtype: torch.dtype | None = None) -> Tensor:
        """(m, n) numbers, every row of which starts where fast kernels can read it."""
        model, width = self.model, -(-self.model.size // ALIGNED) * ALIGNED
        return torch.empty(m, width, dtype=dtype or model.dtype, device=model.device)[:, : model.size]

    def observe(self, batch: Batch) -> None:
        """Take in a round's records; with 'latest' they replace the ones before."""
        rows = batch.rows
        if self._coded is not None:
            rows = dense_rows(replace(self._coded, rows=rows, labels=batch.labels))
        x, y = self.model.inputs(rows), self.model.targets(batch.labels)
        counts = batch.counts.tolist()
        for kept, its_x, its_y in zip(self._kept, x.split(counts), y.split(counts), strict=True):
            if len(its_y):  # a learner without new records keeps its old ones
                kept.append((its_x, its_y))

    def gradient(self, theta: Tensor) -> Tensor:
        """Mean gradients at each learner's row: the data's part, without a ridge, which is added after the noise.

        Without a clipper they are in the model's precision. With one they are in float64, whatever the model's is, and
        stay so until they are noised: each record's (round's) part has norm ≤ c in exact arithmetic, see `clip_rows`,
        and the mean of `count` of them is within `mean_error(c, count)` of the exact one, see gossamer.models.bounds.
        """
        clip = self.model.clip
        self.theta.copy_(theta)
        if clip is not None and clip.per == "record":
            return self._clipped_records(clip)
        each = self._rows(len(self.grad), None if clip is None else torch.float64)
        if self.keep == "latest":
            self._mean_gradients([kept[-1] for kept in self._kept])
            each.copy_(self.grad)
            return each if clip is None else clip_rows(each, clip)
        total = self._rows(len(self.grad), each.dtype).zero_()
        for k in range(max(map(len, self._kept))):  # round by round, so that each is clipped by itself
            self._mean_gradients([kept[k] if k < len(kept) else None for kept in self._kept])
            each.copy_(self.grad)
            total += each if clip is None else clip_rows(each, clip)
        return total.div_(total.new_tensor([[len(kept)] for kept in self._kept]))

    def _mean_gradients(self, records: list[tuple[Tensor, Tensor] | None]) -> None:
        """Every learner's mean gradient over its records, in its row; 0 for who has none.

        On a GPU it is one CUDA graph, with a stream for each learner: launches cost more than the work otherwise.
        """
        self.grad.zero_()
        if self.model.device.type == "cuda" and self.keep == "latest":
            there = [pair for pair in records if pair is not None]
            if self._replay is None or not self._replay.fits(there):
                self._replay = _Replay(self, there)
            self._replay(there)
        else:
            self._backward(records)

    def _backward(self, records: Sequence[tuple[Tensor, Tensor] | None]) -> None:
        for module, pair in zip(self.modules, records, strict=True):
            if pair is not None:
                with self.model.autocast():
                    loss = self.model.loss(module(pair[0]), pair[1])
                loss.backward()

    def _clipped_records(self, clip: Clip) -> Tensor:
        """Each record's own gradient, clipped, then the mean; one that overflows becomes 0 and leaves the others be."""
        means = self._rows(len(self.modules), torch.float64)
        for i, module in enumerate(self.modules):
            x, y = (torch.cat(parts) for parts in zip(*self._kept[i], strict=True))
            total = means[i].zero_()
            at_once = 64 if self.model.device.type == "cpu" else max(64, ON_DEVICE // self.model.size)
            for part, target in zip(x.split(at_once), y.split(at_once), strict=True):
                each = self.model.record_gradients(module, part, target)
                rows = torch.cat([vmap(self.model.flat)(g) for g in each.values()], dim=1)
                for few in rows.split(max(1, WIDENED // self.model.size)):
                    total += clip_rows(few.to(torch.float64, copy=True), clip).sum(dim=0)
            total /= len(x)
        return means

    @torch.no_grad()
    def predictions(self, theta: Tensor, rows: Any) -> Tensor:
        """(m, records) classes, each learner's module in evaluation mode."""
        self.theta.copy_(theta)
        at_once = ON_CPU if self.model.device.type == "cpu" else EVALUATED
        images = [self.model.inputs(rows[k : k + at_once]) for k in range(0, len(rows), at_once)]
        classes = []
        for module in self.modules:
            module.eval()
            with self.model.autocast():
                out = torch.cat([module(part) for part in images])
            classes.append(out.argmax(1) if out.ndim > 1 else out > 0)
            module.train()
        return torch.stack(classes)

    def quality(self, theta: Tensor, table: Table) -> Array:
        """The share of these records that each learner predicts right."""
        right: Array = (self.predictions(theta, dense_rows(table)).cpu().numpy() == table.labels).mean(axis=1)
        return right

    def kept(self) -> dict[str, Array]:
        """The learners' buffers, by name."""
        names = [name for name, _ in self.modules[0].named_buffers()]
        every = [dict(module.named_buffers()) for module in self.modules]
        return {f"buffer.{n}": np.stack([b[n].detach().cpu().numpy() for b in every]) for n in names}

    def go_on(self, kept: Mapping[str, Array]) -> None:
        for i, module in enumerate(self.modules):
            for name, buffer in module.named_buffers():
                if f"buffer.{name}" not in kept:
                    raise GossamerError(f"the record to resume has no buffer {name!r}: it is of another network.")
                buffer.copy_(torch.from_numpy(np.array(kept[f"buffer.{name}"][i])))


def clip_rows(rows: Tensor, clip: Clip) -> Tensor:
    """Rows of float64, scaled back in place to norm ≤ c in exact arithmetic; one of norm above 1e100 becomes 0.

    Proof. Let u = 2^-53, and N the computed norm of a row of n numbers, of norm R. Sums of n numbers in any order, the
    squares, and the root change it by factors within 1 ± (n + 2) u, so R ≤ N (1 + (n + 3) u), and where squares
    underflow, R ≤ N + 1e-150, which is nothing beside u c. With D = N (1 + 2 (n + 16) u), rounded twice: if D ≤ c the
    factor is 1, nothing is rounded, and R ≤ c. Otherwise the factor is c/D, rounded once, and each product with it is
    rounded once more, so the row's norm is at most c (1 + (n + 3) u) (1 + u)^5/(1 + 2 (n + 16) u) ≤ c. A factor is in
    [0, 1] whatever N is: 0 where N has overflowed. Rows of narrower numbers have to be widened before: in float16 the
    rounding of such a product alone is 2^-11 of it, and of a sum of thousands more than all of it.
    """
    length = torch.linalg.vector_norm(rows, clip.norm, dim=1, keepdim=True)
    far = ~(length <= LARGEST)  # NaN is, too; c/D would lose digits there, as numbers below 2^-1022 do
    allowed = length * (1 + 2 * (rows.shape[1] + 16) * UNIT)
    factor = (clip.c / allowed.clamp_min(1e-150)).clamp_max(1.0)
    return rows.masked_fill_(far, 0.0).mul_(factor.masked_fill_(far, 0.0))


class _Replay:
    """Forward and backward of all learners, captured once and replayed."""

    def __init__(self, fleet: Fleet, records: list[tuple[Tensor, Tensor]]) -> None:
        self._records = [(x.clone(), y.clone()) for x, y in records]
        kept = {name: torch.from_numpy(value) for name, value in fleet.kept().items()}
        side: Any = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # what libraries allocate and choose at first use must not be captured
                fleet._backward(self._records)
        torch.cuda.current_stream().wait_stream(side)
        streams: list[Any] = [torch.cuda.Stream() for _ in fleet.modules]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            main = torch.cuda.current_stream()
            for stream, module, (x, y) in zip(streams, fleet.modules, self._records, strict=True):
                stream.wait_stream(main)
                with torch.cuda.stream(stream), fleet.model.autocast():
                    fleet.model.loss(module(x), y).backward()
            for stream in streams:
                main.wait_stream(stream)
        fleet.grad.zero_()
        for i, module in enumerate(fleet.modules):  # the warm-up moved the running means
            for name, buffer in module.named_buffers():
                buffer.copy_(kept[f"buffer.{name}"][i])

    def fits(self, records: list[tuple[Tensor, Tensor]]) -> bool:
        return all(a[0].shape == b[0].shape for a, b in zip(self._records, records, strict=True))

    def __call__(self, records: list[tuple[Tensor, Tensor]]) -> None:
        for (x, y), (new_x, new_y) in zip(self._records, records, strict=True):
            x.copy_(new_x)
            y.copy_(new_y)
        self._graph.replay()
