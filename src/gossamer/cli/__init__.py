"""The command `gossamer`."""

from gossamer.cli.main import main

__all__ = ["main"]
