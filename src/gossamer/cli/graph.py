"""`gossamer graph`: check a network and draw it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.output import check_picture
from gossamer.errors import GossamerError
from gossamer.networks import Network, read_network
from gossamer.privacy import Secrets
from gossamer.privacy.plan import MIXED
from gossamer.report import draw_network, draw_secrets, save_picture
from gossamer.setting import quiet_rounds
from gossamer.spec.build import secrets_named


def graph(
    source: str = typer.Argument(
        metavar="FILE|NAME",
        help="A file of 'sender receiver [weight]' lines, learners counted from 0, or a .json file with edges or with "
        "R and C; or one of: paper, ring, exponential, complete, random.",
    ),
    learners: int | None = typer.Option(None, min=2, help="How many learners a named family has [default: 10]."),
    secrets: str | None = typer.Option(
        None, help="Pair secrets between its learners instead: complete, 4-regular, or a network's file or name."
    ),
    colluders: int | None = typer.Option(
        None, min=0, help="With --secrets: how many learners may put theirs together [default: 1]."
    ),
    plot: Path | None = typer.Option(None, help="Draw the network into this .png, .svg or .pdf file."),
    json: str | None = json_option("what is shown"),
) -> None:
    """Check a network against Assumption 1 and show how well it mixes.

    \b
    gossamer graph paper --plot paper.png
    gossamer graph my-links.txt
    gossamer graph paper --secrets 4-regular --colluders 2 --plot secrets.png     what noise that cancels is worth
    """
    if plot is not None:
        check_picture(plot)
    json_file(json)
    network = read_network(source, learners)
    console = console_beside(json)
    if secrets is not None:
        named = secrets_named(secrets, network.m, 1 if colluders is None else colluders)
        put_json(json, _show_secrets(console, network, named, plot))
        return
    if colluders is not None:
        raise GossamerError("--colluders goes with --secrets: give both.")
    put_json(json, _told(source, network))
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


def _told(source: str, network: Network) -> dict[str, Any]:
    links = [{"sender": sender, "receiver": receiver, "weight": weight} for sender, receiver, weight in network.edges()]
    about = {"graph": source, "learners": network.m, "spectral_gap": network.spectral_gap}
    return {**about, "perron": network.perron.tolist(), "links": links}


RELEASES = 400  # for which the rule's share is shown: it hardly depends on how many there are


def _show_secrets(console: Console, network: Network, secrets: Secrets, plot: Path | None) -> dict[str, Any]:
    """What a secrets graph is worth: how much of its noise a learner can do without, and against whom."""
    m = network.m
    share = secrets.share_for(m, RELEASES, 1 / math.expm1(MIXED / quiet_rounds(network)))
    left, edges = secrets.left(m, share), secrets.edges(m)
    graph = secrets.graph if isinstance(secrets.graph, str) else "of its own"
    console.print(f"Pair secrets {escape(graph)}: {m} learners, {len(edges)} pairs; τ = {share:g} σ by rule.")
    console.print(f"ε holds {secrets.against}.", highlight=False)
    gain, limit = 1 / left.max() ** 0.5, (m - secrets.colluders) ** 0.5
    console.print(
        f"For the same ε, learners need {gain:.3g} times less noise than without secrets (no graph among the honest "
        f"has more than {limit:.3g}). If all others collude, what is left is the learner's own noise.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    if plot is not None:
        worst = int(left.argmax())
        some = secrets.worst_colluders(m, share, worst)
        who = f", learners {', '.join(map(str, some))} collude" if some else ""
        save_picture(draw_secrets(edges, m, worst, some, f"Pair secrets: {graph}, {len(edges)} pairs{who}"), plot)
        console.print(f"Picture: {escape(str(plot))}", highlight=False)
    return {
        "secrets": graph, "learners": m, "colluders": secrets.colluders,
        "pairs": [list(map(int, e[:2])) for e in edges], "share": share, "gain": gain, "most": limit,
        "against": secrets.against,
    }  # fmt: skip
