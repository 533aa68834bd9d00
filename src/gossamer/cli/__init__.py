"""The command `gossamer`. Importing it imports almost nothing, so that ctrl-C is in hand before anything is loaded."""

from gossamer.cli import interrupt


def main() -> None:
    """The command, in a process of its own: from here on ctrl-C ends it quietly."""
    interrupt.start()
    from gossamer.cli.commands import main as run_command

    try:
        try:
            interrupt.raise_on_ctrl_c()
            run_command()
        finally:
            interrupt.leave()
    except KeyboardInterrupt:  # it came while the command was saying its last words
        interrupt.leave()
        raise SystemExit(interrupt.CODE) from None


__all__ = ["main"]
