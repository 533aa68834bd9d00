"""Directed networks of learners and the weights with which they mix."""

from gossamer.networks.files import is_named, read_network, read_pairs
from gossamer.networks.network import Network

__all__ = ["Network", "is_named", "read_network", "read_pairs"]
