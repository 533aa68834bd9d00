"""Noise that cancels: who shares a secret with whom, and what a record costs if some of them tell.

Every two learners i, j that are joined in a *secrets graph* share a key. In a release learner i adds its own noise η_i,
of deviation σ_i, and for every partner j noise v_ij = −v_ji, of deviation τ, that both draw from their key. A sum over
learners keeps Σ η_i alone, while a single release is hidden by both. See gossamer.privacy.pairs for how it is drawn.

**What an observer sees.** It has every release, and the keys of q learners that collude with it, at most. Whatever it
knows it can subtract. What is left of a round is g + η + B v over the honest learners H, B the incidence matrix of the
secrets graph among them, with the covariance Σ = diag(σ_i²) + τ² L, L that graph's Laplacian. A record of learner i
moves g by Δ e_i, so for Gaussian noise it costs μ² = Δ² (Σ⁻¹)_ii.

**Proof, with whole numbers.** Releases are whole numbers of one grid, and η_i and v_ij are discrete Gaussians on it.
Fix two worlds that differ in one record of learner i. In a round, given everything that was released before, they
differ by the whole vector d = g'_i − g_i of learner i and nowhere else (gossamer.privacy.source). Let a and b be whole
numbers, for each coordinate, with a + B b = d e_i. Then g' + η + B v = g + (η + a) + B (v + b): what is released in the
one world with the noise (η, v) is released in the other with (η + a, v + b). So it is enough to tell (η, v) from
(η + a, v + b), from which releases are computed: independent discrete Gaussians that are shifted. Rounds compose as
always: the cost of a round is at most

    Σ_{j∈H} |a_j|²/σ_j² + Σ_{e} |b_e|²/τ²             for every choice of a and b.

Over real numbers its least value is |d|² (Σ⁻¹)_ii, at a_j = d σ_j² (Σ⁻¹)_ji and b = d τ² Bᵀ Σ⁻¹ e_i. The matrix (I, B)
of a + B b = d e_i is totally unimodular, so there are whole a, b that satisfy it too, each the real one rounded up or
down (Hoffman & Kruskal, "Integral boundary points of convex polyhedra", 1956): each of the h + |E| noises of a
coordinate is shifted by less than one step more. By Minkowski's inequality the root of the cost grows by less than
√(h + |E|) steps of the grid, where one step is at most 2⁻⁴⁰ of every deviation; weighing g and putting it on the grid
moves it by 1.5 steps more, as no value is beyond 2^50 steps. Both are within the charge of gossamer.privacy.laws, two
steps for every noised number, when all h + |E| noises of a coordinate are counted as numbers. No law of a sum of
discrete Gaussians is needed. ∎

**In whatever order.** A colluder may hold back what learner i waits for until others have released the same round, and
then choose it: d may depend on these releases. Even an observer who knew the noise n_j = η_j + (B v)_j of all others,
of all rounds, before anything is sent would pay as much. All that happens in a run follows from these and from learner
i's releases. Given them η_j is n_j − (B v)_j, and (η_i, v) is a discrete Gaussian with another centre and another form,

    P(η_i, v) ∝ exp(−½ [η_i²/σ_i² + Σ_e v_e²/τ² + Σ_{j≠i} (n_j − (B v)_j)²/σ_j²]),

in which a shift by (a_i, b) costs a_i²/σ_i² + Σ_e b_e²/τ² + Σ_{j≠i} (B b)_j²/σ_j². That is the cost above, because
a_j = −(B b)_j, and d is a constant by now. No eigenvalue of the form is above (λ + 1) 2⁻⁸⁰, λ the largest of L. So,
within 64 deviations of its centre, its law is that of a continuous Gaussian in the unit cubes around whole numbers but
for a factor of 1 ± (λ + 1) 2⁻⁷² for each noise: what is charged for being discrete covers it for any λ below eight
thousand. λ is at most m, and at most twice the most partners D that a learner has, since xᵀL x = Σ_e (x_i − x_j)² is at
most Σ_e 2 (x_i² + x_j²). Where the smaller of m and 2 D is not below eight thousand, secrets are refused.

A partner that releases nothing in a round hides more: an observer has one number less. Learners whose own noise is
larger than agreed do, too: Σ grows with every σ_j, and Σ⁻¹ falls. So it is enough that σ_j ≥ σ for all others. With
σ_i = ϱσ, ϱ ≥ 1, Sherman & Morrison's formula gives, from f = σ² (Σ⁻¹)_ii at ϱ = 1,

    σ_i² (Σ⁻¹)_ii = ϱ² f/(1 + (ϱ² − 1) f).

**How much it is.** f = 1/h + (1 − 1/h)/(1 + h τ²/σ²) for the complete graph among h = m − q honest learners: for the
same ε there is about √h times less noise in the mean of all models than without secrets. If everybody else colludes it
is 1: what σ alone hides, which is shown beside every ε.

**How much noise pairs add.** At the same ε noise has a variance in proportion to f. In the mean of m models, R releases
leave R f/m of it. A learner's own model has, beside that, what of its last releases has not yet mixed: Q times what
one release has, f (1 + d τ²/σ²) with d partners (for Q see gossamer.privacy.plan). The larger τ, the smaller is the
first and the larger the second. By rule τ/σ is where their sum is least.

**The worst colluders.** f is the largest that any q of the others leave. Complete graphs are alike from everywhere.
Elsewhere all choices are tried if they are few, which is exact, a part of the graph that falls off counted by itself.
If they are many, f is bounded from above by the smaller of two numbers. A learner and the partners that it keeps, at
least d of them, are a star: f ≤ (1 + 1/r)/(d + 1 + 1/r), r = τ²/σ², since leaving links out takes noise away. And
removing a vertex lowers a graph's algebraic connectivity by at most 1 (Fiedler, "Algebraic connectivity of graphs",
Czechoslovak Math. J. 1973): f ≤ 1/h + (1 − 1/h)/(1 + r (λ₂ − q)) where λ₂ > q.

Keys are shared over X25519 and noise comes from a stream cipher: against somebody who breaks either, ε is the one for
all others colluding. Known for undirected graphs and plain gradient steps: Allouah, Koloskova, El Firdoussi, Jaggi &
Guerraoui, "The Privacy Power of Correlated Noise in Decentralized Learning", ICML 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, islice
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import BadValue, GossamerError, NotProvable
from gossamer.privacy.secret_graphs import (
    SQUARE_UP_TO,
    Edges,
    connectivity_of,
    connectivity_of_circle,
    laplacian_of,
    steps_of,
)
from gossamer.types import Array, Integers

Matrices = Literal["R", "C"]

MOST_EIGENVALUE = 8000  # of L, for which what is charged covers that noise is discrete
MOST_PAIRS = SQUARE_UP_TO * (SQUARE_UP_TO - 1) // 2
MOST_WORK = 2 * 10**8  # operations for trying every choice of colluders
BLOCK = 500  # choices that are worked out together
LEAST_SHARE, MOST_SHARE = 2.0**-6, 2.0**6  # τ/σ
SHARES = 97  # that the rule looks at: nine percent from one to the next
MOST_SHOWN = 1000  # choices of colluders that are tried to show a bad one
REGULAR = "-regular"
AGAINST_ALL = "against all others together"  # whom ε holds against without secrets


class Linked(Protocol):
    """What a network is here: learners, and weighted links from one to another."""

    @property
    def m(self) -> int: ...
    def edges(self, over: Matrices) -> Sequence[tuple[int, int, float]]: ...


class Pairs(NamedTuple):
    """A secrets graph of one's own."""

    learners: int
    edges: Edges


@dataclass(frozen=True)
class Secrets:
    """Pair secrets: who shares one, how many may collude, and how much noise pairs add.

    graph       "complete", "4-regular" (or 4: learners in a circle, each with its nearest), or a Network, whose links
                are taken both ways
    colluders   how many learners may put their keys together, and ε still holds for all others; one that is curious
                by itself is one: with 0, ε holds against outsiders alone
    share       τ/σ, the noise of a pair in units of a learner's own; "auto": that with the least noise in a learner's
                own model (see gossamer.privacy.secrets)
    """

    graph: str | int | Linked | Pairs = "complete"
    colluders: int = 1
    share: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", _checked_graph(self.graph))
        whole = isinstance(self.colluders, int | np.integer) and not isinstance(self.colluders, bool)
        if not whole or self.colluders < 0:
            raise BadValue("colluders", self.colluders, "expected a whole number of learners, 0 or more")
        object.__setattr__(self, "colluders", int(self.colluders))
        if self.share != "auto":
            number = isinstance(self.share, Real) and not isinstance(self.share, bool)
            if not number or not LEAST_SHARE <= float(self.share) <= MOST_SHARE:
                requirement = f'expected "auto", or a number from {LEAST_SHARE:g} to {MOST_SHARE:g}'
                raise BadValue("share", self.share, requirement)
            object.__setattr__(self, "share", float(self.share))

    def edges(self, learners: int) -> Edges:
        """Who shares a secret with whom: pairs i < j."""
        degree = _degree(self.graph)
        if not isinstance(self.graph, Pairs) and self.pairs(learners) > MOST_PAIRS:
            raise GossamerError(
                f"secrets {self.graph} of {learners:,} learners are {self.pairs(learners):,} pairs, each with a key, "
                f"expected at most {MOST_PAIRS:,}: use a secrets graph with fewer, such as 4-regular."
            )
        if self.graph == "complete":
            return tuple(combinations(range(learners), 2))
        if degree is not None:
            return _circle(degree, learners)
        own: Any = self.graph
        if own.learners != learners:
            requirement = f"the run has {learners} learners"
            raise BadValue("secrets", f"a graph of {own.learners}", requirement, "give one for as many")
        edges: Edges = own.edges
        return edges

    def partners(self, learners: int) -> Integers:
        """How many partners every learner has."""
        degree = learners - 1 if self.graph == "complete" else _degree(self.graph)
        if degree is None:
            self.edges(learners)  # refuses another number of learners
            return self._own_partners
        if self.graph != "complete":
            _check_circle(degree, learners)
        return np.full(learners, degree, dtype=np.int64)

    @cached_property
    def _own_partners(self) -> Integers:
        own: Any = self.graph
        return np.bincount(np.array(own.edges, dtype=np.int64).ravel(), minlength=own.learners)

    def pairs(self, learners: int) -> int:
        """How many there are."""
        return int(self.partners(learners).sum()) // 2

    def check(self, learners: int) -> None:
        """Refuse secrets that could leave a learner without any honest partner, and those that nothing is proved of."""
        partners = self.partners(learners)
        least, most = int(partners.min()), int(partners.max())
        if not least:
            raise NotProvable(
                "a learner shares secrets with nobody: give every learner a partner in the secrets graph."
            )
        if least <= self.colluders:
            raise NotProvable(
                f"with {self.colluders} colluders a learner that shares secrets with {least} others can be left alone: "
                f"use at most {max(least - 1, 0)} colluders"
                + (", or a secrets graph with more partners for each." if least < learners - 1 else ".")
            )
        if min(learners, 2 * most) >= MOST_EIGENVALUE:
            raise NotProvable(
                f"{learners:,} learners of whom one shares secrets with {most:,} others: privacy is proved for fewer "
                f"than {MOST_EIGENVALUE:,} learners, or fewer than {MOST_EIGENVALUE // 2:,} partners for each; use a "
                "secrets graph with fewer, such as 4-regular."
            )

    def share_for(self, learners: int, releases: int, unmixed: float) -> float:
        """τ/σ: the given one, or the rule's for so many releases, of which the noise of so many has not mixed."""
        self.check(learners)
        return _usual_share(self, learners, releases, unmixed) if self.share == "auto" else float(self.share)

    def left(self, learners: int, share: float) -> Array:
        """f of every learner: what a record costs, in squares, of what it would without secrets; worst colluders."""
        self.check(learners)
        return np.array(_left(self, learners, share))

    def worst_colluders(self, learners: int, share: float, learner: int) -> tuple[int, ...]:
        """Those who, together, leave this learner least; as many as are tried, its partners first."""
        laplacian = laplacian_of(self.edges(learners), learners)
        others = sorted(set(range(learners)) - {learner}, key=lambda j: laplacian[learner, j])  # partners are −1

        def left(some: tuple[int, ...]) -> float:
            honest = np.setdiff1d(np.arange(learners), some)
            return float(_each(laplacian, honest, share**2)[np.searchsorted(honest, learner)])

        return max(islice(combinations(others, self.colluders), MOST_SHOWN), key=left)

    @property
    def against(self) -> str:
        """Against whom ε holds, in words."""
        if not self.colluders:
            return "against anybody who sees all messages and is no learner of the run"  # a learner has secrets itself
        some = "one other learner" if self.colluders == 1 else f"{self.colluders} other learners"
        return f"against anybody who sees all messages, together with up to {some}"

    def __str__(self) -> str:
        graph = f"of {len(self.graph.edges)} pairs" if isinstance(self.graph, Pairs) else self.graph
        share = self.share if self.share == "auto" else f"{self.share:g}"
        return f"secrets {graph}, {self.colluders} colluders, share {share}"


class Shared(NamedTuple):
    """How a learner's noise at the source goes together with that of its pairs; deviations are those of round 0."""

    secrets: Secrets
    seen: float  # √(σ_i² (Σ⁻¹)_ii): how much of a shift the worst colluders see, in the learner's own deviations
    learners: int  # in the run
    floor: float  # σ, which everybody's own noise has at least, on weighted gradients
    pair: float  # τ
    weight: float = 1.0  # what the learner's gradient counts: it is released times this

    @property
    def noises(self) -> int:
        """How many noises there are in a coordinate of a round: the learners' own, and one for each pair."""
        return self.learners + self.secrets.pairs(self.learners)

    @property
    def edges(self) -> Edges:
        return self.secrets.edges(self.learners)


def seen_of(left: float, ratio: float) -> float:
    """√(σ_i² (Σ⁻¹)_ii): how much of a shift is seen, where learner i's own noise is `ratio` times the others'."""
    squared = ratio * ratio  # ∞, where a power would overflow
    return math.sqrt(squared * left / (1 + (squared - 1) * left))


def _checked_graph(graph: Any) -> str | Pairs:
    """A graph as a value that can be compared and hashed: its name, or its pairs."""
    if isinstance(graph, str) and graph == "complete":
        return graph
    if isinstance(graph, Pairs):
        return _checked_pairs(graph)
    degree = _degree(graph)
    if degree is not None and degree > 0:
        return f"{degree}{REGULAR}"
    if not hasattr(graph, "edges") or not hasattr(graph, "m"):
        raise BadValue("secrets", graph, 'expected "complete", "k-regular" such as "4-regular", or a network')
    links = {(min(a, b), max(a, b)) for over in ("R", "C") for a, b, _ in graph.edges(over) if a != b}
    return Pairs(graph.m, tuple(sorted((int(a), int(b)) for a, b in links)))


def _checked_pairs(graph: Pairs) -> Pairs:
    """Pairs i < j, each once: a pair that is named twice would be counted twice, and its key drawn from once."""
    edges = sorted({(min(pair), max(pair)) for pair in graph.edges})
    strange = [pair for pair in edges if not 0 <= pair[0] < pair[1] < graph.learners]
    if strange:
        raise BadValue("secrets", strange[0], f"expected two different learners from 0 to {graph.learners - 1}")
    return Pairs(graph.learners, tuple(edges))


def _degree(graph: Any) -> int | None:
    """k of a k-regular graph."""
    if isinstance(graph, str) and graph.endswith(REGULAR) and graph.removesuffix(REGULAR).isdecimal():
        return int(graph.removesuffix(REGULAR))
    return int(graph) if isinstance(graph, int | np.integer) and not isinstance(graph, bool) else None


def _check_circle(degree: int, learners: int) -> None:
    if degree >= learners or (degree % 2 and learners % 2):
        requirement = f"{learners} learners in a circle have an even number of partners, below {learners}"
        if learners % 2 == 0:
            requirement = f"a learner of {learners} has at most {learners - 1} partners"
        raise BadValue("secrets", f"{degree}{REGULAR}", requirement)


def _circle(degree: int, learners: int) -> Edges:
    """Learners in a circle, each with the nearest `degree`; where that is odd, with the one opposite as well."""
    _check_circle(degree, learners)
    pairs = ((i, (i + k) % learners) for i in range(learners) for k in steps_of(degree, learners))
    return tuple(sorted({(min(pair), max(pair)) for pair in pairs}))


@lru_cache(maxsize=256)
def _left(secrets: Secrets, learners: int, share: float) -> tuple[float, ...]:
    return tuple(map(float, _left_by_share(secrets, learners, np.array([share]))[0]))


def _left_by_share(secrets: Secrets, learners: int, shares: Array) -> Array:
    """(shares, learners) of f: all shares at once, since what is long is to go through the choices of colluders."""
    h, r = learners - secrets.colluders, shares**2
    if secrets.graph == "complete":
        f = 1 / h + (1 - 1 / h) / (1 + h * r)
        return np.repeat(f[:, None], learners, axis=1)
    circle = _degree(secrets.graph) is not None
    choices = math.comb(learners - 1 if circle else learners, secrets.colluders)
    if choices * learners**3 > MOST_WORK:
        return bounded(secrets.partners(learners), _connectivity(secrets, learners), r, secrets.colluders)
    worst = _worst_of_all(laplacian_of(secrets.edges(learners), learners), r, secrets.colluders, circle)
    return np.repeat(worst[:, :1], learners, axis=1) if circle else worst


def _worst_of_all(laplacian: Array, r: Array, colluders: int, circle: bool) -> Array:
    """The largest σ² (Σ⁻¹)_ii of every learner over all choices of colluders; in a circle only learner 0's is right.

    With L = U diag(λ) Uᵀ among the honest it is Σ_k U_ik²/(1 + r λ_k), for every r at once.
    """
    m, worst = len(laplacian), np.zeros((len(r), len(laplacian)))
    choices = combinations(range(1 if circle else 0, m), colluders)
    while block := list(islice(choices, BLOCK)):
        honest = np.array([[i for i in range(m) if i not in some] for some in block])
        among = laplacian[honest[:, :, None], honest[:, None, :]]
        values, vectors = np.linalg.eigh(among - np.eye(m - colluders) * among.sum(axis=2)[:, None])
        looked_at = slice(1) if circle else slice(None)
        seen = 1 / (1 + r[:, None] * values[:, None].clip(0.0))  # (choices, shares, k)
        each = seen @ (vectors[:, looked_at] ** 2).transpose(0, 2, 1)
        for learners, left in zip(honest[:, looked_at], each, strict=True):
            worst[:, learners] = np.maximum(worst[:, learners], left)
    return worst


def _each(laplacian: Array, honest: NDArray[np.int64], r: float) -> Array:
    """σ² (Σ⁻¹)_ii of the honest: what colluders share with them is known, and taken out of the degrees."""
    among = laplacian[np.ix_(honest, honest)]
    among = among - np.diag(among.sum(axis=1))
    return np.asarray(np.diagonal(np.linalg.inv(np.eye(len(honest)) + r * among)))


def bounded(partners: Integers, connected: float, r: Array, colluders: int) -> Array:
    """(r, learners): a bound from above on the same, however many choices of colluders there are.

    `connected` is a lower bound on the graph's algebraic connectivity.
    """
    kept, r = partners - colluders, r[:, None]
    star = (1 + 1 / r) / (kept + 1 + 1 / r)
    h, left = len(partners) - colluders, connected * (1 - 1e-9) - colluders
    whole = 1 / h + (1 - 1 / h) / (1 + r * left) if left > 0 else 1.0
    return np.asarray(np.minimum(np.minimum(star, whole), 1.0))


def _connectivity(secrets: Secrets, learners: int) -> float:
    degree = _degree(secrets.graph)
    if degree is not None:
        return connectivity_of_circle(degree, learners)
    return connectivity_of(secrets.edges(learners), learners)


@lru_cache(maxsize=64)
def _left_on_rule(secrets: Secrets, learners: int) -> Array:
    """The largest f at each of the rule's shares; kept, since all choices of colluders are gone through for it."""
    return np.asarray(_left_by_share(secrets, learners, np.geomspace(LEAST_SHARE, MOST_SHARE, SHARES)).max(axis=1))


@lru_cache(maxsize=256)
def _usual_share(secrets: Secrets, learners: int, releases: int, unmixed: float) -> float:
    """The share with the least f (R/m + Q (1 + d τ²/σ²)), to a few percent."""
    partners = 2 * secrets.pairs(learners) / learners
    shares = np.geomspace(LEAST_SHARE, MOST_SHARE, SHARES)
    noise = _left_on_rule(secrets, learners) * (releases / learners + unmixed * (1 + partners * shares**2))
    return float(f"{shares[int(np.argmin(noise))]:.3g}")
