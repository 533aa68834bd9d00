"""Options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.settings import DELTA, RIDGE, Gradients, Kind, Norm, Per, Rows, Stem

Csv = Annotated[Path | None, typer.Option(help="Your own CSV file instead; needs --target.")]
Target = Annotated[str | None, typer.Option(help="The CSV column to predict.")]
SplitBy = Annotated[
    str | None, typer.Option(help="A CSV column: one learner per value, in sorted order [default: records in turn].")
]
Categorical = Annotated[list[str], typer.Option(help="CSV columns that hold categories: a,b,c; may be repeated.")]
Categories = Annotated[
    list[str], typer.Option(help="What a column of categories may hold, in quotes: 'ward=a|b|c'; may be repeated.")
]
Classes = Annotated[str | None, typer.Option(help="What --target may hold, as classes: 0,1.")]
Drop = Annotated[list[str], typer.Option(help="CSV columns to leave out: a,b,c; may be repeated.")]
Range = Annotated[list[str], typer.Option("--range", help="What CSV columns may hold: age=0:120,dose=0:5.")]
PerRound = Annotated[
    int | None,
    typer.Option(min=1, help="Records that arrive at each learner in a round [default: 1 of a CSV, 40 images]."),
]
Model = Annotated[
    Kind | None,
    typer.Option(
        help="The model [default: by --classes; ridge if --range declares the target; else by what the target holds; "
        "resnet18 for images]."
    ),
]
L2 = Annotated[
    float | None,
    typer.Option(help=f"Ridge penalty l2/2 ‖θ‖² [default: {RIDGE:g}, 0 for neural networks].", show_default=False),
]
Clip = Annotated[
    float | None,
    typer.Option(help="Scale back each record's gradient to this length, ‖·‖₁ (‖·‖₂ with --law gaussian)."),
]
ClipPer = Annotated[
    Per | None,
    typer.Option(
        help="Images: clip each record's gradient, which protects an image, or a round's mean, which protects a "
        "round's images [default: record; round with BatchNorm]."
    ),
]
Normalisation = Annotated[Norm | None, typer.Option("--norm", help="ResNet's normalisation [default: batch].")]
FirstLayer = Annotated[
    Stem | None, typer.Option("--stem", help="ResNet's first layer: 7 × 7 and pooling, or 3 × 3 [default: imagenet].")
]
Device = Annotated[str, typer.Option(help="Where networks are trained: cpu, cuda, cuda:1, …")]
Bf16 = Annotated[bool, typer.Option("--bf16", help="Train networks in mixed precision.")]
Learners = Annotated[int | None, typer.Option(min=2, help="How many learners [default: the graph's, or 10].")]
Graph = Annotated[
    str | None,
    typer.Option(help="Network file or name, see 'gossamer graph' [default: paper for ten learners, else random]."),
]
Delta = Annotated[float | None, typer.Option(help=f"δ of --law gaussian [default: {DELTA:g}].")]
Gradient = Annotated[
    Gradients | None,
    typer.Option(
        help="Over all records so far, or the newest only [default: history; latest with --where "
        "source and for images]."
    ),
]
ScaledRows = Annotated[Rows, typer.Option(help="Mushrooms as they are, or scaled to ‖a‖₁ = 1 or ‖a‖₂ = 1.")]
