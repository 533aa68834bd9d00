"""What is done by NumPy for few numbers, against the compiled functions: the same bits, or what was proved of both."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

import gossamer as gs
from gossamer import lazy
from gossamer.models import few, kernels
from gossamer.networks.checks import BrokenNetwork
from gossamer.peers import compiled as peers_compiled
from gossamer.peers import mixing, summing
from gossamer.privacy import compiled as privacy_compiled
from gossamer.privacy import few as privacy_few
from gossamer.privacy.brent import find_zero
from gossamer.privacy.gaussian import delta_of
from gossamer.privacy.table import Stream, table_of
from gossamer.records import binary_table, dense_table

seeds = st.integers(0, 2**32 - 1)
ODD = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324]


@pytest.fixture
def no_numba(monkeypatch):
    """As in a process that has not loaded it."""
    monkeypatch.setattr(lazy, "worth_compiling", lambda numbers: numbers > lazy.FEW)
    monkeypatch.setattr(mixing, "worth_compiling", lazy.worth_compiling)
    monkeypatch.setattr(summing, "worth_compiling", lazy.worth_compiling)


def numbers(rng, n, dtype=float):
    """Of all sizes, some of them odd."""
    values = rng.normal(size=n) * 10.0 ** rng.uniform(-45, 45, n)
    values[rng.random(n) < 0.1] = rng.choice(ODD)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
@pytest.mark.parametrize("seed", range(30))
def test_vectors_of_a_link_are_mixed_to_the_same_bits(no_numba, dtype, seed):
    rng = np.random.default_rng(seed)
    n, weight = int(rng.integers(0, 50)), rng.normal()
    vector, one, two = numbers(rng, n, dtype), rng.normal(size=n), np.empty(n)
    two[:] = one
    with np.errstate(all="ignore"):
        for name in ("set_scaled", "add_scaled"):
            getattr(mixing, name)(one, vector, weight)
            getattr(peers_compiled, name)(two, vector, weight)
            assert one.tobytes() == two.tobytes()
    bound = vector.dtype.type(1e38)
    assert mixing.all_within(vector, bound) == peers_compiled.all_within(vector, bound)
    fine = np.clip(np.nan_to_num(vector), -1e37, 1e37)
    assert mixing.all_within(fine, bound)
    wide, narrow, narrow_too = numbers(rng, n), np.empty(n, np.float32), np.empty(n, np.float32)
    mixing.narrow(wide, narrow, 3e38)
    peers_compiled.narrow(wide, narrow_too, 3e38)
    assert narrow.tobytes() == narrow_too.tobytes()


@pytest.mark.parametrize("seed", range(30))
def test_words_are_summed_to_the_same_bits(no_numba, seed):
    whole = np.frombuffer(random.Random(seed).randbytes(8 * (seed % 7) * seed), "<u8")
    assert summing.add_words(whole) == tuple(int(one) for one in peers_compiled.add_words(whole))
    wanted = sum(k * int(w) for k, w in enumerate(whole, 1)) % 2**64
    assert summing.add_words(whole) == (sum(map(int, whole)) % 2**64, wanted)


@given(seed=seeds)
def test_values_are_put_on_their_grid_to_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    rows, n = int(rng.integers(1, 4)), int(rng.integers(1, 100))
    values, grid = rng.normal(size=(rows, n)) * 1e3, 2.0 ** rng.uniform(-40, 3, rows)
    noise = rng.integers(-(2**45), 2**45, rows * n)
    one, two = np.zeros(values.shape), np.zeros(values.shape)
    for first in (0, rows * n // 3):
        last = len(noise) if first else rows * n // 3
        privacy_few.add_on_grid(values, grid, noise[first:last], first, one)
        privacy_compiled.add_on_grid(values, grid, noise[first:last], first, two)
    assert one.tobytes() == two.tobytes()


@given(seed=seeds, odd=st.booleans())
def test_what_is_too_far_is_found_alike(seed, odd):
    rng = np.random.default_rng(seed)
    values, scales = rng.normal(size=(3, 7)), rng.uniform(0.1, 2, 3)
    if odd:
        values.flat[rng.integers(21)] = rng.choice(ODD)
        scales[rng.integers(3)] = rng.choice(ODD)
    found, wanted = privacy_few.farthest(values, scales), privacy_compiled.farthest(values, scales)
    np.testing.assert_array_equal(found, wanted)
    column = np.abs(scales)[:, None]
    assert privacy_few.count_beyond(values, column, 0.7) == privacy_compiled.count_beyond(values, column, 0.7)


@pytest.mark.parametrize("scale", [1 << 40, 1 << 5, (1 << 50) - 1, 3 * 10**9 + 1])
def test_one_key_gives_the_same_noise_however_few_values_are_drawn(monkeypatch, scale):
    key, nonce, count = bytes(range(32)), bytes(12), 20_000
    wanted = np.arange(count)
    Stream(key, nonce).add_gaussian(wanted, scale, -1)
    asked = []
    monkeypatch.setattr("gossamer.privacy.table.kernels_for", lambda n, room: asked.append(n) or privacy_few)
    found = np.arange(count)
    Stream(key, nonce).add_gaussian(found, scale, -1)
    assert asked
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("power", [1, 2])
def test_where_floats_cannot_decide_exact_arithmetic_does(power):
    """With a margin as wide as the cell every wedge, as every tail, is left to it, and nothing of it is used up."""
    table, words = table_of(1 << 40, power), np.random.default_rng(power).integers(0, 2**64, 5000, dtype=np.uint64)
    known = float(table.scale), table.power, table.width, table.columns, table.low, table.span, float(table.height)
    for module in (privacy_few, privacy_compiled):
        ends = []
        at, done, out = 0, 0, np.zeros(4000, dtype=np.int64)
        while at < len(words) - 3 and done < len(out):
            at, done, is_open = module.table_noise(words, at, out, done, 1, *known, 1.0)
            ends.append((at, done, bool(is_open)))
            at += 1
        assert sum(is_open for *_, is_open in ends) > 10
        if module is privacy_few:
            first, noise = ends, out.copy()
    assert first == ends
    np.testing.assert_array_equal(noise, out)


@given(seed=seeds, odd=st.booleans())
def test_a_recursion_is_worked_out_to_the_same_bits(seed, odd):
    """Every window, any round of the replaced record, up to three states; numbers that overflow or are none as well."""
    rng = np.random.default_rng(seed)
    T, d = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    A, b = rng.uniform(0, 1.2, (T, d, d)) * (rng.random((T, d, d)) < 0.7), rng.uniform(0, 2, (T, d))
    blur, extra = rng.uniform(0, 1e-3, T), rng.uniform(0, 1e-3, (T, d)) * (rng.random() < 0.5)
    given = [rng.uniform(0.1, 3), rng.choice([0.25, np.inf]), rng.choice([0.0, 0.1]), rng.choice([1.0, 4.0])]
    if odd:
        for one in (A, b, blur, extra):
            one.flat[rng.integers(one.size)] = rng.choice([np.nan, np.inf, 1e300, 1e-320])
        given[0] = rng.choice([1e308, 5e-324, given[0]])
    window, k = rng.choice([1.0, 5.0, np.inf]), int(rng.integers(T))
    one, two = np.full((T + 1, d), 7.0), np.full((T + 1, d), 7.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(privacy_few, "TOGETHER", int(rng.integers(1, 50)))
        privacy_few.forward(A, b, d - 1, *map(float, given), float(window), k, blur, extra, one)
    privacy_compiled.forward(A, b, d - 1, *map(float, given), float(window), k, blur, extra, two)
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("coded", [False, True])
def test_sums_over_records_are_the_same_bits_and_their_gradient_nearly(coded):
    rng = np.random.default_rng(coded)
    n, count = 9, 40
    X = rng.integers(0, 2, (count, n)).astype(float) if coded else rng.normal(size=(count, n))
    table = binary_table(X, rng.normal(size=count)) if coded else dense_table(X, rng.normal(size=count))
    assert (table.codebook is not None) == coded
    book = (table.codebook,) if coded else ()
    sums = []
    for module in (few, kernels):
        squares, products = np.zeros((1, n, n)), np.zeros((1, n))
        for first, taken in ((0, 1), (1, 12), (13, count - 13)):
            given = table.rows, table.labels, np.array([first]), np.array([taken]), squares, products, *book
            (module.add_coded if coded else module.add_dense)(*given)
        sums.append((squares, products))
    (squares, products), (wanted, wanted_products) = sums
    assert squares.tobytes() == wanted.tobytes()
    assert products.tobytes() == wanted_products.tobytes()
    theta, grad = rng.normal(size=(1, n)), np.empty((1, n))
    few.squared_gradient(squares, products, np.array([count]), theta, grad)
    np.testing.assert_allclose(grad[0], X.T @ (X @ theta[0] - table.labels) / count, rtol=0, atol=1e-13)


FUNCTIONS = {
    "exponential": lambda x, a: np.expm1(min(x, 300)) - a,
    "cubic": lambda x, a: x**3 - a,
    "flat": lambda x, a: (x - a) ** 3,
    "jump": lambda x, a: -1.0 if x < a else 1.0 + x,
    "δ(ε)": lambda x, a: delta_of(x, a / 10) - 1e-5,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_zero_is_scipys_to_the_bit(name):
    """Journals remember noise that was found with SciPy's."""
    draw, compared = random.Random(name), 0
    for _ in range(300):
        a = draw.uniform(0.5, 30)
        high = a * draw.uniform(1.5, 30) + 10

        def f(x, a=a):
            return float(FUNCTIONS[name](x, a))

        if f(0.0) * f(high) < 0:
            compared += 1
            try:
                wanted = scipy.optimize.brentq(f, 0.0, high, xtol=1e-12, rtol=1e-12)
            except RuntimeError:  # too flat there: a hundred steps do not get near enough
                with pytest.raises(gs.GossamerError, match="no zero between"):
                    find_zero(f, 0.0, high, 1e-12, 1e-12)
            else:
                assert find_zero(f, 0.0, high, 1e-12, 1e-12) == wanted
    assert compared > 200
    with pytest.raises(gs.GossamerError, match="opposite signs"):
        find_zero(lambda x: 1.0 + x, 0.0, 1.0, 1e-12, 1e-12)


def test_few_learners_are_checked_as_many_are(monkeypatch):
    """A network is accepted by the short way or by SciPy's graphs, and refused by these, in their words."""
    rng, found = np.random.default_rng(0), {True: 0, False: 0}
    for _ in range(150):
        m = int(rng.integers(2, 7))
        links = (rng.random((m, m)) < rng.uniform(0.2, 0.9)) & ~np.eye(m, dtype=bool)
        W = links / (2.0 * m)
        given = W - np.diag(W.sum(axis=1)), W.T - np.diag(W.T.sum(axis=0))
        said = []
        for most in (128, 0):
            monkeypatch.setattr("gossamer.networks.checks.FEW_LEARNERS", most)
            try:
                gs.Network(*given)
                said.append("")
            except BrokenNetwork as error:
                said.append(str(error))
        assert said[0] == said[1]
        found[said[0] == ""] += 1
    assert min(found.values()) > 20, found


def test_numba_is_for_many_numbers_or_where_it_is_there():
    code = "from gossamer.lazy import FEW, worth_compiling as w; print(w(FEW), w(FEW + 1)); import numba; print(w(1))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["False", "True", "True"]
