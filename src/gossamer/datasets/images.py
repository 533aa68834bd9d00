"""MNIST and CIFAR-10 in their original file formats: from a folder, checked by hash, or from their home pages.

The folder is $GOSSAMER_DATA, else the user's cache, and holds

    mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz          LeCun, Cortes & Burges
    cifar10/cifar-10-batches-bin/{data_batch_1 … 5,test_batch}.bin Krizhevsky, "Learning Multiple Layers of Features
                                                                   from Tiny Images", 2009

What is not there is downloaded once. Rows are bytes, one image each, channels first; models turn them into numbers.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.client
import io
import logging
import math
import os
import tarfile
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gossamer.datasets.registry import dataset
from gossamer.errors import Argument, BadValue, GossamerError
from gossamer.files import replace_file
from gossamer.records import FeatureBounds, Table
from gossamer.streams import scattering, wavelets
from gossamer.streams.stream import BY_CLASS, Draws, OnePass, check_choice
from gossamer.types import Integers

log = logging.getLogger(__name__)
Bytes = NDArray[np.uint8]
MNIST_PAGE = "https://yann.lecun.com/exdb/mnist/"
CIFAR10_PAGE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
MNIST = {  # of the unpacked files: gzip's own header may differ
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
CIFAR10 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
CHECKED = True  # tests read small files of the same format
DIRICHLET = 0.3  # how unlike the learners' mixtures of classes are with split="by-class"

Split = Literal["iid", "by-class"]
Draw = Literal["random", "once"]
Features = Literal["pixels", "scattering"]
POOL = {1: 4, 3: 3}  # places along a side, for grey and coloured images
LEARNT: dict[str, Any] = {"classes": 10, "model": "resnet18", "step": "0.6,0.6", "noise": "0.01,0.51:0.6"}
LEARNT |= {"options": ("draw", "split", "per_round", "features", "tested"), "steps": 1500, "per_round": 40}


@dataset(label="MNIST", shape=(1, 28, 28), **LEARNT)
def mnist(
    learners: int = 10,
    seed: int = 0,
    draw: Draw = "random",
    split: Split = "iid",
    per_round: int = 40,
    folder: str | Path | None = None,
    features: Features = "pixels",
) -> Draws | OnePass:
    """Handwritten digits, 28 × 28 grey, `per_round` images a learner and round; stream.test has the 10 000 others.

    split="by-class" gives every learner a mixture of classes of its own, drawn from a Dirichlet law. Labels then decide
    who gets what, so that no privacy can be claimed.
    features="scattering" gives rows for a linear model (gossamer.streams.scattering) in place of bytes; they are
    computed once, which takes some minutes, and kept beside the images.
    """
    base = _folder(folder) / "mnist"
    _download_missing([base / f"{name}.gz" for name in MNIST], lambda path: MNIST_PAGE + path.name, _write)
    files = [_read_original(base / f"{name}.gz", sha) for name, sha in MNIST.items()]
    train, test = (_table(_idx(images, 16), _idx(labels, 8)) for images, labels in (files[:2], files[2:]))
    train, test = _as_features(features, train, test, 1, 28, base)
    return _stream("mnist", train, test, learners, seed, draw, split, per_round)


@dataset(label="CIFAR-10", shape=(3, 32, 32), **LEARNT)
def cifar10(
    learners: int = 10,
    seed: int = 0,
    draw: Draw = "random",
    split: Split = "iid",
    per_round: int = 40,
    folder: str | Path | None = None,
    features: Features = "pixels",
) -> Draws | OnePass:
    """Ten kinds of things, 32 × 32 in colour, `per_round` images a learner and round; stream.test has 10 000 others."""
    base = _folder(folder) / "cifar10" / "cifar-10-batches-bin"
    _download_missing([base / name for name in CIFAR10], lambda _: CIFAR10_PAGE, _unpack_archive)
    batches = [_read_original(base / name, sha) for name, sha in CIFAR10.items()]
    train, test = (_cifar(b"".join(part)) for part in (batches[:5], batches[5:]))
    train, test = _as_features(features, train, test, 3, 32, base)
    return _stream("cifar10", train, test, learners, seed, draw, split, per_round)


def _as_features(
    features: Features, train: Table, test: Table, channels: int, side: int, base: Path
) -> tuple[Table, Table]:
    """The images as the features that are asked for; those of scattering have norm 1, whatever the image."""
    check_choice("features", features, "pixels", "scattering")
    if features == "pixels":
        return train, test
    n = channels * wavelets.MAPS * POOL[channels] ** 2 + 1
    one = 1 + 2.0**-20  # norms of float32 features are 1 to 1e-7
    bounds = FeatureBounds(one * math.sqrt(n), one, one)
    rows = np.concatenate([train.rows, test.rows])
    code = Path(scattering.__file__).read_bytes() + Path(wavelets.__file__).read_bytes()
    digest = hashlib.sha256(rows.tobytes() + code + str(POOL).encode()).hexdigest()[:16]
    kept = base / f"scattering-{digest}.npy"
    try:
        scattered = np.load(kept, allow_pickle=False)
        if scattered.shape != (len(rows), n) or scattered.dtype != np.float32:
            raise ValueError("not these images' features")
    except (OSError, ValueError, EOFError):
        scattered = scattering.scattered(rows, channels, side, POOL[channels])
        buffer = io.BytesIO()
        np.save(buffer, scattered)
        with contextlib.suppress(GossamerError):  # a folder that is only read is no reason to stop
            _write(kept, buffer.getvalue())
    of_train, of_test = np.split(scattered, [len(train)])
    whitened = Table(of_train, train.labels, None, n, bounds=bounds, spread=scattering.SPREAD)
    return whitened, replace(whitened, rows=of_test, labels=test.labels)


def _stream(
    name: str, train: Table, test: Table, learners: int, seed: int, draw: Draw, split: Split, per_round: int
) -> Draws | OnePass:
    check_choice("draw", draw, "random", "once")
    check_choice("split", split, "iid", "by-class")
    pools = _pools(train.labels.astype(np.int64), learners, split, seed)
    if split == "by-class":
        train = replace(train, undeclared=BY_CLASS)
    about = {"data": name, "split": split, "draw": draw}
    once = draw == "once"
    stream = OnePass(train, pools, per_round, about) if once else Draws(train, pools, seed, per_round, about)
    stream.test = test
    return stream


def _pools(labels: Integers, learners: int, split: Split, seed: int) -> list[Integers]:
    """Which images are whose, shuffled."""
    if learners < 2:
        raise BadValue("learners", learners, "expected at least 2, one alone has nobody to learn with")
    rng = np.random.default_rng([seed, 77])
    if split == "iid":
        order = rng.permutation(len(labels))
        each = len(labels) // learners
        return [order[i * each : (i + 1) * each] for i in range(learners)]
    pools: list[list[Integers]] = [[] for _ in range(learners)]
    for k in range(int(labels.max()) + 1):
        mine = rng.permutation(np.flatnonzero(labels == k))
        shares = rng.dirichlet(np.full(learners, DIRICHLET))
        cuts = (np.cumsum(shares)[:-1] * len(mine)).astype(np.int64)
        for pool, part in zip(pools, np.split(mine, cuts), strict=True):
            pool.append(part)
    shuffled = [rng.permutation(np.concatenate(pool)) for pool in pools]
    if not all(map(len, shuffled)):
        raise GossamerError(
            Argument("split", "by-class"), " with ", Argument("seed", seed), " leaves a learner without images: use "
            "another seed.",
        )  # fmt: skip
    return shuffled


def _folder(given: str | Path | None) -> Path:
    if given is not None:
        return Path(given)
    named = os.environ.get("GOSSAMER_DATA")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gossamer"


def _download_missing(files: list[Path], page_of: Callable[[Path], str], keep: Callable[[Path, bytes], None]) -> None:
    """Download what is not there; where a page cannot be reached, say which files go where."""
    for path in files:
        if path.is_file():
            continue
        page = page_of(path)
        log.warning("downloading %s", page)
        try:
            with urllib.request.urlopen(page, timeout=60) as answer:
                content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            missing = [file.name for file in files if not file.is_file()]
            named = os.environ.get("GOSSAMER_DATA")
            nowhere = named and Path(named) in path.parents and not Path(named).is_dir()
            also = f", and GOSSAMER_DATA names {named}, which is no folder" if nowhere else ""
            raise GossamerError(
                f"{page} cannot be reached ({getattr(error, 'reason', error)}){also}: download the data elsewhere, and "
                f"put {', '.join(missing)} into {path.parent} (GOSSAMER_DATA says where else)."
            ) from None
        keep(path, content)


def _read_original(path: Path, sha: str) -> bytes:
    """The content of a file, unpacked, if it is what was published."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError) as error:
        raise GossamerError(f"{path} cannot be unpacked ({error}): remove it, and it is brought again.") from None
    if CHECKED and hashlib.sha256(content).hexdigest() != sha:
        raise GossamerError(
            f"{path} is not the original file (its SHA-256 differs): remove it, and it is brought again."
        )
    return content


def _unpack_archive(path: Path, content: bytes) -> None:
    """Write the six batches of the binary version beside `path`; nothing else in an archive is written."""
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive.getmembers():
                name = Path(member.name).name
                file = archive.extractfile(member) if name in CIFAR10 else None
                if file is not None:
                    _write(path.with_name(name), file.read())
    except tarfile.TarError as error:
        raise GossamerError(f"{CIFAR10_PAGE} gave no archive ({error}): try again later.") from None


def _write(path: Path, content: bytes) -> None:
    replace_file(path, content, remedy="set GOSSAMER_DATA to another folder")


def _idx(content: bytes, header: int) -> Bytes:
    """An IDX file's bytes after its header: a magic number and one size for each dimension."""
    count = int.from_bytes(content[4:8], "big")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(count, -1)


def _table(images: Bytes, labels: Bytes) -> Table:
    return Table(images, labels.ravel().astype(float), None, images.shape[1])


def _cifar(content: bytes) -> Table:
    """Records of one label byte and 3072 bytes, red, green and blue planes."""
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, 3073)
    return _table(np.ascontiguousarray(records[:, 1:]), records[:, 0])
