"""Shared by the tests: networks to draw from, noise that the test knows, the command, learners' processes, a CSV."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

# Workers share the cores with each other and with the processes that tests start. Threads of BLAS and torch that wait
# for a core keep another one busy meanwhile: one each is faster, and far faster on a busy machine.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from gossamer import Network
from gossamer.cli.commands import main
from gossamer.datasets import images

settings.register_profile("gossamer", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("gossamer")


class KnownNoise:
    """Noise drawn beforehand: noise[channel][t]."""

    def __init__(self, steps: int, m: int, n: int, seed: int = 0, scale: float = 0.3) -> None:
        rng = np.random.default_rng(seed)
        self.drawn = {channel: scale * rng.laplace(size=(steps, m, n)) for channel in ("s", "theta")}
        self.asked: list[tuple[str, int]] = []

    def noise(self, channel: str, t: int, shape: tuple[int, ...]) -> np.ndarray:
        self.asked.append((channel, t))
        assert self.drawn[channel][t].shape == shape
        return self.drawn[channel][t]


@st.composite
def laplacians(draw, m: int, by: str):
    """A strongly connected digraph in Laplacian form: a ring in random order, random chords, random weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    order = rng.permutation(m)
    off = rng.uniform(0.05, 1, (m, m)) * (rng.random((m, m)) < 0.4)
    off[np.roll(order, -1), order] = rng.uniform(0.05, 1, m)
    np.fill_diagonal(off, 0)
    axis = 1 if by == "row" else 0
    off *= rng.uniform(0.2, 0.95) / off.sum(axis=axis).max()
    return off - np.diag(off.sum(axis=axis))


@st.composite
def networks(draw, most: int = 7):
    """R and C drawn apart, so that no test leans on C = Rᵀ."""
    m = draw(st.integers(2, most))
    return Network(draw(laplacians(m, "row")), draw(laplacians(m, "column")))


def leave_undrawn(monkeypatch):
    """A figure that is saved as PNG or PDF leaves a few bytes that are no picture."""
    from matplotlib.figure import Figure

    savefig = Figure.savefig

    def saved(self, file, **how):
        if how.get("format") in ("png", "pdf"):
            file.write(b"not drawn")
        else:
            savefig(self, file, **how)

    monkeypatch.setattr(Figure, "savefig", saved)


@pytest.fixture
def drawn():
    """For tests that look at a picture which the command leaves: see `gossamer`."""


@pytest.fixture
def gossamer(request, monkeypatch, tmp_path, capsys):
    """Runs the command in an empty folder: gossamer("run", …) -> (exit code, stdout, stderr).

    Figures are made, but those that go into PNG and PDF files are not drawn, unless the test asks for `drawn`: that
    takes half of a short run's time.
    """
    monkeypatch.chdir(tmp_path)
    if "drawn" not in request.fixturenames:
        leave_undrawn(monkeypatch)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["gossamer", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return run


class Zygote:
    """A process that has loaded everything and forks itself for each learner: see peers_zygote.py."""

    def __init__(self, prefix=()):
        command = [*prefix, sys.executable, str(Path(__file__).with_name("peers_zygote.py"))]
        # In a session of its own, so that it and all that it has forked can be ended at once.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._ready = False

    def ask(self, **command):
        if not self._ready:
            self._ready = bool(self._answer())
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        assert line, f"the process that starts learners has ended, with code {self._process.wait()}"
        return json.loads(line)

    def close(self):
        os.killpg(self._process.pid, signal.SIGKILL)  # it was not waited for yet, so its number is still its own
        self._process.wait()
        self._process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()


@pytest.fixture(scope="session")
def zygote():
    """One for all tests of a worker: it takes seconds to load."""
    started = Zygote()
    yield started
    started.close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One headless Chromium for all tests of a worker."""
    from browsing import missing, open_browser  # only now: most tests need no browser

    if missing():
        pytest.skip(f"BROWSER TESTS DID NOT RUN: {missing()}")
    driver = open_browser(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()


@pytest.fixture
def own_csv(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["age,ward,clinic,dose,ill"]
    for k in range(240):
        age, ward, dose = rng.integers(20, 90), "abc"[rng.integers(3)], rng.uniform(0, 5)
        ill = "yes" if age / 70 + dose / 5 + rng.normal() * 0.1 > 1.3 else "no"
        lines.append(f"{age},{ward},{['north', 'south', 'west'][k % 3]},{dose:.3f},{ill}")
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    return "own.csv"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A hundred random images of either format."""
    monkeypatch.setattr(images, "CHECKED", False)
    rng = np.random.default_rng(0)
    (tmp_path / "mnist").mkdir()
    for name in images.MNIST:
        count = 100 if name.startswith("train") else 20
        if "images" in name:
            head = (2051).to_bytes(4, "big") + b"".join(n.to_bytes(4, "big") for n in (count, 28, 28))
            body = rng.integers(0, 256, size=count * 784, dtype=np.uint8).tobytes()
        else:
            head, body = (2049).to_bytes(4, "big") + count.to_bytes(4, "big"), bytes(k % 10 for k in range(count))
        (tmp_path / "mnist" / f"{name}.gz").write_bytes(gzip.compress(head + body))
    base = tmp_path / "cifar10" / "cifar-10-batches-bin"
    base.mkdir(parents=True)
    for name in images.CIFAR10:
        rows = [bytes([k % 10]) + rng.integers(0, 256, size=3072, dtype=np.uint8).tobytes() for k in range(20)]
        (base / name).write_bytes(b"".join(rows))
    return tmp_path


@pytest.fixture
def fleet_of(zygote):
    """Starts fleets of learners as processes, which end with the test."""
    from test_processes import Fleet  # only now: most tests need no processes

    made = []

    def start(*args, **kwargs):
        made.append(Fleet(zygote, *args, **kwargs))
        return made[-1]

    yield start
    for fleet in made:
        fleet.close()
