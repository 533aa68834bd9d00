"""Privacy: exact noise, proved budgets, a ledger for each learner; and seeded noise, for simulation only."""

from gossamer.privacy.accountant import Accountant, Terms, epsilons
from gossamer.privacy.boundary import Boundary, PrivateBoundary
from gossamer.privacy.laws import LAWS, Law, exact_gaussian, exact_laplace, law_named
from gossamer.privacy.mechanisms import MECHANISMS, Gaussian, Laplace, Mechanism, Setting, mechanism_named
from gossamer.privacy.releases import Releases, every, thinning
from gossamer.privacy.rounding import noised_fields, rounding_of
from gossamer.privacy.secrets import Secrets
from gossamer.privacy.simulated import SimulatedNoise, simulated
from gossamer.privacy.theorem4 import lemma2_constant, theorem4
from gossamer.privacy.unproved import Privacy, Unproved

__all__ = [
    "LAWS",
    "MECHANISMS",
    "Accountant",
    "Boundary",
    "Gaussian",
    "Laplace",
    "Law",
    "Mechanism",
    "Privacy",
    "PrivateBoundary",
    "Releases",
    "Secrets",
    "Setting",
    "SimulatedNoise",
    "Terms",
    "Unproved",
    "epsilons",
    "every",
    "exact_gaussian",
    "exact_laplace",
    "law_named",
    "lemma2_constant",
    "mechanism_named",
    "noised_fields",
    "rounding_of",
    "simulated",
    "theorem4",
    "thinning",
]
