"""`gossamer graph`: check a network and draw it."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.output import check_picture
from gossamer.networks import read_network
from gossamer.report import draw_network, save_picture


def graph(
    source: str = typer.Argument(
        metavar="FILE|NAME",
        help="A file of 'sender receiver [weight]' lines, learners counted from 0, or a .json file with edges or with "
        "R and C; or one of: paper, ring, exponential, complete, random.",
    ),
    learners: int | None = typer.Option(None, min=2, help="How many learners a named family has [default: 10]."),
    plot: Path | None = typer.Option(None, help="Draw the network into this .png, .svg or .pdf file."),
) -> None:
    """Check a network against Assumption 1 and show how well it mixes.

    \b
    gossamer graph paper --plot paper.png
    gossamer graph my-links.txt
    """
    if plot is not None:
        check_picture(plot)
    network = read_network(source, learners)
    console = Console()
    console.print(f"[bold]{escape(source)}[/]: {network.m} learners, {len(network.edges())} links. Assumption 1 holds.")
    console.print(
        f"Spectral gap {network.spectral_gap:.4f}: disagreement shrinks by about {network.spectral_gap:.1%} a round."
    )
    if network.m <= 40:
        table = Table("learner", "hears from", "Perron weight u", box=None, header_style="bold", pad_edge=False)
        for i in range(network.m):
            hears = ", ".join(str(j) for j, receiver, _ in network.edges() if receiver == i)
            table.add_row(str(i), hears, f"{network.perron[i]:.3f}")
        console.print(table)
    if plot is not None:
        about = f"{network.m} learners, {len(network.edges())} links, spectral gap {network.spectral_gap:.3f}"
        save_picture(draw_network(network, title=f"{source}: {about}"), plot)
        console.print(f"Picture: {escape(str(plot))}", highlight=False)
