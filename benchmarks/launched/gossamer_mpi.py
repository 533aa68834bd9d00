"""Algorithm 1 on ranks of MPI: started by benchmarks/other_software.py, in this project's own environment.

    mpiexec -n RANKS python gossamer_mpi.py PROBLEM.npz RESULT.npz

Written to RESULT.npz: all learners' parameters and the seconds of the rounds, without set-up and evaluation.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import gossamer as gs
from gossamer.cluster import simulate


def main() -> None:
    path, result = sys.argv[1:]
    with np.load(path) as given:
        X, y, rounds = given["X"], given["y"], int(given["rounds"])
        net = gs.Network(given["R"], given["C"])
        model, step = gs.LogisticRegression(l2=float(given["l2"])), gs.decay(float(given["step"]), 0.0)
    ends: list[float] = []
    run = simulate(
        gs.ldp_gradient_tracking(step=step, strict=False), net, gs.streams.from_arrays(X, y, per_round=X.shape[1]),
        model=model, steps=rounds, evaluate_every=rounds, progress=lambda _: ends.append(time.perf_counter()),
    )  # fmt: skip
    if run is not None:
        each = (ends[-2] - ends[0]) / (len(ends) - 2)  # the last round is followed by an evaluation
        np.savez(result, theta=run.theta, seconds=each * rounds)


if __name__ == "__main__":
    main()
