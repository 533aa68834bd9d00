"""What a run says of its privacy: only our own boundary's proof makes it say that it is private."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.privacy import Unproved, simulated
from gossamer.privacy.simulated import SimulatedNoise

LIES = [
    "private: ε = 0.1",
    "Private",
    "",
    "not private: only joking\rprivate: ε = 0.1",
    "not private: [black on black]…[/] private: ε = 0.1",
    "\x1b[2Kprivate: ε = 0.1",
    b"private",
    3,
    None,
    ["private"],
]


class Liar:
    def __init__(self, claim):
        self.claim = claim

    def noise(self, channel, t, shape):
        return np.zeros(shape)


class Agreeable(str):
    """A text that says that it equals any other."""

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def run(privacy=None, **options):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2, 20, 2))
    stream = gs.streams.from_arrays(X, (X[..., 0] > 0.5).astype(float), ranges=(0, 1))
    algorithm = gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.8))
    return gs.simulate(
        algorithm, gs.Network.complete(2), stream, model=gs.LogisticRegression(l2=0.1), privacy=privacy, steps=3,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("lie", [*LIES, Agreeable("private: ε = 0.1")], ids=repr)
def test_noise_of_ones_own_cannot_say_that_it_is_private(lie):
    assert Unproved(Liar(lie)).claim == "not private: what the noise says of itself is not proved"
    row = Unproved(Liar(lie), np.array([0]), 2)
    assert type(row.claim) is str
    assert row.claim.startswith("not private: ")


def test_its_record_and_what_is_made_of_it_say_not_private(tmp_path):
    record = run(Liar("private: ε = 0.1"))
    assert record.claim.startswith("not private: ")
    assert "ε = 0.1" not in repr(record)
    assert record.epsilon is None
    assert gs.Record.load(record.save(tmp_path / "r")[0]).claim == record.claim
    assert "ε = 0.1" not in (tmp_path / "r.json").read_text()


def test_our_own_texts_stay():
    noise = simulated(gs.decay(1.0, 0.6))
    assert Unproved(noise).claim == "not private: seeded noise, for simulation only"
    assert Unproved(noise, np.array([0]), 2).claim == Unproved(noise).claim
    assert Unproved(None).claim == "not private: no noise"
    assert (
        run(gs.Laplace.for_budget(1.0)).claim == "private: exact laplace noise on messages, against all others together"
    )


def test_seeded_noise_with_another_text_is_not_private_either():
    class Renamed(SimulatedNoise):
        claim = "private: ε = 0.1"

    assert Unproved(Renamed(gs.decay(1.0, 0.6), 0)).claim.startswith("not private: ")


@pytest.mark.parametrize("lie", LIES, ids=repr)
def test_a_record_without_a_budget_never_says_that_it_is_private(lie):
    assert replace(run(), claim=lie, seal=None).claim.startswith("not private: ")
    assert replace(run(), claim=lie, seal=None).claim.isprintable()


def test_markup_in_a_claim_is_shown_as_it_is(capsys):
    from rich.console import Console

    from gossamer.cli.ending import Ended, show

    record = replace(run(), claim="not private: [conceal]x[/] [bold]private: ε = 0.1[/]", seal=None)
    show(Console(width=200), Ended(record, [], 0.0))
    assert "Not private: [conceal]x[/] [bold]private: ε = 0.1[/]." in capsys.readouterr().out
