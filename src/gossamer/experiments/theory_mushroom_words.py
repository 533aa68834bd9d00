"""How `gossamer theory mushrooms` is told."""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.experiments.pages import Page, rounded
from gossamer.experiments.slopes import Slope, band
from gossamer.experiments.theory import ALLOWED, Effort
from gossamer.experiments.theory_mushrooms import RIDGE, Measured
from gossamer.experiments.theory_words import plain_curves
from gossamer.report.theory import Panel, draw_epsilons, draw_rates
from gossamer.types import Array

LABELS = {
    "error": "(mean over learners of ‖θᵢ − θ*‖)², mean over seeds",
    "gap": "mean over learners of F(θᵢ) − F*",
    "consensus": "(mean over learners of ‖θᵢ − mean‖)²",
}


def _panels(one: Measured, effort: Effort) -> list[Panel]:
    known = {
        "error": {"Theorem 2": one.rates.beta, "ours": one.rates.sharper},
        "gap": {"Theorem 2": one.rates.gap},
        "consensus": {"Lemma 8": one.rates.consensus},
    }
    panels = []
    for name, predicted in known.items():
        rows: Array = getattr(one, name)
        mean, low, high = band(rows)
        slope: Slope = one.fitted[name]
        panels.append(Panel(LABELS[name], one.t, mean, low, high, effort.since, slope.value, slope.level, predicted))
    return panels


def tell_mushrooms(measured: Sequence[Measured], effort: Effort, seed: int) -> Page:
    figures = {}
    for k, one in enumerate(measured):
        name = ("best", "published")[k]
        title = f"Mushrooms, 10 learners on the paper's graph, l2 = {RIDGE:g}, {one.label}: {effort.seeds} seeds"
        figures[f"{name}.png"] = (one.label, draw_rates(_panels(one, effort), ylabel="", title=title))
        figures[f"epsilon-{name}.png"] = (
            f"ε by several ways of counting, {one.label}", draw_epsilons(one.epsilon, f"Mushrooms, raw one-hot "
            f"features, {one.label}"),
        )  # fmt: skip
    longest = int(measured[0].epsilon["replay of two worlds"][0][-1])
    rows = [["schedule", "slope of ‖θ−θ*‖² (95 %)", "Theorem 2: −β", "ours: −β'", "slope of F−F*", "Theorem 2: −β/2",
             "slope of disagreement", "Lemma 8",
             f"ε: replay ({longest} rounds), recursion and Theorem 4 ({effort.rounds})"]]  # fmt: skip
    for one in measured:
        spent = ", ".join(
            f"{one.epsilon[name][1][-1]:.3g}" for name in ("replay of two worlds", "recursion", "Theorem 4, part 1")
        )
        rows.append([
            one.label, str(one.fitted["error"]), f"{-one.rates.beta:.2f}", f"{-one.rates.sharper:.2f}",
            str(one.fitted["gap"]), f"{-one.rates.gap:.2f}", f"{one.fitted['consensus'].value:.2f}",
            f"{-one.rates.consensus:.2f}", spent,
        ])  # fmt: skip
    numbers = {
        one.label: {
            "t": one.t.astype(int).tolist(),
            "fitted": {
                name: {k: rounded(v, 4) for k, v in slope._asdict().items()} for name, slope in one.fitted.items()
            },
            "epsilon": plain_curves(one.epsilon),
        }
        for one in measured
    }
    return Page(
        "Measured against predicted: the Mushrooms",
        f"Logistic regression with l2 = {RIDGE:g} on raw one-hot features, one mushroom a learner and round, drawn "
        f"with replacement; λ0 = 1, Laplace noise of first scale 1 on messages, {effort.rounds} rounds, "
        f"{effort.seeds} seeds from seed {seed}; slopes for t ≥ {effort.since}. With μ = {RIDGE:g} the start is "
        "forgotten like exp(−μ Σ λ_t), which is a few powers of e here: what is fitted is not yet what happens as t "
        f"→ ∞. Replays go over {longest} rounds at most.",
        rows,
        _findings(measured),
        {
            "seed": seed,
            "rounds": effort.rounds,
            "seeds": effort.seeds,
            "since": effort.since,
            "l2": RIDGE,
            "schedules": numbers,
        },
        figures,
    )


def _findings(measured: Sequence[Measured]) -> list[str]:
    said = []
    for one in measured:
        slope, beta = one.fitted["error"].value, one.rates.beta
        fine = slope <= -beta + ALLOWED
        said.append(
            f"{one.label}: fitted slope {slope:.2f}, −β + {ALLOWED} = {-beta + ALLOWED:.2f}: "
            + ("as promised." if fine else "not yet as promised as t → ∞; see above.")
        )
        said += one.rates.broken[:1]
        claimed, seen = one.epsilon["recursion"], one.epsilon["replay of two worlds"]
        then, end = seen[0][-1], claimed[0][-1]
        by_then, printed = float(claimed[1][claimed[0] == then][0]), one.epsilon["Theorem 4, part 1"][1][-1]
        said.append(
            f"{one.label}: after {then:.0f} rounds a replay reached ε = {seen[1][-1]:.3g} and the recursion has "
            f"{by_then:.3g}; after {end:.0f} the recursion {claimed[1][-1]:.3g}, Theorem 4 part 1 {printed:.3g}."
        )
    return said
