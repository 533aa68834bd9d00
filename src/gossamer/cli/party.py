"""`gossamer party`: what a party does on its own machine to be in a run whose maker has none of its keys."""

from __future__ import annotations

from pathlib import Path

import typer

from gossamer.cli.peer import needs_extra

party = typer.Typer(help="A party's own keys, made on its own machine: ask to be let into a run, join it, renew.")


@party.command("new")
def new(
    folder: Path = typer.Argument(help="A new folder, on this party's own machine."),
    name: str | None = typer.Option(None, help="What people call this party [default: the folder's name]."),
    address: str | None = typer.Option(
        None, metavar="HOST:PORT", help="Where the others reach it [default: as the run's maker has it]."
    ),
) -> None:
    """Make a party's keys, which never leave this machine, and a request to be let into a run.

    \b
    gossamer party new mine --name North --address north.example.org:7400     mine/request.json goes to the run's maker
    """
    needs_extra()
    from rich.console import Console

    from gossamer.cli.bullets import say
    from gossamer.peers.own_folder import REQUEST, new_folder

    console, request = Console(), new_folder(folder, name or folder.resolve().name, address)
    say(console, f"{folder} has this party's keys, readable by its owner alone. They stay here.")
    say(
        console,
        f"Send {folder / REQUEST} to whoever makes the run; nothing in it is secret. Its words: {request.words}",
    )
    say(console, f"What comes back: gossamer party join {folder} FILE")


@party.command("join")
def join(
    folder: Path = typer.Argument(help="The folder of 'party new'."),
    file: Path = typer.Argument(help="The file that 'peers sign' has made for this party."),
) -> None:
    """Join a run, or take a renewed certificate, with the file that came back; a running learner need not stop."""
    needs_extra()
    from rich.console import Console

    from gossamer.cli.bullets import say
    from gossamer.cli.enrolment import say_words
    from gossamer.peers.bundle import read_bundle
    from gossamer.peers.compared import words_of
    from gossamer.peers.own_folder import has_joined, take_certificate
    from gossamer.peers.own_folder import join as lay_out

    bundle, console = read_bundle(file), Console()
    if bundle.kind == "renews" or has_joined(folder):
        take_certificate(folder, bundle)
        say(console, f"{folder} has its new certificate; a learner that runs takes it within seconds.")
        return
    plan = lay_out(folder, bundle)
    m, i = plan.config.run.learners, plan.learner
    say(console, f"{folder} is learner {i}{f' of {m}' if i < m else ', who joins'}, in run {plan.config.run.id}.")
    say_words(console, words_of(plan))
    say(console, f"Set [privacy] and [data] in {folder / 'party.toml'}: others have only proposed them.")
    say(console, f"Then: gossamer peer check {folder}, and gossamer peer run {folder}")


@party.command("renew")
def renew(
    folder: Path = typer.Argument(help="A folder that has joined a run."),
    new_key: bool = typer.Option(False, "--new-key", help="Make a new key, too; the old one says that it follows."),
) -> None:
    """Ask for a new certificate before the old one ends: for the same key, or for a new one."""
    needs_extra()
    from rich.console import Console

    from gossamer.cli.bullets import say
    from gossamer.peers.own_folder import RENEWAL
    from gossamer.peers.own_folder import renew as ask_again

    console, request = Console(), ask_again(folder, new_key)
    say(console, f"Send {folder / RENEWAL} to whoever signs for the run. Its words: {request.words}")
    say(console, f"What comes back: gossamer party join {folder} FILE")
