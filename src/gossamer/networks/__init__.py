"""Directed networks of learners and the weights with which they mix."""

from gossamer.networks.changing import NetworkSchedule
from gossamer.networks.files import is_named, read_network, read_pairs
from gossamer.networks.network import Network
from gossamer.networks.schedule_files import read_schedule

__all__ = ["Network", "NetworkSchedule", "is_named", "read_network", "read_pairs", "read_schedule"]
