"""One suite that every algorithm must pass, ours and a user's own: `check_algorithm` says what is wrong with it.

    form        init, emit and step give arrays of the right shape, over the links that `mixes` names
    purity      the same arguments give the same answer, and none of them is changed
    blocks      learners in blocks of any size take the same steps as all of them stacked
    locality    a learner's step depends on its own state, its own gradient and what it received: nothing else
    limit       without noise it comes to rest at argmin Σ w_i f_i, w the `weights` it documents, where learners differ
    conserved   a round's gradients count in the common model as it declares, or as is said where it declares nothing
    refusal     constructions that break its constraints are refused
    privacy     replaying neighbouring records never costs more than its `dynamics` say, in every mode and law

The mixing here is written from the equations, apart from the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm
from gossamer.checks import Finding, says, within
from gossamer.checks.climb import worst_found
from gossamer.checks.conserved import conserved_finding
from gossamer.checks.travel import WIDTH, received, travel_findings
from gossamer.checks.worlds import Case
from gossamer.errors import GossamerError
from gossamer.models import Clip, LinearModel, LogisticRegression
from gossamer.models.standard import Standardise
from gossamer.networks import Network
from gossamer.privacy import Gaussian, Laplace
from gossamer.privacy.forever import is_settled
from gossamer.privacy.releases import Releases, every
from gossamer.schedules import decay
from gossamer.types import Array, Out

CLOSE = 0.05  # of the learners' spread: how near the documented limit a run must come
PLAIN = LogisticRegression(l2=0.1)
STANDARDISED = LogisticRegression(0.1, Clip(2, 0.5), intercept=True, standardise=Standardise((0, 1)))
HEAD = Releases(1, 5, head=2, pause=1)  # moments in rounds 2 and 3
REPLAYS: tuple[tuple[Any, Any, LinearModel], ...] = (
    (Laplace(decay(1.0, 0.6)), "history", PLAIN),
    (Laplace(decay(1.0, 0.6)), "latest", PLAIN),
    (Gaussian(decay(1.0, 0.6), delta=1e-5), "history", PLAIN),
    (Gaussian(decay(1.0, 0.6), delta=1e-5), "latest", PLAIN),
    (Laplace(decay(1.0, 0.0), "source"), "latest", PLAIN),
    (Gaussian(decay(1.0, 0.3), "source", delta=1e-5, releases=every(1, after=2), band=2), "history", PLAIN),
    (Gaussian(decay(1.0, 0.3), "source", delta=1e-5, releases=HEAD), "history", STANDARDISED),
)


def check_algorithm(
    algorithm: Algorithm[Any],
    *,
    network: Network | None = None,
    violations: Iterable[Callable[[], Algorithm[Any]]] = (),
    rounds: int = 20_000,
) -> list[Finding]:
    """Run the whole suite; raises one error that names every check that failed, with what was measured.

    `violations` are constructions that the method must refuse, such as lambda: dsgd(step=decay(1.0, 0.3)). Its step
    must suit quadratics of curvature ½ to 1½. Without `dynamics` it passes, and can only be run with noise at the
    source.
    """
    net = network if network is not None else Network.paper()
    findings: list[Finding] = []
    for check in (_form, _purity, _blocks, _locality):
        findings.append(check(algorithm, net))
        if not findings[-1].holds:
            raise _failed(algorithm, findings)  # what follows would only stumble over the same
    findings.append(_limit(algorithm, net, rounds))
    findings.append(conserved_finding(algorithm, net, rounds))
    findings += [_refusal(k, build) for k, build in enumerate(violations)]
    findings.append(_power(algorithm, net))
    if algorithm.dynamics is not None and findings[-1].holds:
        findings += travel_findings(algorithm, net)
    if all(finding.holds for finding in findings):
        findings += _privacy(algorithm, net)
    if not all(finding.holds for finding in findings):
        raise _failed(algorithm, findings)
    return findings


def _failed(algorithm: Algorithm[Any], findings: list[Finding]) -> GossamerError:
    said = "; ".join(f"{f.check} (measured {f.measured:.4g}, allowed {f.allowed:.4g})" for f in findings if not f.holds)
    return GossamerError(f"{algorithm.name} does not conform: {said}.")


# -- a little engine of its own --------------------------------------------------------------------------------------


def _start(algorithm: Algorithm[Any], net: Network, seed: int = 0) -> tuple[Any, Any, np.random.Generator]:
    rng = np.random.default_rng(seed)
    rows = net.rows(mixes=algorithm.mixes)
    return algorithm.init(rows, rng.normal(size=(net.m, WIDTH))), rows, rng


def _rounds(
    algorithm: Algorithm[Any], net: Network, count: int
) -> Iterator[tuple[Any, Array, dict[str, Out], Any, int]]:
    """(state, gradient, sent, received, t) of a few rounds with arbitrary gradients."""
    state, rows, rng = _start(algorithm, net)
    for t in range(count):
        grad = rng.normal(size=(net.m, WIDTH))
        out = algorithm.emit(state, grad, rows, t)
        got = received(out, net)
        yield state, grad, out, got, t
        state = algorithm.step(state, got, grad, rows, t)


# -- the checks --------------------------------------------------------------------------------------------------------


def _form(algorithm: Algorithm[Any], net: Network) -> Finding:
    check = "form"
    try:
        state, rows, rng = _start(algorithm, net)
        if getattr(state, "theta", np.empty(0)).shape != (net.m, WIDTH):
            return says(check, "init() must give a state with a field theta of shape (learners, coordinates)")
        grad = rng.normal(size=(net.m, WIDTH))
        out = algorithm.emit(state, grad, rows, 0)
        for channel, sent in out.items():
            if sent.over not in algorithm.mixes:
                return says(check, f"channel {channel!r} goes over {sent.over}, which is not in mixes")
            if sent.value.ndim != 2 or len(sent.value) != net.m:
                return says(check, f"channel {channel!r} must send one row for each learner")
        after = algorithm.step(state, received(out, net), grad, rows, 0)
        if type(after) is not type(state) or [a.shape for a in after] != [a.shape for a in state]:
            return says(check, "step() must give a state of the same type and shapes as it got")
        if not all(np.isfinite(a).all() for a in after):
            return says(check, "step() gave numbers that are not finite; does mixes name all matrices it uses?")
    except Exception as error:  # a newcomer's mistakes come as anything
        return says(check, f"{type(error).__name__}: {error}")
    return says(check, "")


def _purity(algorithm: Algorithm[Any], net: Network) -> Finding:
    rows = net.rows(mixes=algorithm.mixes)
    for state, grad, out, got, t in _rounds(algorithm, net, 3):
        for array in (*state, grad, *got.values()):
            array.setflags(write=False)
        try:
            again = algorithm.emit(state, grad, rows, t)
            one, other = (algorithm.step(state, got, grad, rows, t) for _ in range(2))
        except ValueError as error:  # numpy's answer to writing to what is read-only
            return says("purity", f"emit() or step() changes its arguments ({error})")
        if any(not np.array_equal(out[c].value, again[c].value) for c in out):
            return says("purity", "emit() gives another answer when asked again")
        if any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True)):
            return says("purity", "step() gives another answer when asked again")
    return says("purity", "")


def _blocks(algorithm: Algorithm[Any], net: Network) -> Finding:
    """The largest difference between stacked learners and blocks of one, some and the rest."""
    cut = [np.array([0]), np.arange(1, net.m // 2), np.arange(net.m // 2, net.m)]
    parts, apart = None, 0.0
    for state, grad, out, got, t in _rounds(algorithm, net, 5):
        blocks = [net.rows(ids, algorithm.mixes) for ids in cut if len(ids)]
        if parts is None:
            parts = [algorithm.init(rows, state.theta[rows.ids]) for rows in blocks]
        for part, rows in zip(parts, blocks, strict=True):
            apart = max(apart, *(_gap(a, b[rows.ids]) for a, b in zip(part, state, strict=True)))
            for channel, sent in algorithm.emit(part, grad[rows.ids], rows, t).items():
                apart = max(apart, _gap(sent.value, out[channel].value[rows.ids]))
        parts = [
            algorithm.step(part, {c: v[rows.ids] for c, v in got.items()}, grad[rows.ids], rows, t)
            for part, rows in zip(parts, blocks, strict=True)
        ]
    return Finding("blocks: largest difference from all learners stacked", apart, 1e-12, apart <= 1e-12)


def _locality(algorithm: Algorithm[Any], net: Network) -> Finding:
    """The largest change at other learners when one learner's state and gradient change and messages do not."""
    rows = net.rows(mixes=algorithm.mixes)
    leak = 0.0
    for state, grad, out, got, t in _rounds(algorithm, net, 3):
        before = algorithm.step(state, got, grad, rows, t)
        for i in range(net.m):
            others = np.delete(np.arange(net.m), i)
            moved, shifted = type(state)(*(_with_row(a, i, 1.0) for a in state)), _with_row(grad, i, -2.0)
            for channel, sent in algorithm.emit(moved, shifted, rows, t).items():
                leak = max(leak, _gap(sent.value[others], out[channel].value[others]))
            after = algorithm.step(moved, got, shifted, rows, t)
            leak = max(leak, *(_gap(a[others], b[others]) for a, b in zip(before, after, strict=True)))
    return Finding("locality: change at other learners without a message", leak, 0.0, leak == 0)


def _limit(algorithm: Algorithm[Any], net: Network, rounds: int) -> Finding:
    """f_i = ½ a_i ‖θ − c_i‖², curvatures and centres all different: how far from the documented optimum it ends."""
    rng = np.random.default_rng(1)
    curvature, centre = rng.uniform(0.5, 1.5, size=(net.m, 1)), rng.normal(size=(net.m, WIDTH))
    weight = np.ones(net.m) if algorithm.weights is None else algorithm.weights(net.perron)
    share = weight[:, None] * curvature
    optimum = (share * centre).sum(axis=0) / share.sum()
    spread = float(np.linalg.norm(centre - optimum, axis=1).mean())
    rows = net.rows(mixes=algorithm.mixes)
    weights = {over: np.array(net.off_diagonal(over)) for over in algorithm.mixes} if net.m <= 128 else None
    state = algorithm.init(rows, np.zeros((net.m, WIDTH)))
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(rounds):
            grad = curvature * (algorithm.point(state) - centre)
            out = algorithm.emit(state, grad, rows, t)
            got = received(out, net) if weights is None else {c: weights[o.over] @ o.value for c, o in out.items()}
            state = algorithm.step(state, got, grad, rows, t)
    error = float(np.linalg.norm(state.theta - optimum, axis=1).max()) / spread
    point = "argmin Σ f_i" if algorithm.weights is None else "its documented, weighted optimum"
    return Finding(f"limit: distance from {point} after {rounds} rounds", error, CLOSE, error <= CLOSE)


def _refusal(k: int, build: Callable[[], Algorithm[Any]]) -> Finding:
    try:
        build()
    except GossamerError:
        return says(f"refusal of violation {k}", "")
    return says(f"refusal of violation {k}", "it was accepted")


def _privacy(algorithm: Algorithm[Any], net: Network) -> Iterator[Finding]:
    for mechanism, gradient, model in REPLAYS:
        if algorithm.dynamics is None and mechanism.where == "messages":
            continue
        case = Case(algorithm, net, model, mechanism, gradient, rounds=8)
        losses = worst_found(case, tries=4, climbs=20).losses / case.claims
        i = int(losses.argmax())
        what = f"{mechanism.law} on {mechanism.where}, {gradient}" + ", standardised" * case.standardised
        yield within(f"privacy, {what}: replayed loss of learner {i}, of the claim", float(losses[i]), 1.0)


def _power(algorithm: Algorithm[Any], net: Network) -> Finding:
    """Whether A and b go with time as `v` says: budgets for ever are proved from that."""
    check = "privacy, for ever"
    if algorithm.dynamics is None or not np.isfinite(net.settles):
        return says(check, "")
    rows = net.rows([0], algorithm.mixes)
    dynamics = algorithm.dynamics(rows, net.own_weights(4 * int(net.settles) + 64)[:, 0])
    if not dynamics.channels:
        return says(check, "dynamics() names no channel")
    settled = dynamics.v is None or is_settled(dynamics, dynamics.v)
    return says(check, "" if settled else "A is not constant or b not ∝ (t+1)^-v in the end: give v=None")


def _gap(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max(initial=0.0))


def _with_row(array: Array, i: int, shift: float) -> Array:
    changed = array.copy()
    changed[i] += shift
    return changed
