"""Learners as parties of their own: one process each, on a network, that survive crashes without leaking."""
