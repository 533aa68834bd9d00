"""`gossamer attack`: see what messages tell of a record, without noise and with it."""

from __future__ import annotations

import importlib.util
import math
import shlex
from pathlib import Path
from typing import Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from gossamer.attacks.layout import mushroom_layout, schema_layout
from gossamer.attacks.logistic import Attacked, attack_noised, attack_plain
from gossamer.attacks.membership import MOST_RUNS, PLANTED, tell_all_apart
from gossamer.attacks.words import explain_logistic, tell_images, tell_logistic, tell_membership
from gossamer.cli.json_output import console_beside, json_file, json_option, put_json
from gossamer.cli.options import takes
from gossamer.cli.output import check_place, command_line
from gossamer.cli.watch import counted, undisturbed
from gossamer.cli.words import in_command
from gossamer.datasets import DATASETS, mushrooms
from gossamer.errors import BadValue, GossamerError, NotProvable
from gossamer.experiments.pages import Page
from gossamer.networks import read_network
from gossamer.spec import Spec
from gossamer.spec.build import build_network, csv_arguments, names_of
from gossamer.spec.rules import learnt_by
from gossamer.streams import from_csv

attack = typer.Typer(help="See the leak: what messages tell of a record, without noise and with it.")
OUT = typer.Option(Path("gossamer-attack"), help="Folder for the page, its numbers and its pictures.")
JSON = json_option("the numbers")
SEED = typer.Option(0, min=0, help="Decides which records are attacked; noise is the operating system's.")


@attack.command("logistic")
@takes(
    "csv", "target", "split_by", "categorical", "categories", "classes", "drop", "range", "outside", "separator",
    "encoding", "learners", "graph", "seed", "law",
    defaults={"law": "gaussian"},
    helps={
        "csv": "Attack records of this file [default: the mushrooms]; needs --target.",
        "seed": "Decides which records are attacked; noise is the operating system's.",
        "law": "Laplace noise (pure ε) or Gaussian (ε at δ = 1e-5).",
    },
)  # fmt: skip
def logistic(
    spec: Spec,
    epsilon: str = typer.Option("100,10,3,1", help="ε of one record, for each kind of noise: one or several."),
    rounds: int = typer.Option(30, min=4, max=1000, help="Rounds, each with one new record of every learner."),
    suspects: int = typer.Option(100, min=2, help="Among how many records the attacker looks for the one."),
    runs: int = typer.Option(3, min=1, help="Runs; each attacks the first record of every learner."),
    out: Path = OUT,
    json: str | None = JSON,
) -> None:
    """Read records off the messages of a logistic regression: exactly without noise, hardly or not at all with it.

    \b
    gossamer attack logistic
    gossamer attack logistic --csv examples/visits.csv --target ill --split-by hospital
    """
    check_place(out / "results.json")
    json_file(json)
    budgets = _budgets(epsilon)
    attacked, name = _attacked(spec, rounds, suspects, runs)
    undeclared, why = attacked.stream.table.undeclared, ""
    attacked.check(noised=not undeclared)
    plain = attack_plain(attacked)
    with counted("attack", kept=False) as progress:
        if undeclared:
            said = NotProvable("privacy cannot be proved: ", undeclared).said(in_command)
            why, outcomes = f"No noise was tried, because {said}", []
        else:
            outcomes = attack_noised(attacked, budgets, progress)
    own = spec.data.csv is not None
    if own:
        _make_private(out)
    _show(tell_logistic(attacked, plain, outcomes, name, why, own), out, json, explain_logistic(suspects))
    if own and out.stat().st_mode & 0o077:
        others = f"{out} was there before, and others on this machine can open it: chmod 700 {shlex.quote(str(out))}"
        console_beside(json).print(escape(others), highlight=False)


def _attacked(spec: Spec, rounds: int, suspects: int, runs: int) -> tuple[Attacked, str]:
    given, seed = {"rounds": rounds, "suspects": suspects, "runs": runs}, spec.length.seed
    law = spec.privacy.law or "gaussian"
    learners = spec.network.learners or 10
    if spec.data.csv is None:
        if {name for name in spec.given() if name not in ("learners", "graph", "seed", "law")}:
            raise GossamerError("nothing to read: give --csv FILE with what is said of its columns, or leave that out.")
        stream: Any = mushrooms(learners, seed, draw="once")
        return Attacked(stream, mushroom_layout(), build_network(spec, learners), law, seed=seed, **given), "mushrooms"
    learnt = learnt_by(spec, None)
    if learnt.kind.name != "logistic":
        raise GossamerError("the target has not two classes: this attack is on logistic regression; name another.")
    stream = from_csv(**csv_arguments(spec, learnt, learners))
    network = build_network(spec, stream.learners, names_of(stream))
    layout = schema_layout(stream.description["schema"])
    return Attacked(stream, layout, network, law, seed=seed, **given), Path(spec.data.csv).name


@attack.command("image")
def image(
    dataset: str = typer.Argument("mnist", help="Images: mnist or cifar10; what is not there yet is downloaded."),
    epsilon: str = typer.Option("10000,100,10,1", help="ε of one image, for each kind of noise: one or several."),
    images: int = typer.Option(2, min=1, max=10, help="How many are attacked."),
    searches: int = typer.Option(120, min=1, help="Steps of each search."),
    seed: int = SEED,
    out: Path = OUT,
    json: str | None = JSON,
) -> None:
    """Find an image again from the gradient that a small CNN sends of it (extra `nn`).

    \b
    gossamer attack image
    gossamer attack image cifar10 --images 4 --searches 400
    """
    check_place(out / "results.json")
    json_file(json)
    budgets, found = _budgets(epsilon), DATASETS.find(dataset)
    if not found.images:
        raise BadValue("dataset", dataset, "expected images: mnist or cifar10")
    if importlib.util.find_spec("torch") is None:
        raise GossamerError("images need the torch library: pip install 'gossamer-learning[nn]'.")
    from gossamer.attacks.images import Pictured, attack_images

    stream = found.read(10, seed, draw="once", per_round=1)
    shape: Any = found.shape
    pictured = Pictured(stream, shape, read_network("paper"), images=images, searches=searches, seed=seed)
    with counted("attack", kept=False) as progress:
        album = attack_images(pictured, budgets, progress)
    _show(tell_images(pictured, album, found.label), out, json)


@attack.command("membership")
def membership(
    epsilon: str = typer.Option("1,4", help="Claimed ε of one record, for each kind of noise: one or several."),
    law: Literal["laplace", "gaussian"] = typer.Option("gaussian", help="Laplace noise (pure ε) or Gaussian."),
    runs: int = typer.Option(20_000, min=100, max=MOST_RUNS, help="Runs in each of the two worlds."),
    self_test: bool = typer.Option(
        False, "--self-test", help=f"Draw {PLANTED:g} times less noise than is claimed, and see whether that is found."
    ),
    out: Path = OUT,
    json: str | None = JSON,
) -> None:
    """Tell whether a record was there, by the likelihood ratio over many runs, against the claimed ε.

    Exit code 1 where a claim is refuted; with --self-test, where one is not.

    \b
    gossamer attack membership
    gossamer attack membership --law laplace --epsilon 1
    gossamer attack membership --self-test --epsilon 1
    """
    check_place(out / "results.json")
    json_file(json)
    with counted("attack", kept=False) as progress:
        told = tell_all_apart(law, _budgets(epsilon), runs, progress, 1 / PLANTED if self_test else 1.0)
    _show(tell_membership(told, law, runs, self_test), out, json)
    if any(one.refuted != self_test for one in told):
        raise typer.Exit(1)


def _budgets(given: str) -> list[float]:
    try:
        budgets = [float(one) for one in given.split(",")]
    except ValueError:
        budgets = []
    if not budgets or not all(0 < one < math.inf for one in budgets):
        raise BadValue("epsilon", given, "expected numbers above 0, such as 100,10,1")
    return list(dict.fromkeys(budgets))


def _make_private(out: Path) -> None:
    """A new folder that is its owner's alone; one that is there stays as open as somebody made it."""
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise GossamerError(f"{out} cannot be written ({error.strerror}): choose another place.") from None


def _show(page: Page, out: Path, json: str | None, explained: str = "") -> None:
    with undisturbed():
        page.write(out, command_line())
    put_json(json, page.numbers)
    console = console_beside(json)
    head, *body = page.rows
    table = Table(*head, box=None, header_style="bold", pad_edge=False)
    for row in body:
        table.add_row(*map(escape, row))
    console.print(table)
    if explained:
        console.print(escape(explained.replace("*", "")), highlight=False)
    for sentence in page.findings:
        console.print(escape(sentence), highlight=False)
    console.print(f"Numbers, pictures and words: {escape(str(out))}", highlight=False)
