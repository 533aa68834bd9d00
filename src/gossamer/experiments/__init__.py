"""Comparisons: every method at the same ε, tuned alike, with the errors on the way."""
