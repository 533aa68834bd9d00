"""`gossamer export`: a model as a file that needs nothing of its run."""

from __future__ import annotations

from pathlib import Path

import typer

from gossamer.cli.models import model_at
from gossamer.cli.predict import check_out
from gossamer.cli.words import printable


def export(
    run: Path = typer.Argument(help="A run's folder or record, or a party's folder or outcome.npz."),
    out: Path = typer.Argument(metavar="MODEL.json", help="The file to write."),
    learner: str | None = typer.Option(
        None, help="Whose model, by name or number [default: the mean of all learners']."
    ),
) -> None:
    """Write the model that a run has left as a plain JSON file: schema, coefficients, and how to predict in words.

    \b
    gossamer export gossamer-run model.json
    gossamer predict model.json new.csv --out predictions.csv
    """
    found = model_at(run, learner)
    check_out(out, found, {run, run.with_suffix(".json")})
    for sentence in found.notes:
        typer.echo(f"gossamer: {printable(str(sentence))}", err=True)
    typer.echo(f"Model of {found.model.whose}: {found.model.save(out)}")
