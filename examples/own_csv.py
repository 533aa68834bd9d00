"""A CSV file of your own, from nothing to predictions: with ε = 3 for every row.

    python examples/own_csv.py

Four hospitals learn together who is ill, from examples/visits.csv. What columns may hold is declared, as you would
say it without the file. The model is saved, loaded again and used on new rows.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import gossamer as gs

HERE = Path(__file__).parent


def main() -> None:
    stream = gs.streams.from_csv(
        HERE / "visits.csv", "ill", split_by="hospital", per_round=60, classes=["no", "yes"],
        ranges={"age": (18, 100), "dose": (0, 12), "temperature": (36, 42)},
        categories={"ward": ["emergency", "surgery", "outpatients"], "sex": ["f", "m"]},
    )  # fmt: skip
    run = gs.simulate(
        gs.ldp_gradient_tracking(step="auto"),
        gs.Network.ring(4),
        stream,
        model=gs.LogisticRegression(l2=1e-4),
        privacy=gs.Gaussian.for_budget(3.0, delta=1e-5, where="source"),
        steps=150,
    )
    assert run.epsilon is not None
    print(f"accuracy {run.history.accuracy[-1]:.3f}, ε = {run.epsilon.spent.max():.2f}; {run.claim}")

    with tempfile.TemporaryDirectory() as folder:
        run.save(Path(folder) / "visits")
        model = gs.Record.load(Path(folder) / "visits")
    found = model.predict(HERE / "new-visits.csv")
    print("new visits:", dict(Counter(found.tolist())))
    weights = model.coefficients()["yes"]
    assert isinstance(weights, dict)  # of a quantity there would be one set of them, and no classes
    for name, weight in weights.items():
        print(f"{name:18} {weight:7.3f}")


if __name__ == "__main__":
    main()
