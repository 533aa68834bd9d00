"""An algorithm's `dynamics` against its own emit and step: differences of gradients, sent through both."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.arrays import dense
from gossamer.checks import Finding, says
from gossamer.networks import Network
from gossamer.types import Array, Out

WIDTH = 3


def travel_findings(algorithm: Algorithm[Any], net: Network) -> Iterator[Finding]:
    """Early rounds and late ones, for the least heard learner, the best heard, and one between."""
    if algorithm.dynamics is not None:
        late = int(min(net.settles, 300)) + 20  # by then mixing has settled
        for i in sorted({int(net.perron.argmin()), int(net.perron.argmax()), net.m // 2}):
            yield from (_travel(algorithm, net, i, start) for start in (0, late))


def received(out: dict[str, Out], net: Network) -> dict[str, Array]:
    """got_i = Σ_{j≠i} W_ij sent_j, written out; with the learner's own message where that comes to it as well."""
    got = {}
    for channel, sent in out.items():
        weights = np.array(dense(getattr(net, sent.over.removeprefix("I+"))))
        np.fill_diagonal(weights, 1 + np.diag(weights) if sent.over.startswith("I+") else 0.0)
        got[channel] = weights @ sent.value
    return got


def _travel(algorithm: Algorithm[Any], net: Network, i: int, start: int, rounds: int = 12, tries: int = 12) -> Finding:
    """Differences of one learner's gradients, of any size and sign, against A and b, message by message.

    Two copies of learner i receive the same and differ in their gradients by ±d_t. What they send may differ by no more
    than x_t, x_{t+1} = A_t x_t + b_t |d_t|, and not at all where nothing is noised. Any model's gradients are such d_t.
    """
    assert algorithm.dynamics is not None
    rng = np.random.default_rng(start)
    rows = net.rows([i], algorithm.mixes)
    dynamics = algorithm.dynamics(rows, net.own_weights(start + rounds + 1)[:, i])
    begin, public = _without_data(algorithm, net, i, start, rounds)
    check, worst = f"privacy, dynamics of learner {i} from round {start}", 0.0
    for attempt in range(tries):
        signs = np.ones(rounds) if attempt == 0 else rng.choice([-1.0, 0.0, 1.0], size=rounds)
        signs[0] = 1.0
        sizes = signs * (1e6 if attempt % 3 == 2 else 1.0)
        one = other = begin
        x = np.zeros(dynamics.b.shape[1])
        for k, d in enumerate(sizes):
            t, grad = start + k, rng.normal(size=(1, WIDTH))
            shifted = grad + d * np.eye(1, WIDTH)
            sent, also = (algorithm.emit(s, g, rows, t) for s, g in ((one, grad), (other, shifted)))
            after = dynamics.A[t] @ x + dynamics.b[t] * abs(d)
            for channel, out in sent.items():
                apart = float(np.abs(out.value - also[channel].value).sum())
                if not out.private and apart:
                    return says(check, f"channel {channel!r} is sent without noise and depends on data")
                if out.private and channel not in dynamics.channels:
                    return says(check, f"channel {channel!r} is private and dynamics() does not name it")
                if out.private:
                    bound = (after if channel in dynamics.after else x)[dynamics.channels[channel]]
                    slack = 1e-9 * (abs(out.value).sum() + abs(also[channel].value).sum() + 1e-300)
                    worst = max(worst, (apart - slack) / bound if bound > 0 else math.inf if apart > slack else 0.0)
            noise = rng.normal(size=(1, WIDTH))
            got = {c: noise if o.private else public[k][c] for c, o in sent.items()}
            one, other = algorithm.step(one, got, grad, rows, t), algorithm.step(other, got, shifted, rows, t)
            x = after
    return Finding(f"{check}: largest difference over its bound", worst, 1.0, worst <= 1 + 1e-6)


def _without_data(
    algorithm: Algorithm[Any], net: Network, i: int, start: int, rounds: int
) -> tuple[Any, list[dict[str, Array]]]:
    """Learner i's state at round `start` where all gradients were 0, and what it receives in public from then on."""
    rows = net.rows(mixes=algorithm.mixes)
    zero = np.zeros((net.m, WIDTH))
    state, public, begin = algorithm.init(rows, zero), [], None
    for t in range(start + rounds):
        if t == start:
            begin = type(state)(*(a[[i]] for a in state))
        out = algorithm.emit(state, zero, rows, t)
        got = received(out, net)
        if t >= start:
            public.append({c: got[c][[i]] for c, o in out.items() if not o.private})
        state = algorithm.step(state, got, zero, rows, t)
    return begin, public
