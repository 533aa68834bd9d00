"""The network: who hears whom, and with which weights.

R and C are in Laplacian form (Chen & Wang, Assumption 1): off-diagonal entries ≥ 0, R1 = 0, 1ᵀC = 0, so that I+R is
row-stochastic and I+C column-stochastic. M_ij > 0 means that learner i receives from learner j. For methods that need
more than R and C give, W is symmetric, on all links used both ways, and D doubly stochastic, on R's links.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from gossamer.errors import AnyOf, Argument, BadValue, GossamerError
from gossamer.networks import mixing, spectrum
from gossamer.networks.checks import check_assumption_1
from gossamer.networks.gap import Gap, gap_of
from gossamer.types import Array, Integers, Matrix, Rows

if TYPE_CHECKING:
    import networkx as nx

MOST_DRAWN, MOST_LINKS = 2000, 4000  # learners, and links, of which a picture tells anything
DENSE_UP_TO = 128  # learners up to which a dense product is faster than a sparse one
ITERATED_UP_TO = 4096  # learners up to which a simulation iterates all of z, which is m × m numbers
# MATH: the paper's Fig. 1 is not printed with its edges; this graph has its size and is strongly connected, aperiodic
# and unbalanced: a ring and eight chords.
PAPER_EDGES = [(i, (i + 1) % 10) for i in range(10)]
PAPER_EDGES += [(0, 3), (0, 6), (2, 7), (4, 9), (5, 1), (7, 2), (8, 3), (1, 8)]


class Network:
    """A directed network of m learners with pull weights R and push weights C; immutable and checked.

    `R` and `C` are dense arrays up to 128 learners and scipy.sparse.csr_array beyond.
    """

    def __init__(self, R: Any, C: Any | None = None) -> None:
        pull = _square("R", R)
        push = _square("C", C) if C is not None else scipy.sparse.csr_array(pull.T)
        if pull.shape != push.shape:
            raise GossamerError(
                f"R is {pull.shape} and C is {push.shape}, expected one size: give both for the same m."
            )
        check_assumption_1(pull, push)
        self._R, self._C = pull, push
        self._laplacians: dict[str, scipy.sparse.csr_array] = {"R": pull, "C": push}
        self._received: dict[str, Any] = {}
        self._own_weights: Array | None = None

    # -- how to make one ------------------------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        m: int,
        edges: Iterable[tuple[int, int] | tuple[int, int, float]],
        weight: float = 0.25,
        C_edges: Iterable[tuple[int, int] | tuple[int, int, float]] | None = None,
    ) -> Network:
        """Edges are (sender, receiver) or (sender, receiver, weight), counted from 0.

        `edges` carry R; C is Rᵀ, which uses every link in both directions, unless `C_edges` gives it links of its own.
        """
        R = _laplacian_of(_off_diagonal(m, edges, weight), axis=1)
        return cls(R, None if C_edges is None else _laplacian_of(_off_diagonal(m, C_edges, weight), axis=0))

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph[Any], weight: float = 0.25) -> Network:
        """Nodes in their order become learners 0, 1, …; an edge attribute `weight` overrides `weight`."""
        number = {node: k for k, node in enumerate(graph.nodes)}
        directed = graph.to_directed() if not graph.is_directed() else graph
        edges = [(number[j], number[i], float(w)) for j, i, w in directed.edges(data="weight", default=weight)]
        return cls.from_edges(len(number), edges)

    @classmethod
    def paper(cls) -> Network:
        """Ten learners, strongly connected and unbalanced: the ring 1→2→…→10→1 and eight chords, R_ij = 0.25."""
        return cls.from_edges(10, PAPER_EDGES)

    @classmethod
    def paper_one_way(cls) -> Network:
        """The paper's links with nothing going back on any of them: C pushes along the same arrows as R pulls."""
        return cls.from_edges(10, PAPER_EDGES, C_edges=PAPER_EDGES)

    @classmethod
    def ring(cls, m: int) -> Network:
        """Each learner sends to the next: the sparsest strongly connected digraph, and the slowest to mix."""
        return cls._family(m, [(i, (i + 1) % m) for i in range(m)])

    @classmethod
    def exponential(cls, m: int) -> Network:
        """Each learner sends 1, 2, 4, 8, … places ahead: log₂ m links each, mixes in about log₂ m rounds."""
        hops = [2**k for k in range(m.bit_length()) if 2**k < m]
        return cls._family(m, [(i, (i + hop) % m) for i in range(m) for hop in hops])

    @classmethod
    def complete(cls, m: int) -> Network:
        return cls._family(m, [(j, i) for j in range(m) for i in range(m) if i != j])

    @classmethod
    def random(cls, m: int, degree: int = 3, seed: int = 0) -> Network:
        """A ring through all learners in random order, and random chords until the mean out-degree is `degree`.

        The ring makes it strongly connected for certain; the chords make in- and out-degrees differ.
        """
        if degree < 1:
            python = f"Network.random(degree={degree})"
            raise BadValue("degree", degree, "expected at least 1 link per learner", python=python)
        _check_size(m)
        rng = np.random.default_rng(seed)
        order = rng.permutation(m)
        links = np.sort(order * m + np.roll(order, -1))  # a link from j to i is the number j m + i
        wanted = min(m * degree, m * (m - 1))
        while len(links) < wanted:
            j, i = rng.integers(0, m, size=(wanted - len(links), 2)).T
            links = _merged(links, (j * m + i)[i != j])
        return cls.from_links(m, *np.divmod(links, m))

    @classmethod
    def _family(cls, m: int, edges: Sequence[tuple[int, int]]) -> Network:
        _check_size(m)
        return cls.from_links(m, *np.asarray(edges, dtype=np.int64).T)

    @classmethod
    def from_links(cls, m: int, senders: Integers, receivers: Integers) -> Network:
        """Weights of 0.25, and less where a learner hears so many that it would keep too little of its own value.

        Link k goes from senders[k] to receivers[k], which is not itself, and is given once; C is Rᵀ.
        """
        _check_size(m)
        weights = np.minimum(0.25, 1 / (np.bincount(receivers, minlength=m) + 1))[receivers]
        return cls(_laplacian_of(_csr(m, senders, receivers, weights), axis=1))

    # -- what it knows of itself ----------------------------------------------------------------------------------

    @property
    def m(self) -> int:
        return int(self._R.shape[0])

    @cached_property
    def R(self) -> Any:
        return _frozen(self._R)

    @cached_property
    def C(self) -> Any:
        return _frozen(self._C)

    @cached_property
    def W(self) -> Any:
        """Symmetric weights on every link of R and C, used both ways; I+W is doubly stochastic."""
        return _frozen(self.laplacian("W"))

    @cached_property
    def D(self) -> Any:
        """Doubly stochastic weights on R's own links."""
        return _frozen(self.laplacian("D"))

    @property
    def one_way(self) -> int:
        """How many links no message can go back on: W, which needs them both ways, is then out of reach."""
        used = scipy.sparse.csr_array((self._R > 0) + (self._C > 0))
        return int(used.nnz - used.multiply(used.T).nnz)

    @cached_property
    def links(self) -> int:
        """How many links R has."""
        return int((self._R > 0).nnz)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of both matrices: a run record goes on over the same network alone."""
        if self.m <= ITERATED_UP_TO:
            return hashlib.sha256(repr((self.edges("R"), self.edges("C"))).encode()).hexdigest()
        digest = hashlib.sha256()
        for M in (self._R, self._C):
            for part in (M.indptr, M.indices, M.data):
                digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    @property
    def iterates_z(self) -> bool:
        """Whether learners find their Perron weights as the paper has it, by iterating z, (9).

        z is m × m numbers. Of larger networks simulations take what z tends to: a learner's share u_i/m, exactly.
        """
        return self.m <= ITERATED_UP_TO

    def laplacian(self, over: Matrix) -> scipy.sparse.csr_array:
        """Its weights with their diagonal, sparse; over I+W those of W."""
        name = over.removeprefix("I+")
        if name not in self._laplacians:
            made = mixing.metropolis(self._R, self._C) if name == "W" else mixing.balanced(self._R, self.perron)
            self._laplacians[name] = made
        return self._laplacians[name]

    @cached_property
    def perron(self) -> Array:
        """u with uᵀ(I+R) = uᵀ and uᵀ1 = m: how much weight each learner's voice has when everyone pulls."""
        u = spectrum.perron(self._R)
        u.setflags(write=False)
        return u

    @property
    def perron_error(self) -> float:
        """By how much of itself one more product with I+R moves an entry of u, at most: rounding, where u was found."""
        return float(np.abs(self._R.T @ self.perron / self.perron).max())

    @cached_property
    def gap(self) -> Gap:
        """1 − |λ₂(I+R)|, and whether it is exact or an estimate, as of many learners who mix slowly or at random."""
        return gap_of(self._R, self.perron)

    @property
    def spectral_gap(self) -> float:
        """1 − |λ₂(I+R)|; of many learners about that: `gap` says whether it is exact."""
        return self.gap.value

    @cached_property
    def settles(self) -> float:
        """The round from which (I+R)^t, and with it every eigenvector estimate, no longer changes in float64."""
        return spectrum.settling_round(self._R) if self.iterates_z else 0

    def own_weights(self, steps: int) -> Array:
        """(steps, m) of [z_{i,t}]_i, the diagonal of (I+R)^t: known from the graph alone; the exact shares of many."""
        if not self.iterates_z:
            return np.broadcast_to(self.perron / self.m, (steps, self.m))
        if self._own_weights is None or len(self._own_weights) < min(steps, self.settles):
            self._own_weights = spectrum.diagonal_of_powers(self._R, int(min(steps, self.settles)))
        known = self._own_weights[:steps]
        return np.vstack([known, np.repeat(known[-1:], steps - len(known), axis=0)])

    def edges(self, over: Matrix = "R") -> list[tuple[int, int, float]]:
        """(sender, receiver, weight) of every link."""
        return list(zip(*(ends.tolist() for ends in self.edge_arrays(over)), strict=True))

    def edge_arrays(self, over: Matrix = "R") -> tuple[Integers, Integers, Array]:
        """The same as arrays: senders, receivers and weights, receiver by receiver."""
        links = self.laplacian(over).tocoo()
        receivers, senders = (ends.astype(np.int64) for ends in links.coords)
        apart = (receivers != senders) & (links.data > 0)
        return senders[apart], receivers[apart], links.data[apart]

    def drawing(self) -> dict[str, Any] | None:
        """What a picture of it needs, as plain values: links (sender, receiver) and Perron weights; None of a huge one.

        Links that nobody could tell apart in a picture are counted only.
        """
        if self.m > MOST_DRAWN:
            return None
        links = [(j, i) for j, i, _ in self.edges()]
        drawn = links if len(links) <= MOST_LINKS else []
        return {"edges": drawn, "perron": [round(float(u), 6) for u in self.perron], "links": len(links)}

    def to_networkx(self, over: Matrix = "R") -> nx.DiGraph[int]:
        import networkx as nx

        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(self.m))
        graph.add_weighted_edges_from(self.edges(over))
        return graph

    # -- what the engines need of it ------------------------------------------------------------------------------

    def rows(self, ids: Sequence[int] | Integers | None = None, mixes: Sequence[Matrix] = ("R", "C")) -> Rows:
        """What a block of learners knows of its place; all learners where `ids` is None.

        W and D are worked out only where `mixes` asks for them.
        """
        block = np.arange(self.m) if ids is None else np.asarray(ids, dtype=np.int64)

        def own(over: Matrix) -> Array:
            asked = over in ("R", "C") or over in mixes or f"I+{over}" in mixes
            return self.laplacian(over).diagonal()[block][:, None] if asked else np.full((len(block), 1), np.nan)

        share = None if self.iterates_z else (self.perron[block] / self.m)[:, None]
        return Rows(block, self.m, own("R"), own("C"), self.settles, own("W"), own("D"), share)

    def off_diagonal(self, over: Matrix) -> Any:
        """The weights of what is received, Σ_{j≠i}: dense for few learners, sparse for many.

        Over I+W a learner's own message, with its noise, comes to it as well, weighted 1+W_ii; over I+R, I+D likewise.
        """
        if over not in self._received:
            M = self.laplacian(over)
            own = scipy.sparse.eye_array(self.m) if over.startswith("I+") else -scipy.sparse.diags_array(M.diagonal())
            self._received[over] = _frozen(scipy.sparse.csr_array(M + own))
        return self._received[over]

    def __repr__(self) -> str:
        return f"Network(m={self.m}, links={self.links})"


def _merged(numbers: Integers, more: Integers) -> Integers:
    """All of them in order, each once; of millions, numpy's own union takes ten times as long."""
    together = np.sort(np.concatenate([numbers, more]))
    new: Integers = together[np.append(True, together[1:] != together[:-1])]
    return new


def _check_size(m: int) -> None:
    if m < 2:
        raise GossamerError(f"a network of {m} learners: expected at least 2, one alone has nobody to learn with.")


def _square(name: str, M: Any) -> scipy.sparse.csr_array:
    try:
        given: Any = M.astype(float) if scipy.sparse.issparse(M) else np.asarray(M, dtype=float)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise GossamerError(f"{name} is not a matrix of numbers ({error}): give an (m, m) array.") from None
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise GossamerError(f"{name} has shape {given.shape}, expected (m, m): give one row and column per learner.")
    _check_size(given.shape[0])
    matrix: scipy.sparse.csr_array = scipy.sparse.csr_array(given)
    return matrix


def _off_diagonal(m: int, edges: Iterable[Any], weight: float) -> scipy.sparse.csr_array:
    _check_size(m)
    given = list(edges)
    short = next((edge for edge in given if len(edge) not in (2, 3)), None)
    if short is not None:
        raise GossamerError(f"edge {short!r}: expected (sender, receiver) or (sender, receiver, weight).")
    if not given:
        raise GossamerError(f"a network of {m} learners without edges: give (sender, receiver) pairs.")
    senders, receivers = (_ends(given, end) for end in (0, 1))
    weights = np.array([edge[2] if len(edge) == 3 else weight for edge in given], dtype=float)
    _check_edges(m, senders, receivers, weights)
    if len(given) < m:
        heard = set(receivers.tolist())
        lonely = next(i for i in range(m) if i not in heard)
        alone = f"learner {lonely} receives nothing (learners are counted from 0); "
        remedy = AnyOf(f"add an edge j→{lonely}", ("lower ", Argument("m")))
        raise GossamerError(f"{m} learners and {len(given)} edges: {alone}", remedy, ".")
    return _csr(m, senders, receivers, weights)


def _ends(edges: list[Any], end: int) -> Integers:
    """The senders (0) or the receivers (1)."""
    try:
        return np.fromiter((index(edge[end]) for edge in edges), dtype=np.int64, count=len(edges))
    except (TypeError, OverflowError):
        strange = next(edge for edge in edges if not _is_whole(edge[0]) or not _is_whole(edge[1]))
        raise GossamerError(f"edge {strange!r}: expected whole numbers for sender and receiver.") from None


def _is_whole(end: Any) -> bool:
    try:
        return abs(index(end)) < 2**63
    except TypeError:
        return False


def _check_edges(m: int, senders: Integers, receivers: Integers, weights: Array) -> None:
    """Refuse the first edge that is wrong."""
    outside = (senders < 0) | (senders >= m) | (receivers < 0) | (receivers >= m)
    own = senders == receivers
    _, first = np.unique(np.column_stack([senders, receivers]), axis=0, return_index=True)
    again = np.ones(len(senders), dtype=bool)
    again[first] = False
    light = ~(weights > 0)
    wrong = outside | own | again | light
    if not wrong.any():
        return
    k = int(wrong.argmax())
    edge, w = f"edge {senders[k]}→{receivers[k]}", weights[k]
    if outside[k]:
        remedy = AnyOf("count from 0", ("raise ", Argument("m", python=f"m = {m}")))
        raise GossamerError(f"{edge}: expected learners 0 to {m - 1}; ", remedy, ".")
    if own[k]:
        raise GossamerError(f"{edge}: a learner needs no link to itself; remove it.")
    if again[k]:
        raise GossamerError(f"{edge} is given twice: give it once, with its whole weight.")
    raise GossamerError(f"{edge} has weight {w:g}, expected above 0: remove the edge or raise it.")


def _csr(m: int, senders: Integers, receivers: Integers, weights: Array) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array(scipy.sparse.coo_array((weights, (receivers, senders)), shape=(m, m)))


def _laplacian_of(weights: scipy.sparse.csr_array, axis: int) -> scipy.sparse.csr_array:
    """With diagonals that make rows (axis 1) or columns (axis 0) add to 0."""
    return scipy.sparse.csr_array(weights - scipy.sparse.diags_array(np.asarray(weights.sum(axis=axis)).ravel()))


def _frozen(M: scipy.sparse.csr_array) -> Any:
    if M.shape[0] > DENSE_UP_TO:
        for part in (M.data, M.indices, M.indptr):
            part.setflags(write=False)
        return M
    dense = M.toarray()
    dense.setflags(write=False)
    return dense
