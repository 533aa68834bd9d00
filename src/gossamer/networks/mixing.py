"""Weights for methods that the network's own R and C do not serve, in the same Laplacian form: rows add to 0.

W    Metropolis–Hastings weights w_ij = 1/(1 + max(deg_i, deg_j)) on the union of all links, used both ways (Xiao, Boyd
     & Lall, "A scheme for robust distributed sensor fusion based on average consensus", IPSN 2005): I+W is symmetric.
D    c · diag(u) R, u the Perron vector of I+R: rows add to 0 because R's do, columns because uᵀR = 0. It uses R's links
     alone, one way, but every learner must know its u_i. c makes the busiest learner as busy as R's busiest.
"""

from __future__ import annotations

import numpy as np
import scipy

from gossamer.types import Array


def metropolis(R: scipy.sparse.csr_array, C: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    links = scipy.sparse.csr_array(((R + R.T + C + C.T) > 0).astype(float))
    links = (links - scipy.sparse.diags_array(links.diagonal())).tocoo()
    row, column = links.coords[0][links.data > 0], links.coords[1][links.data > 0]
    degree = np.bincount(row, minlength=R.shape[0])
    weight = 1.0 / (1 + np.maximum(degree[row], degree[column]))
    off = scipy.sparse.csr_array((weight, (row, column)), shape=R.shape)
    return scipy.sparse.csr_array(off - scipy.sparse.diags_array(np.asarray(off.sum(axis=1)).ravel()))


def balanced(R: scipy.sparse.csr_array, u: Array) -> scipy.sparse.csr_array:
    busiest = np.abs(R.diagonal())
    scaled: scipy.sparse.csr_array = scipy.sparse.csr_array(
        scipy.sparse.diags_array(u * busiest.max() / (u * busiest).max()) @ R
    )
    return scaled
