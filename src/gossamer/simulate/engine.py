"""The stacked engine: all learners in one process, one array row each.

    stream ─▶ model gradient ─┐
                              ▼
    state ──▶ emit ──▶ privacy boundary (noise) ──▶ mixer (off-diagonal weights) ──▶ step ──▶ state

The same algorithm functions serve a party's own process, as a block of one learner; only the mixer differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gossamer.algorithms.base import Algorithm, State
from gossamer.arrays import NUMPY, Kind, dense
from gossamer.automatic import found_step, step_words
from gossamer.errors import AT_SOURCE, AnyOf, Argument, BadValue, GossamerError, NotProvable
from gossamer.guarantees import guarantees_of
from gossamer.loggers.base import Logger, Loggers
from gossamer.models import Gradient, LinearModel, Model
from gossamer.models.memory import LinearMemory
from gossamer.models.standard import StandardMemory
from gossamer.networks import Network
from gossamer.privacy import MECHANISMS, Mechanism, Privacy, PrivateBoundary, SimulatedNoise, Unproved, simulated
from gossamer.privacy.boundary import UNNOISED, all_colluding
from gossamer.records import Batch
from gossamer.rounds import Rounds, with_ridge
from gossamer.run_record import LEARNER, NotResumedError, Record, frozen_json, mean_row
from gossamer.schedules import Decay, Schedule
from gossamer.setting import setting_of
from gossamer.simulate.blocks import Blocks
from gossamer.simulate.matrix import matrix_rounds
from gossamer.simulate.metrics import metrics_of
from gossamer.simulate.progressive import Progressive
from gossamer.standardising import looks_of
from gossamer.streams import Stream
from gossamer.streams.stream import weights_of
from gossamer.types import Array, Matrix
from gossamer.version import __version__

OF_WHAT_IS_SENT = (
    "ε is of what is sent: all else in this record, such as θ*, errors, accuracies, the majority class, the confusion "
    "table, counts and a digest of the data, is not noised."
)
PRIVATE = tuple(f"{kind.__name__}(" for kind in MECHANISMS.values())  # how a record's config["privacy"] starts
_GONE_ON: set[str | None] = set()  # seals of private records that this process has gone on from


class Progress(NamedTuple):
    """What a callback is told after every round."""

    t: int  # rounds done
    steps: int  # rounds asked for
    last: np.recarray[Any, Any]  # the latest evaluation, one row of a Record's history
    record: Callable[[], Record]  # makes the record of this moment, to be saved and resumed from
    course: Callable[[], Mapping[str, Any] | None]  # ε over all rounds asked for, as planned; None without a budget


def simulate(
    algorithm: Algorithm[State],
    network: Network,
    stream: Stream,
    *,
    model: Model,
    privacy: Privacy | Mechanism | None = None,
    steps: int,
    gradient: Gradient = "history",
    seed: int = 0,
    evaluate_every: int | None = None,
    callback: Callable[[Progress], bool | None] | None = None,
    resume: Record | None = None,
    progressive: bool = False,
    loggers: Sequence[Logger] = (),
) -> Record:
    """Run `algorithm` for `steps` rounds on `network`, every learner with its own records from `stream`.

    privacy         adds `privacy.noise(channel, t, shape)` to what learners send on each private channel. Without it
                    the algorithm's own `noise` scales, if any, are drawn as Laplace noise from `seed`: not private.
    gradient        "history": the mean over all records so far, at the current θ; "latest": over the newest round's
    evaluate_every  rounds between evaluations (by default about a hundred in all); the first and last are always there
    callback        called after every round; a true answer stops the run, whose record can be resumed. To be safe from
                    a crash, save `progress.record()` now and then: it is the record of that moment
    resume          a record of the same run that stopped earlier; goes on to the same numbers as if it never had
    progressive     of linear models: predict every arriving record before it is learned from, and keep how well that
                    went in history.progressive; a run that goes on does as it did
    loggers         told of the configuration, every evaluation and the end, such as gossamer.loggers.Jsonl(path); one
                    that fails is left with a LoggerFailed warning, and the run goes on
    """
    if resume is not None and not (isinstance(resume, Record) and "evaluate_every" in resume.config):
        requirement = "expected a record that simulate() made, such as load()"
        raise BadValue("resume", resume, requirement, python=f"resume={type(resume).__name__}")
    if evaluate_every is None and resume is not None:
        evaluate_every = resume.config["evaluate_every"]
    every = max(1, steps // 100) if evaluate_every is None else evaluate_every
    _check_run(network, stream, steps, gradient, every, seed)
    logs = Loggers(loggers)
    privacy, scales, notes = _noise(privacy, algorithm, steps, resume, seed)
    # The first run's length decides releases and steps, where rules find them: a run that goes on keeps both.
    length = steps if resume is None else resume.config.get("planned") or steps
    standard = isinstance(model, LinearModel) and model.standardise is not None
    by_rule = (
        standard or algorithm.with_step is not None or (isinstance(privacy, Mechanism) and privacy.where == "source")
    )
    found = None
    if algorithm.with_step is not None:
        of_first = partial(setting_of, algorithm, network, stream, model, gradient, length)
        found = found_step(algorithm, network, model, stream.table, privacy, length, of_first, weights_of(stream))
        notes.append(step_words(found, algorithm))
        algorithm = algorithm.with_step(found)
    if isinstance(scales, Decay) and scales.learners not in (None, network.m):
        raise GossamerError(
            f"the noise is given for {scales.learners} learners and the network has {network.m}: give one each."
        )
    notes += [*algorithm.notes(scales), *stream.notes]
    if not network.iterates_z:
        notes.append(f"z is not iterated: {network.m:,} learners start with the exact shares u_i/m that it tends to.")
    if stream.rounds is not None and steps > stream.rounds:
        notes.append(f"No new records arrive after round {stream.rounds}; the learners go on with those they have.")

    memory = model.memory(stream.table, gradient, stream.room(steps if gradient == "history" else 1))
    metrics = metrics_of(model, stream, memory)
    notes += metrics.notes
    rows = network.rows(mixes=algorithm.mixes).of_kind(model.arrays)
    if {"W", "I+W"} & set(algorithm.mixes) and network.one_way:
        notes.append(
            f"{algorithm.name} sends both ways over all links, and {network.one_way} of this network are one-way."
        )
    state = algorithm.init(rows, model.start(network.m, seed, stream.table.columns))
    config = _config(algorithm, network, stream, model, privacy, gradient, seed, every) | {"steps": steps}
    config |= {"planned": length} if by_rule else {}
    if isinstance(model, LinearModel) and model.standardise is not None:
        config |= {"parameters": stream.table.columns * model.outputs}
    start, history = 0, list[np.recarray[Any, Any]]()

    def predicts(theta: Any) -> Any:
        """What predicts, of an algorithm's θ."""
        return model.parameters(theta, stream.table.columns) if isinstance(model, LinearModel) else theta

    seen = _progressive(progressive, model, stream, predicts(state.theta), resume)
    if resume is not None:
        start, state, history = _resumed(resume, config, state, model)
        memory.go_on(resume.state)
        if seen is not None:
            seen.go_on(resume.state)
        if gradient == "history":
            for t in range(start):
                memory.observe(stream.arrivals(t))

    def row(t: int, learners: np.recarray[Any, Any]) -> np.recarray[Any, Any]:
        return mean_row(t, learners, metrics.each, **({} if seen is None else {"progressive": seen.value}))

    if resume is None:
        history.append(row(0, metrics.learners(predicts(state.theta), 0)))

    boundary: PrivateBoundary | Unproved
    if isinstance(privacy, Mechanism):
        _check_provable(privacy, model)
        setting = setting_of(algorithm, network, stream, model, gradient, steps)
        boundary = privacy.bind(setting._replace(planned=length))
    else:
        boundary = Unproved(privacy)
    private = isinstance(boundary, PrivateBoundary)
    if isinstance(boundary, PrivateBoundary) and resume is not None:
        if boundary.correlated:
            raise NotResumedError(
                "noise that is correlated over releases goes on from past gradients, which are not noised and so in no "
                "record: run it in one go, or with ", Argument("band", 1), ".",
            )  # fmt: skip
        for t in range(start):
            boundary.charge(t)
        _check_booked(resume, boundary)
        sent = {n: v for n, v in resume.state.items() if n.startswith("sent.")}
        boundary.go_on({name: model.from_record(value) for name, value in sent.items()})
        _GONE_ON.add(resume.seal)
    mix = Mixer(network, algorithm.mixes, model.arrays)
    if isinstance(memory, StandardMemory):
        memory.prepare(looks_of(memory, boundary, privacy, length, network, weights_of(stream)))
    ridge = model.ridge(stream.table.columns) if isinstance(model, LinearModel) else model.l2
    rounds = Rounds(algorithm, rows, memory, boundary, ridge, finite=private, weights=weights_of(stream))
    state = state if start else rounds.start(state)
    blocks = None
    if not network.iterates_z and privacy is None and isinstance(memory, LinearMemory):
        blocks = Blocks(algorithm, network, rows, memory, ridge, weights_of(stream), state.theta.shape[1])
    matrix = None
    if model.arrays.place == "cuda" and (
        privacy is None or (isinstance(privacy, SimulatedNoise) and privacy.where == "messages" and not privacy.split)
    ):
        matrix = matrix_rounds(algorithm, network, model.arrays, privacy, state, start)
    t, looked, learners = start, -1, np.recarray(0, dtype=LEARNER)
    behind: set[str | None] = set()
    assumed = guarantees_of(algorithm, network, stream, model, privacy, gradient, steps).kept()

    def look() -> np.recarray[Any, Any]:
        """The learners' errors now, computed once a round."""
        nonlocal looked, learners
        if looked != t:
            looked, learners = t, metrics.learners(predicts(state.theta), t)
        return learners

    def record() -> Record:
        """The record of this moment."""
        learners = look()
        last = [] if history[-1].t[0] == t else [row(t, learners)]
        joined = np.concatenate(history + last).view(np.recarray)
        kept = {name: model.to_record(value) for name, value in state._asdict().items()} | memory.kept()
        kept = kept if blocks is None else {name: np.array(value) for name, value in kept.items()}  # written anew soon
        # Past gradients, which correlated noise goes on from, are not noised: no record has them.
        sent = {name: value for name, value in boundary.kept(t).items() if not name.startswith(UNNOISED)}
        kept |= {name: model.to_record(value) for name, value in sent.items()}
        said, budget = (*notes, *boundary.notes(t)), boundary.budget()
        if budget is not None:
            said = (*said, OF_WHAT_IS_SENT)
        if budget is not None and stream.rounds is None:
            said = (*said, "ε protects one arrival; a record that is drawn again is another arrival.")
        if seen is not None:
            kept, said = kept | seen.kept(), (*said, *seen.notes())
        about = {**config, **boundary.description, **metrics.beside(predicts(state.theta)), "assumptions": assumed}
        about |= {"graph": network.drawing(), "course": boundary.course()}
        about |= {} if found is None else {"first_step": found}
        claim = boundary.claim if budget is None else boundary.claim + all_colluding(budget)
        made = Record(t, kept, joined, learners, metrics.optimum, about, said, claim, budget)
        if private:
            behind.add(made.seal)
        return made

    planned = partial(boundary.course, steps)
    private_notes = [] if not private else [OF_WHAT_IS_SENT]
    told = {"claim": boundary.claim, "notes": [*notes, *private_notes], "assumptions": assumed, "from": start}
    with logs.told({**config, **boundary.description, **told}), np.errstate(over="ignore", invalid="ignore"):
        # A diverging run is refused at its next evaluation.
        if resume is None and logs:
            logs.log(history[0], boundary.spent())
        for t in range(start + 1, steps + 1):
            _GONE_ON.update(behind)  # what follows these records is drawn now, and must not be drawn again
            if matrix is not None:
                memory.observe(stream.arrivals(t - 1))
                point = algorithm.point(matrix.state)
                matrix(with_ridge(memory.gradient(point), model.l2, point), t - 1)
                state = matrix.state
            else:
                records = stream.arrivals(t - 1)
                if seen is not None:
                    seen.see(predicts(state.theta), records)
                state = (
                    one_round(rounds, mix, state, records, t - 1) if blocks is None else blocks(state, records, t - 1)
                )
            if t % every == 0 or t == steps:
                history.append(row(t, look()))
                if logs:
                    logs.log(history[-1], boundary.spent())
            if callback is not None and callback(Progress(t, steps, history[-1], record, planned)):
                break
        made = record()
        logs.end(made)
        return made


def _progressive(asked: bool, model: Model, stream: Stream, start: Array, resume: Record | None) -> Progressive | None:
    """What counts predictions, where asked for; a run that goes on does as it did."""
    if resume is not None:
        asked = "progressive" in (resume.history.dtype.names or ())
    if not asked:
        return None
    if not isinstance(model, LinearModel):
        raise BadValue("progressive", asked, "records are predicted before they are learned from by linear models only")
    return Progressive(model, stream.table, start)


def _noise(
    privacy: Privacy | Mechanism | None, algorithm: Algorithm[Any], steps: int, resume: Record | None, seed: int
) -> tuple[Privacy | Mechanism | None, Schedule | None, list[str]]:
    """What adds the noise, the scales that messages get as far as they are known, and what is to be said of it."""
    if privacy is None:
        privacy = None if algorithm.noise is None else simulated(algorithm.noise, seed)
        return privacy, algorithm.noise, []
    notes = [] if algorithm.noise is None else ["The algorithm's own noise= is not used: privacy= says what is added."]
    if isinstance(privacy, Mechanism):
        # The first run's horizon decides the noise: with another one, rounds that are sent would be booked as quieter.
        privacy = privacy.over(steps if resume is None else resume.config.get("horizon") or steps)
        return privacy, privacy.message_scale if privacy.where == "messages" else None, notes
    if not callable(getattr(privacy, "noise", None)):
        raise BadValue("privacy", privacy, "expected noise, such as gossamer.Laplace.for_budget(8.0)")
    at_source = getattr(privacy, "where", "messages") == "source"
    return privacy, None if at_source else getattr(privacy, "scale", None), notes


def one_round(rounds: Rounds[State], mix: Mixer, state: State, records: Batch, t: int) -> State:
    """Round t of all learners; one noisy copy of each message goes to all out-neighbours."""
    sent = rounds.send(state, records, t)
    got = {channel: mix(out.over, out.value) for channel, out in sent.out.items()}
    private = [channel for channel, out in sent.out.items() if out.private]
    return rounds.receive(state, sent.gradient, got, private, t)


class Mixer:
    """From what learners send to what they receive: got_i = Σ_{j≠i} W_ij sent_j."""

    def __init__(self, network: Network, mixes: Sequence[Matrix] = ("R", "C"), kind: Kind = NUMPY) -> None:
        weights = {over: network.off_diagonal(over) for over in mixes}
        self._weights: dict[Matrix, Any] = (
            {over: kind.make(dense(off)) for over, off in weights.items()} if kind.tensors else weights
        )

    def __call__(self, over: Matrix, sent: Array) -> Array:
        received: Array = self._weights[over] @ sent
        return received


def _check_provable(privacy: Mechanism, model: Model) -> None:
    if type(privacy) not in MECHANISMS.values():
        raise NotProvable(
            f"privacy={type(privacy).__name__}: nothing is proved of a mechanism of one's own; use Laplace or "
            "Gaussian, or an object with a method noise(), which makes no claim."
        )
    if privacy.where == "messages" and not model.arrays.wide:
        # The recursion takes states as exact; in float32 rounding alone moves a message by more than is charged.
        raise NotProvable(
            "noise on messages is proved for states in float64, and this model's are narrower: use ",
            AnyOf(Argument("dtype", python="NeuralNetwork(…, dtype=torch.float64)"), AT_SOURCE), ".",
        )  # fmt: skip


def _check_run(network: Network, stream: Stream, steps: int, gradient: str, every: int, seed: int) -> None:
    limits = (("steps", steps, 1, 2**40), ("evaluate_every", every, 1, 2**40), ("seed", seed, 0, 2**63 - 1))
    for name, value, least, most in limits:
        if not isinstance(value, int | np.integer) or not least <= value <= most:
            raise BadValue(name, value, f"expected a whole number from {least} to {most}")
    if network.m != stream.learners:
        raise GossamerError(
            f"the network has {network.m} learners and the stream {stream.learners}: build both for the same number."
        )
    if gradient == "latest":
        new = stream.room(steps) - stream.room(steps - 1)
        if not new.all():
            raise GossamerError(
                f"learner {int(new.argmin())} has no new record in round {steps - 1}, which ",
                Argument("gradient", "latest"), " needs: use fewer ", Argument("steps"), ", or ",
                Argument("gradient", "history"), ".",
            )  # fmt: skip


def _check_booked(record: Record, boundary: PrivateBoundary) -> None:
    """A private record's rounds must be booked as they were sent: with the same noise, at the same price."""
    assert record.epsilon is not None
    now, then = boundary.budget().spent, record.epsilon.spent
    noise = frozen_json(boundary.description)["noise"]
    if not np.allclose(now, then, rtol=1e-9, atol=0) or noise != record.config.get("noise"):
        raise NotResumedError(
            f"the record to resume had spent ε = {then.max():.6g} after {record.t} rounds and would now be booked with "
            f"{now.max():.6g}: its noise or its accounting was another; start anew."
        )
    if record.seal in _GONE_ON:
        raise NotResumedError(
            f"the record to resume, of round {record.t}, was gone on from already: its next rounds would be drawn "
            "again, which releases the same states twice; resume the newest record."
        )


def _config(
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


def _unlike(one: Any, other: Any) -> Any:
    """The parts of one setting that differ from another's; the fingerprint only where nothing else does."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return one
    unlike = {part: one.get(part) for part in {**one, **other} if one.get(part) != other.get(part)}
    said = {part: value for part, value in unlike.items() if part != "fingerprint"}
    return said or unlike


def _resumed(
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
