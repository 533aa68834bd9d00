"""Gradient tracking over directed graphs by DISROPT, one MPI process an agent: started by benchmarks/other_software.py.

    mpiexec -n AGENTS python disropt_tracking.py PROBLEM.npz RESULT.npz expression|closed

expression   the loss is written in DISROPT's functions, and autograd differentiates it, as DISROPT's examples do
closed       the loss is a function of our own with its gradient in closed form, as fast as NumPy makes it

Written to RESULT.npz: every agent's parameters and the seconds of the slowest agent's rounds.
"""

from __future__ import annotations

import sys
import time

import autograd.numpy as anp
import numpy as np
from disropt.agents import Agent
from disropt.algorithms.gradient_tracking import DirectedGradientTracking
from disropt.functions import AbstractFunction, Logistic, SquaredNorm, Variable
from disropt.problems import Problem
from mpi4py import MPI


class ClosedForm(AbstractFunction):
    """mean log(1 + exp(a'θ)) − b a'θ + l2/2 ‖θ‖², with its gradient."""

    def __init__(self, A: np.ndarray, b: np.ndarray, l2: float) -> None:
        self._A, self._b, self._l2 = A, b[:, None], l2
        self.input_shape, self.output_shape, self.differentiable = (A.shape[1], 1), (1, 1), True
        super().__init__()

    def eval(self, x: np.ndarray) -> np.ndarray:
        margins = self._A @ x
        loss = anp.mean(anp.logaddexp(0, margins) - self._b * margins) + self._l2 / 2 * anp.sum(x**2)
        return loss.reshape(1, 1)

    def _alternative_subgradient(self, x: np.ndarray, **_: object) -> np.ndarray:
        weights = 1 / (1 + np.exp(-(self._A @ x))) - self._b
        return self._A.T @ weights / len(self._b) + self._l2 * x


def expression(A: np.ndarray, b: np.ndarray, l2: float) -> AbstractFunction:
    """The same loss: log(1 + exp(a'θ)) − b a'θ = log(1 + exp(−(2b − 1) a'θ)) for b of 0 or 1."""
    records, n = A.shape
    signed = (-(2 * b - 1)[:, None] * A).T
    x = Variable(n)
    return np.full((records, 1), 1 / records) @ Logistic(signed @ x) + l2 / 2 * SquaredNorm(x)


def main() -> None:
    path, result, form = sys.argv[1:]
    comm, given = MPI.COMM_WORLD, np.load(path)
    i, pull, push = comm.rank, np.eye(comm.size) + given["R"], np.eye(comm.size) + given["C"]
    hears = [j for j in range(comm.size) if j != i and pull[i, j] > 0]
    tells = [j for j in range(comm.size) if j != i and push[j, i] > 0]
    out = {j: push[j, i] for j in [*tells, i]}
    agent = Agent(hears, tells, in_weights=list(pull[i]), out_weights=out, auto_local=False)
    loss = {"expression": expression, "closed": ClosedForm}[form](given["X"][i], given["y"][i], float(given["l2"]))
    agent.set_problem(Problem(loss))
    algorithm = DirectedGradientTracking(agent, np.zeros((given["X"].shape[2], 1)))
    comm.Barrier()
    start = time.perf_counter()
    algorithm.run(iterations=int(given["rounds"]), stepsize=float(given["step"]))
    seconds = comm.gather(time.perf_counter() - start)
    theta = comm.gather(algorithm.get_result().ravel())
    if i == 0:
        np.savez(result, theta=np.array(theta), seconds=max(seconds))


if __name__ == "__main__":
    main()
