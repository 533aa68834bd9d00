"""Laplace noise at δ > 0: one coordinate dominates many, the closed form, and privacy loss distributions."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.privacy import Accountant
from gossamer.privacy.accountant import losses
from gossamer.privacy.gaussian import epsilon_zcdp
from gossamer.privacy.laplace import epsilon_composed, epsilon_single
from gossamer.privacy.recursion import sensitivities
from test_accountant import terms_of

shifts = st.floats(0.01, 3.0)


def hockey_stick(differences, epsilon, cells=400):
    """∫ (p_d − e^ε p_0)⁺ for Laplace noise, from the law of each coordinate's log-likelihood ratio, cell by cell."""
    values, masses = np.zeros(1), np.ones(1)
    for d in differences:
        edges = np.linspace(0, d, cells + 1)
        between = (np.exp(edges[1:] - d) - np.exp(edges[:-1] - d)) / 2
        middles = edges[1:] + edges[:-1] - d  # 2y − d in the middle of a cell
        ratio = np.concatenate([[-d], middles, [d]])
        mass = np.concatenate([[math.exp(-d) / 2], between, [0.5]])
        values, masses = np.add.outer(values, ratio).ravel(), np.outer(masses, mass).ravel()
    return float((masses * np.maximum(0, -np.expm1(epsilon - values))).sum())


@settings(max_examples=40, deadline=None)
@given(shifts, shifts, st.floats(-1, 3))
def test_one_coordinate_dominates_two_of_the_same_sum(a, b, epsilon):
    assert hockey_stick([a, b], epsilon) <= hockey_stick([a + b], epsilon) + 2e-4


@settings(max_examples=20, deadline=None)
@given(shifts, st.floats(0, 2), st.floats(0, 1))
def test_the_more_uneven_of_two_splits_is_the_less_private(whole, epsilon, part):
    a, b = sorted([part * whole / 2, whole / 4])
    assert hockey_stick([a, whole - a], epsilon) >= hockey_stick([b, whole - b], epsilon) - 2e-4


@settings(max_examples=40, deadline=None)
@given(shifts, st.floats(1e-3, 0.5))
def test_a_single_release_has_its_closed_form(loss, delta):
    epsilon = epsilon_single(loss, delta)
    assert epsilon <= loss
    if epsilon > 0:
        assert hockey_stick([loss], epsilon) == pytest.approx(delta, rel=1e-3, abs=2e-4)
    else:
        assert hockey_stick([loss], 0.0) <= delta + 2e-4


@pytest.mark.parametrize("history", [True, False])
def test_losses_cover_every_record(history):
    terms = terms_of(3, history=history)
    T = 30
    bound = losses(terms, T).reshape(T + 1, 2)[:T]
    weights = np.arange(1.0, T + 1)[:, None] ** terms.exponent / terms.initial
    for k in range(0, T, 3):
        each = sensitivities(terms.dynamics(T), terms.bound, terms.window, k) * weights
        covered = bound if history else np.concatenate([np.zeros((k, 2)), bound[: T - k]])
        assert (each <= covered + 1e-15).all()


def test_at_the_source_delta_buys_what_the_closed_form_says():
    ledger = Accountant(terms_of(where="source", exponent=0.0, initial=1.0, history=False))
    ledger.step(50)
    assert ledger.get_epsilon(0.0) == pytest.approx(2.0, abs=1e-8)
    assert ledger.get_epsilon(0.1) == pytest.approx(2.0 + 2 * math.log(0.9), abs=1e-6)


def test_without_the_library_zcdp_stands_in(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    each = np.full(400, 0.02)
    assert epsilon_composed(each, 1e-5) == pytest.approx(epsilon_zcdp(0.4, 1e-5), rel=1e-5)
    assert epsilon_composed(each, 0.0) == pytest.approx(8.0)


@pytest.mark.parametrize("history", [True, False])
def test_loss_distributions_are_below_zcdp_and_above_the_truth(history):
    pytest.importorskip("dp_accounting.pld", reason="needs the extra `accounting`")
    for each in (np.full(100, 0.05), np.array([1.0, 0.5, 0.25]), np.geomspace(1e-7, 0.3, 300)):
        mu = math.sqrt((each**2).sum())
        found = epsilon_composed(each, 1e-5)
        assert found <= min(each.sum(), epsilon_zcdp(mu, 1e-5)) * (1 + 1e-6)
    two = epsilon_composed(np.array([1.0, 0.7]), 0.05)
    assert hockey_stick([1.0, 0.7], two) <= 0.05 + 1e-4
    assert hockey_stick([1.0, 0.7], two - 0.03) > 0.05, "and it is tight"
    ledger = Accountant(terms_of(2, history=history, initial=5.0))
    ledger.step(500)
    assert ledger.get_epsilon(1e-2) < ledger.get_epsilon(1e-5) <= ledger.get_epsilon()
