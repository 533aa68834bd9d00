"""Three parties on one machine, each a process of its own with its own rows, key and budget.

    python examples/parties.py [folder [first port]]

The command does all of it; this program only calls it, as a script that sets up many runs would: make the folders, put
each party's rows into its own, run, collect the models, predict. It needs the extra `peers`.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
HOSPITALS = ("north", "east", "south")
AGREED = [
    "--target", "ill", "--classes", "no,yes", "--range", "age=18:100,dose=0:12,temperature=36:42",
    "--categories", "ward=emergency|surgery|outpatients", "--categories", "sex=f|m",
]  # fmt: skip


def gossamer(*words: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "gossamer", *map(str, words)], check=True)


def main(folder: Path, port: int = 7400) -> None:
    study = folder / "study"
    size = ["--learners", "3", "--graph", "ring", "--steps", "40", "--per-round", "30", "--port", str(port)]
    gossamer("peers", "init", study, *size, *AGREED, "--epsilon", "3")
    with (HERE / "visits.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    for learner, name in enumerate(HOSPITALS):
        with (study / f"learner-{learner}" / "records.csv").open("w", newline="", encoding="utf-8") as file:
            own = [row for row in rows if row[0] == name]
            csv.writer(file, lineterminator="\n").writerows([header, *own])
    gossamer("peers", "up", study)
    gossamer("peers", "collect", study, "--out", folder / "joint")
    gossamer("predict", folder / "joint", HERE / "new-visits.csv", "--out", folder / "predictions.csv")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
