"""What privacy costs an estimator: accuracy on rows that nobody learnt from, beside scikit-learn's LogisticRegression.

python examples/estimator_accuracy.py        (extras sklearn and frames; a minute or two)
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gossamer as gs
from gossamer.datasets.mushrooms import NAMES, raw

VISITS = {
    "bounds": {"age": (18, 100), "dose": (0, 12), "temperature": (36, 42)},
    "categories": {"ward": ["emergency", "surgery", "outpatients"], "sex": ["f", "m"]},
    "classes": ["no", "yes"],
}
EPSILONS = (math.inf, 8.0, 3.0, 1.0)
CALLS = 20  # of partial_fit


def tables() -> dict[str, tuple[pd.DataFrame, pd.Series, pd.Series | None, dict[str, Any]]]:
    """Rows, labels, whose they are, and what is declared of them."""
    visits = pd.read_csv(Path(__file__).with_name("visits.csv"))
    mushrooms = pd.DataFrame(raw(), columns=NAMES).drop(columns="veil-type")  # which is the same for all
    features = mushrooms.drop(columns="class")
    declared = {"classes": ["e", "p"], "categories": {name: sorted(set(features[name])) for name in features}}
    return {
        "visits": (visits.drop(columns=["ill", "hospital"]), visits["ill"], visits["hospital"], VISITS),
        "mushrooms": (features, mushrooms["class"], None, declared),
    }


def central(X: pd.DataFrame, test: pd.DataFrame, y: pd.Series, truth: pd.Series) -> float:
    """All rows in one place, and no noise."""
    both = pd.get_dummies(pd.concat([X, test]), dtype=float)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(both[: len(X)], y)
    return float(model.score(both[len(X) :], truth))


def accuracies(name: str, seed: int) -> dict[str, float]:
    X, y, who, declared = tables()[name]
    train, test = train_test_split(np.arange(len(X)), test_size=0.2, random_state=seed)
    owner = None if who is None else who.iloc[train]
    told = {"scikit-learn": central(X.iloc[train], X.iloc[test], y.iloc[train], y.iloc[test])}
    for epsilon in EPSILONS:
        made = gs.PrivateDecentralizedClassifier(epsilon, random_state=seed, **declared)
        made.fit(X.iloc[train], y.iloc[train], learner=owner)
        told[f"fit, ε = {epsilon:g}"] = float(made.score(X.iloc[test], y.iloc[test]))
    for epsilon in (math.inf, 3.0):
        made = gs.PrivateDecentralizedClassifier(epsilon, random_state=seed, **declared)
        for some in np.array_split(train, CALLS):
            made.partial_fit(X.iloc[some], y.iloc[some])
        told[f"partial_fit, ε = {epsilon:g} for ever"] = float(made.score(X.iloc[test], y.iloc[test]))
    return told


def main(seeds: int) -> None:
    for name in tables():
        runs = pd.DataFrame([accuracies(name, seed) for seed in range(seeds)])
        for kind in runs:
            print(f"{name:10} {kind:28} {runs[kind].mean():.4f} ({runs[kind].min():.4f} to {runs[kind].max():.4f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
