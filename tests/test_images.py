"""MNIST and CIFAR-10: small files of the same formats, and the real ones where GOSSAMER_DATA has them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.datasets import images


@pytest.mark.parametrize(("data", "width", "tests"), [("mnist", 784, 20), ("cifar10", 3072, 20)])
@pytest.mark.parametrize("draw", ["random", "once"])
def test_images_go_to_learners_and_some_to_nobody(folder, data, width, tests, draw):
    stream = getattr(gs.datasets, data)(5, 1, draw, per_round=4, folder=folder)
    batch = stream.arrivals(0)
    assert batch.rows.shape == (20, width)
    assert batch.rows.dtype == np.uint8
    assert (len(stream.table), len(stream.test)) == (100, tests)
    assert stream.rounds == (None if draw == "random" else 5)
    first = stream.test.rows[0].tobytes()
    assert all(first != row.tobytes() for row in stream.table.rows)


def test_by_class_gives_each_learner_its_own_mixture(folder):
    stream = gs.datasets.mnist(4, 3, "once", "by-class", 1, folder)
    counts = [np.bincount(stream.table.labels[ids].astype(int), minlength=10) for ids in stream._order]
    assert sum(map(sum, counts)) == 100
    shares = np.array([c / c.sum() for c in counts])
    assert np.abs(shares - 0.1).max() > 0.2


def test_a_file_that_was_changed_is_refused(folder, monkeypatch):
    monkeypatch.setattr(images, "CHECKED", True)
    with pytest.raises(gs.GossamerError, match="is not the original file"):
        gs.datasets.mnist(folder=folder)
    with pytest.raises(gs.GossamerError, match="is not the original file"):
        gs.datasets.cifar10(folder=folder)


def test_without_files_and_without_a_network_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MNIST_PAGE", "http://127.0.0.1:9/")
    monkeypatch.setattr(images, "CIFAR10_PAGE", "http://127.0.0.1:9/c.tar.gz")
    monkeypatch.setenv("GOSSAMER_DATA", str(tmp_path))
    for build, first, place in (
        (gs.datasets.mnist, "train-images-idx3-ubyte.gz", "mnist"),
        (gs.datasets.cifar10, "data_batch_1.bin", "cifar10/cifar-10-batches-bin"),
    ):
        with pytest.raises(
            gs.GossamerError, match=rf"cannot be reached .* {first}, .* into {tmp_path}/{place} \(GOSSA"
        ):
            build()
    assert not list(tmp_path.rglob("*.gz"))


def test_only_what_is_missing_is_asked_for_and_a_folder_that_is_not_there_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MNIST_PAGE", "http://127.0.0.1:9/")
    (folder / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(gs.GossamerError, match=rf"put t10k-labels-idx1-ubyte.gz into {folder}/mnist") as said:
        gs.datasets.mnist(folder=folder)
    assert "which is no folder" not in str(said.value)
    monkeypatch.setenv("GOSSAMER_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(gs.GossamerError, match=rf"GOSSAMER_DATA names {tmp_path}/nowhere, which is no folder"):
        gs.datasets.mnist()


def test_files_are_brought_once_from_a_page(folder, tmp_path, monkeypatch):
    """A page on this machine stands in for the home page."""
    import functools
    import http.server
    import threading

    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder / "mnist"))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(images, "MNIST_PAGE", f"http://127.0.0.1:{server.server_port}/")
        fresh = tmp_path / "fresh"
        assert len(gs.datasets.mnist(5, folder=fresh).table) == 100
        server.shutdown()
    assert len(gs.datasets.mnist(5, folder=fresh).table) == 100


@pytest.mark.skipif(
    not (Path(os.environ.get("GOSSAMER_DATA", "/nowhere")) / "mnist").is_dir(), reason="GOSSAMER_DATA has no MNIST"
)
def test_the_real_files():
    digits = gs.datasets.mnist()
    assert (digits.table.rows.shape, digits.test.rows.shape) == ((60_000, 784), (10_000, 784))
    assert np.bincount(digits.table.labels.astype(int))[0] == 5923
    things = gs.datasets.cifar10()
    assert (things.table.rows.shape, things.test.rows.shape) == ((50_000, 3072), (10_000, 3072))
