"""Options made from the settings of a description: whoever adds a field there has added the option."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gossamer.cli.words import in_command
from gossamer.errors import Argument, GossamerError
from gossamer.spec.description import SETTINGS, Spec
from gossamer.spec.fields import Setting
from gossamer.spec.files import in_toml, read_toml

CSV = (
    "csv", "target", "split_by", "categorical", "categories", "classes", "drop", "range", "outside", "missing",
    "separator", "encoding", "test", "test_fraction", "aside", "per_round",
)  # fmt: skip
LINEAR = ("model", "l2", "clip")
NETWORKS = ("norm", "stem", "remember", "device", "bf16")
RELEASES = ("releases", "band", "secrets", "colluders", "share")
Command = Callable[..., Any]


def takes(
    *names: str,
    defaults: Mapping[str, Any] | None = None,
    helps: Mapping[str, str] | None = None,
    flags: Mapping[str, list[str]] | None = None,
) -> Callable[[Command], Command]:
    """Let a command take these settings as options, and hand them to it as one description, its first argument.

    The dataset is an argument without dashes, which may also be a TOML file: options are then said on top of it.
    `defaults`, `helps` and `flags` replace those of a setting for this command.
    """
    other = {"default": defaults or {}, "help": helps or {}, "flags": flags or {}}
    settings = [
        SETTINGS[name]._replace(**{what: values[name] for what, values in other.items() if name in values})
        for name in names
    ]

    def decorate(command: Command) -> Command:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()

        def run(**given: Any) -> Any:
            context = given.pop("context")
            values = {one.name: given.pop(one.name) for one in settings}
            said = {name for name in values if context.get_parameter_source(name).name == "COMMANDLINE"}
            spec, file = _described(values, said, defaults or {})
            if file is None:
                return command(spec, **given)
            for name in set(spec.given()) - set(values):
                raise GossamerError(f"{file}: {in_toml(Argument(name))} is not for this command: leave it out.")
            try:
                return command(spec, **given)
            except GossamerError as error:  # said in the words of the file, but for what options say on top
                raise GossamerError(
                    error.said(lambda one: in_command(one) if one.name in said else in_toml(one) or in_command(one))
                ) from error

        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [context, *map(_parameter, settings), *(p.replace(kind=p.KEYWORD_ONLY) for p in own)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return decorate


def _described(values: Mapping[str, Any], said: set[str], defaults: Mapping[str, Any]) -> tuple[Spec, Path | None]:
    """The description that was given: a file's, where one is named, with what the options say on top; and that file."""
    dataset = values.get("dataset")
    told = {name: value for name, value in values.items() if name in said}
    if dataset is not None and str(dataset).endswith(".toml"):
        del told["dataset"]
        return read_toml(Path(dataset)).but(**told), Path(dataset)
    return Spec.of(**{**defaults, **told}), None


def _parameter(one: Setting) -> inspect.Parameter:
    kind: Any = Literal[one.choices] if one.choices else one.kind
    kind = list[str] if one.many else kind | None if one.optional and not one.choices else kind
    if one.choices and one.optional:
        kind = Literal[one.choices] | None
    if one.name == "dataset":
        about: Any = typer.Argument(help=f"{one.help} Or a description, FILE.toml.", metavar="[DATASET|FILE.toml]")
    else:
        limits: dict[str, Any] = {"min": one.least, "max": one.most} if one.kind in (int, float) else {}
        about = typer.Option(*_flags(one), help=one.help, **limits)
    default = list(one.default) if one.many else one.default
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about]
    )


def _flags(one: Setting) -> Sequence[str]:
    flag = f"--{one.name.replace('_', '-')}"
    return one.flags or ([f"{flag}/--no-{flag[2:]}"] if one.kind is bool else [flag])
