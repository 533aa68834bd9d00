"""What is measured of growth: fits recover exponents, peaks are those of the run, and the page says what was found."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("power", [0.0, 0.9, 1.0, 2.3])
def test_a_fit_recovers_the_exponent(power):
    from growth import exponent

    x = np.array([10.0, 30.0, 100.0, 1000.0])
    assert exponent(x, 7 * x**power) == pytest.approx(power, abs=1e-12)
    shaken = 7 * x**power * np.array([1.02, 0.98, 1.02, 0.98])
    assert exponent(x, shaken) == pytest.approx(power, abs=0.02)


def costs(values, power, fixed=0.0):
    from growth import Cost

    return {v: Cost(1e-6 * v, 1e-6 * v, fixed + 1e-5 * v**power, 0.0, 2000.0 * v) for v in values}


def test_exponents_are_of_the_points_where_growth_outweighs_the_rest():
    from growth import SWEEPS, grown

    sweep = SWEEPS[0]
    values = (1000, *sweep.values)
    found = grown(sweep, costs(values, 1.0, fixed=0.0) | costs((1000,), 1.0, fixed=1e6)).exponents
    assert found["rounds"] == pytest.approx(1, abs=1e-12)  # the point below `fitted_from` is far above the line
    assert found["set-up"] == pytest.approx(1, abs=1e-12)
    assert found["memory"] == pytest.approx(1, abs=1e-12)
    assert math.isnan(found["end"])  # it never cost anything


def test_a_page_tells_what_was_found_and_what_a_million_would_cost():
    from growth import SWEEPS, _plain, grown
    from growth_page import page, picture

    found = [grown(sweep, costs(sweep.values, sweep.expected[0])) for sweep in SWEEPS]
    results = {"version": "1.2.3", "seed": 0, "quick": True, "turns": 1, "seconds": 60.0, "cores": 2, "memory": 2**30}
    results["sweeps"] = [_plain(one) for one in found]
    text = page(results)
    assert "| learners | 20,000 to 200,000 | 1.00 | 1.00 (1) | – | 1.00 (1) |" in text
    assert "| rounds, all records so far, logistic | 500 to 2,000 | 1.00 | 2.00 (2) |" in text
    rounds = SWEEPS[0].base.rounds
    assert f"| 1,000,000, from the fits | 2 s | {10 / rounds:.3g} s | 0 s | {2e9 / 2**30:.3g} GiB |" in text
    assert "growth.py --out docs/results/growth --quick\n" in text
    assert "the least of one turn" in text
    drawn = picture(results)
    assert len(drawn.axes) == 8
    labels = drawn.axes[0].get_legend().get_texts()
    assert labels[0].get_text() == "learners: 1.00"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says a process's peak")
def test_the_peak_is_that_of_the_run():
    from growth import MANY, Point, in_a_process

    small, large = (in_a_process(Point(MANY + 100, n=n, rounds=4)) for n in (20, 220))
    assert large.memory - small.memory > 5 * (MANY + 100) * 200 * 8  # two states and a gradient, 200 features more
    assert large.memory < 40 * (MANY + 100) * 220 * 8
    assert min(small) > 0
