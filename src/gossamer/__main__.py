"""`python -m gossamer` is the command `gossamer`."""

from gossamer.cli import main

main()
