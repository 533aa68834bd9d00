"""How much a learner's voice of one round weighs later, on networks that change.

Where everybody pulls, θ_{t+1} = (I+R_t) θ_t, what learner i says in round t is worth, in what all come to agree on,
[φ_t]_i. These weights follow from the rounds that are *still to come*:

    φ_tᵀ = φ_{t+1}ᵀ (I+R_t),   φ_t ≥ 0,   φ_tᵀ 1 = 1

(Kolmogorov's absolute probability sequence; Touri & Nedić, "On Ergodicity, Infinite Flow, and Consensus in Random
Models", IEEE TAC 56(7), 2011). On one network for all rounds φ is u/m, and it is what z_{t+1} = (I+R) z_t tends to. On
networks that change z tends to φ_0, the weights of the learners' first words, and a gradient of round t, which enters
θ_{t+1}, counts by φ_{t+1}. So a method that divides by the learner's own weight is given [φ_{t+1}]_i in place of
[z_{i,t}]_i. Then uᵀ of the fixed network's equations becomes φ_{t+1}ᵀ, and they hold round by round.

Where links fail by chance, each with the same probability and independently of all before, no one knows φ_{t+1}. But
it is independent of everything up to round t, and E φ_tᵀ = E φ_{t+1}ᵀ (I + E R_t). So its mean follows the same
recursion with the mean of R_t, which is R_t without failures times the probability that a link is up; of one network
that has u/m again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from gossamer.errors import GossamerError
from gossamer.types import Array

CYCLES = 100_000
STILL = 2.0**-44  # the largest relative change over a cycle with which φ has come to rest


def cycled_voices(pulls: Sequence[scipy.sparse.csr_array], start: Array) -> Array:
    """(P, m): φ_{t+1} for the rounds t = 0 … P−1 of a cycle of P pulls R_t that repeats for ever.

    `start` is above 0 for the learners that take part, and 0 for the others.
    """
    back = [scipy.sparse.csr_array(R.T) for R in pulls]
    voice, found = start / start.sum(), np.empty((len(pulls), len(start)))
    for _ in range(CYCLES):
        before = voice
        for t in reversed(range(len(back))):
            found[t] = voice
            voice = voice + back[t] @ voice
        voice = voice / voice.sum()
        if (np.abs(voice - before) <= STILL * before).all() and (voice > 0).sum() == (start > 0).sum():
            return found
    raise GossamerError(
        f"the weights of these {len(start)} learners could not be found: in a cycle of {len(pulls)} rounds they mix "
        "too slowly; add links, or change networks more often."
    )
