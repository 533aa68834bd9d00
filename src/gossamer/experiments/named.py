"""What a description names and does not hold: files, its method's source, datasets and models of a user's own.

All of it may change under the same name, and may be missing, or another, on another machine. So it goes by digests.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache

from gossamer.algorithms import find_method
from gossamer.datasets import DATASETS
from gossamer.models.registry import MODELS
from gossamer.networks import is_named
from gossamer.registry import digest_source
from gossamer.spec import Spec
from gossamer.spec.files import PATHS


def digests(spec: Spec) -> dict[str, str]:
    """Of all of it, by name."""
    method, dataset, model = spec.algorithm.algorithm, spec.data.dataset or "", spec.model.model or ""
    found = {f"method {method}": find_method(method).code}
    if ":" in dataset:
        found[f"dataset {dataset}"] = digest_source(DATASETS.find(dataset).read)
    if ":" in model:
        found[f"model {model}"] = digest_source(MODELS.find(model).make)
    return found | files(_paths(spec).values())


def files(paths: Iterable[str]) -> dict[str, str]:
    """By name; empty for one that is not there."""
    return {f"file {os.path.abspath(path)}": _digest_file(path) for path in paths}


def placed(spec: Spec) -> Spec:
    """The same for a process that works in another folder."""
    return spec.but(**{setting: os.path.abspath(path) for setting, path in _paths(spec).items()})


def _paths(spec: Spec) -> dict[str, str]:
    named = {setting: spec.given().get(setting) for setting in PATHS}
    return {setting: str(path) for setting, path in named.items() if path is not None and not is_named(str(path))}


def _digest_file(path: str) -> str:
    try:
        about = os.stat(path)
        return _digest(path, about.st_mtime_ns, about.st_size)
    except OSError:
        return ""


@lru_cache(maxsize=64)
def _digest(path: str, changed: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
