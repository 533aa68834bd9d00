"""A DataFrame of your own, from nothing to predictions, with scikit-learn's words: ε = 3 for every row.

    python examples/own_frame.py        (extras sklearn and frames, and pandas)

What columns may hold is declared, as you would say it without the data. `learner` says whose each row is.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

import gossamer as gs

HERE = Path(__file__).parent


def main() -> None:
    visits = pd.read_csv(HERE / "visits.csv")
    model = gs.PrivateDecentralizedClassifier(
        epsilon=3.0,
        bounds={"age": (18, 100), "dose": (0, 12), "temperature": (36, 42)},
        categories={"ward": ["emergency", "surgery", "outpatients"], "sex": ["f", "m"]},
        classes=["no", "yes"],
    )
    model.fit(visits.drop(columns=["ill", "hospital"]), visits["ill"], learner=visits["hospital"])
    print(f"ε = {model.epsilon_:.2f}; {model.claim_}")

    with tempfile.TemporaryDirectory() as folder:
        path = model.record_.export(Path(folder) / "visits.json")
        loaded = gs.load_model(path)
    new = pd.read_csv(HERE / "new-visits.csv")
    right = (loaded.predict(new) == new["ill"]).mean()
    print(f"accuracy {right:.3f} on {len(new)} new rows")


if __name__ == "__main__":
    main()
