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
from gossamer.automatic import found_step, step_words
from gossamer.errors import AT_SOURCE, AnyOf, Argument, BadValue, GossamerError, NotProvable
from gossamer.guarantees import guarantees_of
from gossamer.loggers.base import Logger, Loggers
from gossamer.models import Gradient, LinearModel, Model
from gossamer.models.standard import StandardMemory
from gossamer.networks import Network, NetworkSchedule
from gossamer.privacy import MECHANISMS, Mechanism, Privacy, PrivateBoundary, Unproved, simulated
from gossamer.privacy.boundary import UNNOISED, all_colluding
from gossamer.rounds import Rounds, fields_of_graph
from gossamer.run_record import LEARNER, NotResumedError, Record, mean_row
from gossamer.schedules import Decay, Schedule
from gossamer.setting import expected_room, setting_of
from gossamer.simulate.changing import OverChanging, rows_over
from gossamer.simulate.holding import check_holds
from gossamer.simulate.metrics import metrics_of
from gossamer.simulate.play import play_of
from gossamer.simulate.progressive import Progressive
from gossamer.simulate.resuming import GONE_ON, check_booked, config_of, resumed
from gossamer.simulate.shard import EVERYBODY, Shard
from gossamer.standardising import looks_of
from gossamer.streams import Stream
from gossamer.streams.stream import weights_of
from gossamer.types import Array

OF_WHAT_IS_SENT = (
    "ε is of what is sent: all else in this record, such as θ*, errors, accuracies, the majority class, the confusion "
    "table, counts and a digest of the data, is not noised."
)


class Progress(NamedTuple):
    """What a callback is told after every round."""

    t: int  # rounds done
    steps: int  # rounds asked for
    last: np.recarray[Any, Any]  # the latest evaluation, one row of a Record's history
    record: Callable[[], Record]  # makes the record of this moment, to be saved and resumed from
    course: Callable[[], Mapping[str, Any] | None]  # ε over all rounds asked for, as planned; None without a budget


def simulate(
    algorithm: Algorithm[State],
    network: Network | NetworkSchedule,
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
    shard: Shard = EVERYBODY,
) -> Record:
    """Run `algorithm` for `steps` rounds on `network`, every learner with its own records from `stream`.

    network         one for all rounds, or a NetworkSchedule that says which each round has
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
    shard           which learners this process plays; what others play, other processes do: see gossamer.cluster
    """
    if resume is not None and not (isinstance(resume, Record) and "evaluate_every" in resume.config):
        requirement = "expected a record that simulate() made, such as load()"
        raise BadValue("resume", resume, requirement, python=f"resume={type(resume).__name__}")
    if evaluate_every is None and resume is not None:
        evaluate_every = resume.config["evaluate_every"]
    every = max(1, steps // 100) if evaluate_every is None else evaluate_every
    changes = network if isinstance(network, NetworkSchedule) else None
    network = network.fixed if isinstance(network, NetworkSchedule) else network
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
    notes += [*algorithm.notes(scales), *stream.notes, *shard.notes]
    if changes is not None:
        notes += check_holds(algorithm, changes, privacy, model, algorithm.strict)
    elif not network.iterates_z and fields_of_graph(algorithm, network.rows([0], algorithm.mixes)):
        notes.append(
            f"z is not iterated: {network.m:,} learners start with the exact shares u_i/m that it tends to; u(I+R) = u "
            f"holds to {network.perron_error:.0e} of every entry."
        )
    if stream.rounds is not None and steps > stream.rounds:
        notes.append(f"No new records arrive after round {stream.rounds}; the learners go on with those they have.")

    if gradient == "history" and model.remember is not None and model.remember < steps:
        notes.append(f"Gradients are over the records of the newest {model.remember} rounds, and not over all.")

    arrivals = shard.arrivals(stream)
    memory = model.memory(stream.table, gradient, shard.own(expected_room(model, gradient, steps, stream)))
    metrics = metrics_of(model, stream, memory, shard)
    notes += metrics.notes
    rows = network.rows(shard.ids, algorithm.mixes) if changes is None else rows_over(changes, algorithm)
    rows = rows.of_kind(model.arrays)
    weights = None if weights_of(stream) is None else shard.own(weights_of(stream))
    if {"W", "I+W"} & set(algorithm.mixes) and network.one_way:
        notes.append(
            f"{algorithm.name} sends both ways over all links, and {network.one_way} of this network are one-way."
        )
    state = algorithm.init(rows, shard.own(model.start(network.m, seed, stream.table.columns)))
    config = config_of(algorithm, network, stream, model, privacy, gradient, seed, every) | {"steps": steps}
    config |= {"planned": length} if by_rule else {}
    config["network"] |= {} if changes is None else {"changes": changes.description}
    if isinstance(model, LinearModel) and model.standardise is not None:
        config |= {"parameters": stream.table.columns * model.outputs}
    start, history = 0, list[np.recarray[Any, Any]]()

    def predicts(theta: Any) -> Any:
        """What predicts, of an algorithm's θ; of a linear model as NumPy's array."""
        if not isinstance(model, LinearModel):
            return theta
        return model.parameters(model.arrays.to_numpy(theta), stream.table.columns)

    seen = _progressive(progressive, model, stream, predicts(state.theta), resume)
    if resume is not None:
        start, state, history = resumed(resume, config, state, model)
        memory.go_on(resume.state)
        if seen is not None:
            seen.go_on(resume.state)
        if gradient == "history":
            for t in range(start):
                memory.observe(arrivals(t))

    def row(t: int, learners: np.recarray[Any, Any]) -> np.recarray[Any, Any]:
        counted = None if changes is None else changes.at(t).present
        return mean_row(t, learners, metrics.each, counted, **({} if seen is None else {"progressive": seen.value}))

    if resume is None:
        history.append(row(0, shard.gathered(metrics.learners(predicts(state.theta), 0))))

    boundary: PrivateBoundary | Unproved
    if isinstance(privacy, Mechanism):
        _check_provable(privacy, model)
        setting = setting_of(algorithm, network, stream, model, gradient, steps)
        boundary = privacy.bind(setting._replace(planned=length))
    else:
        boundary = Unproved(privacy, shard.ids, network.m)
    private = isinstance(boundary, PrivateBoundary)
    if isinstance(boundary, PrivateBoundary) and resume is not None:
        if boundary.correlated:
            raise NotResumedError(
                "noise that is correlated over releases goes on from past gradients, which are not noised and so in no "
                "record: run it in one go, or with ", Argument("band", 1), ".",
            )  # fmt: skip
        for t in range(start):
            boundary.charge(t)
        check_booked(resume, boundary)
        sent = {n: v for n, v in resume.state.items() if n.startswith("sent.")}
        boundary.go_on({name: model.from_record(value) for name, value in sent.items()})
        GONE_ON.add(resume.seal)
    own = shard.boundary(boundary)
    if isinstance(memory, StandardMemory):
        memory.prepare(looks_of(memory, own, privacy, length, network, weights, shard.ids))
    if private or (isinstance(memory, StandardMemory) and memory.about.numbers):
        notes += network.gap.notes
    ridge = model.ridge(stream.table.columns) if isinstance(model, LinearModel) else model.l2
    rounds = Rounds(algorithm, rows, memory, own, ridge, finite=private, weights=weights)
    state = state if start else rounds.start(state)
    over = None if changes is None else OverChanging(algorithm, changes, rows, rounds, state.theta.shape[1])
    play = over or play_of(
        algorithm, network, rows, model, memory, ridge, weights, privacy, rounds, state, start, shard
    )  # fmt: skip
    if over is not None and resume is not None:
        over.go_on(resume.state)
    t, looked, learners = start, -1, np.recarray(0, dtype=LEARNER)
    behind: set[str | None] = set()
    changing = changes is not None
    assumed = guarantees_of(algorithm, network, stream, model, privacy, gradient, steps, changes=changing).kept()

    def look() -> np.recarray[Any, Any]:
        """The learners' errors now, computed once a round."""
        nonlocal looked, learners
        if looked != t:
            looked, learners = t, shard.gathered(metrics.learners(predicts(state.theta), t))
        return learners

    def record() -> Record:
        """The record of this moment."""
        learners = look()
        last = [] if history[-1].t[0] == t else [row(t, learners)]
        joined = np.concatenate(history + last).view(np.recarray)
        shard.book(own, boundary)
        kept = {name: model.to_record(shard.gathered(value)) for name, value in state._asdict().items()}
        kept |= {name: shard.gathered(value) for name, value in memory.kept().items()}
        # Past gradients, which correlated noise goes on from, are not noised: no record has them.
        sent = {name: value for name, value in boundary.kept(t).items() if not name.startswith(UNNOISED)}
        kept |= {name: model.to_record(value) for name, value in sent.items()} | ({} if over is None else over.kept())
        said, budget = (*notes, *boundary.notes(t)), boundary.budget()
        if budget is not None:
            said = (*said, OF_WHAT_IS_SENT)
        if budget is not None and stream.rounds is None:
            said = (*said, "ε protects one arrival; a record that is drawn again is another arrival.")
        if seen is not None:
            kept, said = kept | seen.kept(), (*said, *seen.notes())
        about = {
            **config,
            **boundary.description,
            **metrics.beside(predicts(state.theta)),
            "assumptions": assumed,
        }
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
            if behind:
                GONE_ON.update(behind)  # what follows these records is drawn now, and must not be drawn again
            records = arrivals(t - 1)
            if seen is not None:
                seen.see(predicts(state.theta), records)
            state = play(state, records, t - 1)
            del records  # the next ones may take their place in memory
            if t % every == 0 or t == steps:
                history.append(row(t, look()))
                shard.book(own, boundary)
                if logs:
                    logs.log(history[-1], boundary.spent())
            if callback is not None and callback(Progress(t, steps, history[-1], record, planned)):
                break
        del play  # and with it what it writes the next state into
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
