"""Whatever a mechanism is given, it is refused in a sentence or works."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.privacy import Gaussian, Laplace
from gossamer.schedules import Decay
from gossamer.setting import setting_of

STEPS = 5
ODD = [
    None, True, False, 0, -1, 1, 2, 3, 8.0, 0.5, 0.999, -0.0, 1e-320, 1e-12, 1e-5, 100, -100, 100.5, -5, 1e5, math.inf,
    -math.inf, math.nan, 10**400, "3", "x", "", "inf", b"1", 1j, np.float64(2), np.float32(0.5), np.int64(3),
    np.bool_(True), np.float64("nan"), np.array(2.0), np.array([1.0, 2.0]), np.array([[1.0]]), np.array(["a"]),
    [1.0, 2], (1.0, 2.0), (1, None), [], (), [1], [[1, 2]], [True, 1], {}, {1: 2}, set(), object(), Fraction(1, 3),
    print, gs.decay(1.0, 0.6), gs.geometric(1.0, 0.9), Decay(1.0, 0.0, 2), Decay(1, 500), Decay(math.nan, 0.0),
    Decay(1.0, math.inf), "messages", "source",
    np.array(["messages"]), ["source"],
]  # fmt: skip
GIVEN = ("scale", "where", "epsilon", "delta", "horizon", "exponent", "ratio")


def settings_of():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2, 20, 2))
    stream = gs.streams.from_arrays(X, (X[..., 0] > 0.5).astype(float), ranges=(0, 1))
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8))
    model = gs.LogisticRegression(l2=0.1)
    return [
        setting_of(algorithm, gs.Network.complete(2), stream, model, gradient, STEPS)
        for gradient in ("history", "latest")
    ]


SETTINGS = settings_of()


def works_or_refuses(make):
    """Made and asked for its terms: only a GossamerError may come out."""
    try:
        mechanism = make()
    except gs.GossamerError:
        return
    assert str(mechanism)
    assert repr(mechanism)
    for setting in SETTINGS:
        try:
            with np.errstate(all="ignore"):
                terms = mechanism.over(STEPS).terms(setting)
        except gs.GossamerError:
            continue
        for one in terms:
            assert all(type(number) is float for number in (one.initial, one.exponent, one.ratio))
            assert one.initial > 0
            assert one.ratio > 0
            assert abs(one.exponent) <= 100


@pytest.mark.parametrize("law", [Laplace, Gaussian])
@pytest.mark.parametrize("where", ["messages", "source"])
@pytest.mark.parametrize("name", GIVEN)
def test_one_odd_argument(law, where, name):
    usual = {"where": where, **({"delta": 1e-5} if law is Gaussian else {})}
    for odd in ODD:
        works_or_refuses(lambda odd=odd: law(**{"scale": 1.0, **usual, name: odd}))
        works_or_refuses(lambda odd=odd: law(**{"epsilon": 8.0, **usual, name: odd}))
        if name in ("epsilon", "where", "horizon", "exponent", "ratio") or (name == "delta" and law is Gaussian):
            works_or_refuses(lambda odd=odd: law.for_budget(**{"epsilon": 8.0, **usual, name: odd}))


@settings(max_examples=300)
@given(
    st.sampled_from([Laplace, Gaussian]),
    st.dictionaries(st.sampled_from(GIVEN), st.sampled_from(ODD) | st.floats() | st.integers(-200, 200), max_size=7),
)
@example(Laplace, {"epsilon": 8.0, "exponent": -5})
@example(Laplace, {"epsilon": 8.0, "exponent": -5, "horizon": math.inf})
def test_many_odd_arguments(law, odd):
    if isinstance(odd.get("horizon"), float) and 1e5 < odd["horizon"] <= 2**40:
        odd["horizon"] = 1e5  # more is a matter of memory
    works_or_refuses(lambda: law(**odd))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"exponent": math.nan}, "exponent=nan: expected a number of at most 100 in size"),
        ({"exponent": 101}, "exponent=101"),
        ({"exponent": True}, "exponent=True"),
        ({"ratio": 0}, "ratio=0: expected a finite number above 0"),
        ({"ratio": -0.5}, "ratio=-0.5"),
        ({"ratio": math.inf}, "ratio=inf"),
        ({"horizon": True}, "horizon=True"),
        ({"horizon": 1e300}, r"horizon=1e\+300: expected a number of rounds ≥ 1, at most"),
        ({"horizon": math.nan}, "horizon=nan"),
        ({"epsilon": True}, "epsilon=True"),
        ({"epsilon": b"1"}, "epsilon=b'1'"),
        ({"epsilon": []}, r"epsilon=\(\)"),
        ({"epsilon": [1.0, math.nan]}, "epsilon="),
        ({"where": np.array(["source", "source"])}, "expected 'messages' or 'source'"),
    ],
)
def test_what_is_wrong_is_named(wrong, says):
    with pytest.raises(gs.GossamerError, match=says):
        Laplace.for_budget(**{"epsilon": 8.0, **wrong})


@pytest.mark.parametrize("delta", [None, "x", 1.0, -1e-5, math.nan, [1e-5], True])
def test_a_delta_that_is_none_is_named(delta):
    with pytest.raises(gs.GossamerError, match="delta="):
        Gaussian.for_budget(8.0, delta)
    with pytest.raises(gs.GossamerError, match="delta="):
        Laplace(1.0, delta=delta)


def test_numbers_of_any_kind_become_floats():
    """A whole number's powers would run over: 2**64 is 0 in 64 bits, and noise of scale 0 is none."""
    made = Laplace.for_budget(np.float32(8), horizon=np.int64(10), exponent=-5, ratio=2)
    assert repr(made) == repr(Laplace.for_budget(8.0, horizon=10.0, exponent=-5.0, ratio=2.0))
    assert type(made.ratio) is type(made.exponent) is float
    assert type(Laplace(Decay(1, 0, 2)).scale.ratio) is float
    assert Gaussian.for_budget("8", "1e-5") == Gaussian.for_budget(8.0, 1e-5)
    assert Laplace.for_budget(1.0, ratio=1.5).ratio == 1.5, "noise may grow"
    assert Laplace.for_budget(1.0, horizon=20).horizon == 20
