"""Both kinds of arrays do the same to the same numbers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gossamer as gs
from gossamer.arrays import NUMPY, Tensors, dense, kind_of

torch = pytest.importorskip("torch", reason="needs the extra `nn`")
CPU = torch.device("cpu")
KINDS = [NUMPY, Tensors(torch.float64, CPU), Tensors(torch.float32, CPU)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_makes_arrays_that_are_of_it(kind):
    numbers = np.array([[0.1, -2.0], [3.0, 0.25]])
    made = kind.make(numbers)
    assert kind_of(made) == kind
    np.testing.assert_allclose(kind.to_numpy(made), numbers, rtol=1e-7)
    assert kind_of(kind.widen(made)).wide
    assert kind_of(kind.narrow(kind.widen(made))) == kind


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_done_otherwise_gives_the_same(kind):
    rng = np.random.default_rng(0)
    rows, other = rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    a, b, columns = kind.make(rows), kind.make(other), np.array([4, 0, 2])
    close = 1e-14 if kind.wide else 1e-6
    picked = kind.to_numpy(kind.pick(a, kind.make_indices(columns)))
    np.testing.assert_allclose(picked, rows[np.arange(3), columns][:, None], rtol=close)
    np.testing.assert_allclose(kind.to_numpy(kind.add_scaled(a, 0.3, b)), rows + 0.3 * other, rtol=close, atol=close)
    np.testing.assert_allclose(kind.row_lengths(a), np.sqrt((rows**2).sum(axis=1)), rtol=close)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("largest", [1e100, 2.0, np.array([[1.0], [2.0]])])
def test_nothing_is_left_beyond_a_limit_and_nan_becomes_0(kind, largest):
    wild = np.array([[np.nan, np.inf, -np.inf], [0.5, -0.5, 1e30]])
    cut = kind.to_numpy(kind.cut_off(kind.make(wild), largest)).astype(float)
    assert np.isfinite(cut).all()
    assert (np.abs(cut) <= largest).all()
    assert cut[0, 0] == 0
    np.testing.assert_array_equal(cut[1, :2], wild[1, :2])


def test_what_makes_an_array_is_numpys_kind():
    assert kind_of(1.0) is kind_of([1.0]) is kind_of(np.ones(2)) is NUMPY


def test_rows_of_a_kind_pick_what_they_pick_as_arrays():
    rows, kind = gs.Network.paper().rows([3, 1]), Tensors(torch.float32, CPU)
    z, theirs = np.random.default_rng(0).normal(size=(2, 10)), rows.of_kind(kind)
    np.testing.assert_allclose(theirs.own(kind.make(z)).numpy(), rows.own(z), rtol=1e-6)
    np.testing.assert_array_equal(theirs.unit().numpy(), rows.unit())
    assert theirs.unit().dtype == torch.float32


def test_a_sparse_matrix_is_made_dense_and_a_dense_one_left_alone():
    from scipy.sparse import csr_array

    matrix = np.eye(3)
    assert dense(matrix) is matrix
    np.testing.assert_array_equal(dense(csr_array(matrix)), matrix)


def test_torch_is_not_imported_before_there_is_a_tensor():
    code = "import sys, numpy as np, gossamer.arrays as a; a.kind_of([1.0]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
