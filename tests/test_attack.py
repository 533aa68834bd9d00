"""`gossamer attack`: exact without noise, never better than ε allows with it, and noise that is too small is seen."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy

import gossamer as gs
from gossamer.attacks import pictures
from gossamer.attacks.kinds import KINDS, where_of
from gossamer.attacks.layout import mushroom_layout, schema_layout
from gossamer.attacks.logistic import Attacked, Outcome, Plain, attack_one, attack_plain, least_chance
from gossamer.attacks.membership import (
    MOST_RUNS,
    Told,
    allowed_alarms,
    certified_epsilon,
    find_worst,
    reach_of,
    roc,
    runs_to_refute,
    tell_apart,
)
from gossamer.attacks.reading import Found, read_first, read_record
from gossamer.attacks.suspects import most_guessed, suspect
from gossamer.attacks.wire import Scene, listen, read_gradients
from gossamer.attacks.words import tell_images, tell_logistic, tell_membership
from gossamer.records import dense_rows
from gossamer.streams import OnePass

RING = gs.Network.ring(3)
STEP = gs.decay(1.0, 0.8)
VISITS = {
    "ranges": {"age": (18, 100), "dose": (0, 12), "temperature": (36, 42)},
    "categories": {"ward": ["emergency", "surgery", "outpatients"], "sex": ["f", "m"]},
    "classes": ["no", "yes"],
}


def mushrooms(rounds=12, learners=3, **about):
    return Attacked(
        gs.datasets.mushrooms(learners, draw="once"), mushroom_layout(), gs.Network.ring(learners), rounds=rounds,
        **{"suspects": 20, "runs": 1, **about},
    )  # fmt: skip


def few_records(m=3, rounds=4, n=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(m, rounds, n))
    return gs.streams.from_arrays(X, rng.integers(0, 2, size=(m, rounds)).astype(float), ranges=(-1, 1))


# -- without noise -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", ["latest", "history"])
def test_gradients_on_the_wire_are_those_of_the_records(gradient):
    """Equation (7), against ∇l = (s(aᵀθ) − b) a written out at the points that are on the wire."""
    scene = Scene(RING, few_records(), gs.LogisticRegression(l2=0.1), STEP, 4, gradient)
    heard = listen(scene)
    for i in range(3):
        own = scene.stream.own(i)
        for t, found in enumerate(read_gradients(scene, heard, i)):
            theta, since = heard.sent[t]["theta"][i], 0 if gradient == "history" else t
            X, b = own.rows[since : t + 1], own.labels[since : t + 1]
            expected = ((1 / (1 + np.exp(-X @ theta)) - b) @ X) / len(X)
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("gradient", ["latest", "history"])
def test_every_mushroom_is_read_exactly(gradient):
    plain = attack_plain(mushrooms(rounds=40), gradient)
    assert plain.records == plain.exact == 120
    assert plain.largest_error < 1e-6
    assert plain.read == plain.true
    assert set(plain.read) == {"class", *(each.name for each in mushroom_layout().attributes)}


def test_a_visit_is_read_in_its_own_units(tmp_path):
    lines = ["hospital,age,dose,temperature,ward,sex,ill"]
    rng = np.random.default_rng(5)
    for k in range(60):
        ward, sex, ill = rng.choice(VISITS["categories"]["ward"]), rng.choice(["f", "m"]), rng.choice(["no", "yes"])
        age, dose = rng.integers(18, 100), rng.uniform(0, 12)
        lines.append(f"{'abc'[k % 3]},{age},{round(dose, 1):g},{round(rng.uniform(36, 42), 1):g},{ward},{sex},{ill}")
    (tmp_path / "visits.csv").write_text("\n".join(lines))
    stream = gs.streams.from_csv(tmp_path / "visits.csv", "ill", split_by="hospital", **VISITS)
    plain = attack_plain(Attacked(stream, schema_layout(stream.description["schema"]), RING, rounds=20))
    assert plain.exact == plain.records == 60
    assert ",".join(plain.read[name] for name in ("age", "dose", "temperature", "ward", "sex", "ill")) in "\n".join(
        lines
    )


def test_a_record_follows_from_its_gradient():
    layout, rng = mushroom_layout(), np.random.default_rng(0)
    x = np.asarray(dense_rows(gs.datasets.mushrooms(2, draw="once").table))[17].astype(float)
    for label in (0.0, 1.0):
        w = 1 / (1 + math.exp(-rng.normal())) - label
        found = read_record(w * x, layout)
        np.testing.assert_allclose(found.x, x, rtol=1e-12)
        assert found.label == label
        first = read_first((0.5 - label) * x + 1e-3 * rng.normal(size=len(x)), layout)
        assert first.label == label
        np.testing.assert_array_equal(first.x, x)


# -- with noise --------------------------------------------------------------------------------------------------------


def log_likelihood(scene, heard, learner, records):
    """Equations (7) to (9) of one learner, written out, and the density of what it was seen to send."""
    R, C, m, law = scene.network.R, scene.network.C, scene.network.m, scene.mechanism.law
    terms, i, total = heard.boundary.ledgers[learner].terms, learner, 0.0
    s, theta = np.zeros(len(records[0].x)), np.zeros(len(records[0].x))
    for t in range(scene.rounds):
        seen, z = heard.sent[t], np.linalg.matrix_power(np.eye(m) + R, t)
        some = records[: t + 1] if scene.gradient == "history" else records[t : t + 1]
        each = [(1 / (1 + math.exp(-one.x @ theta)) - one.label) * one.x for one in some]
        g, scale = np.mean(each, axis=0), terms.initial * (t + 1) ** -terms.exponent
        if scene.mechanism.where == "source":
            total += -(np.abs((read_gradients(scene, heard, i)[t] - g) / scale) ** law.norm).sum() / law.norm
            g = read_gradients(scene, heard, i)[t]
        else:
            for channel, value in (("s", s), ("theta", theta)):
                total += -(np.abs((seen[channel][i] - value) / scale) ** law.norm).sum() / law.norm
        others = [j for j in range(m) if j != i]
        came_s = sum(C[i, j] * seen["s"][j] for j in others)
        came_theta = sum(R[i, j] * seen["theta"][j] for j in others)
        after = (1 + C[i, i]) * s + came_s + scene.step(t) * (g + scene.model.l2 * theta)
        theta = (1 + R[i, i]) * theta + came_theta - (after - s) / (m * z[i, i])
        s = after
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_likelihood_of_a_suspect_is_that_of_the_equations(kind, law):
    make = gs.Laplace.for_budget if law == "laplace" else gs.Gaussian.for_budget
    releases = gs.every(1) if where_of(kind) == "source" else None
    mechanism = make(20.0, 0.0 if law == "laplace" else 1e-5, where=where_of(kind), releases=releases)
    gradient = "latest" if kind == "latest" else "history"
    scene = Scene(RING, few_records(), gs.LogisticRegression(l2=0.1), STEP, 4, gradient, mechanism)
    heard, table = listen(scene), scene.stream.table
    suspects = np.array([4, 0, 1, 11, 7])  # learner 1 has the records 4 to 7
    own = [Found(table.rows[k], table.labels[k]) for k in range(4, 8)]
    worlds = [[Found(table.rows[k], table.labels[k]), *own[1:]] for k in suspects]
    expected = np.array([log_likelihood(scene, heard, 1, world) for world in worlds])
    share = suspect(scene, heard, 1, suspects).share
    np.testing.assert_allclose(share, np.exp(expected - scipy.special.logsumexp(expected)), rtol=1e-6)


def test_the_bound_is_attained_by_randomised_response():
    """It names the truth with probability e^ε/(k−1+e^ε): the most that ε allows, for every k and ε."""
    for k in (2, 10, 500):
        for epsilon in (0.1, 1.0, 5.0):
            truth = math.exp(epsilon) / (k - 1 + math.exp(epsilon))
            assert most_guessed(epsilon, 0.0, k) == pytest.approx(truth)
    assert most_guessed(0.0, 1e-3, 11) == pytest.approx(1 / 11 + 10e-3 / 11)
    assert most_guessed(1e4, 0.0, 10) == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_pure_epsilon_bounds_every_single_outcome(kind):
    """Posterior odds of any two suspects move by e^ε at most: not in the mean, but whatever was seen."""
    for epsilon in (0.5, 2.0):
        outcome = attack_one(mushrooms(law="laplace", rounds=10), kind, epsilon)
        assert outcome.named <= outcome.allowed == most_guessed(epsilon, 0.0, 20)
        assert outcome.named >= 1 / 20


def test_noise_that_is_too_small_is_seen():
    """What ε = 100,000 allows, claimed to be ε = 1, is far above the bound."""
    outcome = attack_one(mushrooms(), "latest", 1e5)
    assert outcome.named > 0.95 > 7 * most_guessed(1.0, 1e-5, 20)
    assert outcome.hits == 3
    assert outcome.columns > 0.99 > outcome.guessed + 0.2


def test_at_a_small_epsilon_messages_tell_no_more_than_no_look():
    for kind in KINDS:
        outcome = attack_one(mushrooms(), kind, 0.1)
        assert abs(outcome.columns - outcome.guessed) < 0.1
        assert outcome.named < 0.08


def test_errors_of_numbers_are_in_their_own_units(tmp_path):
    lines = ["age,ill"] + [f"{20 + 3 * (k % 25)},{'no' if k % 2 else 'yes'}" for k in range(60)]
    (tmp_path / "ages.csv").write_text("\n".join(lines))
    stream = gs.streams.from_csv(tmp_path / "ages.csv", "ill", 3, ranges={"age": (0, 120)}, classes=["no", "yes"])
    layout = schema_layout(stream.description["schema"])
    attacked = Attacked(stream, layout, RING, rounds=10, suspects=15, runs=1)
    told, hidden = (attack_one(attacked, "latest", epsilon).number_errors["age"] for epsilon in (1e7, 0.1))
    assert told[0] < 0.5
    assert told[1] < 0.01
    assert 5 < told[2] == hidden[2] < 45
    assert hidden[1] == pytest.approx(hidden[2], rel=0.1)


# -- membership --------------------------------------------------------------------------------------------------------


def responses(rng, epsilon, runs):
    """Scores of randomised response on one bit, in either world."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    return (rng.random(runs) < keep).astype(float), (rng.random(runs) < 1 - keep).astype(float)


def test_what_is_certified_is_true_and_near():
    """Of randomised response, whose ε is known, more than 5 % of certificates would be too many above it."""
    rng, epsilon = np.random.default_rng(0), 1.0
    found = [certified_epsilon(*responses(rng, epsilon, 400), 0.0) for _ in range(60)]
    assert sum(one > epsilon for one in found) <= 7  # of 60 more than 7 come by chance once in 100 times at 5 %
    assert 0.8 < certified_epsilon(*responses(rng, epsilon, 40_000), 0.0) < 1.0
    assert certified_epsilon(*responses(rng, 0.0, 4000), 0.0) < 0.2


def test_the_region_that_is_allowed():
    x = np.linspace(0, 1, 101)
    for epsilon, delta in ((0.5, 0.0), (2.0, 1e-2)):
        y = allowed_alarms(x, epsilon, delta)
        np.testing.assert_allclose(allowed_alarms(1 - y[y < 1], epsilon, delta), 1 - x[y < 1], atol=1e-9)  # symmetric
        assert allowed_alarms(np.array([0.0]), epsilon, delta)[0] == pytest.approx(delta)
    mu = 0.7
    epsilon = gs.privacy.gaussian.epsilon_exact(mu, 1e-3)
    best = scipy.special.ndtr(scipy.special.ndtri(x) + mu)  # of one Gaussian mechanism
    assert (best <= allowed_alarms(x, epsilon, 1e-3) + 1e-9).all()


@pytest.mark.parametrize(("kind", "law"), [("latest", "laplace"), ("messages", "gaussian"), ("secrets", "gaussian")])
def test_the_best_test_stays_within_the_claim_and_finds_noise_that_is_too_small(kind, law):
    runs = 1500
    worst = find_worst(kind, law, 1.0)
    honest = tell_apart(kind, law, 1.0, runs, worst=worst)
    assert honest.epsilon == pytest.approx(1.0, rel=0.02)
    assert not honest.refuted
    false_alarms, true_alarms = roc(honest.present, honest.absent)
    slack = 2 * math.sqrt(math.log(2e6) / (2 * runs))  # both curves, by Dvoretzky, Kiefer and Wolfowitz, but for 1e-6
    assert (true_alarms <= allowed_alarms(false_alarms, honest.epsilon, honest.delta) + slack).all()
    planted = tell_apart(kind, law, 1.0, runs, times=0.1, worst=worst)
    assert planted.refuted
    assert planted.certified() > 1.5


# -- images ------------------------------------------------------------------------------------------------------------


def strokes(m, rounds, side=16):
    """Drawn by code: a bar, a cross, a box or a diagonal, somewhere, as bytes; the kind is the label."""
    rng, images, labels = np.random.default_rng(0), list[np.ndarray](), list[int]()
    for _ in range(m * rounds):
        image, kind = np.zeros((side, side)), int(rng.integers(4))
        a, b = rng.integers(2, side // 2, size=2)
        end = side - 2
        if kind == 0:
            image[a : a + 3, 2:end] = 1
        elif kind == 1:
            image[a, 2:end] = image[2:end, b] = 1
        elif kind == 2:
            image[a:end, b] = image[a:end, end - 1] = image[a, b:end] = image[end - 1, b:end] = 1
        else:
            image[np.arange(2, end), np.arange(2, end)] = image[np.arange(2, end), b] = 1
        images.append((255 * image).astype(np.uint8).ravel())
        labels.append(kind)
    table = gs.records.Table(np.array(images), np.array(labels, dtype=float), None, side * side)
    return OnePass(table, list(np.arange(m * rounds).reshape(m, rounds)))


def test_an_image_is_found_without_noise_and_not_with_it():
    pytest.importorskip("torch", reason="needs the extra `nn`")
    from gossamer.attacks.images import Pictured, attack_one, decibels, guess_errors, originals

    pictured = Pictured(strokes(2, 8), (1, 16, 16), gs.Network.ring(2), images=1, suspects=8, searches=90)
    (plain,) = attack_one(pictured, None, math.inf)
    noised = attack_one(pictured, "latest", 3.0)
    guessed, labels = decibels(guess_errors(pictured)[0]), originals(pictured)[1]
    assert decibels(plain.error) > 20 > guessed + 3
    assert plain.label == labels[0]
    assert plain.named == 1.0
    for one in noised:
        assert decibels(one.error) < guessed
        assert one.named < 0.9


def test_the_gradient_of_an_image_on_the_wire_is_torchs_own():
    torch = pytest.importorskip("torch", reason="needs the extra `nn`")
    from gossamer.attacks.images import Pictured, clipped_gradients, read_image

    pictured = Pictured(strokes(2, 8), (1, 16, 16), gs.Network.ring(2), images=1)
    for kind in (None, "latest", "history"):
        scene = pictured.scene(kind, 1e7)
        for theta, gradient, deviation in read_image(scene, listen(scene), 0):
            mine = clipped_gradients(scene, theta, np.array([0]))[0]
            if kind is None:
                module = scene.model.module(theta)
                x = scene.model.inputs(scene.stream.table.rows[:1])
                loss = scene.model.loss(module(x), torch.tensor([int(scene.stream.table.labels[0])]))
                own = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(module.parameters()))])
                torch.testing.assert_close(mine, own)
            off = (mine - gradient).numpy()
            assert np.abs(off).max() < 1e-9 + 7 * deviation
            assert deviation == 0 or np.std(off) == pytest.approx(deviation, rel=0.1)


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_writes_a_page_with_pictures(gossamer, tmp_path):
    words = ("--rounds", 6, "--suspects", 8, "--runs", 1, "--epsilon", "1,50", "--learners", 3, "--graph", "ring")
    code, out, err = gossamer("attack", "logistic", *words, "--json")
    assert code == 0, err
    numbers = json.loads(out)
    assert numbers["plain"]["exact"] == numbers["plain"]["records"] == 18
    assert [(one["kind"], one["epsilon"]) for one in numbers["noised"]][:2] == [("messages", 50.0), ("messages", 1.0)]
    folder = tmp_path / "gossamer-attack"
    assert {path.name for path in folder.iterdir()} >= {"README.md", "results.json", "record.png", "named.png"}
    page = (folder / "README.md").read_text()
    assert "gossamer attack logistic --rounds 6" in page
    assert "18 of 18 records were read exactly" in page
    assert "Unseen" in (folder / "report.html").read_text()


def test_a_record_of_somebodys_own_is_kept_from_others(gossamer, own_csv, tmp_path):
    words = ("attack", "logistic", "--csv", own_csv, "--target", "ill", "--learners", 3, "--rounds", 4)
    code, out, err = gossamer(*words)
    assert code == 0, err
    assert (tmp_path / "gossamer-attack").stat().st_mode & 0o777 == 0o700
    said = " ".join(out.split())
    assert "has a real record of own.csv in it" in said
    assert "Unseen: the commonest value among the suspects" in said
    assert "chmod" not in said
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    code, out, err = gossamer(*words, "--out", "open")
    assert code == 0, err
    assert "others on this machine can open it: chmod 700 open" in " ".join(out.split())
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o755


def test_undeclared_records_are_read_and_no_noise_is_tried(gossamer, own_csv):
    code, out, err = gossamer("attack", "logistic", "--csv", own_csv, "--target", "ill", "--learners", 3, "--rounds", 4)
    assert code == 0, err
    said = " ".join(out.split())
    assert "12 of 12 records were read exactly" in said
    assert "No noise was tried, because privacy cannot be proved" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("logistic", "--epsilon", "1,x"), "--epsilon 1,x: expected numbers above 0"),
        (("logistic", "--suspects", 4000), "--suspects 4000: the other learners have 270 records in these rounds"),
        (("logistic", "--target", "ill"), "give --csv FILE"),
        (("image", "mushrooms"), "expected images: mnist or cifar10"),
        (("membership", "--epsilon", "0"), "--epsilon 0: expected numbers above 0"),
    ],
)
def test_mistakes_get_one_sentence(gossamer, words, said):
    code, _, err = gossamer("attack", *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_a_page_says_what_was_refuted():
    rng = np.random.default_rng(0)
    present, absent = responses(rng, 3.0, 3000)
    fair, false = (Told("latest", epsilon, 0.0, present, absent) for epsilon in (3.1, 1.0))
    page = tell_membership([fair, false], "laplace", 3000, planted=False)
    assert [row[-1] for row in page.rows[1:]] == ["not refuted", "REFUTED"]
    assert page.findings[0] == "1 of 2 claims are refuted."


def test_a_claim_that_no_noise_at_all_would_refute_is_not_said_to_stand():
    """All of n runs are told apart: p⁻ is (α/2)^(1/n) and q⁺ is 1 − (α/2)^(1/n), at α = 1e-6."""
    low = 5e-7 ** (1 / 10_000)
    assert reach_of(20_000, 0.0) == pytest.approx(math.log(low / (1 - low)), rel=1e-9)
    apart = np.ones(20_000), np.zeros(20_000)
    beyond, within = (Told("latest", epsilon, 1e-5, *apart) for epsilon in (8.0, 6.5))
    page = tell_membership([beyond, within], "gaussian", 20_000, planted=False)
    assert [row[-1] for row in page.rows[1:]] == [
        "cannot be refuted with so many runs: give --runs 87000",
        "REFUTED",
    ]
    assert [(one["reach"], one["refutable"]) for one in page.numbers["told"]] == [
        (pytest.approx(6.53, abs=0.01), False),
        (pytest.approx(6.53, abs=0.01), True),
    ]
    assert "1 of 2 claims cannot be refuted with 20,000 runs" in page.findings[1]


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (4.0, 1e-5), (8.0, 1e-5), (10.0, 0.0)])
def test_so_many_runs_are_enough_and_not_many_more(epsilon, delta):
    enough = runs_to_refute(epsilon, delta)
    assert reach_of(enough, delta) > epsilon >= reach_of(int(enough * 0.9) - 4, delta)
    assert runs_to_refute(reach_of(MOST_RUNS, delta), delta) is None


# -- words look at what was found --------------------------------------------------------------------------------------


def outcome(kind="latest", epsilon=1.0, named=0.01, hits=0, allowed=0.1):
    return Outcome(kind, epsilon, allowed, named, hits, 0.5, 0.5, 0.5, {}, {"class": "edible"})


PLAIN = Plain(36, 27, math.inf, {"class": "edible"}, {"class": "edible"}, 0.875, {})


def findings(*outcomes, plain=PLAIN):
    return " ".join(tell_logistic(mushrooms(runs=10), plain, outcomes, "mushrooms").findings)


def test_a_bound_on_a_chance_is_that_of_the_binomial():
    """P(at least `hits` of `trials`) is one in a million at the bound, summed up term by term."""
    for hits, trials in ((1, 3), (12, 30), (30, 30)):
        p = least_chance(hits, trials)
        tail = sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(hits, trials + 1))
        assert tail == pytest.approx(1e-6, rel=1e-6)
    assert least_chance(0, 30) == 0.0


def test_a_claim_falls_by_more_than_luck_alone():
    assert "Nowhere is it above" in findings(outcome())
    lucky = findings(outcome(named=0.15, hits=6), outcome("history"))  # of 30: 6 or more come in 7 of 100 cases
    assert "In 1 of 2 rows it is above what ε allows" in lucky
    assert "claim is false" not in lucky
    false = findings(outcome(named=0.6, hits=18))
    assert "ABOVE what ε allows: at the source, latest gradient at ε = 1 (18 of 30 named" in false
    assert "A claim of ε = 10 or more cannot be refuted by 30 records" in findings(
        outcome(), outcome(epsilon=10.0, allowed=0.99), outcome(epsilon=50.0, allowed=1.0)
    )


def test_what_noise_on_messages_costs_is_said_beside_it():
    assert "tells least, and it learns least" in findings(outcome("messages"), outcome(named=0.02))
    assert "Noise on messages learns least" in findings(outcome("messages", named=0.02), outcome())
    assert "learns least" not in findings(outcome())


def test_the_row_without_noise_has_what_was_read():
    whole = attack_plain(mushrooms())
    assert (whole.columns, whole.number_errors) == (1.0, {})
    page = tell_logistic(mushrooms(), PLAIN._replace(number_errors={"age": 3.25}), [], "visits")
    assert page.rows[1] == ["none: 27 of 36 read", "∞", "0.88", "0.88", "–", "0.750", "1", "3.2 / 3.2 / –"]


def test_words_of_images_look_at_the_images():
    pytest.importorskip("torch", reason="needs the extra `nn`")
    from gossamer.attacks.images import Album, Picture, Pictured

    def picture(kind, epsilon, decibels, learner=0):
        return Picture(kind, epsilon, learner, np.zeros((1, 16, 16)), 10 ** (-decibels / 10), 0, 0.1)

    def said(*noised):
        plain = [picture(None, math.inf, 30), picture(None, math.inf, 12, 1)]
        album = Album([np.zeros((1, 16, 16))] * 2, [0, 0], plain + list(noised), [0.1, 0.1], 8, 1e-5)
        return " ".join(tell_images(Pictured(strokes(2, 8), (1, 16, 16), RING), album, "strokes").findings)

    assert "Without noise 1 of 2 images are found again, at 20 dB or more; the worst is at 12.0 dB." in said()
    ladder = [picture("latest", 1.0, 5), picture("latest", 10.0, 5), picture("latest", 100.0, 15)]
    assert "At ε = 10 and below, under every kind of noise" in said(*ladder)
    assert "and below" not in said(picture("latest", 1.0, 15), picture("latest", 10.0, 5))


def test_the_legend_is_not_on_the_picture():
    figure = pictures.draw_named([outcome(epsilon=epsilon) for epsilon in (1.0, 100.0)], 100, 0.0)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    (axes,) = figure.axes
    assert legend.get_window_extent().y1 < axes.get_window_extent().y0
