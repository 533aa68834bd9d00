"""Noise from a table: every probability is met exactly, every decision is exact, and equal keys give equal integers."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from gossamer import GossamerError
from gossamer.privacy import compiled, table, words
from gossamer.privacy.table import (
    CELLS,
    COLUMN,
    MARGIN,
    NOTHING,
    TAIL,
    Stream,
    own_gaussian,
    own_noise,
    propose,
    table_of,
)

KEY, NONCE = bytes(range(32)), bytes(range(12))
SCALES = [32, 63, 64, 100, 2**40, 3 * 2**41 + 8, 2**49, 2**50 - 1]
TABLES = [*((scale, 2) for scale in SCALES), (32, 1), (64, 1), (2**40, 1)]  # and 1 for Laplace noise, 2 for Gaussian


def f(k: int, made: table.Table) -> Fraction:
    """exp(−k²/2S²), or exp(−|k|/S), from the equation, with 120 digits."""
    digits, S = Context(prec=120), made.scale
    above, below = (k * k, 2 * S * S) if made.power == 2 else (abs(k), S)
    return Fraction(digits.exp(digits.divide(Decimal(-above), Decimal(below))))


def cipher_words(count: int, key: bytes = KEY) -> np.ndarray:
    cipher = Cipher(algorithms.AES(key), modes.CTR(NONCE + bytes(4))).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)


def given(*first: int) -> words.Words:
    """A stream that starts with these words."""
    stream = words.Words(Cipher(algorithms.AES(KEY), modes.CTR(bytes(16))).encryptor())
    stream.ahead = np.array(first, dtype=np.uint64)
    return stream


def run_kernel(made: table.Table, drawn, count=1, margin=MARGIN, wrong=1.0):
    """(values, next word, whether one is left open) of the compiled code; `wrong` is what exp() is wrong by."""
    out = np.zeros(count, dtype=np.int64)
    scale, power, width, columns, low, span, height, _ = made
    about = float(scale), power, width, columns, low, span, height * wrong, margin
    at, done, is_open = compiled.table_noise(np.array(drawn, dtype=np.uint64), 0, out, 0, 1, *about)
    return out[:done].tolist(), at, is_open


def words_of(made: table.Table, part: int, place: int = 0, negative: bool = False) -> list[int]:
    """Words that fall into this part: first the column that is its own, with the least of bits."""
    word = part << 54 | negative << 44 | place
    return [word, 0] if int(made.columns[part]) >> 16 < 1 << 23 else [word]


# -- the table


def parts_by_columns(made: table.Table) -> list[int]:
    """What the columns give to every part, in units of which a column has 2^32."""
    given_to = [0] * len(made.columns)
    for column, entry in enumerate(made.columns.tolist()):
        cut, other = entry >> 16, entry & 0xFFFF
        assert 0 <= cut <= COLUMN
        given_to[column] += cut
        given_to[other] += COLUMN - cut
    return given_to


def check_table(made: table.Table) -> None:
    """Everything that the argument of exactness asks of a table."""
    S, W, A = made.scale, 1 << made.width, made.height
    assert 32 * W <= S < 64 * W
    low, span = [int(x) for x in made.low], [int(x) for x in made.span]
    got = parts_by_columns(made)
    assert got[:CELLS] == low, "rectangles"
    assert got[CELLS:TAIL] == span, "wedges"
    assert got[TAIL] == made.tail
    assert sum(got) == 2**42
    assert 0 <= got[NOTHING] < 2**20, "hardly ever nothing"
    for j in range(CELLS):
        assert 0 <= low[j] <= A * f((j + 1) * W - 1, made)
        assert A * f(j * W, made) <= low[j] + span[j]
        assert span[j] > 0
    K, V = CELLS * W, made.reach
    assert V <= S < 2 * V
    assert made.tail >= 2 * (V // W) * A * f(K, made)
    for g in range(20):
        assert 2**g * f(K + g * V, made) <= f(K, made)


@pytest.mark.parametrize(("scale", "power"), TABLES)
def test_a_table_meets_every_condition_of_exactness(scale, power):
    check_table(table_of(scale, power))


@pytest.mark.parametrize("field", ["columns", "low", "span", "tail", "height"])
@pytest.mark.parametrize("by", [1, -1])
def test_a_table_that_is_off_by_one_is_seen(field, by):
    made = table_of(64)
    value = getattr(made, field)
    if field == "height":
        wrong = value + by * 10**9  # by one per cent: whichever height is within the bounds gives the law exactly
    elif field == "tail":
        wrong = value + by
    else:
        wrong = value.copy()
        wrong[3] = int(wrong[3]) + by * (1 << 16 if field == "columns" else 1)
    with pytest.raises(AssertionError):
        check_table(made._replace(**{field: wrong}))


def law_by_tree(made: table.Table, largest: int) -> dict[int, Fraction]:
    """The probability of k ≥ 0 in one proposal, with its sign +, over every branch; f(k) is exact to 120 digits."""
    chance = [Fraction(units, 2**42) for units in parts_by_columns(made)]
    law: dict[int, Fraction] = {}
    for k in range(largest + 1):
        j, curve = k >> made.width, made.height * f(k, made)
        if j < CELLS:
            low, span = int(made.low[j]), int(made.span[j])
            kept = (curve - low) / span
            share = (chance[j] + chance[CELLS + j] * kept) / (1 << made.width)
        else:
            g = (k - (CELLS << made.width)) // made.reach
            kept = curve * 2 ** (g + 1) * 32 / made.tail
            share = chance[TAIL] * Fraction(1, 2 ** (g + 1)) / made.reach * kept
        assert 0 <= kept <= 1
        law[k] = share / 2
    return law


@pytest.mark.parametrize(("scale", "power"), [(32, 2), (63, 2), (100, 2), (32, 1), (64, 1)])
def test_the_tree_of_decisions_has_the_law_exactly(scale, power):
    made = table_of(scale, power)
    law = law_by_tree(made, (CELLS << made.width) + 3 * made.reach)
    for k, share in law.items():
        assert abs(share / law[0] / f(k, made) - 1) < Fraction(1, 10**100)
    wrong = made.columns.copy()
    wrong[5] += np.uint64(1 << 16)  # one unit of 2^42 more for one part
    off = law_by_tree(made._replace(columns=wrong), 20)
    assert any(abs(share / off[0] / f(k, made) - 1) > 1e-13 for k, share in off.items())


def test_a_table_is_the_same_whatever_the_callers_decimals_are():
    with localcontext(Context(prec=3, Emin=-5, Emax=5)):
        again = table_of.__wrapped__(2**40 + 24)
    for mine, other in zip(again, table_of(2**40 + 24), strict=True):
        np.testing.assert_array_equal(mine, other)


# -- the decisions


@pytest.mark.parametrize("scale", [64, 2**40])
def test_every_column_is_cut_where_it_says(scale):
    """On both sides of each cut, in the first word and in the second."""
    made = table_of(scale)

    def cell_of(part):
        return part % CELLS if part < TAIL else None

    tested = 0
    for column in [*range(CELLS), NOTHING]:
        cut, other = int(made.columns[column]) >> 16, int(made.columns[column]) & 0xFFFF
        if cut == COLUMN or other >= CELLS:
            continue
        tested += 1
        bar, later = divmod(cut, 1 << 23)
        tries = [(bar, later - 1, column), (bar, later, other), (bar - 1, 2**23 - 1, column), (bar + 1, 0, other)]
        for first, second, part in tries:
            if not (0 <= first < 512 and 0 <= second < 2**23):
                continue
            drawn = [column << 54 | first << 45 | 1, second << 41, 0, 0]
            k = propose(made, given(*drawn))
            values, _, _ = run_kernel(made, drawn)
            assert (k is None) == (part == NOTHING)
            if k is not None:
                assert k >> made.width == cell_of(part)
                assert values[0] == k
    assert tested > 100


def exact_values(made: table.Table, stream: words.Words, count: int) -> list[int]:
    values: list[int] = []
    while len(values) < count:
        k = propose(made, stream)
        if k is not None:
            values.append(k)
    return values


@pytest.mark.parametrize(("scale", "power"), TABLES)
def test_the_kernel_decides_as_exact_arithmetic_does(scale, power):
    made = table_of(scale, power)
    drawn = cipher_words(12_000)
    values, at, is_open = run_kernel(made, drawn, 10_000)
    stream = given(*drawn)
    assert not is_open
    assert values == exact_values(made, stream, 10_000)
    assert at == stream.used


def bound_of(made: table.Table, cell: int, k: int, bits: int) -> int:
    """The first `bits` bits of the U from which on k is not kept in its wedge."""
    low, span = int(made.low[cell]), int(made.span[cell])
    return int((made.height * f(k, made) - low) / span * 2**bits)


def near_the_bound(made: table.Table, apart: int):
    """Words of wedges whose U is this far from its bound, on both sides, and whether they are kept."""
    rng = np.random.default_rng(3)
    for cell in range(0, 420, 7):
        place = int(rng.integers(1 << made.width))
        bound = bound_of(made, cell, (cell << made.width) + place, 64)
        for u, kept in ((bound - apart, True), (bound + apart, False)):
            if 0 <= u < 2**64:
                yield [*words_of(made, CELLS + cell, place), u, 0, 0], kept


@pytest.mark.parametrize(("scale", "power"), [(2**40, 2), (2**50 - 1, 2), (2**40, 1)])
def test_what_floats_cannot_decide_is_left_open_and_then_decided_exactly(scale, power):
    made = table_of(scale, power)
    cases = list(near_the_bound(made, 1))
    assert len(cases) > 100
    wrong = 0
    for drawn, kept in cases:
        assert run_kernel(made, drawn) == ([], 0, True), "open, from the first word of the proposal"
        assert (propose(made, given(*drawn)) is not None) == kept
        careless = run_kernel(made, drawn[:-2] + [NOTHING << 54 | 511 << 45] * 2, margin=0.0)
        wrong += (careless[0] != []) != kept
    assert wrong > len(cases) // 10, "a kernel without a margin is wrong in many of these"


@pytest.mark.parametrize("wrong", [1 - 2.0**-40, 1.0, 1 + 2.0**-40])
@pytest.mark.parametrize(("scale", "power"), [(2**44 + 8, 2), (2**40, 1)])
def test_an_exp_that_errs_changes_no_value(wrong, scale, power):
    made = table_of(scale, power)
    for apart in (1, 2**28, 2**30, 2**33, 2**40, 2**50):
        for drawn, kept in near_the_bound(made, apart):
            values, _, is_open = run_kernel(made, drawn, wrong=wrong)
            assert is_open or (values != []) == kept
    drawn = cipher_words(60_000)
    assert run_kernel(made, drawn, 50_000, wrong=wrong) == run_kernel(made, drawn, 50_000)


def test_an_open_decision_takes_as_many_words_as_it_needs():
    made, cell = table_of(2**40), 40
    k = cell << made.width
    bound = bound_of(made, cell, k, 192)
    first, second, third = bound >> 128, bound >> 64 & (2**64 - 1), bound & (2**64 - 1)
    start = words_of(made, CELLS + cell)
    for tail, kept in (([second - 1], True), ([second + 1], False), ([second, third - 1], True)):
        stream = given(*start, first, *tail, 7, 7, 7)
        assert (propose(made, stream) == k) == kept
        assert stream.used == len(start) + 1 + len(tail)
    out = np.zeros(2, dtype=np.int64)  # kernel, exact arithmetic, and the kernel again
    after = words_of(made, 9, place=5)
    table._add(made, given(*start, first, second - 1, *after, 0, 0), out, -1)
    assert out.tolist() == [-k, -((9 << made.width) + 5)]


@pytest.mark.parametrize(("scale", "power"), [(63, 2), (2**40 - 8, 2), (2**50 - 1, 2), (2**40, 1)])
@pytest.mark.parametrize("heads", [0, 1, 2, 5, 70])
def test_the_tail_is_kept_with_its_exact_probability(scale, power, heads):
    made = table_of(scale, power)
    start = words_of(made, TAIL, negative=True)
    assert run_kernel(made, [*start, 0, 0]) == ([], 0, True)
    coins = [2**64 - 1] * (heads // 64) + [2 ** (heads % 64) - 1]
    for place in (0, 1, made.reach // 3, made.reach - 1):
        k = (CELLS << made.width) + heads * made.reach + place
        chance = 2 ** (heads + 1) * Fraction(made.reach, 1 << made.width) * made.height * f(k, made) / made.tail
        assert chance < 1
        u = int(chance * 2**256)
        u_words = [u >> shift & (2**64 - 1) for shift in (192, 128, 64)]
        for last, kept in ((u_words[2] - 1, True), (u_words[2] + 1, False)):
            if 0 <= last < 2**64:
                drawn = [*start, place, *coins, *u_words[:2], last]
                assert propose(made, given(*drawn, *[0 if kept else 2**64 - 1] * 40)) == (-k if kept else None)


def test_a_value_of_the_tail_reaches_the_row():
    made = table_of(2**40 - 8)
    place, coin, u = 11, 0, 0
    stream = given(*words_of(made, TAIL), place, coin, u, *words_of(made, 2, 5, negative=True), 0, 0)
    out = np.array([100, 100])
    table._add(made, stream, out, 1)
    assert out.tolist() == [100 + (CELLS << made.width) + 11, 100 - (2 << made.width) - 5]


def test_minus_zero_is_drawn_again():
    made = table_of(32)
    after = words_of(made, 3)
    for negative, value in ((False, 0), (True, 3)):
        out = np.full(1, 50)
        table._add(made, given(*words_of(made, 0, negative=negative), *after, 0, 0), out, 1)
        assert out[0] == 50 + value


# -- the law


@pytest.mark.parametrize("scale", [32, 47, 64])
def test_chi_square_against_the_law_of_every_integer(scale):
    out = np.zeros(10**6, dtype=np.int64)
    Stream(KEY, NONCE).add_gaussian(out, scale)
    ks = np.arange(-4 * scale, 4 * scale + 1)
    weights = np.exp(-0.5 * (ks / scale) ** 2)
    whole = np.exp(-0.5 * (np.arange(-40 * scale, 40 * scale + 1) / scale) ** 2).sum()
    law = weights / whole
    observed = np.bincount(out[np.abs(out) <= 4 * scale] + 4 * scale, minlength=len(ks))
    rest = len(out) - observed.sum()
    assert stats.chisquare([*observed, rest], len(out) * np.array([*law, 1 - law.sum()])).pvalue > 1e-3


@pytest.mark.parametrize("scale", [32, 64])
def test_chi_square_of_laplace_noise_against_the_law_of_every_integer(scale):
    """P(k) = (1−q)/(1+q) q^|k| with q = exp(−1/S)."""
    out = np.zeros(10**6, dtype=np.int64)
    table._add(table_of(scale, 1), given(*cipher_words(1_100_000)), out, 1)
    ks = np.arange(-8 * scale, 8 * scale + 1)
    law = np.exp(-np.abs(ks) / scale) * np.tanh(0.5 / scale)
    observed = np.bincount(out[np.abs(out) <= 8 * scale] + 8 * scale, minlength=len(ks))
    rest = len(out) - observed.sum()
    assert stats.chisquare([*observed, rest], len(out) * np.array([*law, 1 - law.sum()])).pvalue > 1e-3


@pytest.mark.parametrize("scale", [2**40, 2**49 - 8])
def test_the_law_is_normal_on_a_fine_grid(scale):
    out = np.zeros(10**6, dtype=np.int64)
    Stream(KEY, NONCE).add_gaussian(out, scale)
    x = out / scale
    assert stats.kstest(x, "norm").pvalue > 1e-3
    assert x.var() == pytest.approx(1, abs=4 * np.sqrt(2 / len(x)))
    expected = 2 * len(x) * stats.norm.sf(4)
    assert (np.abs(x) > 4).sum() == pytest.approx(expected, abs=4 * np.sqrt(expected))
    assert stats.chisquare(np.bincount(out & 0xFF, minlength=256)).pvalue > 1e-3
    assert stats.kstest(x * 1.02, "norm").pvalue < 1e-10, "a wrong scale would be seen"


# -- the stream


def drawn_by(count: int, key: bytes = KEY, nonce: bytes = NONCE, scale: int = 2**40) -> np.ndarray:
    out = np.zeros(count, dtype=np.int64)
    Stream(key, nonce).add_gaussian(out, scale)
    return out


def test_two_sides_cancel_to_the_last_bit():
    values = np.random.default_rng(0).integers(-(2**60), 2**60, size=100_000)
    mine, theirs = values.copy(), np.zeros_like(values)
    Stream(KEY, NONCE).add_gaussian(mine, 2**45)
    Stream(KEY, NONCE).add_gaussian(theirs, 2**45, sign=-1)
    assert (mine != values).all()
    np.testing.assert_array_equal(mine + theirs, values)


@pytest.mark.parametrize("buffer", [3, 64, 1000])
def test_values_do_not_depend_on_how_many_words_are_made_at_a_time(buffer, monkeypatch):
    whole = drawn_by(20_000)
    monkeypatch.setattr(words, "BUFFER", buffer)
    np.testing.assert_array_equal(drawn_by(20_000), whole)
    stream, pieces = Stream(KEY, NONCE), np.zeros(20_000, dtype=np.int64)
    for start, end in ((0, 1), (1, 1), (1, 700), (700, 20_000)):
        stream.add_gaussian(pieces[start:end], 2**40)
    np.testing.assert_array_equal(pieces, whole)


def test_the_words_are_those_of_the_cipher():
    made = table_of(2**40)
    assert drawn_by(3000).tolist() == exact_values(made, given(*cipher_words(4000)), 3000)


def test_the_integers_of_a_key_are_these_on_every_machine():
    drawn = [drawn_by(50_000, scale=scale).astype("<i8").tobytes() for scale in (63, 2**40, 2**49 - 8)]
    assert (
        hashlib.sha256(b"".join(drawn)).hexdigest()
        == "145e89dd1fc53cd4717f99ad3db7f65a0c73198db8ca72071cbece649edde8f1"
    )


def test_another_key_or_nonce_gives_other_noise():
    first = drawn_by(10_000)
    for other in (drawn_by(10_000, key=bytes(32)), drawn_by(10_000, nonce=bytes(12))):
        assert len(np.intersect1d(first, other)) < 10
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.05


def test_own_noise_has_the_law_and_is_never_used_twice():
    with ThreadPoolExecutor(4) as pool:
        rows = [np.zeros(20_000, dtype=np.int64) for _ in range(20)]
        list(pool.map(lambda row: own_gaussian(row, 2**40), rows))
    every = np.concatenate(rows)
    assert len(np.unique(every)) > len(every) - 5
    assert stats.kstest(every / 2.0**40, "norm").pvalue > 1e-6
    read, write = os.pipe()
    child = os.fork()
    mine = np.zeros(64, dtype=np.int64)
    own_gaussian(mine, 2**40)
    if child == 0:
        os.write(write, mine.tobytes())
        os._exit(0)
    theirs = np.frombuffer(os.read(read, 512), dtype=np.int64)
    os.waitpid(child, 0)
    assert len(theirs) == 64
    assert (mine != theirs).all()


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: Stream(bytes(16), NONCE), "a key of 16 bytes and a nonce of 12"),
        (lambda: Stream(KEY, bytes(16)), "a nonce of 16: expected 32 and 12"),
        (lambda: drawn_by(1, scale=31), "scale=31: expected a whole number from 32"),
        (lambda: own_noise(np.zeros(1, dtype=np.int64), 100, 1), "expected a power of two for Laplace noise"),
        (lambda: drawn_by(1, scale=2**50), "expected a whole number from 32 to 2\\^50"),
        (lambda: Stream(KEY, NONCE).add_gaussian(np.zeros(4, dtype=np.int64), 64, sign=2), "sign=2: expected 1 or −1"),
        (lambda: Stream(KEY, NONCE).add_gaussian(np.zeros(4), 64), "noise for float64"),
        (lambda: own_gaussian(np.zeros(8, dtype=np.int64)[::2], 64), "contiguous row of int64"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, says):
    with pytest.raises(GossamerError, match=says):
        draw()


def test_a_counter_is_never_used_up(monkeypatch):
    monkeypatch.setattr(table, "VALUES", 100)
    stream = Stream(KEY, NONCE)
    stream.add_gaussian(np.zeros(60, dtype=np.int64), 64)
    with pytest.raises(GossamerError, match="take a new nonce"):
        stream.add_gaussian(np.zeros(41, dtype=np.int64), 64)
    stream.add_gaussian(np.zeros(40, dtype=np.int64), 64)
