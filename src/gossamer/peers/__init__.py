"""Learners as parties of their own: one process each, on a network, that survive crashes without leaking."""

import os

# Before anything loads gRPC: it would write a line to standard error for everybody who fails to shake hands with a
# learner, and whoever wants to could fill a disk. gossamer.peers.links counts them.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
