"""A run that has ended as a picture and as a page, in the command's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.cli.ending import Ended
from gossamer.cli.output import command_for
from gossamer.cli.words import in_command
from gossamer.errors import Sentence
from gossamer.report.view import View
from gossamer.spec.description import Spec
from gossamer.spec.files import write_toml

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BADLY = "The model is worse than these data allow."


def view_of(ended: Ended, spec: Spec) -> View:
    """All that the page of a run shows; the verdict is its first warning."""
    return ended.record.view(
        warnings=_verdict(ended),
        notes=[_said(sentence) for sentence in ended.said],
        command=command_for("run", spec),
        config=write_toml(spec),
    )


def picture_of(ended: Ended) -> Figure:
    """The run's picture, with what privacy cost in its title and the verdict under it."""
    from gossamer.report.curves import spent, write_title

    record = ended.record
    figure = record.plot(said=_verdict(ended))
    if record.epsilon is not None:
        write_title(figure, f"{record.title}, {spent(record.epsilon.spent, ended.delta)}")  # below: against whom
    return figure


def _verdict(ended: Ended) -> list[str]:
    return [] if ended.verdict is None else [f"{BADLY} {_said(ended.verdict.sentence)}"]


def _said(sentence: Sentence | str) -> str:
    return sentence.said(in_command) if isinstance(sentence, Sentence) else sentence
