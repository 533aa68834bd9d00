"""Laws are values, known everywhere by their name; the rest of the library asks them for all that it needs of noise."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.errors import BadValue, BudgetSpent, NotProvable
from gossamer.privacy import LAWS, MECHANISMS, Accountant, Mechanism, law_named, mechanism_named
from gossamer.privacy.accountant import epsilon_curve
from gossamer.privacy.laws import Shifts
from test_accountant import terms_of


@pytest.mark.parametrize("name", LAWS)
def test_a_law_is_known_by_its_name(name):
    law = law_named(name)
    assert str(law) == f"{law}" == name
    assert repr(law) == repr(name), "so that what holds a law is written as if it held the name"
    assert pickle.loads(pickle.dumps(law)) is law
    assert copy.deepcopy(law) is law
    assert mechanism_named(name) is MECHANISMS[name]
    assert MECHANISMS[name](scale=1.0, delta=1e-5).law is law
    assert gs.privacy.simulated(gs.decay(1.0, 0.5), law=name) == gs.privacy.simulated(gs.decay(1.0, 0.5), law=law)
    assert list(LAWS) == list(MECHANISMS)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gausian", "law='gausian': expected laplace or gaussian; perhaps gaussian is meant."),
        ("Laplace", "law='Laplace': expected laplace or gaussian; perhaps laplace is meant."),
        ("cauchy", "law='cauchy': expected laplace or gaussian."),
        (["laplace"], "law=['laplace']: expected laplace or gaussian; perhaps laplace is meant."),
    ],
)
def test_an_unknown_law_is_refused_with_the_nearest_name(name, said):
    for ask in (law_named, mechanism_named, lambda law: gs.privacy.simulated(gs.decay(1.0, 0.5), law=law)):
        with pytest.raises(BadValue) as refused:
            ask(name)
        assert str(refused.value) == said


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_shift_within_a_budget_uses_all_of_it_and_no_more(name, epsilon):
    law, numbers = LAWS[name], 10_000
    most = law.shift_within(epsilon, 1e-5, numbers)

    def spent(shift):
        total = shift**2 if law.squared else shift
        return law.epsilon(Shifts(numbers, lambda squared: total if squared == law.squared else math.inf), 1e-5)

    assert spent(most * (1 - 1e-9)) <= epsilon * (1 + 1e-12)
    assert spent(most * 1.001) > epsilon
    assert law.shift_within(law.surcharge * numbers / 2, 1e-5, numbers) == 0, "less than the grid alone costs"


@pytest.mark.parametrize("name", LAWS)
def test_sizes_and_variances_are_those_of_the_noise(name):
    law = LAWS[name]
    for noise in (law.exact(np.zeros(200_000), 1.0), law.seeded(np.random.default_rng(0), (200_000,))):
        assert np.abs(noise).mean() == pytest.approx(law.mean_size, rel=0.02)
        assert noise.var() == pytest.approx(law.variance, rel=0.03)


@pytest.mark.parametrize(("name", "delta"), [("laplace", 0.0), ("gaussian", 1e-5)])
def test_a_curve_of_epsilon_is_the_ledgers_round_by_round(name, delta):
    terms, rounds = terms_of(law=name), np.array([1.0, 5.0, 40.0])
    expected = [Accountant(terms).epsilon_at(int(t), delta) for t in rounds]
    np.testing.assert_allclose(epsilon_curve(terms, rounds, delta), expected, rtol=1e-12)


def test_a_curve_takes_no_total_for_another_where_delta_would_ask_for_it():
    """At δ > 0 a Laplace ledger uses squares, too, and a curve knows only sums: it may be above, never below."""
    terms, rounds = terms_of(initial=300.0), np.array([40.0])
    assert epsilon_curve(terms, rounds, 1e-5)[0] >= Accountant(terms).epsilon_at(40, 1e-5)


def setting(gradient="history"):
    stream = gs.datasets.mushrooms(learners=10, seed=0, draw="once", rows="l1")
    return {
        "algorithm": gs.dsgd(gs.decay(0.5, 0.8)), "network": gs.Network.paper(), "stream": stream,
        "model": gs.LogisticRegression(1e-2), "steps": 5, "gradient": gradient,
    }  # fmt: skip


def test_a_law_of_ones_own_is_a_value_and_a_class(monkeypatch):
    """All else, from the noise to the ledger and the record, follows from these two."""
    mine = replace(LAWS["laplace"], name="mine")

    class Mine(Mechanism):
        law = mine

    monkeypatch.setitem(LAWS, "mine", mine)
    monkeypatch.setitem(MECHANISMS, "mine", Mine)
    run, usual = (gs.simulate(**setting(), privacy=mechanism_named(law).for_budget(8.0)) for law in ("mine", "laplace"))
    assert run.claim == "private: exact mine noise on messages, against all others together"
    assert run.epsilon.tolist() == usual.epsilon.tolist()


def test_refusals_can_be_caught_by_what_they_mean():
    ledger = Accountant(terms_of(initial=100.0), budget=1.0)
    with pytest.raises(BudgetSpent, match="would overspend"):
        ledger.step(10**4)
    drawn_again = setting() | {"stream": gs.datasets.mushrooms(10, draw="random")}
    with pytest.raises(NotProvable, match="every record to be read once"):
        gs.simulate(**drawn_again, privacy=gs.Laplace.for_budget(8.0, where="source"))
    with pytest.raises(NotProvable, match="below what the grid and rounding alone cost"):
        gs.simulate(**setting(), privacy=gs.Laplace.for_budget(1e-9))
    with pytest.raises(BadValue, match=r"^horizon=2e\+07: expected at most 1e\+07 rounds, all of which"):
        gs.simulate(**setting(), privacy=gs.Laplace.for_budget(8.0, horizon=2e7))
    with pytest.raises(BadValue, match=r"^delta=0\.0: Gaussian noise needs 0 < δ < 1, such as 1e-5\.$"):
        gs.Gaussian.for_budget(8.0)


def test_a_record_of_version_0_2_0_is_read_and_its_seal_holds(tmp_path):
    """It holds ε as (m, 2) numbers without names, which its seal was taken of."""
    file = Path(__file__).parent / "golden" / "record-0.2.0.npz"
    with np.load(file) as stored:
        before = stored["epsilon"]
    record = gs.Record.load(file)
    assert before.shape == (2, 2)
    assert record.intact
    assert record.seal == "5c76569266e9bb43d034ebd97e32b2ac"
    np.testing.assert_array_equal(record.epsilon.spent, before[:, 0])
    np.testing.assert_array_equal(record.epsilon.for_ever, before[:, 1])
    again = gs.Record.load(record.save(tmp_path / "again")[0])
    assert again.intact
    assert again.seal == record.seal
    assert pickle.loads(pickle.dumps(record)).intact
    assert not replace(record, epsilon=record.epsilon[::-1]).intact
