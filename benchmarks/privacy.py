"""Speed of exact noise and of the accountant, in one run; part of `make bench`.

1. Exact Laplace noise on 10⁶ coordinates against numpy's own generator, and, where it is installed, OpenDP's; and
   Gaussian noise of a key, which two machines draw alike, against numpy's and against the exact Gaussian noise.
2. The ledger of one learner at T = 10⁵, and finding the noise for ten learners' budgets.
3. What it costs that no neighbour can break noise through rounding: time of a round, and ε.
"""

from __future__ import annotations

import importlib
import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
from simulator import alternately, show

import gossamer as gs
from gossamer.checks.defects import TakesAnything
from gossamer.privacy import Accountant, Gaussian, Laplace, exact_gaussian, exact_laplace
from gossamer.privacy.table import Stream, own_gaussian
from gossamer.rounds import Rounds
from gossamer.setting import setting_of
from gossamer.simulate.mixer import Mixer
from gossamer.simulate.play import one_round

COORDINATES = 10**6
Row = tuple[str, str, str]


def sampler() -> list[Row]:
    values, rng = np.zeros(COORDINATES), np.random.default_rng(0)
    ours, gaussian, numpy_laplace = alternately(
        lambda: exact_laplace(values, 1.0), lambda: exact_gaussian(values, 1.0), lambda: rng.laplace(size=COORDINATES)
    )
    per = 1e9 / COORDINATES
    rows = [
        ("exact Laplace / numpy's Generator.laplace, time", f"{ours / numpy_laplace:.2f} ×", "≤ 1.5 ×"),
        ("  exact Laplace, a coordinate", f"{ours * per:.1f} ns", ""),
        ("  exact Gaussian, a coordinate", f"{gaussian * per:.1f} ns", ""),
    ]
    outside = _opendp()
    if outside is None:
        return [*rows, ("OpenDP's Laplace / ours, time", "not installed", "≥ 100 ×")]
    return [*rows, ("OpenDP's Laplace / ours, time", f"{outside / (ours * per):.0f} ×", "≥ 100 ×")]


def keyed() -> list[Row]:
    """Whole numbers of one key, with the cipher, and without what is made once: the table of the scale."""
    values, rng = np.zeros(COORDINATES), np.random.default_rng(0)
    whole, own = np.zeros((2, COORDINATES), dtype=np.int64)
    few, key, nonce = whole[:1000], bytes(32), bytes(12)
    ours, mine, small, gaussian, numpy_normal = alternately(
        lambda: Stream(key, nonce).add_gaussian(whole, 1 << 40),
        lambda: own_gaussian(own, 1 << 40),
        lambda: Stream(key, nonce).add_gaussian(few, 1 << 40),
        lambda: exact_gaussian(values, 1.0),
        lambda: rng.standard_normal(COORDINATES),
    )
    per = 1e9 / COORDINATES
    return [
        ("keyed Gaussian / numpy's Generator.standard_normal, time", f"{ours / numpy_normal:.2f} ×", "≤ 1 ×"),
        ("exact Gaussian / keyed Gaussian, time", f"{gaussian / ours:.1f} ×", ""),
        ("  keyed Gaussian, a value", f"{ours * per:.1f} ns", "≤ 8 ns"),
        ("  own Gaussian from the same table, a value", f"{mine * per:.1f} ns", ""),
        ("  keyed Gaussian, a new key and 1000 values", f"{small * 1e6:.0f} µs", ""),
    ]


def _opendp() -> float | None:
    """Nanoseconds a coordinate of OpenDP's Laplace mechanism on vectors."""
    try:
        dp: Any = importlib.import_module("opendp.prelude")
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    mechanism = dp.m.make_laplace(*space, scale=1.0)
    values = [0.0] * 2000
    mechanism(values)
    start = time.perf_counter()
    mechanism(values)
    return (time.perf_counter() - start) / len(values) * 1e9


def accountant() -> list[Row]:
    algorithm, net = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)), gs.Network.paper()
    stream, model = gs.datasets.mushrooms(10, rows="l1"), gs.LogisticRegression(l2=1e-2)
    rows: list[Row] = []
    for gradient in ("history", "latest"):
        kind: Any = gradient
        setting = setting_of(algorithm, net, stream, model, kind, 10**5)
        ledger = Accountant(Laplace(gs.decay(1.0, 0.6)).terms(setting)[0])
        (taken,) = alternately(lambda ledger=ledger: ledger.epsilon_at(10**5))  # type: ignore[misc]
        rows.append((f"ledger at T = 10⁵, {gradient}", f"{taken:.3f} s", "< 1 s"))
    setting = setting_of(algorithm, net, stream, model, "history", 10**5)
    for horizon in (10**5, math.inf):
        for mechanism in (Laplace.for_budget(1.0, horizon=horizon), Gaussian.for_budget(1.0, 1e-5, horizon=horizon)):
            (taken,) = alternately(lambda mechanism=mechanism: mechanism.terms(setting))  # type: ignore[misc]
            rows.append((f"noise for ten budgets, {mechanism.law}, horizon {horizon:g}", f"{taken:.2f} s", "< 5 s"))
    return rows


ROUNDS, FEATURES = 300, 100


def rounding() -> list[Row]:
    """Rounds of ten learners with noise on messages, with and without bounds on what they take; and the surcharge."""
    algorithm, net, model = (
        gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8)),
        gs.Network.paper(),
        gs.LogisticRegression(l2=1e-2),
    )
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(10, ROUNDS, FEATURES)) / FEATURES, rng.integers(0, 2, size=(10, ROUNDS)).astype(float)
    stream = gs.streams.from_arrays(X, y, ranges=(0.0, 1 / FEATURES))
    rows: list[Row] = []
    for mechanism in (Laplace.for_budget(8.0), Gaussian.for_budget(8.0, 1e-5)):
        setting = setting_of(algorithm, net, stream, model, "latest", ROUNDS)
        bounded = mechanism.bind(setting)
        unbounded = TakesAnything(mechanism, mechanism.bind(setting).ledgers, ROUNDS)

        def run(boundary: Any) -> None:
            memory = model.memory(stream.table, "latest", stream.room(1))
            block = net.rows(mixes=algorithm.mixes)
            rounds = Rounds(algorithm, block, memory, boundary, model.l2, finite=False)
            state, mix = algorithm.init(block, np.zeros((10, FEATURES))), Mixer(net)
            boundary.stops[:] = 10**9
            boundary.charge = lambda t: None
            for t in range(ROUNDS):
                state = one_round(rounds, mix, state, stream.arrivals(t), t)

        with_it, without = alternately(lambda b=bounded: run(b), lambda b=unbounded: run(b))  # type: ignore[misc]
        rows.append((f"round with bounds / without, {mechanism.law}, time", f"{with_it / without:.3f} ×", "≤ 1.1 ×"))
        terms = mechanism.terms(setting)[0]
        bare = replace(terms, rounding=None, bound=terms.bound._replace(error=0.0, error_per_size=0.0))
        epsilon = [Accountant(each).epsilon_at(ROUNDS, mechanism.delta) for each in (terms, bare)]
        surcharge = (epsilon[0] - epsilon[1] + terms.surcharge(ROUNDS)) / ROUNDS
        rows.append((f"  ε a round for rounding and grid, n = {FEATURES}", f"{surcharge:.1e}", "< 1e-6"))
    return rows


if __name__ == "__main__":
    show("privacy", (sampler(), keyed(), accountant(), rounding()))
