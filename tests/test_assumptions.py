"""What is said of the paper's assumptions, against what they say: graphs, exponents and losses that break each part."""

from __future__ import annotations

import dataclasses
import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gossamer as gs
from gossamer.guarantees import guarantees_of
from gossamer.networks.checks import BrokenNetwork
from gossamer.records import FeatureBounds, dense_table
from gossamer.streams.stream import Draws, OnePass
from gossamer.theory import assumptions, rates
from gossamer.theory.exponents import schedules
from gossamer.theory.graphs import graphs

# -- Assumption 1 -----------------------------------------------------------------------------------------------------


def laplacian(m, edges, axis=1, weight=0.25):
    """Edges (sender, receiver) as a matrix whose rows (axis 1) or columns (axis 0) add up to 0."""
    M = np.zeros((m, m))
    for j, i in edges:
        M[i, j] = weight
    return M - np.diag(M.sum(axis=axis))


RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
R, C = laplacian(4, RING), laplacian(4, RING, axis=0)


def changed(M, **entries):
    M = M.copy()
    for place, value in entries.items():
        M[int(place[1]), int(place[2])] = value
    return M


BROKEN = {
    "a negative weight": (changed(R, e02=-0.1, e00=-0.15), C, {"(a)"}),
    "a weight that is no number": (changed(R, e02=np.nan), C, {"(a)", "(b)"}),
    "a row that does not add up": (changed(R, e00=-0.3), C, {"(b)"}),
    "a column that does not add up": (R, changed(C, e00=-0.3), {"(b)"}),
    "nothing kept": (4 * R, C, {"(c)"}),
    "nothing heard": (laplacian(4, RING[:3]), C, {"(c)", "(d)"}),
    "not strongly connected": (laplacian(4, [(0, 1), (1, 0), (2, 3), (3, 2), (0, 2)]), C, {"(d)"}),
    "two places where all ends": (R, laplacian(4, [(0, 1), (1, 0), (2, 3), (3, 2)], axis=0), {"(e)"}),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_part_of_assumption_1_is_seen_to_break(case):
    R, C, parts = BROKEN[case]
    found = graphs((R, C))
    assert {part.label for part in found.parts if part.verdict == "fails"} == parts
    assert found.verdict == "fails"
    assert all(part.change is not None for part in found.parts if part.verdict == "fails")
    with pytest.raises(BrokenNetwork) as refused:  # and nobody can run it
        gs.Network(R, C)
    np.testing.assert_array_equal(refused.value.R.toarray(), R)


def test_assumption_1_of_a_network_has_the_numbers_of_its_matrices():
    network = gs.Network.paper()
    found = graphs(network)
    assert found.verdict == "holds"
    said = " ".join(part.why for part in found.parts)
    low, high = (1 + np.diag(network.R)).min(), (1 + np.diag(network.R)).max()
    assert f"1 + R_ii from {low:.3g} to {high:.3g}" in said
    assert "18 links of 10 learners" in said
    assert "10 of 10 learners as roots" in said


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(2, 6), density=st.floats(0.05, 0.8))
def test_connectivity_and_roots_are_those_that_walking_the_links_finds(seed, m, density):
    rng = np.random.default_rng(seed)
    links = [[(j, i) for j in range(m) for i in range(m) if i != j and rng.random() < density] for _ in range(2)]
    R, C = (laplacian(m, edges, axis, 0.9 / m) for edges, axis in zip(links, (1, 0), strict=True))
    reach = []
    for edges in links:  # reach[j, i]: what j sends comes to i, after any number of hops
        walk = np.eye(m, dtype=bool)
        for _ in range(m):
            for j, i in edges:
                walk[:, i] |= walk[:, j]
        reach.append(walk)
    roots = reach[1].all(axis=0).sum()
    found = {part.label: part for part in graphs((R, C)).parts}
    assert (found["(d)"].verdict == "holds") == reach[0].all()
    assert (found["(e)"].verdict == "holds") == (roots > 0)
    if roots:
        assert f"with {roots} of {m} learners" in found["(e)"].why


def test_a_network_too_large_for_numbers_was_checked_when_it_was_made():
    found = graphs(gs.Network.ring(5001))
    assert found.verdict == "holds"
    assert "5001 learners was made" in found.parts[0].why


# -- Assumption 4 -----------------------------------------------------------------------------------------------------

EPS = 1e-9
EDGES = [
    # v, ς of ζ, ς of ϑ, what breaks
    (0.8, 0.6, 0.6, set()),
    (0.5, 0.6, 0.6, {"(a)", "(d)"}),
    (0.5 + EPS, 0.5 + EPS / 2, 0.5 + EPS / 2, set()),
    (1.0, 0.6, 0.6, {"(a)"}),
    (1 - EPS, 0.6, 0.6, set()),
    (0.8, 0.5, 0.6, {"(c)"}),
    (0.8, 0.6, 0.5, {"(c)"}),
    (0.8, 0.5 + EPS, 0.6, set()),
    (0.8, 0.8, 0.6, {"(d)"}),
    (0.8, 0.6, 0.8, {"(d)"}),
    (0.8, 0.8 - EPS, 0.8 - EPS, set()),
    (0.8, 0.8 + EPS, 0.6, {"(d)"}),
    (0.8, 1.0, 0.6, {"(c)", "(d)"}),
    (0.8, -0.1, 0.6, {"(c)"}),
    (0.6, [0.5 + 0.01 * i for i in range(1, 11)], [0.5 + 0.01 * i for i in range(1, 11)], {"(d)"}),  # the paper's
    (0.6, [0.5 + 0.01 * i for i in range(1, 10)], [0.5 + 0.01 * i for i in range(1, 10)], set()),
    (0.6, [0.55, 0.5, 0.7], 0.55, {"(c)", "(d)"}),
]


@pytest.mark.parametrize(("v", "zeta", "theta", "breaks"), EDGES)
def test_every_edge_of_assumption_4(v, zeta, theta, breaks):
    found = schedules(gs.decay(1.0, v), (gs.decay(1.0, zeta), gs.decay(2.0, theta)), "messages")
    assert {part.label for part in found.parts if part.verdict == "fails"} == breaks
    assert found.verdict == ("fails" if breaks else "holds")


def test_what_assumption_4_says_names_the_learner_and_a_change_that_helps():
    step, noise = gs.decay(1.0, 0.6), gs.decay(1.0, [0.55, 0.58, 0.65])
    part = schedules(step, (noise, noise), "messages").parts[-1]
    assert "learner 2 has ς = 0.65, not below v = 0.6" in part.why
    assert str(part.change) == "Use noise=decay(ν0, 0.55), or step=decay(λ0, 0.82)."
    for step, noise in ((0.6, 0.55), (0.82, 0.65)):
        helped = schedules(gs.decay(1.0, step), (gs.decay(1.0, noise),) * 2, "messages")
        assert helped.verdict == "holds"


def test_schedules_that_are_no_powers_of_t_fail_and_unknown_ones_cannot_be_known():
    power, geometric = gs.decay(1.0, 0.8), gs.geometric(1.0, 0.99)
    assert schedules(geometric, (None, None), "messages").verdict == "fails"
    assert schedules(gs.decay(1.0, [0.7, 0.8]), (None, None), "messages").verdict == "fails"
    assert schedules(power, (geometric, geometric), "messages").verdict == "fails"
    assert schedules(lambda t: 1 / (t + 1), (None, None), "messages").verdict == "cannot be known"
    assert schedules(power, (lambda t: 1.0, None), "messages").verdict == "cannot be known"
    assert schedules(gs.decay(0.0, 0.8), (None, None), "messages").verdict == "fails"
    assert schedules(power, (None, gs.decay(0.0, 0.9)), "messages").verdict == "holds", "a scale of 0 is no noise"
    assert schedules(power, (None, None), "source").verdict == "fails"


# -- Assumptions 2, 3 and 5, and the theorems -------------------------------------------------------------------------


def records(declare=True, separable=False, n=40):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    y = (X[:, 0] > 0).astype(float) if separable else rng.integers(0, 2, n).astype(float)
    table = dense_table(X, y)
    return dataclasses.replace(table, bounds=FeatureBounds(1.5, 0.75**0.5, 0.5) if declare else None)


def drawn(**about):
    return Draws(records(**about), [np.arange(20), np.arange(20, 40)], 0)


NETWORK = gs.Network.ring(2)
FINE = {"step": gs.decay(1.0, 0.8), "noise": gs.decay(1.0, 0.6)}


def test_where_everything_holds_theorem_3_and_theorem_4_apply():
    report = assumptions(NETWORK, gs.LogisticRegression(), drawn(), **FINE)
    assert report.verdict == "holds"
    assert report.broken == ()
    assert [one.verdict for one in report.theorems] == ["fails", "fails", "holds", "holds"], "μ = 0"
    assert "O(t^−0.2)" in report.theorems[2].why


def test_without_a_ridge_separable_classes_have_no_optimum_which_only_records_can_tell():
    model, stream = gs.LogisticRegression(), drawn(separable=True)
    assert assumptions(NETWORK, model, stream, **FINE).broken == ("2(i)",)
    unseen = assumptions(NETWORK, model, stream, look=False, **FINE)
    assert unseen.broken == ()
    assert unseen.named("cannot be known") == ("2(i)",)
    assert unseen.theorems[2].verdict == "cannot be known"
    assert unseen.theorems[2].why.startswith("if 2(i) holds")


def test_a_ridge_gives_mu_and_takes_d_which_on_all_of_r_n_exclude_each_other():
    report = assumptions(NETWORK, gs.LogisticRegression(l2=0.1), drawn(), **FINE)
    assert report.broken == ("2(ii)", "5(b)")
    beta = rates(0.8, 0.6, 0.6).beta
    assert f"as long as learners stay where ‖∇f_i‖ ≤ D, E‖θ_i − θ*‖² falls like t^−β for every β below {beta:.3g}" in (
        report.theorems[1].why
    )
    assert [one.verdict for one in report.theorems] == ["fails"] * 4, "as printed"


def test_a_squared_loss_has_a_rate_where_learners_stay():
    report = assumptions(NETWORK, gs.RidgeRegression(l2=0.1), drawn(), **FINE)
    assert report.broken == ("2(ii)", "3(ii)", "5(a)", "5(b)")
    assert "where ‖∇f_i‖ ≤ D and the variance ≤ κ², E‖θ_i − θ*‖² falls like" in report.theorems[1].why
    assert "falls" not in report.theorems[3].why


@pytest.mark.parametrize(
    ("model", "breaks", "unknown"),
    [
        (gs.RidgeRegression(), {"2(ii)", "3(ii)", "5(a)"}, set()),
        (gs.RidgeRegression(clip=gs.clip_l1(1.0)), {"3(i)"}, set()),
        (gs.RidgeRegression(l2=0.1, clip=gs.clip_l2(1.0)), {"2(ii)", "3(i)", "5(b)"}, set()),
        (gs.LogisticRegression(clip=gs.clip_l1(0.1)), {"3(i)"}, set()),
        (gs.LogisticRegression(clip=gs.clip_l1(2.0)), set(), set()),
        (gs.SoftmaxRegression(classes=2), set(), set()),
    ],
)
def test_what_models_break(model, breaks, unknown):
    report = assumptions(NETWORK, model, drawn(), **FINE)
    assert set(report.broken) == breaks
    assert set(report.named("cannot be known")) == unknown


def test_a_bound_that_nobody_enforces_cannot_be_known_to_hold():
    report = assumptions(NETWORK, gs.LogisticRegression(), drawn(declare=False), **FINE)
    assert report.named("cannot be known") == ("5(a)",)
    unseen = assumptions(NETWORK, gs.LogisticRegression(), drawn(declare=False), look=False, **FINE)
    assert set(unseen.named("cannot be known")) == {"2(i)", "2(ii)", "3(ii)", "3(iii)"}
    assert unseen.broken == ("5(a)",)
    enforced = assumptions(NETWORK, gs.LogisticRegression(clip=gs.clip_l1(1.0)), drawn(declare=False), **FINE)
    assert "a clipper enforces it" in enforced[5].parts[0].why


def test_records_that_come_once_may_depend_on_each_other_and_end():
    stream = OnePass(records(), [np.arange(20), np.arange(20, 40)])
    some = [assumptions(NETWORK, gs.LogisticRegression(), stream, steps=steps, **FINE)[3] for steps in (20, 21)]
    assert [finding.verdict for finding in some] == ["cannot be known", "fails"]
    assert some[1].parts[0].change == "Use steps=20 or fewer."


def test_without_a_stream_only_the_model_is_known():
    report = assumptions(NETWORK, gs.LogisticRegression(l2=0.1), **FINE)
    assert report[3].verdict == "cannot be known"
    assert report.broken == ("2(ii)", "5(b)")


def test_theorems_are_about_algorithm_1_with_noise_on_messages_and_all_records():
    model, stream = gs.LogisticRegression(), drawn()
    latest = assumptions(NETWORK, model, stream, gradient="latest", **FINE)
    other = assumptions(NETWORK, model, stream, other="dsgd", **FINE)
    source = assumptions(NETWORK, model, stream, step=FINE["step"], where="source")
    gaussian = assumptions(NETWORK, model, stream, laplace=False, **FINE)
    quiet = assumptions(NETWORK, model, stream, step=FINE["step"])
    assert latest.verdict == other.verdict == gaussian.verdict == quiet.verdict == "holds"
    for report, why in ((latest, "over the newest"), (other, "this is dsgd"), (source, "at the source")):
        assert all(one.verdict == "fails" and why in one.why for one in report.theorems)
    assert [one.verdict for one in gaussian.theorems[2:]] == ["holds", "fails"]
    assert [one.verdict for one in quiet.theorems[2:]] == ["holds", "fails"]
    assert quiet.theorems[3].why == "there is no noise."


def test_noise_of_three_kinds_is_refused():
    with pytest.raises(gs.GossamerError, match="one for s and one for θ"):
        assumptions(NETWORK, gs.LogisticRegression(), noise=[None, None, None])


# -- runs -------------------------------------------------------------------------------------------------------------


class Secret(Draws):
    """Records that nobody may look at all together."""

    @property
    def population(self):
        raise AssertionError("looked at")


def test_private_runs_are_judged_by_declarations_alone():
    stream = Secret(records(), [np.arange(20), np.arange(20, 40)], 0)
    algorithm = gs.ldp_gradient_tracking(gs.decay(1.0, 0.8))
    for privacy in (gs.Laplace.for_budget(1.0), gs.Gaussian.for_budget(1.0, 1e-5, where="source")):
        report = guarantees_of(
            algorithm, NETWORK, stream, gs.LogisticRegression(l2=0.1), privacy, "history", 20, look=True
        )
        assert report[4].verdict == ("holds" if privacy.where == "messages" else "fails")


def test_a_budgets_noise_fades_as_the_mechanism_will_have_it():
    algorithm, mechanism = gs.ldp_gradient_tracking(gs.decay(1.0, 0.7)), gs.Laplace.for_budget(5.0)
    said = (
        guarantees_of(algorithm, NETWORK, drawn(), gs.LogisticRegression(), mechanism, "history", 20)[4].parts[-1].why
    )
    run = gs.simulate(
        algorithm, NETWORK, OnePass(records(), [np.arange(20), np.arange(20, 40)]), model=gs.LogisticRegression(),
        privacy=mechanism, steps=20,
    )  # fmt: skip
    assert {exponent for _, exponent, _ in run.config["noise"]} == {0.6}, "halfway between ½ and v"
    assert "max ς = 0.6 < v = 0.7" in said


def small(steps=20, **more):
    stream = OnePass(records(), [np.arange(20), np.arange(20, 40)])
    algorithm = gs.ldp_gradient_tracking(gs.decay(0.1, 0.8))
    return gs.simulate(
        algorithm, NETWORK, stream, model=gs.LogisticRegression(l2=0.1), steps=steps, evaluate_every=5, **more
    )


@pytest.mark.parametrize("privacy", [None, gs.Laplace.for_budget(5.0, horizon=20)])
def test_a_record_carries_the_verdicts_and_one_without_them_still_goes_on(privacy, tmp_path):
    part = small(privacy=privacy, callback=lambda progress: progress.t == 10)
    kept = part.config["assumptions"]
    assert [(one["assumption"], one["verdict"]) for one in kept] == [
        (1, "holds"), (2, "fails"), (3, "cannot be known"), (4, "holds"), (5, "fails"),
    ]  # fmt: skip
    assert "grows without bound" in kept[1]["why"]
    config = {name: value for name, value in part.config.items() if name != "assumptions"}
    old = dataclasses.replace(part, config=config, seal=None)
    old.save(tmp_path / "old")
    done = small(privacy=privacy, resume=gs.Record.load(tmp_path / "old"))
    assert done.t == 20
    assert done.config["assumptions"] == kept


@pytest.mark.parametrize("m", [10, 200, 20_000])
def test_the_verdicts_cost_a_run_next_to_nothing(m):
    network, algorithm = gs.Network.exponential(m), gs.ldp_gradient_tracking(gs.decay(1.0, 0.8))
    stream = Draws(records(), [np.arange(40)] * m, 0)
    network.rows()  # which every run asks for
    spent = []
    for _ in range(5):
        before = time.process_time()
        guarantees_of(algorithm, network, stream, gs.LogisticRegression(l2=0.1), None, "history", 20)
        spent.append(time.process_time() - before)
    assert min(spent) < 0.02


def test_a_step_of_every_learners_own_runs_and_is_not_known():
    algorithm = gs.ldp_gradient_tracking(gs.decay([0.1, 0.2], 0.8), strict=False)
    run = gs.simulate(algorithm, NETWORK, drawn(), model=gs.LogisticRegression(), steps=3)
    assert run.config["assumptions"][3]["verdict"] == "cannot be known"
    unknown = assumptions(NETWORK, gs.LogisticRegression(), drawn(), step=FINE["step"], noise=lambda t: 1.0)
    assert "a rate that is not known" in unknown.theorems[2].why


# -- the command ------------------------------------------------------------------------------------------------------


def checked(gossamer, *words):
    code, out, err = gossamer("check", *words, "--json")
    assert not err
    return code, json.loads(out)


def test_the_papers_first_experiment_breaks_three_parts(gossamer):
    code, told = checked(gossamer, "mushrooms")
    assert code == 1
    assert told["broken"] == ["2(ii)", "4(d)", "5(b)"]
    said = {
        part["part"].split()[0]: part for one in told["assumptions"] for part in one["parts"] if one["assumption"] == 4
    }
    assert said["(d)"]["why"] == "learner 9 has ς = 0.6, not below v = 0.6: its budget for ever is not finite."
    assert said["(d)"]["change"] == "Use --noise ν0,0.55, or --step λ0,0.8."
    code, told = checked(gossamer, "mushrooms", "--step", "1,0.8")
    assert told["broken"] == ["2(ii)", "5(b)"], "what the advice mends is mended"


@pytest.mark.parametrize("words", [["mnist"], ["cifar10", "--model", "cnn"]])
def test_the_papers_networks_break_most_and_no_image_is_read(gossamer, words, monkeypatch):
    monkeypatch.setenv("GOSSAMER_DATA", "/nowhere")
    code, told = checked(gossamer, *words)
    assert code == 1
    assert told["broken"] == ["2(iii)", "3(iii)", "4(d)", "5(a)"]
    unknown = [
        f"{one['assumption']}{part['part'].split()[0]}"
        for one in told["assumptions"]
        for part in one["parts"]
        if part["verdict"] == "cannot be known"
    ]
    assert unknown == ["2(i)", "2(ii)", "3(ii)"]
    assert all(one["verdict"] == "fails" for one in told["theorems"])


def test_a_file_of_ones_own_that_breaks_nothing_ends_with_0(gossamer, tmp_path):
    rng = np.random.default_rng(1)
    lines = [f"{rng.uniform(-1, 1):.3f},{rng.integers(0, 2)}" for _ in range(200)]
    (tmp_path / "own.csv").write_text("\n".join(["x,y", *lines]))
    words = ["--csv", "own.csv", "--target", "y", "--classes", "0,1", "--range", "x=-1:1", "--l2", 0, "--learners", 4]
    words += ["--no-standardise", "--step", "1,0.8", "--noise", "1,0.6", "--per-round", 1, "--steps", 50]
    code, told = checked(gossamer, *words, "--weight", "equal")
    assert (code, told["broken"]) == (0, [])
    assert told["verdict"] == "cannot be known", "whether records are independent"
    code, out, err = gossamer("check", *words, "--weight", "equal")
    assert (code, err) == (0, "")
    assert "does not apply" in out
    code, told = checked(gossamer, *words[:-6], "--epsilon", 3)
    assert code == 1
    assert {"3(i)", "4(b)"} <= set(told["broken"]), "a clipper, and noise at the source"


def test_a_graph_that_is_refused_is_reported_with_all_that_is_wrong(gossamer, tmp_path):
    (tmp_path / "links.txt").write_text("0 1\n1 2\n2 0\n3 0\n")
    code, told = checked(gossamer, "mushrooms", "--graph", "links.txt")
    assert code == 1
    assert told["broken"][:2] == ["1(c)", "1(d)"]
    code, told = checked(gossamer, "mushrooms", "--graph", "links.txt", "--learners", 4)
    assert told["broken"][:2] == ["1(c)", "1(d)"]


def test_mistakes_get_one_sentence(gossamer):
    for words in ([], ["mushroom"], ["mushrooms", "--graph", "nowhere.txt"], ["mushrooms", "--steps", 0]):
        code, out, err = gossamer("check", *words)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1


def test_a_description_in_a_file_is_checked_too(gossamer, tmp_path):
    (tmp_path / "run.toml").write_text('[data]\ndataset = "mushrooms"\n[algorithm]\nalgorithm = "dsgd"\n')
    _, told = checked(gossamer, "run.toml", "--step", "1,0.8")
    assert "this is dsgd" in told["theorems"][0]["why"]
