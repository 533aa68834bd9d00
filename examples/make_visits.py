"""Invents the visits that README's example learns from: examples/visits.csv, and new ones in examples/new-visits.csv.

    python examples/make_visits.py

Four hospitals of unlike size, patients of unlike age. Whether somebody is ill depends on age, dose, ward and
temperature through a logistic model, so that no model is right in more than about 84 of 100 cases.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

HOSPITALS = {"north": (3200, 55.0), "east": (2400, 48.0), "south": (1600, 62.0), "harbour": (800, 41.0)}
WARDS = {"emergency": 0.9, "surgery": 0.0, "outpatients": -0.8}


def visits(rng: np.random.Generator, count: int, mean_age: float) -> list[list[str]]:
    age = rng.normal(mean_age, 14, count).clip(18, 99).round()
    dose = rng.gamma(2.0, 0.8, count).clip(0, 12).round(1)
    temperature = (36.8 + rng.gamma(1.5, 0.5, count)).clip(36, 42).round(1)
    ward, sex = rng.choice(list(WARDS), count), rng.choice(["f", "m"], count)
    margin = 0.07 * (age - 52) - 0.9 * (dose - 1.6) + 1.6 * (temperature - 37.5) + np.array([WARDS[w] for w in ward])
    ill = rng.random(count) < 1 / (1 + np.exp(-1.4 * margin))
    columns = zip(age, dose, temperature, ward, sex, ill, strict=True)
    return [[f"{a:.0f}", f"{d:.1f}", f"{t:.1f}", w, s, "yes" if i else "no"] for a, d, t, w, s, i in columns]


def main() -> None:
    rng, folder = np.random.default_rng(0), Path(__file__).parent
    rows = [[name, *row] for name, (count, age) in HOSPITALS.items() for row in visits(rng, count, age)]
    rows = [rows[k] for k in rng.permutation(len(rows))]
    header = ["hospital", "age", "dose", "temperature", "ward", "sex", "ill"]
    for name, some in (("visits.csv", rows[:-500]), ("new-visits.csv", rows[-500:])):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *some])


if __name__ == "__main__":
    main()
