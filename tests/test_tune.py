"""Tuning: nobody's records are looked at that were not offered for it, and what was offered is paid for exactly."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest
import scipy

from gossamer import streams
from gossamer.errors import BadValue, BudgetSpent, GossamerError, NotProvable
from gossamer.experiments import tuning
from gossamer.experiments.charged import THOUSANDTHS, Charged, Ledger, points_of
from gossamer.experiments.tasks import scales_of
from gossamer.experiments.tuning import (
    NARROW,
    WIDE,
    Candidate,
    Rehearsals,
    count,
    first_step,
    in_turn,
    open_to_tuning,
    search,
    settled,
    terms_of,
)
from gossamer.models import LogisticRegression, RidgeRegression
from gossamer.privacy import Law
from gossamer.records import dense_table
from gossamer.simulate import simulate
from gossamer.spec import Spec
from gossamer.spec.build import build
from gossamer.spec.files import read_toml

DECLARED = {"classes": ["no", "yes"], "ranges": {"k": (0, 400), "dose": (0, 5)}, "categories": {"ward": ["a", "b"]}}
OPTIONS = ("--target", "ill", "--classes", "no,yes", "--range", "k=0:400,dose=0:5", "--categories", "ward=a|b")


@pytest.fixture
def visits(tmp_path):
    """A file whose records can be told apart by their k, which also numbers them."""

    def write(records=400, name="visits.csv"):
        rng = np.random.default_rng(7)
        with (tmp_path / name).open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["k", "dose", "ward", "site", "ill"])
            for k in range(records):
                dose = rng.uniform(0, 5)
                ill = "yes" if rng.random() < scipy.special.expit(2 * dose - 5) else "no"
                table.writerow([k, f"{dose:.3f}", "ab"[k % 2], "ns"[k >= 300], ill])
        return tmp_path / name

    return write


def described(path, **more):
    given = {"classes": "no,yes", "range": "k=0:400,dose=0:5", "categories": "ward=a|b", "drop": "site"}
    return Spec.of(csv=str(path), target="ill", learners=4, **{**given, **more})


def numbers(stream, records=400):
    """Which records a stream has: k, back from −1 … 1."""
    column = stream.description["columns"].index("k")
    return {round((float(value) + 1) * 200) for value in stream.table.rows[:, column]}


# -- records that are set aside --------------------------------------------------------------------------------------


def test_what_is_set_aside_depends_on_no_seed_and_not_on_the_number_of_learners(visits):
    path = visits()
    for seed, learners in ((0, 4), (5, 4), (0, 7)):
        given = {**DECLARED, "drop": ["site"], "aside": 0.3, "seed": seed}
        rest = streams.from_csv(path, "ill", learners, **given, test_fraction=0.25)
        used = streams.from_csv(path, "ill", learners, **given, only_aside=True)
        assert numbers(used) == set(range(120))
        assert numbers(rest).isdisjoint(range(120)), "of these nobody learns"
        assert len(rest.table) == 210
        assert len(rest.test) == 70
        assert any("Set aside" in note for note in rest.notes)


def test_with_a_split_every_learner_sets_its_own_first_records_aside(visits):
    given = {**DECLARED, "split_by": "site", "aside": 0.5}
    used = streams.from_csv(visits(), "ill", **given, only_aside=True)
    assert numbers(used) == {*range(150), *range(300, 350)}


@pytest.mark.parametrize("fraction", [0.0, 0.0001, 0.9999, 1.0])
def test_none_or_all_cannot_be_set_aside(visits, fraction):
    with pytest.raises(BadValue, match="expected some, and not all"):
        streams.from_csv(visits(), "ill", 4, **DECLARED, aside=fraction)


def test_a_stream_of_some_records_is_the_stream_of_them(visits):
    whole = streams.from_csv(visits(), "ill", 4, **DECLARED, drop=["site"])
    part = whole.only([np.arange(2, 5)] * 4)
    assert numbers(part) == {k for k in range(400) if 8 <= k < 20}
    np.testing.assert_array_equal(part.room(100), [3] * 4)
    assert part.description["records"] == 12
    assert part.description["fingerprint"] != whole.description["fingerprint"]
    np.testing.assert_allclose(part.population.share.sum(), 1)
    some, rest = whole.drawn(0.2, 3)
    assert numbers(some).isdisjoint(numbers(rest))
    assert len(numbers(some)) == 80
    assert numbers(some) == numbers(whole.drawn(0.2, 3)[0]) != numbers(whole.drawn(0.2, 4)[0])


# -- the search ------------------------------------------------------------------------------------------------------


def test_the_search_goes_coordinate_by_coordinate_and_runs_as_many_as_it_said():
    aim = Candidate(step=2 * math.sqrt(2), l2=10.0, rounds=0.5)

    def score(one):
        return -abs(math.log(one.step / aim.step)) - abs(math.log(one.l2 / aim.l2)) - abs(one.rounds - aim.rounds)

    coordinates = open_to_tuning(Spec.of(csv="x.csv", target="y"), WIDE)
    best, tried = search(coordinates, in_turn(score))
    assert [getattr(best, name) for name in ("step", "l2", "rounds")] == pytest.approx([2 * math.sqrt(2), 10, 0.5])
    assert len(tried) == count(coordinates)
    assert tried[0].candidate == Candidate()
    assert search(coordinates, in_turn(score), margin=100.0)[0] == Candidate(), "nothing is better by that much"


def test_a_candidate_that_cannot_be_run_is_passed_by_and_a_description_that_cannot_is_an_error():
    def score(one):
        if one.step > 1:
            raise NotProvable("no room")
        return -one.step

    best, tried = search([("step", (0.5, 2.0))], in_turn(score))
    assert best.step == 0.5
    assert tried[-1].score == -math.inf
    with pytest.raises(NotProvable):
        search([("step", (0.5,))], in_turn(lambda one: score(Candidate(step=3.0))))


def test_what_is_given_is_not_tuned():
    spec = Spec.of(csv="x.csv", target="y", epsilon="3", step="4,0.6", l2=0.1, steps=50)
    assert {name for name, _ in open_to_tuning(spec, WIDE)} == {"clip", "start"}
    assert {name for name, _ in open_to_tuning(spec.but(epsilon=None, clip=1.0), WIDE)} == set()


def test_a_candidates_numbers_are_the_rules_times_its_factors(visits):
    spec = described(visits(), epsilon="3", steps=200)
    read = build(spec).stream
    usual = build(spec)
    run = simulate(
        usual.algorithm, usual.network, usual.stream, model=usual.model, privacy=usual.mechanism, steps=usual.steps
    )
    one = settled(spec, Candidate(step=2.0), read)
    assert first_step(usual) == run.config["first_step"]
    assert float(one.algorithm.step.split(",")[0]) == pytest.approx(2 * run.config["first_step"], rel=1e-3)
    other = settled(spec, Candidate(l2=10.0, clip=0.5, start=0.75), read)
    assert other.model.l2 == pytest.approx(10 / 400)
    assert other.model.clip == pytest.approx(usual.model.clip.c / 2)
    assert terms_of(build(other))[0].releases.after == 150
    assert settled(spec, Candidate(), read) == spec, "the rules' own are left to the rules"
    assert settled(described(visits()), Candidate(rounds=0.5), read).length.steps == 500


def test_public_records_are_learnt_from_with_the_noise_of_the_run(visits, monkeypatch):
    """Of twenty times as many records a run has less noise than its sample would; the sample gets the run's."""
    spec = described(visits(), epsilon="3", steps=60)
    read = build(spec).stream
    held, sample = streams.from_csv(visits(80, "few.csv"), "ill", 4, **DECLARED, drop=["site"]).drawn(0.2, 0)
    sample.test = held.table
    seen = []

    def watch(*given, **named):
        seen.append((given[2], named))
        return simulate(*given, **named)

    monkeypatch.setattr(tuning, "simulate", watch)
    assert 0 <= Rehearsals(spec, read, sample, 2)(Candidate()) <= 1
    (stream, named), (_, again) = seen
    assert numbers(stream) == numbers(sample)
    assert named["privacy"].scale == scales_of(terms_of(build(spec)))
    assert named["privacy"].seed != again["privacy"].seed


# -- tuning that is paid for -----------------------------------------------------------------------------------------


def test_learnt_counted_and_left_over_are_three_parts(visits):
    path, spec = visits(), described(visits(), epsilon="3", delta=1e-5, steps=60)
    used = streams.from_csv(path, "ill", 4, **DECLARED, drop=["site"], aside=0.3, only_aside=True)
    score = Charged(spec, used, 3, 0)
    parts = [numbers(score._learnt), numbers(score._counted), numbers(build(spec.but(aside=0.3)).stream)]
    assert sorted(k for part in parts for k in part) == list(range(400)), "each in one of them"


def gaussian_delta(epsilon, mu):
    """δ of a Gaussian mechanism, by its definition: P(loss > ε) − e^ε P'(loss > ε)."""
    normal = scipy.stats.norm
    return normal.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * normal.sf(epsilon / mu + mu / 2)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_so_many_candidates_spend_the_budget_and_no_more(visits, epsilon):
    spec = described(visits(), epsilon=str(epsilon), delta=1e-5, steps=60)
    runs = 5
    ledger = Ledger([epsilon] * 4, 1e-5, runs)
    private = build(spec.but(epsilon=",".join(map(repr, ledger.each))))
    terms = terms_of(private)
    for _ in range(runs):
        ledger.charge_run(terms, private.steps)
    assert max(ledger.spent) <= epsilon
    assert min(ledger.spent) >= 0.99 * epsilon
    # The same from the noise itself: n records, each of norm ≤ c, of which one is replaced, in every release.
    one, n = terms[0], 100
    t = one.releases.before(private.steps)
    held = np.minimum((t + 1) * one.records_in_round, n)
    shifts = 2 * one.bound.c / held / np.array([one.scale(int(k)) for k in t])
    mu = math.sqrt(runs * (shifts**2).sum())
    assert gaussian_delta(epsilon, mu) <= 1e-5
    assert gaussian_delta(0.98 * epsilon, mu) >= 1e-5
    with pytest.raises(BudgetSpent):
        ledger.charge_run(terms, private.steps)
    assert max(ledger.spent) <= epsilon, "what was refused is not booked"


def test_counts_spend_the_budget_and_no_more():
    ledger = Ledger([2.0, 1.0], 1e-5, 4)
    for _ in range(4):
        ledger.charge_counts(np.array([0.5, 0.25]) * (1 - 1e-6))
    assert ledger.spent == pytest.approx([2.0, 1.0], rel=1e-5)
    with pytest.raises(BudgetSpent):
        ledger.charge_counts(np.array([0.5, 0.25]))


def test_a_record_moves_a_count_by_one_at_most():
    rng = np.random.default_rng(0)
    for model, most, label in (
        (LogisticRegression(), 1, lambda: rng.integers(0, 2)),
        (RidgeRegression(), THOUSANDTHS, lambda: rng.uniform(-1, 1)),
    ):
        for _ in range(50):
            X, theta = rng.uniform(-1, 1, (20, 3)), rng.normal(size=3)
            y = np.array([label() for _ in range(20)], dtype=float)
            before = points_of(model, theta, dense_table(X, y))
            X[3], y[3] = rng.uniform(-1, 1, 3), label()
            assert abs(points_of(model, theta, dense_table(X, y)) - before) <= most
    right = dense_table(np.ones((4, 1)), np.array([1.0, 1.0, 0.0, 1.0]))
    assert points_of(LogisticRegression(), np.ones(1), right) == 3
    assert points_of(RidgeRegression(), np.full(1, 0.75), right) == 3 * 500


def test_a_charged_search_stays_within_its_budget_and_its_counts_are_noised(visits):
    spec = described(visits(), epsilon="8", delta=1e-5, steps=60)
    used = streams.from_csv(visits(), "ill", 4, **DECLARED, drop=["site"], aside=0.5, only_aside=True)
    coordinates = open_to_tuning(spec, NARROW)
    score = Charged(spec, used, count(coordinates), 0)
    _, tried = search(coordinates, in_turn(score), score.margin)
    assert max(score.ledger.spent) <= 8
    assert max(score.ledger.spent) >= 0.98 * 8
    exact = [trial.score * 100 for trial in tried]
    assert not any(float(share).is_integer() for share in exact), "of a hundred records each share would be whole"


def test_every_learner_sends_its_own_count_with_noise_for_its_own_budget(visits, monkeypatch):
    spec = described(visits(), epsilon="8,4,4,2", delta=1e-5, steps=60)
    used = streams.from_csv(visits(), "ill", 4, **DECLARED, drop=["site"], aside=0.5, only_aside=True)
    sent, exact = [], Law.exact

    def watch(law, values, scale):
        sent.extend([(values, scale)] if law.name == "laplace" else [])
        return exact(law, values, scale)

    monkeypatch.setattr(Law, "exact", watch)
    Charged(spec, used, 6, 0)(Candidate())
    ((counts, scales),) = sent
    np.testing.assert_allclose(scales.ravel(), [6 / 8, 6 / 4, 6 / 4, 6 / 2], rtol=1e-5)
    assert all(float(one).is_integer() and 0 <= one <= 25 for one in counts.ravel())


@pytest.mark.parametrize("more", [{"law": "laplace"}, {"where": "messages"}])
def test_other_noise_is_not_charged(visits, more):
    used = streams.from_csv(visits(), "ill", 4, **DECLARED, drop=["site"])
    with pytest.raises(GossamerError, match="Gaussian noise at the source"):
        Charged(described(visits(), epsilon="3", **more), used, 3, 0)


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "aside"), [(("--public", "few.csv"), None), (("--public-fraction", 0.3), 0.3), (("--charge", 0.4), 0.4)]
)
def test_what_is_tuned_can_be_run(gossamer, visits, tmp_path, monkeypatch, way, aside):
    monkeypatch.chdir(tmp_path)
    visits(), visits(120, "few.csv")
    words = ("--csv", "visits.csv", *OPTIONS, "--drop", "site", "--learners", 4, "--epsilon", 8, "--steps", 40)
    code, out, err = gossamer("tune", *words, *way, "--seeds", 1, "--out", "to/tuned.toml")
    assert code == 0, err
    assert "the rules' own" in out
    assert "gossamer run --csv visits.csv" in out
    assert ("nothing is charged" in out) == ("--charge" not in way)
    spec = read_toml(tmp_path / "to" / "tuned.toml")
    assert spec.data.aside == aside
    assert spec.privacy.epsilon == "8"
    code, out, err = gossamer("run", "to/tuned.toml", "--out", "ran")
    assert code == 0, err
    assert "Private: exact gaussian noise at the source" in out
    code, _, err = gossamer("tune", *words, *way, "--out", "to/tuned.toml")
    assert code == 2
    assert "it exists already" in err


def test_without_a_budget_the_data_themselves_are_tuned_on_and_that_is_said(gossamer, visits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    visits()
    code, out, err = gossamer(
        "tune", "--csv", "visits.csv", "--target", "ill", "--learners", 4, "--steps", 30, "--json", "t.json"
    )
    assert code == 0, err
    told = json.loads((tmp_path / "t.json").read_text())
    assert told["chosen"] in [one["candidate"] for one in told["tried"]]
    assert "Not private" in out
    assert "clip" not in out
    assert (tmp_path / "tuned.toml").read_text().startswith("# Chosen by gossamer tune")


def test_several_workers_score_candidates_to_the_same_bytes_and_each_once(gossamer, visits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    visits(), visits(120, "few.csv")
    words = ("--csv", "visits.csv", *OPTIONS, "--drop", "site", "--learners", 4, "--epsilon", 8, "--steps", 20)
    words += ("--public", "few.csv", "--seeds", 1, "--l2", 0.1, "--clip", 1.0)
    kept = []
    for jobs, folder, out in ((1, "one", "1.toml"), (2, "two", "2.toml"), (2, "two", "3.toml")):
        code, _, err = gossamer("tune", *words, "--jobs", jobs, "--keep", folder, "--out", out)
        assert code == 0, err
        files = sorted((tmp_path / folder / "runs").iterdir())
        kept.append({file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in files})
    assert {name: held for name, (held, _) in kept[0].items()} == {name: held for name, (held, _) in kept[1].items()}
    assert kept[1] == kept[2], "nothing was scored again"
    assert (tmp_path / "1.toml").read_text() == (tmp_path / "2.toml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epsilon", 3, "--charge", 0.3, "--jobs", 2), "leave --jobs and --engine out"),
        (("--epsilon", 3, "--public", "few.csv", "--engine", "magic"), "--engine magic: expected local, ray"),
        (("--epsilon", 3), "give --public FILE, --public-fraction F or --charge F"),
        (("--charge", 0.3), "--charge goes with --epsilon"),
        (("--epsilon", 3, "--charge", 0.3, "--public", "few.csv"), "give one of them"),
        (("--epsilon", 3, "--charge", 0.001), "--charge 0.001: that is 0 of 400 records"),
        (("--epsilon", 3, "--charge", 0.3, "--aside", 0.1), "leave it out"),
        (("--epsilon", 3, "--where", "messages", "--charge", 0.3), "--where messages is not tuned"),
        (("--epsilon", 3, "--law", "laplace", "--charge", 0.3), "Gaussian noise at the source"),
        (("--epsilon", 3, "--public", "other.csv"), "no column"),
        (("--l2", 0.1, "--step", "1,0.6", "--steps", 30), "nothing is left to tune"),
    ],
)
def test_what_cannot_be_tuned_honestly_is_refused(gossamer, visits, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    visits(), visits(60, "few.csv")
    (tmp_path / "other.csv").write_text("a,ill\n" + "1,no\n2,yes\n" * 20)
    code, _, err = gossamer("tune", "--csv", "visits.csv", *OPTIONS, "--drop", "site", "--learners", 4, *words)
    assert code == 2
    assert said in err
    assert not (tmp_path / "tuned.toml").exists()


def test_built_in_data_are_not_tuned(gossamer):
    code, _, err = gossamer("tune", "mushrooms")
    assert code == 2
    assert "give --csv FILE" in err
