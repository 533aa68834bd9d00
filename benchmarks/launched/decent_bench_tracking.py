"""ATC gradient tracking by decent-bench, in an environment of its own: started by benchmarks/other_software.py.

    python decent_bench_tracking.py PROBLEM.npz

Every line on standard input names a file: the problem is solved once, from the start, parameters and Metropolis
weights are written to that file, and the seconds that the rounds took are printed. Agents keep the last snapshot only.
"""

from __future__ import annotations

import sys
import time

import networkx as nx
import numpy as np
from decent_array import interoperability as iop
from decent_bench.agents import Agent
from decent_bench.algorithms.p2p import ATC_Tracking
from decent_bench.costs import L2RegularizerCost, LogisticRegressionCost
from decent_bench.networks import P2PNetwork


def network(given: dict[str, np.ndarray]) -> P2PNetwork:
    """Fresh agents on the links of R, each with its records and the ridge as one cost."""
    m, rounds, n = len(given["X"]), int(given["rounds"]), given["X"].shape[2]
    agents = []
    for i in range(m):
        pairs = zip(given["X"][i], given["y"][i], strict=True)
        records = [(iop.from_numpy(x), iop.from_numpy(np.array([b]))) for x, b in pairs]
        cost = LogisticRegressionCost(records) + float(given["l2"]) * L2RegularizerCost((n,))
        cost.gradient(iop.from_numpy(np.zeros(n)))  # stacks the records, once, before the rounds are timed
        agents.append(Agent(cost, state_snapshot_period=rounds))
    graph = nx.Graph()
    graph.add_nodes_from(range(m))
    graph.add_edges_from((j, i) for i in range(m) for j in range(i) if given["R"][i, j] > 0)
    return P2PNetwork(graph, agents)


def main() -> None:
    given = dict(np.load(sys.argv[1]))
    iop.set_backend("numpy")
    print("ready", flush=True)
    for line in sys.stdin:
        net = network(given)
        algorithm = ATC_Tracking(step_size=float(given["step"]))
        start = time.perf_counter()
        algorithm.run(net, int(given["rounds"]))
        seconds = time.perf_counter() - start
        theta = np.array([iop.to_numpy(agent.x) for agent in net.agents()])
        np.savez(line.strip(), theta=theta, weights=iop.to_numpy(net.weights))
        print(seconds, flush=True)


if __name__ == "__main__":
    main()
