"""Steps by rule of runs that are longer than a rehearsal."""

from __future__ import annotations

from functools import partial

import pytest

import gossamer as gs
from gossamer import automatic
from gossamer.setting import setting_of

STEPS = 400


def step_of(privacy=None, model=None) -> float:
    net, stream = gs.Network.paper(), gs.datasets.mushrooms(10, draw="once")
    model = model or gs.LogisticRegression(l2=1e-3)
    method = gs.ldp_gradient_tracking(step="auto")
    privacy = None if privacy is None else privacy.over(STEPS)
    setting = partial(setting_of, method, net, stream, model, "history", STEPS)
    return automatic.found_step(method, net, model, stream.table, privacy, STEPS, setting)


def test_rounds_before_the_first_release_are_no_rehearsal(monkeypatch):
    """A rehearsal that is shorter than the wait for the first release once found steps of 1e299."""
    private = gs.Gaussian.for_budget(1.0, 1e-5, where="source", releases=gs.every(1, after=300))
    whole = step_of(private)
    monkeypatch.setattr(automatic, "LONGEST", STEPS - 300)
    assert step_of(private) == whole
    monkeypatch.setattr(automatic, "LONGEST", 30)
    assert whole < step_of(private) < 3 * whole, "a part of the noise alone, but of the right size"


@pytest.mark.parametrize("after", [0, 7, 300])
def test_what_is_played_begins_where_weights_have_settled(after):
    from gossamer.rehearsal import rounds_to_play

    net = gs.Network.paper()
    rounds = rounds_to_play(net, after, STEPS, 50)
    assert rounds == sorted(set(rounds))
    assert [t for t in rounds if t >= after] == list(range(after, after + 50))
    assert len([t for t in rounds if t < after]) == min(after, net.settles)
