"""What decides a run's numbers, and whether a record that stopped may go on with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossamer.algorithms.base import Algorithm, State
from gossamer.errors import Argument
from gossamer.models import Gradient, Model
from gossamer.networks import Network
from gossamer.privacy import MECHANISMS, Mechanism, Privacy, PrivateBoundary
from gossamer.run_record import NotResumedError, Record, frozen_json
from gossamer.streams import Stream
from gossamer.version import __version__

PRIVATE = tuple(f"{kind.__name__}(" for kind in MECHANISMS.values())  # how a record's config["privacy"] starts
GONE_ON: set[str | None] = set()  # seals of private records that this process has gone on from


def config_of(
    algorithm: Algorithm[Any],
    network: Network,
    stream: Stream,
    model: Model,
    privacy: Privacy | Mechanism | None,
    gradient: Gradient,
    seed: int,
    every: int,
) -> dict[str, Any]:
    """What decides a run's numbers; a record is resumed only where all of it agrees."""
    says = type(privacy).__repr__ is not object.__repr__
    return {
        "title": f"{algorithm.name}, {network.m} learners",
        "version": __version__,
        "algorithm": {"name": algorithm.name, **algorithm.parameters},
        "network": {"learners": network.m, "links": network.links, "fingerprint": network.fingerprint},
        "stream": dict(stream.description),
        "model": str(model),
        "score": model.score,
        "privacy": None if privacy is None else repr(privacy) if says else type(privacy).__name__,
        "gradient": gradient,
        "horizon": privacy.horizon if isinstance(privacy, Mechanism) else None,
        "seed": int(seed),
        "evaluate_every": int(every),
    } | ({"tensors": True} if model.arrays.tensors else {})


def check_booked(record: Record, boundary: PrivateBoundary) -> None:
    """A private record's rounds must be booked as they were sent: with the same noise, at the same price."""
    assert record.epsilon is not None
    now, then = boundary.budget().spent, record.epsilon.spent
    noise = frozen_json(boundary.description)["noise"]
    if not np.allclose(now, then, rtol=1e-9, atol=0) or noise != record.config.get("noise"):
        raise NotResumedError(
            f"the record to resume had spent ε = {then.max():.6g} after {record.t} rounds and would now be booked with "
            f"{now.max():.6g}: its noise or its accounting was another; start anew."
        )
    if record.seal in GONE_ON:
        raise NotResumedError(
            f"the record to resume, of round {record.t}, was gone on from already: its next rounds would be drawn "
            "again, which releases the same states twice; resume the newest record."
        )


def _unlike(one: Any, other: Any) -> Any:
    """The parts of one setting that differ from another's; the fingerprint only where nothing else does."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return one
    unlike = {part: one.get(part) for part in {**one, **other} if one.get(part) != other.get(part)}
    said = {part: value for part, value in unlike.items() if part != "fingerprint"}
    return said or unlike


def resumed(
    record: Record, config: dict[str, Any], state: State, model: Model
) -> tuple[int, State, list[np.recarray[Any, Any]]]:
    """Where a record stopped, its state and its history without the row that only stopping added.

    A private record must be what it was when it was made: rounds that were sent are never drawn again, nor booked with
    other noise than they were sent with.
    """
    private = record.epsilon is not None or str(config["privacy"]).startswith(PRIVATE)
    now = frozen_json(config)
    for name in ("privacy", *now) if private else now:  # a budget first: steps and releases may follow from it
        value = now[name]
        stored = record.config.get(name)
        if name not in ("steps", "title") + (() if private else ("version",)) and stored != value:
            raise NotResumedError(
                f"the record to resume was run with {name} = {_unlike(stored, value)!r} and this run has "
                f"{_unlike(value, stored)!r}: resume with the same settings, or start anew."
            )
    if private and (record.epsilon is None or not record.seal):
        raise NotResumedError(
            "the record to resume has no budget or no seal, and nothing else says which of its rounds were sent: "
            "start anew."
        )
    if (record.seal and not record.intact) or not len(record.history) or record.history.t[-1] != record.t:
        raise NotResumedError(
            f"the record to resume, of round {record.t!r}, was changed after it was made: use the record as the run "
            "left it, or start anew."
        )
    for name, array in ((name, model.to_record(value)) for name, value in state._asdict().items()):
        stored = record.state.get(name)
        if stored is None or stored.shape != array.shape or stored.dtype != array.dtype:
            raise NotResumedError(f"the record to resume has no fitting state {name!r}: it is damaged; start anew.")
    if record.t > config["steps"]:
        asked = Argument("steps", config["steps"])
        raise NotResumedError(f"the record to resume has {record.t} rounds and ", asked, ": ask for more.")
    kept = record.history[record.history.t % config["evaluate_every"] == 0]
    return (
        record.t,
        state._replace(**{name: model.from_record(record.state[name]) for name in state._asdict()}),
        [kept[k : k + 1].view(np.recarray) for k in range(len(kept))],
    )
