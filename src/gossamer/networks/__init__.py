"""Directed networks of learners and the weights with which they mix."""

from gossamer.networks.files import NAMES, read_network
from gossamer.networks.network import Network

__all__ = ["NAMES", "Network", "read_network"]
