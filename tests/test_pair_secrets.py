"""Noise that cancels, in simulations: what is released, what it costs, what is said of it."""

import math

import numpy as np
import pytest

import gossamer as gs
from gossamer.checks.worlds import Case
from gossamer.errors import BadValue, GossamerError, NotProvable
from gossamer.experiments.tasks import Task
from gossamer.privacy import pairs as pair_room
from gossamer.privacy.pairs import DealtPairs, Grid, OwnPairs, pair_key
from gossamer.privacy.secrets import seen_of
from gossamer.spec import Spec

M, DELTA = 10, 1e-5


def mushrooms(mechanism, *, steps=60, gradient="history", **given):
    return gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.6), strict=False), gs.Network.paper(),
        gs.datasets.mushrooms(learners=M, draw="once", seed=0),
        model=gs.LogisticRegression(l2=1e-2, clip=gs.clip_l2(1.0)), privacy=mechanism, steps=steps, gradient=gradient,
        **given,
    )  # fmt: skip


def budget(epsilon=1.0, **given):
    given = {"secrets": gs.Secrets(colluders=2)} | given
    return gs.Gaussian.for_budget(epsilon, DELTA, where="source", **given)


def complete(h, ratio):
    """f of a complete graph, from MATH's formula."""
    return 1 / h + (1 - 1 / h) / (1 + h * ratio**2)


def test_whole_numbers_cancel_exactly(monkeypatch):
    """Without own noise, the sum of all releases is the sum of the rounded gradients: no pair leaves a trace."""
    monkeypatch.setattr("gossamer.privacy.table.own_gaussian", lambda row, deviation: None)
    edges = gs.Secrets("4-regular", 0).edges(M)
    grid, step = Grid.of([1.0] * M, 1.0, 0.7), 2.0**-40
    values = np.random.default_rng(0).normal(size=(M, 1000))
    for t in range(3):
        released = grid.release(values, step, t, DealtPairs(edges))
        assert not np.array_equal(released, np.rint(values / step))
        assert np.array_equal(released.sum(axis=0), np.rint(values / step).astype(np.int64).sum(axis=0))


def test_both_ends_draw_the_same():
    """One learner at a time, as parties do, with the keys of its pairs: row by row what a simulation draws."""
    edges, master = gs.Secrets(colluders=0).edges(5), bytes(range(32))
    whole = np.zeros((5, 300), dtype=np.int64)
    DealtPairs(edges, master).add(7, 2**40, whole)
    for i in range(5):
        keys = {a + b - i: pair_key(master, a, b) for a, b in edges if i in (a, b)}
        own = np.zeros((1, 300), dtype=np.int64)
        OwnPairs(i, keys).add(7, 2**40, own)
        assert np.array_equal(own[0], whole[i])
    again = np.zeros_like(whole)
    DealtPairs(edges, master).add(8, 2**40, again)
    assert not (again == whole).any()  # another round, other noise


def test_the_covariance_is_that_of_the_proof():
    """σ² I + τ² L, over many coordinates."""
    sigma, tau, n = 1.0, 1.5, 200_000
    edges = gs.Secrets("4-regular", 0).edges(6)
    grid = Grid.of([sigma] * 6, sigma, tau)
    noise = grid.release(np.zeros((6, n)), grid.step(1.0), 0, DealtPairs(edges)) * grid.step(1.0)
    expected = sigma**2 * np.eye(6)
    for i, j in edges:
        expected[[i, j], [i, j]] += tau**2
        expected[[i, j], [j, i]] -= tau**2
    found = noise @ noise.T / n
    assert np.abs(found - expected).max() < 6 * expected.max() * math.sqrt(2 / n)


@pytest.mark.parametrize("colluders", [0, 2, 5])
def test_less_noise_by_the_root_of_f(colluders):
    """The scale that is found is √f times the one without secrets, for the same budget."""
    share = 1.0
    kinds = [None, gs.Secrets(colluders=colluders, share=share)]
    runs = [mushrooms(budget(secrets=kind, releases=gs.every(1, after=20)), steps=40) for kind in kinds]
    without, with_secrets = (run.config["noise"][0][0] for run in runs)
    assert with_secrets / without == pytest.approx(math.sqrt(complete(M - colluders, share)), rel=2e-3)


def test_a_run_says_what_it_claims():
    run = mushrooms(budget())
    assert "against anybody who sees all messages, together with up to 2 other learners (ε = 1; 1." in run.claim
    assert "if all others collude)" in run.claim
    assert any(note.startswith("Pair secrets: a pair's noise is") for note in run.notes)
    assert run.epsilon.spent == pytest.approx(1.0, rel=1e-3)
    assert (run.epsilon.all_collude > 1.5).all()
    assert run.summary()["epsilon_if_all_collude"] == run.epsilon.all_collude.tolist()
    without = mushrooms(budget(secrets=None))
    assert without.claim.endswith("against all others together")
    assert np.array_equal(without.epsilon_if_all_collude, without.epsilon.spent)
    assert not without.has_secrets


def test_a_record_keeps_what_all_others_would_know(tmp_path):
    run = mushrooms(budget(), steps=20)
    run.save(tmp_path / "run")
    again = type(run).load(tmp_path / "run")
    assert again.intact
    assert np.array_equal(again.epsilon.all_collude, run.epsilon.all_collude)


def test_the_average_has_less_noise():
    """The Perron average of θ after the run: with secrets its noise is √f of what it is without."""
    steps, releases = 60, gs.every(1, after=20, until=45)
    quiet = mushrooms(gs.privacy.simulated(gs.decay(0.0, 0.0), where="source", releases=releases), steps=steps)
    u = gs.Network.paper().perron / M

    def away(mechanism):
        squares = [((u @ (mushrooms(mechanism, steps=steps).theta - quiet.theta)) ** 2).mean() for _ in range(4)]
        return math.sqrt(np.mean(squares))

    tight = {"epsilon": 0.05, "releases": releases}  # so noisy that gradients hardly matter
    ratio = away(budget(secrets=gs.Secrets(colluders=0, share=1.0), **tight)) / away(budget(secrets=None, **tight))
    assert ratio == pytest.approx(math.sqrt(complete(M, 1.0)), rel=0.25)


def test_unlike_budgets_share_one_agreed_noise():
    """Who asks for a smaller ε adds more noise of its own; nobody counts on more than the agreed noise."""
    wanted = np.array([0.5, *[1.0] * (M - 2), 2.0])
    run = mushrooms(budget(wanted, secrets=gs.Secrets(colluders=0, share=1.0), releases=gs.every(1, after=30)))
    sigma = np.array([first for first, *_ in run.config["noise"]])
    agreed = run.config["secrets"]["agreed"]
    assert sigma.min() == agreed
    assert sigma[0] > sigma[1] > sigma[-1] == agreed
    assert run.epsilon.spent == pytest.approx(wanted, rel=1e-3)
    # independently: the full covariance with everybody's agreed noise, and learner 0's own
    covariance = agreed**2 * (M * np.eye(M) - np.ones((M, M))) + np.diag([sigma[0] ** 2, *[agreed**2] * (M - 1)])
    seen = math.sqrt(sigma[0] ** 2 * np.linalg.inv(covariance)[0, 0])
    assert seen == pytest.approx(seen_of(complete(M, 1.0), sigma[0] / agreed))


def test_weights_are_in_what_is_noised():
    """Learners that weigh unlike: pair noise cancels in the weighted sum, which is what is learnt from."""
    rng = np.random.default_rng(0)
    sizes = [400, 100, 100, 200]
    X = [rng.normal(size=(n, 3)).clip(-2, 2) for n in sizes]
    y = [(rows @ [1.0, -1.0, 0.5] > 0).astype(int) for rows in X]
    stream = gs.streams.from_arrays(X, y, ranges=(-2.0, 2.0)).within(20, "records")
    model = gs.LogisticRegression(l2=1e-2, clip=gs.clip_l2(1.0))
    mechanism = budget(1.0, secrets=gs.Secrets(colluders=0, share=1.0))
    run = gs.simulate(
        gs.ldp_gradient_tracking(step=gs.decay(0.5, 0.6), strict=False), gs.Network.ring(4), stream, model=model,
        privacy=mechanism, steps=60,
    )  # fmt: skip
    weights = np.array(sizes) / np.mean(sizes)
    noise = np.array([first for first, *_ in run.config["noise"]]) * weights
    assert noise == pytest.approx(run.config["secrets"]["agreed"])  # records that weigh alike need the same
    assert run.epsilon.spent == pytest.approx(1.0, rel=1e-3)


def test_seeded_noise_of_studies_has_the_same_law():
    spec = Spec.of(dataset="mushrooms", draw="once", steps=100, epsilon="1", step="auto", secrets="complete", share="1")
    terms = Task(spec).terms(100)
    from gossamer.experiments.tasks import seeded_like

    noise, t = seeded_like(terms, 3), int(terms[0].releases.before(100)[0])
    drawn = np.concatenate([noise.noise(f"c{k}", t, (M, 4000)) for k in range(10)], axis=1)
    own, pair = terms[0].scale(t), terms[0].shared.pair * terms[0].scale(t) / terms[0].initial
    assert drawn.var(axis=1) == pytest.approx(own**2 + (M - 1) * pair**2, rel=0.05)
    assert drawn.sum(axis=0).var() == pytest.approx(M * own**2, rel=0.05)


def test_the_share_by_rule_follows_mixing():
    """Few releases and many learners: less pair noise, because it has no time to mix."""
    secrets = gs.Secrets(colluders=0)
    many, few = secrets.share_for(10, 400, 2.0), secrets.share_for(10, 40, 2.0)
    assert many > few > secrets.share_for(100, 40, 2.0)
    noise = [complete(10, s) * (40 + 2.0 * (1 + 9 * s**2)) for s in (many, 0.8 * many, 1.25 * many)]
    assert noise[0] <= min(noise)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"graph": "star"}, "k-regular"),
        ({"graph": 0}, "k-regular"),
        ({"colluders": -1}, "whole number"),
        ({"colluders": 1.5}, "whole number"),
        ({"share": 1000.0}, "64"),
        ({"share": "much"}, "auto"),
    ],
)
def test_bad_secrets_are_refused(given, says):
    with pytest.raises(BadValue, match=says):
        gs.Secrets(**given)


def test_what_cannot_be_proved_is_refused():
    with pytest.raises(GossamerError, match="not for noise on messages"):
        gs.Gaussian.for_budget(1.0, DELTA, secrets=gs.Secrets(colluders=0))
    with pytest.raises(GossamerError, match="gains nothing"):
        gs.Laplace.for_budget(1.0, where="source", secrets=gs.Secrets(colluders=0))
    with pytest.raises(NotProvable, match="left alone"):
        mushrooms(budget(secrets=gs.Secrets("2-regular", colluders=2)), steps=5)
    with pytest.raises(BadValue, match="10 learners"):
        mushrooms(budget(secrets=gs.Secrets(gs.Network.ring(4))), steps=5)
    with pytest.raises(NotProvable, match="one grid"):
        mushrooms(budget([0.001, *[10.0] * (M - 1)]), steps=20)


def test_latest_gradients_start_when_the_graph_has_mixed():
    run = mushrooms(budget(), steps=100, gradient="latest")
    assert run.config["releases"][0] == "every(1, after=10)"


def test_resumed_runs_draw_on_with_new_keys():
    half = mushrooms(budget(horizon=40), steps=20)
    whole = mushrooms(budget(horizon=40), steps=40, resume=half)
    assert whole.t == 40
    assert whole.epsilon.spent == pytest.approx(1.0, rel=1e-3)


def test_latest_gradients_go_on_for_longer_with_the_releases_that_they_began_with():
    """When the first is, follows from the length that was planned, and not from that of the run that goes on."""
    half = mushrooms(budget(), steps=30, gradient="latest")
    whole = mushrooms(budget(), steps=60, gradient="latest", resume=half)
    assert whole.config["releases"] == half.config["releases"]
    assert whole.config["secrets"] == half.config["secrets"]


def test_a_claim_that_leaves_out_curious_learners_says_so():
    """One other learner has keys of its own: with no colluders allowed, ε is exceeded by its view."""
    share = 1.0
    outside, one = (gs.Secrets("2-regular", q, share).left(6, share).max() for q in (0, 1))
    assert one > 1.2 * outside
    assert gs.Secrets("2-regular", 0).against == "against anybody who sees all messages and is no learner of the run"


def test_values_far_away_are_clamped_and_said():
    """A gradient of a thousand deviations and more does not fit the grid: it is cut off there, and counted."""
    grid = Grid.of([1.0], 1.0, 1.0)
    assert pair_room.CLAMP * grid.step(1.0) == 2.0**10
    run = mushrooms(budget(1e6, releases=gs.every(1, after=20)), steps=30)
    assert any("clamped" in note for note in run.notes)
    given = {"secrets": gs.Secrets(colluders=0, share=2.0**-6), "releases": gs.every(1, after=20)}
    run = mushrooms(budget(1e6, **given), steps=30)  # pairs' noise, which is smaller, decides how far the grid reaches
    assert any("beyond 16 noise scales" in note for note in run.notes)


def test_choices_of_colluders_are_gone_through_once_however_often_the_share_is_asked_for(monkeypatch):
    from gossamer.privacy import secrets

    calls, usual = [], secrets._left_by_share
    monkeypatch.setattr(secrets, "_left_by_share", lambda *given: calls.append(1) or usual(*given))
    given = gs.Secrets("4-regular", colluders=3)
    for releases in (11, 22, 33):
        given.share_for(13, releases, 1.0)
    assert len(calls) == 1


def test_noise_that_does_not_go_on_one_grid_is_refused_before_a_run():
    case = Case(
        gs.ldp_gradient_tracking(step=gs.decay(0.05, 0.8)), gs.Network.ring(4), gs.LogisticRegression(l2=0.01),
        budget((1.0, 1.0, 1.0, 1e9), secrets=gs.Secrets(colluders=0)), "history", 20, 2,
    )  # fmt: skip
    with pytest.raises(NotProvable, match="one grid"):
        case.mechanism.terms(case.setting)


def test_many_learners_release_rarely():
    """Noise of a hundred learners' pairs needs time to mix: releases lie apart, and pairs add more."""

    def terms(m, **given):
        spec = Spec.of(dataset="mushrooms", draw="once", steps=1200, learners=m, epsilon="0.3", step="auto", **given)
        return Task(spec).terms(1200)[0]

    assert terms(10, secrets="complete").releases.step == 1
    many = terms(100, secrets="complete")
    assert many.releases.step >= 4
    assert many.releases.after < terms(100).releases.after
    assert 1 / many.shared.seen > 4  # times less noise; every round it would be 3
    given = terms(100, secrets="complete", releases="1,900,1182")
    assert (given.releases.step, given.releases.after) == (1, 900)  # what somebody says is kept
