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
from gossamer.networks import Network, NetworkSchedule, is_named, read_network
from gossamer.networks.edge_lists import Graph
from gossamer.networks.files import read_graph
from gossamer.networks.network import MOST_DRAWN, MOST_LINKS
from gossamer.networks.windows import windows_of
from gossamer.privacy import Secrets
from gossamer.privacy.plan import MIXED
from gossamer.report import draw_network, draw_secrets, save_picture
from gossamer.setting import quiet_rounds
from gossamer.spec import SETTINGS, Spec
from gossamer.spec.build import build_schedule, secrets_named

MOST_LINK_ROUNDS = 10**7  # links times rounds that are looked at, of a network that changes


def graph(
    source: str = typer.Argument(
        metavar="FILE|NAME",
        help="A file of 'sender receiver [weight]' lines, whose ids are learners in ascending order, or a .json file "
        "with edges or with R and C; or one of: paper, ring, exponential, complete, random.",
    ),
    learners: int | None = typer.Option(None, min=2, help="How many learners a named family has [default: 10]."),
    largest_component: bool = typer.Option(
        False, "--largest-component", help="Of an edge list, keep the most learners that all reach one another."
    ),
    failures: float | None = typer.Option(None, min=0, max=1, help=SETTINGS["failures"].help),
    sleep: float | None = typer.Option(None, min=0, max=1, help=SETTINGS["sleep"].help),
    schedule: Path | None = typer.Option(None, help=SETTINGS["schedule"].help),
    seed: int = typer.Option(0, min=0, help="Draws which links fail, and who sleeps."),
    rounds: int = typer.Option(1000, min=1, help="So many rounds of a network that changes are looked at."),
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
    gossamer graph wiki-Vote.txt --largest-component                              an edge list as it was published
    gossamer graph paper --failures 0.1 --sleep 0.05                              how soon its links connect everybody
    gossamer graph paper --secrets 4-regular --colluders 2 --plot secrets.png     what noise that cancels is worth
    """
    if plot is not None:
        check_picture(plot)
    json_file(json)
    if largest_component and is_named(source):
        raise GossamerError("--largest-component is for a network's file: leave it out.")
    if plot is not None and learners is not None:
        _check_drawn(learners)
    read = Graph.of(read_network(source, learners)) if is_named(source) else read_graph(Path(source), largest_component)
    network, console = read.network, console_beside(json)
    if learners not in (None, network.m):
        raise GossamerError(f"--learners {learners}: {source} has {network.m} learners.")
    if plot is not None:
        _check_drawn(network.m, network.links if secrets is None else 0)
    if secrets is not None:
        named = secrets_named(secrets, network.m, 1 if colluders is None else colluders)
        if plot is not None:
            _check_drawn(network.m, named.pairs(network.m), "pairs")
        put_json(json, _show_secrets(console, network, named, plot, json is not None))
        return
    if colluders is not None:
        raise GossamerError("--colluders goes with --secrets: give both.")
    asked = Spec.of(failures=failures, sleep=sleep, schedule=None if schedule is None else str(schedule), seed=seed)
    changes = build_schedule(asked, network)
    _show(console, source, read)
    told = {} if changes is None else _show_windows(console, changes, rounds)
    if json is not None:
        put_json(json, _told(source, read) | told)
    if plot is not None:
        about = f"{network.m} learners, {network.links} links"
        about += f", spectral gap {network.gap}"
        save_picture(draw_network(network, title=f"{source}: {about}"), plot)
        console.print(f"Picture: {escape(str(plot))}", highlight=False)


def _check_drawn(learners: int, links: int = 0, noun: str = "links") -> None:
    """Refuse a picture in which nobody could tell anything apart, before the work that it takes."""
    if learners > MOST_DRAWN or links > MOST_LINKS:
        size = f"{learners:,} learners" + f" and {links:,} {noun}" * (links > 0)
        most = f"{MOST_DRAWN:,} learners and {MOST_LINKS:,} {noun}"
        raise GossamerError(f"--plot of {size}: a picture tells something of {most} at most; leave --plot out.")


def _show(console: Console, source: str, read: Graph) -> None:
    """What Assumption 1 says of it, how well it mixes, and what was left out."""
    network, gap = read.network, read.network.gap
    console.print(f"[bold]{escape(source)}[/]: {network.m} learners, {network.links} links. Assumption 1 holds.")
    left = read.given - network.m
    outside = "outside of the largest component"
    counted = [(left, "learner", outside), (read.again, "link", "given again"), (read.own, "link", "to oneself")]
    out = [f"{count} {noun}{'s' * (count > 1)} {what}" for count, noun, what in counted if count]
    if out:
        console.print(f"Left out: {', '.join(out)}.", highlight=False, soft_wrap=True)
    shrinks = f"{gap.value:.1%}" if gap.exact else f"{100 * gap.value:.3g}%" + " or less" * gap.above
    console.print(f"Spectral gap {gap}: disagreement shrinks by about {shrinks} a round.", highlight=False)
    if network.m <= 40:
        table = Table("learner", "hears from", "Perron weight u", box=None, header_style="bold", pad_edge=False)
        for i in range(network.m):
            hears = ", ".join(_name(read, j) for j, receiver, _ in network.edges() if receiver == i)
            table.add_row(_name(read, i), escape(hears), f"{network.perron[i]:.3f}")
        console.print(table)


def _name(read: Graph, learner: int) -> str:
    """A learner, with the id that it has in the file where that is another."""
    known = str(read.ids[learner])
    return known if known == str(learner) else f"{learner} ({known})"


def _show_windows(console: Console, changes: NetworkSchedule, rounds: int) -> dict[str, Any]:
    """How long it takes until links that come and go have connected everybody."""
    looked = max(1, min(rounds, MOST_LINK_ROUNDS // changes.fixed.links))
    seen = windows_of(changes, looked)
    console.print(f"It changes: {seen.up:.1%} of R's links are up in a round, in the mean of {seen.rounds} rounds.")
    if seen.least is None:
        console.print(f"Rounds 0 to {seen.rounds - 1} together do not connect everybody: give more --rounds, or links.")
    else:
        chance = "; as drawn with this seed, so that no B is certain" if changes.redraws else ""
        console.print(
            f"Worst window: any {seen.least} rounds in a row connect everybody (B = {seen.least}){chance}.",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    return {"changes": changes.description, "rounds": seen.rounds, "worst_window": seen.least, "up": seen.up}


def _told(source: str, read: Graph) -> dict[str, Any]:
    network = read.network
    links = [{"sender": sender, "receiver": receiver, "weight": weight} for sender, receiver, weight in network.edges()]
    about = {"graph": source, "learners": network.m, "ids": read.ids.tolist()}
    about |= {"spectral_gap": network.gap.value, "spectral_gap_is": network.gap.known}
    return {**about, "perron": network.perron.tolist(), "links": links}


RELEASES = 400  # for which the rule's share is shown: it hardly depends on how many there are


def _show_secrets(
    console: Console, network: Network, secrets: Secrets, plot: Path | None, listed: bool
) -> dict[str, Any]:
    """What a secrets graph is worth: how much of its noise a learner can do without, and against whom."""
    m = network.m
    share = secrets.share_for(m, RELEASES, 1 / math.expm1(MIXED / quiet_rounds(network)))
    left, pairs = secrets.left(m, share), secrets.pairs(m)
    graph = secrets.graph if isinstance(secrets.graph, str) else "of its own"
    console.print(f"Pair secrets {escape(graph)}: {m} learners, {pairs} pairs; τ = {share:g} σ by rule.")
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
        title = f"Pair secrets: {graph}, {pairs} pairs{who}"
        save_picture(draw_secrets(secrets.edges(m), m, worst, some, title), plot)
        console.print(f"Picture: {escape(str(plot))}", highlight=False)
    return {
        "secrets": graph, "learners": m, "colluders": secrets.colluders,
        "pairs": [list(pair) for pair in secrets.edges(m)] if listed else [],
        "share": share, "gain": gain, "most": limit, "against": secrets.against,
    }  # fmt: skip
