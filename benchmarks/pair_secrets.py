"""What pair secrets gain: accuracy at each ε with noise that cancels, written to docs/results/secrets.

    python benchmarks/pair_secrets.py budgets mushrooms mnist cifar10     Algorithm 1, against no and three colluders
    python benchmarks/pair_secrets.py learners                            10, 30 and 100 learners: the gain as a curve
    python benchmarks/pair_secrets.py methods                             all methods at equal ε, with and without
    python benchmarks/pair_secrets.py page                                README.md and the picture, of what is there

Runs are those of benchmarks/history.py: one pass over the data on the paper's graph, δ = 1e-5, history at the source,
tuned on other seeds than those reported by the accuracy on training records, or by rule alone. Budgets are for the
run's horizon, those of the mushrooms for ever. Runs are kept: a stopped study goes on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from history import PROBLEMS, Problem, Tuner, automatic, unsaid

from gossamer.algorithms import METHODS
from gossamer.experiments.runs import Runs
from gossamer.experiments.tasks import Task
from gossamer.spec import Spec
from gossamer.version import __version__

ASKED: dict[str, dict[int, tuple[float | None, ...]]] = {  # accuracies at PROBLEMS' budgets, by colluders
    "mushrooms": {0: (0.92, 0.955, None, None)},
    "mnist": {0: (0.968, 0.975, 0.979, 0.984)},
    "cifar10": {0: (0.515, 0.56, 0.60, 0.642), 3: (0.50, 0.545, 0.59, 0.638)},
}
GRIDS: dict[str, dict[str, Any]] = {
    "mushrooms": {},
    "mnist": {"steps": (0.5, 1.0), "starts": (0.5, 0.75), "clips": (0.12, 0.25), "tuning": 1},
    "cifar10": {"steps": (0.7, 1.0, 1.4), "starts": (0.5, 0.75, 0.85), "clips": (0.12, 0.5), "tuning": 1},
}
LEARNERS = (10, 30, 100)
ROUNDS = 1200  # of the curve over learners, beyond what their records fill
SHOWN = 5  # seeds


def problem_of(name: str, colluders: int) -> Problem:
    whole = PROBLEMS[name]
    spec = whole.spec.but(secrets="complete", colluders=colluders)
    return replace(whole, spec=spec, **GRIDS[name])


def budgets(name: str, colluders: int, runs: Runs, epsilons: tuple[float, ...] | None) -> dict[str, Any]:
    """Accuracy at every budget, tuned and by rule."""
    problem, asked = (
        problem_of(name, colluders),
        dict(zip(PROBLEMS[name].epsilons, ASKED[name][colluders], strict=True)),
    )
    problem = replace(problem, epsilons=epsilons or problem.epsilons)
    tuner = Tuner(problem, runs)
    best = tuner.best()
    plain = unsaid(problem).but(step="auto", secrets="complete", colluders=colluders)
    wanted = {
        (e, which, seed): tuner.task(e, best[e], seed) if which == "tuned" else automatic(plain, e, seed)
        for e in problem.epsilons
        for which in ("tuned", "automatic")
        for seed in range(SHOWN)
    }
    results = dict(zip(wanted, runs(wanted.values()), strict=True))
    rows = []
    for e in problem.epsilons:
        ends = {w: [results[e, w, seed]["accuracy"][-1] for seed in range(SHOWN)] for w in ("tuned", "automatic")}
        one = results[e, "tuned", 0]
        about = {"step": one["step"], "spent": max(one["epsilon"]), "all_collude": max(one["all_collude"])}
        rows.append({"epsilon": e, "asked": asked[e], "choice": asdict(best[e]), **ends, **about})
    return {"data": name, "colluders": colluders, "version": __version__, "rows": rows}


def learners(runs: Runs) -> dict[str, Any]:
    """Mushrooms at ε = 0.3 dealt to ever more learners: noise and accuracy with secrets, against without."""
    rows, tasks = [], {}
    base = Spec.of(dataset="mushrooms", draw="once", steps=ROUNDS, epsilon="0.3", step="auto")
    kinds = {"without": base} | {
        f"{q} colluders, {word}": base.but(secrets="complete", colluders=q, **share)
        for q in (0, 3)
        for word, share in (("by rule", {}), ("τ = 2σ", {"share": "2"}))
    }
    for m in LEARNERS:
        for kind, spec in kinds.items():
            for seed in range(SHOWN):
                tasks[m, kind, seed] = Task(spec.but(learners=m, seed=seed), evaluations=1)
    results = dict(zip(tasks, runs(tasks.values()), strict=True))
    for m in LEARNERS:
        for kind in kinds:
            some = [results[m, kind, seed] for seed in range(SHOWN)]
            rows.append(
                {
                    "learners": m, "kind": kind, "less_noise": some[0].get("less_noise", 1.0),
                    "accuracy": [one["accuracy"][-1] for one in some], "step": some[0]["step"],
                    "releases": some[0].get("releases"), "share": some[0].get("share"),
                }
            )  # fmt: skip
    return {"version": __version__, "rows": rows}


def methods(runs: Runs) -> dict[str, Any]:
    """All methods on the mushrooms at equal ε, noise at the source, steps by rule, with and without secrets."""
    names = [name for name, one in METHODS.entries().items() if one.compared]
    tasks = {}
    for epsilon in (0.3, 1.0):
        for name in names:
            for colluders in (None, 0, 3):
                spec = Spec.of(
                    dataset="mushrooms", draw="once", steps=812, epsilon=repr(epsilon), step="auto", algorithm=name
                )
                spec = spec if colluders is None else spec.but(secrets="complete", colluders=colluders)
                for seed in range(SHOWN):
                    tasks[epsilon, name, colluders, seed] = Task(spec.but(seed=seed), evaluations=1)
    results = dict(zip(tasks, runs(tasks.values()), strict=True))
    rows = []
    for epsilon in (0.3, 1.0):
        for name in names:
            ends = {
                "without" if q is None else str(q): [
                    results[epsilon, name, q, seed].get("accuracy", [float("nan")])[-1] for seed in range(SHOWN)
                ]
                for q in (None, 0, 3)
            }
            rows.append({"epsilon": epsilon, "method": name, **ends})
    return {"version": __version__, "rows": rows}


def cell(values: list[float]) -> str:
    return f"**{np.mean(values):.4f}** ({min(values):.4f}–{max(values):.4f})"


def budgets_table(found: dict[str, Any]) -> str:
    lines = ["| ε | asked | tuned | by rule alone | ε if all others collude |", "|---|---|---|---|---|"]
    for row in found["rows"]:
        asked = "–" if row["asked"] is None else f"{row['asked']:g}"
        ends = f"{cell(row['tuned'])} | {cell(row['automatic'])}"
        lines.append(f"| {row['epsilon']:g} | {asked} | {ends} | {row['all_collude']:.3g} |")
    return "\n".join(lines)


def learners_table(found: dict[str, Any]) -> str:
    lines = ["| learners | secrets | τ/σ | releases | less noise, times | √(m − q) | accuracy |", "|" + "---|" * 7]
    for row in found["rows"]:
        q = 3 if row["kind"].startswith("3") else 0
        if row["kind"] == "without":
            lines.append(f"| {row['learners']} | without | – | – | 1 | – | {cell(row['accuracy'])} |")
            continue
        how = f"{row['share']:.2f} | {row['releases']} | {row['less_noise']:.2f} | {np.sqrt(row['learners'] - q):.2f}"
        lines.append(f"| {row['learners']} | {row['kind']} | {how} | {cell(row['accuracy'])} |")
    return "\n".join(lines)


def methods_table(found: dict[str, Any]) -> str:
    lines = ["| method | ε | without secrets | no colluders | three colluders |", "|---|---|---|---|---|"]
    for row in found["rows"]:
        ends = " | ".join(cell(row[kind]) for kind in ("without", "0", "3"))
        lines.append(f"| `{row['method']}` | {row['epsilon']:g} | {ends} |")
    return "\n".join(lines)


def draw_learners(found: dict[str, Any]) -> Any:
    """Noise and accuracy over the number of learners."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.0), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2)
    kinds = list(dict.fromkeys(row["kind"] for row in found["rows"]))
    for kind in kinds:
        rows = [row for row in found["rows"] if row["kind"] == kind]
        m = [row["learners"] for row in rows]
        line = "-" if "by rule" in kind else "--" if kind != "without" else ":"
        colour = "#666666" if kind == "without" else "#1f5fa8" if kind.startswith("0") else "#c0392b"
        if kind != "without":
            left.plot(m, [row["less_noise"] for row in rows], line, color=colour, marker="o", label=kind)
        ends = np.array([row["accuracy"] for row in rows])
        right.errorbar(
            m, ends.mean(axis=1), [ends.mean(axis=1) - ends.min(axis=1), ends.max(axis=1) - ends.mean(axis=1)],
            color=colour, linestyle=line, marker="o", capsize=3, label=kind,
        )  # fmt: skip
    left.plot(LEARNERS, np.sqrt(LEARNERS), color="black", linewidth=0.8, label="√m, the most there is")
    left.set(xscale="log", yscale="log", xlabel="learners", ylabel="times less noise at the same ε")
    right.set(xscale="log", xlabel="learners", ylabel="accuracy at ε = 0.3, five seeds")
    for axes in (left, right):
        axes.set_xticks(LEARNERS, [str(m) for m in LEARNERS])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    left.set_yticks([1, 2, 3, 5, 10], ["1", "2", "3", "5", "10"])
    return figure


PAGE = """# What pair secrets gain

Noise that learners share pair by pair, and that cancels in the sum: [docs/secrets.md](../../secrets.md). Version
{version}, five seeds, mean and in brackets the least and the greatest; δ = 1e-5, one record is protected, complete
secrets graph. ε holds against anybody who sees all messages, together with as many colluding learners as each
table says; the last column is ε if all others collude.

Algorithm 1, ten learners on the paper's graph, history at the source, one pass over the data. Budgets of the
mushrooms hold for ever, those of images (scattering features, a linear model) for the run. 'Tuned': λ0, first
release and clipper, chosen on other seeds by the accuracy on training records. Without secrets:
[docs/results/history](../history/README.md). Tuning went in two stages: first release and clipper at the rule's λ0,
then λ0. Of images, all runs read 5 a learner and round; those 'by rule alone' had their gradients computed on a GPU in
float64, to save time.

{budgets}
## More learners

Mushrooms at ε = 0.3, dealt to ever more learners, {rounds} rounds, all by rule. 'Less noise': √(1/f), the noise
that a budget asks for without secrets, over that with them. By rule, releases lie as far apart as noise needs to
mix; τ = 2σ is near the most that secrets can do in the mean, and costs accuracy where it does not mix between
releases.

![Noise and accuracy over the number of learners](learners.png)

{learners}

## All methods at equal ε

Mushrooms, ten learners on the paper's graph, noise at the source, steps and releases by rule, ε for the run's 812
rounds. Methods that keep the sum of all gradients gain. Those whose links fade (LDOL, Wang & Başar, tailored
gradient tracking) lose: their learners' models no longer come together, so that pair noise stays in them. See the
column "keeps Σ g" of [docs/methods.md](../../methods.md).

{methods}

## How it was made

    python benchmarks/pair_secrets.py budgets mushrooms mnist cifar10
    python benchmarks/pair_secrets.py learners
    python benchmarks/pair_secrets.py methods
    python benchmarks/pair_secrets.py page
"""


def page(folder: Path) -> None:
    """README.md of all results that are there."""
    parts = []
    for name, by_colluders in ASKED.items():
        for colluders in by_colluders:
            path = folder / f"{name}-{colluders}.json"
            if path.exists():
                parts.append(f"## {name}, {colluders} colluders\n\n{budgets_table(json.loads(path.read_text()))}\n")
    curve, compared = (json.loads((folder / f"{one}.json").read_text()) for one in ("learners", "methods"))
    draw_learners(curve).savefig(folder / "learners.png")
    tables = {"budgets": "\n".join(parts), "learners": learners_table(curve), "methods": methods_table(compared)}
    (folder / "README.md").write_text(PAGE.format(version=curve["version"], rounds=ROUNDS, **tables))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=("budgets", "learners", "methods", "page"))
    parser.add_argument("data", nargs="*", help="of budgets: mushrooms, mnist, cifar10")
    parser.add_argument("--colluders", type=int, help="of budgets: 0 or 3 [default: both]")
    parser.add_argument("--epsilons", help="of budgets: some of them, 0.5,1")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/results/secrets"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    runs = Runs(given.out, given.jobs, lambda done, of: print(f"\r{given.study} {done}/{of}   ", end="", flush=True))
    some = None if given.epsilons is None else tuple(map(float, given.epsilons.split(",")))
    if given.study == "page":
        page(given.out)
        return
    if given.study != "budgets":
        found = learners(runs) if given.study == "learners" else methods(runs)
        write(given.out / f"{given.study}.json", found)
        print("\n\n" + (learners_table if given.study == "learners" else methods_table)(found), flush=True)
        return
    for name in given.data or list(ASKED):
        for colluders in ASKED[name] if given.colluders is None else (given.colluders,):
            found = budgets(name, colluders, runs, some)
            write(given.out / f"{name}-{colluders}.json", found)
            print(f"\n\n{name}, {colluders} colluders\n\n{budgets_table(found)}", flush=True)


def write(path: Path, found: dict[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
