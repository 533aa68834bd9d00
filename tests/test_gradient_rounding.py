"""Computed gradients against exact arithmetic: none is longer than c, and none is further off than is accounted."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gossamer as gs
from gossamer.models import Clip, Sizes, kernels
from gossamer.models.bounds import LOGISTIC_ERROR, UNIT, mean_error
from gossamer.models.linear import LOGISTIC
from gossamer.models.memory import row_norms
from gossamer.records import Batch, FeatureBounds, Table, binary_table, dense_table, features_of

mpmath.mp.dps = 60
CLASSES = 4
MODELS = {
    "logistic": gs.LogisticRegression,
    "softmax": lambda **given: gs.SoftmaxRegression(CLASSES, **given),
    "squared": gs.RidgeRegression,
}
both = pytest.mark.parametrize("alone", [False, True], ids=["compiled", "by NumPy"])
KINDS = ["dense", "float32", "bits", "sparse bits", "scaled bits"]


def table_of(kind, rng, count, n):
    """Records of a kind, with the bounds that they keep to, exactly."""
    labels = rng.integers(0, 2, count).astype(float)
    labels[:2] = 0, 1
    if kind == "dense":
        table = dense_table(rng.choice([-1.0, 1.0, 1 / 3, 1e-9], (count, n)) * rng.uniform(0.5, 1, (count, n)), labels)
    elif kind == "float32":
        table = Table(rng.uniform(-1, 1, (count, n)).astype(np.float32), labels, None, n)
    else:
        bits = np.eye(n)[rng.integers(0, n, count)] if kind == "sparse bits" else rng.integers(0, 2, (count, n))
        table = binary_table(bits.astype(float), labels)
    if kind == "scaled bits":
        table = replace(table, scale=1 / math.sqrt(n))
    most = table.scale
    return replace(table, bounds=FeatureBounds(n * most, math.sqrt(n) * most, most))


def points(rng, m, n, size):
    """θ of a size, half of whose coordinates are nearly the others' opposites."""
    theta = rng.uniform(-1, 1, (m, n)) * size
    theta[:, 1::2] = -theta[:, : n - n % 2 : 2] * (1 + rng.uniform(-1, 1, (m, n // 2)) / size)
    return np.clip(theta, -size, size)


def cancelling(rng, rows, outputs, size):
    """θ of a size for every row a, with aᵀθ of about 1 for each class: what is left of huge numbers is rounding."""
    n = rows.shape[1]
    theta = rng.uniform(-1, 1, (len(rows), n, outputs)) * size / n
    for row, point in zip(rows.astype(float), theta, strict=True):
        pivot = int(np.abs(row).argmax())
        for k in range(outputs if row[pivot] else 0):
            others = sum(Fraction(a) * Fraction(v) for a, v in zip(row, point[:, k], strict=True))
            others -= Fraction(row[pivot]) * Fraction(point[pivot, k])
            point[pivot, k] = float((Fraction(rng.normal()) - others) / Fraction(row[pivot]))
    assert (np.abs(theta) <= size + 10 / np.abs(rows).max()).all()
    return np.clip(theta, -size, size).reshape(len(rows), -1)


def one_each(table):
    """Every record alone: a learner each."""
    return Batch(table.rows, table.labels, np.ones(len(table), dtype=np.int64))


def exact(name, row, label, theta, limit, order):
    """The gradient of one record as mpmath numbers, (n, K), clipped where ‖w‖ is above its limit."""
    outputs = CLASSES if name == "softmax" else 1
    by_class = theta.reshape(len(row), outputs)
    margins = [
        number(sum((Fraction(float(a)) * Fraction(float(v)) for a, v in zip(row, column, strict=True)), Fraction(0)))
        for column in by_class.T
    ]
    if name == "logistic":
        weights = [1 / (1 + mpmath.exp(-margins[0])) - label]
    elif name == "squared":
        weights = [margins[0] - mpmath.mpf(label)]
    else:
        powers = [mpmath.exp(z - max(margins)) for z in margins]
        weights = [p / mpmath.fsum(powers) - (k == label) for k, p in enumerate(powers)]
    size = norm_of(weights, order)
    if limit is not None and size > limit:
        weights = [w * mpmath.mpf(limit) / size for w in weights]
    return [[mpmath.mpf(float(a)) * w for w in weights] for a in row]


def number(fraction):
    return mpmath.mpf(fraction.numerator) / fraction.denominator


def norm_of(values, order):
    values = list(values)
    return mpmath.fsum(map(abs, values)) if order == 1 else mpmath.sqrt(mpmath.fsum(v * v for v in values))


def within(vector, order, c):
    """‖vector‖ ≤ c, exactly."""
    parts = [abs(Fraction(float(v))) ** order for v in np.ravel(vector)]
    return sum(parts) <= Fraction(c) ** order


def dense(table):
    found = features_of(table)
    return found.toarray() if table.codebook is not None else found


@both
@pytest.mark.parametrize("size", [1.0, 2.0**10, 2.0**30])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("name", "c"), [("logistic", None), ("softmax", None), *((m, 0.3) for m in MODELS)])
def test_a_records_gradient_is_as_close_and_as_short_as_is_accounted(name, c, order, kind, size, alone):
    rng = np.random.default_rng([len(name), order, KINDS.index(kind), int(size)])
    count, n = 12, 9
    model = MODELS[name](clip=None if c is None else Clip(order, c))
    table = table_of(kind, rng, count, n)
    reach = model.reach(table.bounds, order, Sizes(n))
    memory = model.memory(table, "latest", np.ones(count, dtype=np.int64), alone=alone)
    memory.observe(one_each(table))
    fixed = reach.error + mean_error(reach.c, 1)
    clipped, worst = 0, 0.0
    rows = dense(table)
    for theta in (points(rng, count, n * model.outputs, size), cancelling(rng, rows, model.outputs, size)):
        found = memory.gradient(theta)
        for r, row in enumerate(rows):
            assert within(found[r], order, reach.c)
            limit = None if c is None else memory.limits[memory.start[r]]
            wanted = exact(name, row, table.labels[r], theta[r], limit, order)
            flat = [v for part in wanted for v in part]
            off = norm_of((mpmath.mpf(float(g)) - v for g, v in zip(found[r], flat, strict=True)), order)
            assert off <= fixed + reach.error_per_size * size
            worst = max(worst, off)
            clipped += norm_of(flat, order) > 0.299
    assert c is None or size == 1.0 or clipped, "some are clipped"
    assert reach.error_per_size * size < 1e-3
    alone = kind in ("bits", "sparse bits")  # whose sums may be exact
    alone |= c is not None and name != "squared"  # mostly clipped
    assert alone or size < 2.0**30 or worst > fixed, "what θ's size adds is needed"


@both
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 2**32 - 1), c=st.floats(1e-3, 1e3), power=st.floats(0, 100))
def test_no_clipped_gradient_is_longer_than_c(name, order, kind, seed, c, power, alone):
    """Norms and limits were rounded to the nearest, and float32's by 1.2e-7: half of the records were above c."""
    rng = np.random.default_rng(seed)
    count, n = 8, int(rng.integers(1, 12))
    model, table = MODELS[name](clip=Clip(order, c)), table_of(kind, rng, count, n)
    memory = model.memory(table, "latest", np.ones(count, dtype=np.int64), alone=alone)
    memory.observe(one_each(table))
    for row in memory.gradient(points(rng, count, n * model.outputs, 10.0**power)):
        assert within(row, order, c)


@both
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("order", [1, 2])
def test_whatever_the_record_and_the_point_clipping_holds(name, order, alone):
    """Features that overflow in a margin, or underflow in a norm, and labels as large: ‖∇l‖ ≤ c, and no NaN."""
    model = MODELS[name](clip=Clip(order, 1.0))
    sizes = [1e-320, 1e-200, 1e-160, 1e-120, 1e-5, 1.0, 1e90, 1e110, 1e160, 1e250, 1e307]
    X = np.array([[[s, -s, s], [s, s, 0.0], [s, 1.0, -1.0]] for s in sizes]).reshape(-1, 3)
    labels = np.arange(len(X)) % 2.0 * (1e300 if name == "squared" else 1)
    table = dense_table(X, labels)
    memory = model.memory(table, "latest", np.ones(len(X), dtype=np.int64), alone=alone)
    memory.observe(one_each(table))
    with np.errstate(all="ignore"):
        for theta in (0.0, 1.0, -1e100, 1e100, 1e300):
            found = memory.gradient(
                np.full((len(X), 3 * model.outputs), theta) * np.resize([1, -1, 1], 3 * model.outputs)
            )
            assert np.isfinite(found).all()
            for row in found:
                assert within(row, order, 1.0)


def exact_sum(values):
    """As whole numbers over one power of two: many fractions take long to add."""
    ratios = [value.as_integer_ratio() for value in values]
    below = max(denominator for _, denominator in ratios)
    return Fraction(sum(numerator * (below // denominator) for numerator, denominator in ratios), below)


@both
@pytest.mark.parametrize("count", [1, 5, 1000, 3001])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("name", "c"), [("logistic", None), ("softmax", None), *((m, 0.3) for m in MODELS)])
def test_a_mean_is_as_close_to_the_exact_one_as_is_accounted(name, c, order, kind, count, alone):
    rng = np.random.default_rng([len(name), order, KINDS.index(kind), count])
    n = 7
    model = MODELS[name](clip=None if c is None else Clip(order, c))
    table = table_of(kind, rng, max(count, 2), n)
    theta = points(rng, 1, n * model.outputs, 100.0)
    single = model.memory(table, "latest", np.ones(len(table), dtype=np.int64), alone=alone)
    single.observe(one_each(table))
    each = single.gradient(np.repeat(theta, len(table), axis=0))[:count]
    together = model.memory(table, "history", np.array([count]), alone=alone)
    together.observe(Batch(table.rows[:count], table.labels[:count], np.array([count])))
    found = together.gradient(theta)[0]
    exact_mean = [exact_sum(column) / count for column in each.T.tolist()]
    off = [Fraction(float(g)) - v for g, v in zip(found, exact_mean, strict=True)]
    reach = model.reach(table.bounds, order, Sizes(n))
    bound = mean_error(reach.c, count)
    if table.codebook is not None:  # many records have their margins summed in another order than one
        bound += 2 * (reach.error + reach.error_per_size * 100)
    assert sum(abs(v) ** order for v in off) <= Fraction(float(bound)) ** order


@both
@pytest.mark.parametrize("size", [1.0, 2.0**30])
@pytest.mark.parametrize("kind", ["bits", "sparse bits", "scaled bits"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("name", "c"), [("logistic", None), *((m, 0.3) for m in MODELS)])
def test_so_is_one_by_tables_of_partial_sums(name, c, order, kind, size, alone):
    rng = np.random.default_rng([len(name), order, KINDS.index(kind), int(size)])
    count, n = 80, 14
    model, table = MODELS[name](clip=None if c is None else Clip(order, c)), table_of(kind, rng, count, n)
    assert table.codebook is not None
    assert 2 * count * table.rows.shape[1] >= len(table.codebook.first) - 1, "so many that sums are looked up"
    memory = model.memory(table, "history", np.array([count]), alone=alone)
    memory.observe(Batch(table.rows, table.labels, np.array([count])))
    theta = points(rng, 1, n * model.outputs, size)
    found = memory.gradient(theta)[0]
    limits = [None] * count if c is None else memory.limits[:count]
    each = [
        exact(name, *record, theta[0], limit, order)
        for *record, limit in zip(dense(table), table.labels, limits, strict=True)
    ]
    flat = [mpmath.fsum(one[j][k] for one in each) / count for j in range(n) for k in range(model.outputs)]
    off = norm_of((mpmath.mpf(float(g)) - v for g, v in zip(found, flat, strict=True)), order)
    reach = model.reach(table.bounds, order, Sizes(n))
    assert off <= reach.error + reach.error_per_size * size + mean_error(reach.c, count)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 2**32 - 1), c=st.floats(1e-3, 1e3))
def test_no_rounds_clipped_mean_is_longer_than_c(name, order, seed, c):
    rng = np.random.default_rng(seed)
    model, table = MODELS[name](clip=Clip(order, c, "round")), table_of("dense", rng, 6, 5)
    memory = model.memory(table, "latest", np.array([3, 3]))
    memory.observe(Batch(table.rows, table.labels, np.array([3, 3])))
    for row in memory.gradient(points(rng, 2, 5 * model.outputs, 1e4)):
        assert within(row, order, c)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_a_rounds_clipped_mean_is_as_close_to_the_exact_one_as_is_accounted(name, order):
    rng = np.random.default_rng(order)
    n, count, size = 6, 40, 1000.0
    for c in (1e-2, 10.0):
        model, table = MODELS[name](clip=Clip(order, c, "round")), table_of("dense", rng, count, n)
        reach = model.reach(table.bounds, order, Sizes(n, count))
        memory = model.memory(table, "latest", np.array([count]))
        memory.observe(Batch(table.rows, table.labels, np.array([count])))
        theta = points(rng, 1, n * model.outputs, size)
        every = [exact(name, row, b, theta[0], None, order) for row, b in zip(table.rows, table.labels, strict=True)]
        mean = [mpmath.fsum(one[j][k] for one in every) / count for j in range(n) for k in range(model.outputs)]
        length = norm_of(mean, order)
        mean = [v * min(1, c / length) for v in mean]
        found = memory.gradient(theta)[0]
        off = norm_of((mpmath.mpf(float(g)) - v for g, v in zip(found, mean, strict=True)), order)
        assert off <= reach.error + reach.error_per_size * size
        assert within(found, order, reach.c)


def test_a_squared_loss_clipped_by_the_round_claims_no_slope():
    """Its records' gradients may be huge and cancel in the mean, and so is then the rounding."""
    bounds = FeatureBounds(3.0, 2.0, 1.0)
    assert gs.RidgeRegression(clip=gs.clip_l2(1.0, per="round")).reach(bounds, 2) == (1.0, math.inf, 0.0, 0.0)
    assert math.isfinite(gs.RidgeRegression(clip=gs.clip_l2(1.0)).reach(bounds, 2).L)


def test_logistic_weights_are_good_to_what_is_claimed_and_within_one():
    rng = np.random.default_rng(0)
    margins = np.concatenate([
        rng.uniform(-5, 5, 3000), rng.uniform(-40, 40, 2000), rng.uniform(-800, 800, 500), rng.normal(size=500) * 1e-8,
        np.arange(-60, 61) * math.log(2) / 2, [0.0, -0.0, 700.0, -700.0, 1e100, -1e100, 1e200, 5e-324],
    ])  # fmt: skip
    worst = 0.0
    for label in (0.0, 1.0):
        weights, bits = margins.copy(), np.empty(len(margins), np.int64)
        labels = np.full(len(margins), label)
        kernels.to_weights(LOGISTIC, weights, labels, np.empty(0), bits, bits.view(np.float64))
        assert (np.abs(weights) <= 1).all()
        for x, w in zip(margins, weights, strict=True):
            worst = max(worst, abs(1 / (1 + mpmath.exp(-mpmath.mpf(float(x)))) - label - mpmath.mpf(float(w))))
    assert worst <= LOGISTIC_ERROR
    assert worst <= LOGISTIC_ERROR / 8, "the claim is generous"


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_softmax_weights_are_good_to_what_is_claimed(classes):
    rng = np.random.default_rng(classes)
    worst = longest = 0.0
    for spread in (0.0, 1e-9, 0.1, 1.0, 5.0, 100.0, 1e5, 1e100):
        for _ in range(max(4, 200 // classes)):
            margins, label = rng.normal(size=classes) * spread, int(rng.integers(classes))
            weights = margins.copy()
            kernels.to_softmax_weights(weights, float(label), np.empty(0), 1)
            powers = [mpmath.exp(mpmath.mpf(float(z)) - mpmath.mpf(float(margins.max()))) for z in margins]
            total = mpmath.fsum(powers)
            off = (p / total - (k == label) - mpmath.mpf(float(weights[k])) for k, p in enumerate(powers))
            worst, longest = max(worst, norm_of(off, 1)), max(longest, math.fsum(np.abs(weights)))
    assert worst <= (2 * classes + 20) * UNIT
    assert longest <= 2 + (2 * classes + 20) * UNIT


def test_norms_of_float32_rows_are_found_in_float64():
    """They were found in float32, and gradients 1.2e-7 above c came of it."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 50)).astype(np.float32)
    for norm in (1, 2):
        found = row_norms(Table(rows, np.zeros(200), None, 50), norm)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, np.linalg.norm(rows.astype(float), norm, axis=1), rtol=1e-15)


@pytest.mark.parametrize("rows", ["raw", "l1", "l2"])
@pytest.mark.parametrize("order", [1, 2])
def test_declared_norms_are_rounded_up(rows, order):
    """√22 and 22 · (1/22) are rounded themselves."""
    table = gs.datasets.mushrooms(10, rows=rows).table
    c = gs.LogisticRegression().reach(table.bounds, order, Sizes(table.columns)).c
    assert within([table.scale] * 22, order, c)
    rng = np.random.default_rng(order)
    for n in (1, 3, 10, 300):
        high = rng.uniform(0, 1, n)
        stream = gs.streams.from_arrays([high[None], 0.5 * high[None]], [[0], [1]], ranges=(-high, high))
        assert within(high, order, gs.LogisticRegression().reach(stream.table.bounds, order, Sizes(n)).c)


def test_no_gradient_has_a_ridge():
    rng = np.random.default_rng(0)
    for name in MODELS:
        for clip in (None, gs.clip_l1(0.2), gs.clip_l1(0.2, per="round")):
            for kind in KINDS:
                table, found = table_of(kind, rng, 6, 5), []
                theta = rng.normal(size=(2, 5 * MODELS[name]().outputs))
                for l2 in (0.0, 0.7):
                    memory = MODELS[name](clip=clip, l2=l2).memory(table, "latest", np.array([3, 3]))
                    memory.observe(Batch(table.rows, table.labels, np.array([3, 3])))
                    found.append(memory.gradient(theta))
                np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: gs.clip_l1(1e-31), "from 1e-30 to 1e30"),
        (lambda: gs.clip_l2(math.inf), "expected a finite number above 0"),
        (lambda: gs.LogisticRegression().reach(FeatureBounds(1e101, 1.0, 1.0), 1), "norm 1e.101: expected"),
        (
            lambda: gs.LogisticRegression().reach(FeatureBounds(1.0, 1.0, 1.0), 1, Sizes(columns=2**28)),
            "2.27; use fewer",
        ),
        (
            lambda: gs.LogisticRegression().reach(FeatureBounds(1.0, 1.0, 1.0), 1, Sizes(records=2**26)),
            "2.25; use fewer",
        ),
    ],
)
def test_what_lies_beyond_the_proofs_is_refused(call, said):
    with pytest.raises(gs.GossamerError, match=said):
        call()


def test_more_records_than_the_proof_of_a_mean_covers_are_refused(monkeypatch):
    monkeypatch.setattr("gossamer.models.memory.MOST_RECORDS", 5)
    table = table_of("dense", np.random.default_rng(0), 6, 3)
    memory = gs.LogisticRegression().memory(table, "history", np.array([1]))
    memory.observe(Batch(table.rows[:5], table.labels[:5], np.array([5])))
    with pytest.raises(gs.GossamerError, match=r"6 records of a learner .* use gradient='latest'"):
        memory.observe(Batch(table.rows[5:], table.labels[5:], np.array([1])))
