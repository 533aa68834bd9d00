"""`gossamer predict`: what a model says of new rows."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import typer

from gossamer.cli.models import Found, model_at
from gossamer.cli.output import check_place
from gossamer.cli.words import printable
from gossamer.errors import BadValue, GossamerError, near
from gossamer.files import replace_file
from gossamer.predictions.fitted import Encoded, FittedModel
from gossamer.quoting import typed
from gossamer.spec import languages
from gossamer.streams.own import clipped_notes

PREDICTION = "prediction"


def predict(
    run: Path = typer.Argument(
        help="A run's folder or record, a party's folder or outcome.npz, or a model that `gossamer export` wrote."
    ),
    rows: Path = typer.Argument(metavar="NEW", help="New rows: CSV, .jsonl or .parquet, with the features by name."),
    out: Path | None = typer.Option(None, help="The CSV file to write [default: standard output]."),
    learner: str | None = typer.Option(
        None, help="Whose model, by name or number [default: the mean of all learners']."
    ),
    proba: bool = typer.Option(False, "--proba", help="Also the probability of every class, as columns P(class)."),
    keep: str | None = typer.Option(None, help="Columns of NEW to write beside the predictions: id,name."),
) -> None:
    """Predict new rows with the model that a run has left.

    \b
    gossamer predict gossamer-run new.csv --out predictions.csv
    gossamer predict gossamer-run new.csv --proba --keep id --learner ward-b
    gossamer predict model.json new.parquet --out predictions.csv
    gossamer predict demo/learner-0 new.csv                     a party, with its own outcome
    """
    found = model_at(run, learner)
    model = found.model
    if model.schema is None:
        raise GossamerError(
            f"{run} was learned from arrays or a ready-made dataset, and has no schema to read a file by: in Python, "
            f"give record.predict an array of its {len(model.names)} columns."
        )
    check_out(out, found, {run, rows})
    names = [] if keep is None else languages.names([keep])
    taken = model.read(rows, names)
    assert isinstance(taken, Encoded)
    table = _table(model, taken, proba, {name: _kept(taken, name) for name in names})
    if out is None:
        typer.echo(table, nl=False)
    else:
        replace_file(out, table.encode())
    for sentence in (*found.notes, *taken.columns.notes, *clipped_notes(model.schema, taken.clipped)):
        typer.echo(f"gossamer: {printable(str(sentence))}", err=True)
    for sentence in (*_said_score(model, taken), *([] if out is None else [f"{len(taken.X)} rows: {out}"])):
        typer.echo(sentence, err=out is None)


def check_out(out: Path | None, found: Found, inputs: set[Path]) -> None:
    """Refuse to write over what is read, or over another file of a run."""
    if out is None:
        return
    check_place(out)
    if out.exists() and any(one.exists() and out.samefile(one) for one in inputs):
        raise GossamerError(f"{out} is read here and would be written over: give another name.")
    if out.exists() and found.folder is not None and found.folder.resolve() in out.resolve().parents:
        raise GossamerError(f"{out} is a file of the run and would be written over: give a new name.")


def _kept(taken: Encoded, name: str) -> list[str]:
    """A column to be written as it came."""
    if name not in taken.columns.columns:
        perhaps = near(name, taken.columns.header)
        raise BadValue("keep", typed(name), f"{taken.columns.source} has no such column", perhaps or "leave it out")
    words = taken.columns.words(name)
    return [words.names[k] for k in words.codes.tolist()]


def _table(model: FittedModel, taken: Encoded, proba: bool, kept: dict[str, list[str]]) -> str:
    """The CSV file: what is kept, the prediction, and every class's probability where asked."""
    columns: dict[str, list[Any]] = {PREDICTION: _predictions(model, taken)}
    if proba:
        shares = model.predict_proba(taken)
        columns |= {f"P({name})": shares[:, k].tolist() for k, name in enumerate(model.class_names)}
    twice = next((name for name in columns if name in kept), None)
    if twice is not None:
        raise BadValue("keep", twice, "it is the name of a column that is written", "rename that column")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*kept, *columns])
    writer.writerows(zip(*kept.values(), *columns.values(), strict=True))
    return text.getvalue()


def _predictions(model: FittedModel, taken: Encoded) -> list[Any]:
    """Quantities, or classes as the records name them, to the letter."""
    if model.is_quantity:
        return list(model.predict(taken).tolist())
    return [model.class_names[k] for k in model.chosen(model.margins(taken))]


def _said_score(model: FittedModel, taken: Encoded) -> list[str]:
    """How good the predictions are, where the rows say it themselves."""
    assert model.schema is not None
    if model.schema.target not in taken.columns.columns:
        return []
    score = model.score(taken)
    if math.isnan(score.value):
        return []
    of = f"on the {score.rows} rows with a value of {model.schema.target!r}"
    if model.is_quantity and score.outside:
        ends = f"{model.schema.said_range(model.schema.target)}, whose ends learners took for what lies beyond"
        return [f"R² {score.value:.4f} {of}; {score.outside} lie outside {ends}: taken so, R² is {score.clipped:.4f}."]
    if model.is_quantity:
        return [f"R² {score.value:.4f} {of}."]
    return [f"Accuracy {score.value:.4f} {of}; the most frequent class alone has {score.simplest:.4f}."]
