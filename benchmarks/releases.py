"""Two releases in one run: parties of an earlier one and of this one go together, and a journal outlives an upgrade.

    python benchmarks/releases.py                     the commits below: no release before 0.3.0 has a tag
    python benchmarks/releases.py v0.3.0 COMMIT …     others, by tag or commit of this repository
    python benchmarks/releases.py --record v0.3.0     what tests/test_earlier_releases.py keeps of one: its frames, and
                                                      runs that it has begun, in tests/golden/peers-v0.3.0.tar.xz

Every earlier release is installed from this repository's history into an environment of its own, with the versions that
it pinned itself. What is promised is checked, and the command ends with code 1 where it does not hold.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.markup import escape
from simulator import show

ROOT = Path(__file__).parents[1]
# The first commit whose parties have the same name for the same run as today's, and the last one of 0.2.0, whose
# features lie in other places: its θ means something else.
COMPATIBLE, EARLIER = "798245d035caca34a770e1086391213ebbc48b87", "9f544315512feece9a28d11c3e688e7ca7eef074"
LEARNERS, STEPS, STOP = 4, 300, 60  # rounds of a run, and when it is stopped
KEPT = ("party.toml", "graph.json", "records.csv", "expected.json")  # of a folder; keys are made anew
PATIENCE = 240.0  # seconds; what is waited for takes a few
PRIVATE = {  # noise that a journal is carried over with
    "on messages": ("--where", "messages", "--law", "laplace"),
    "at the source": (),
    "of pairs": ("--secrets", "complete", "--colluders", "1"),
}
FRAMES = """
import json
from gossamer.peers import wire
kept = [
    wire.Hello("run:0123456789abcdef", 3, 7, 41, 117, "f8"), wire.Part(41, "s", 0, 1), wire.Ack(40), wire.Done(),
    wire.Refusal("run", "Learner 3 is in another run."),
]
payloads = {wire.Part: bytes(range(16))}
packed = [wire.pack(wire.Frame(one, payloads.get(type(one), b""))) for one in kept]
print(json.dumps({type(one).__name__: data.hex() for one, data in zip(kept, packed)}))
"""
SEEDED = ("--noise", "0.05,0.55", "--step", "0.5,0.8")
SENT = """
import hashlib, json, sys
from gossamer.peers.config import read_config
from gossamer.peers.journal import Journal
plan = read_config(sys.argv[1])
path, stored = plan.folder / plan.config.party.journal, json.loads(sys.argv[2])
journal = Journal(path, stored["run"], plan.learner, stored["fingerprint"], "process", 64)
sent = journal.messages()
journal.close()
digests = {t: {name: hashlib.sha256(data).hexdigest() for name, data in one.items()} for t, one in sent.items()}
print(json.dumps(digests))
"""


class Broken(Exception):
    """A promise that does not hold."""


class Release(NamedTuple):
    """A release in an environment of its own."""

    name: str
    python: str
    paths: tuple[str, ...] = ()  # where its package is, if it is not installed

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return kept | {"OMP_NUM_THREADS": "1"} | ({"PYTHONPATH": os.pathsep.join(self.paths)} if self.paths else {})

    def command(self, *words: str | Path) -> list[str]:
        return [self.python, "-m", "gossamer", *map(str, words)]

    @property
    def peer_options(self) -> list[str]:
        """A release may want to be told that a run has no budget; earlier ones do not know the word."""
        return [word for word in ("--not-private",) if word in self.run("peer", "run", "--help")]

    def run(self, *words: str | Path) -> str:
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, env=self.environment(), timeout=PATIENCE
        )
        if done.returncode:
            raise Broken(f"{self.name}: {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def python_says(self, code: str, *words: str | Path) -> str:
        command = [self.python, "-c", code, *map(str, words)]
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment(), timeout=PATIENCE, check=True
        ).stdout


def this_release() -> Release:
    return Release("this release", sys.executable, (str(ROOT / "src"),))


def sources_of(commit: str, place: Path) -> Path:
    """The release's files as they were committed."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=False)
    if packed.returncode:
        raise Broken(f"{commit} is not in this repository's history: fetch all of it.")
    place.mkdir(parents=True)
    subprocess.run(["tar", "x", "-C", str(place)], input=packed.stdout, check=True)
    return place


def install(commit: str, place: Path) -> Release:
    """The release in an environment of its own; what is there from before is used again."""
    python, done = place / "environment" / "bin" / "python", place / "installed"
    if not done.exists():
        shutil.rmtree(place, ignore_errors=True)
        source = sources_of(commit, place / "source")
        venv.create(place / "environment", with_pip=True)
        words = ["-m", "pip", "install", "--quiet", "-c", str(source / "constraints.txt"), f"{source}[peers]"]
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_CONSTRAINT")}
        subprocess.run([str(python), *words], check=True, env=kept, stderr=subprocess.DEVNULL)
        done.touch()
    version = Release(commit, str(python)).run("--version").split()[-1]
    return Release(f"{version} at {named(commit)}", str(python))


def free_ports(count: int) -> int:
    """A run of ports that are free now."""
    for _ in range(200):
        first = random.randrange(20000, 50000)
        try:
            for k in range(count):
                with socket.socket() as tried:
                    tried.bind(("127.0.0.1", first + k))
        except OSError:
            continue
        return first
    raise Broken("no free ports")


def folders(made_by: Release, place: Path, *words: str, steps: int = STEPS) -> Path:
    shape = ("--learners", str(LEARNERS), "--graph", "exponential", "--per-round", "1", "--steps", str(steps))
    made_by.run("peers", "init", place, "--port", str(free_ports(LEARNERS)), *shape, *words)
    return place


def status_of(folder: Path, i: int) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / f"learner-{i}" / "status.json").read_text()))
    except (OSError, ValueError):
        return {}


@contextmanager
def running(folder: Path, releases: dict[int, Release]) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Learners as processes, each of its release; none is left."""
    started, options = {}, {release: release.peer_options for release in releases.values()}
    for i, release in releases.items():
        with (folder / f"learner-{i}" / "stderr.log").open("ab") as errors:
            started[i] = subprocess.Popen(
                release.command("peer", "run", folder / f"learner-{i}", "--quiet", *options[release]),
                env=release.environment(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
            )  # fmt: skip
    try:
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def wait_for(done: Callable[[], bool], what: str, started: Mapping[int, subprocess.Popen[bytes]]) -> None:
    """Until it is so; no longer than a while, and not where a learner has ended with an error."""
    until = time.monotonic() + PATIENCE
    while not done():
        if failed := [i for i, process in started.items() if process.poll()]:
            raise Broken(f"{what}: learners {failed} have ended with an error")
        if time.monotonic() > until:
            raise Broken(f"{what}: not within {PATIENCE:g} s")
        time.sleep(0.02)


def ended(started: Mapping[int, subprocess.Popen[bytes]]) -> bool:
    return all(process.poll() is not None for process in started.values())


def finish(folder: Path, releases: dict[int, Release]) -> Any:
    """All learners to their end; their θ."""
    with running(folder, releases) as started:
        wait_for(lambda: ended(started), f"{folder} to its end", started)
    for i in releases:
        about = status_of(folder, i)
        if about.get("state") != "done" or about.get("refused"):
            raise Broken(f"learner {i} of {releases[i].name}: {about}")
    return np.concatenate([np.load(folder / f"learner-{i}" / "own-model.npy") for i in releases])


def stop_midway(folder: Path, releases: dict[int, Release]) -> None:
    """End them as a service manager does when STOP rounds are behind them: until then no more records are there."""
    whole = {}
    for i in releases:
        place = folder / f"learner-{i}"
        settings, whole[i] = (place / "party.toml").read_text(), (place / "records.csv").read_text()
        (place / "party.toml").write_text(settings.replace("[data]\n", "[data]\nfollow = true\n"))
        (place / "records.csv").write_text("".join(whole[i].splitlines(keepends=True)[: STOP + 1]))
    with running(folder, releases) as started:
        wait_for(
            lambda: all(status_of(folder, i).get("round") == STOP - 1 for i in releases), f"{STOP} rounds", started
        )
        for process in started.values():
            process.send_signal(signal.SIGTERM)
        wait_for(lambda: ended(started), "all to stop", started)
    if any(status_of(folder, i)["state"] != "stopped" for i in releases):
        raise Broken(f"not all were stopped in round {STOP}")
    for i, text in whole.items():
        (folder / f"learner-{i}" / "records.csv").write_text(text)


def everywhere(release: Release) -> dict[int, Release]:
    return dict.fromkeys(range(LEARNERS), release)


def together(old: Release, new: Release, place: Path) -> float:
    """Every other learner is of the old release: how far θ is from that of the new one alone, on the same noise."""
    folder = folders(old, place / "together", *SEEDED)
    shutil.copytree(folder, place / "alone")
    mixed = finish(folder, {i: (old, new)[i % 2] for i in range(LEARNERS)})
    alone = finish(place / "alone", everywhere(new))
    off = float(np.abs(mixed - alone).max())
    if not off <= 1e-12:
        raise Broken(f"θ of two releases together is {off:g} from that of one")
    return off


def sent_by(release: Release, folder: Path, i: int) -> dict[str, Any]:
    """Fingerprints of all messages in a journal that may have to be sent again, as a release reads them."""
    code = (
        "import sqlite3, sys, json; "
        "print(json.dumps(dict(sqlite3.connect(sys.argv[1]).execute('select name, value from about'))))"
    )
    stored = release.python_says(code, folder / f"learner-{i}" / "journal.db")
    return dict(json.loads(release.python_says(SENT, folder / f"learner-{i}", stored)))


def carried(old: Release, new: Release, place: Path, *words: str) -> tuple[Any, int]:
    """A run is stopped, all parties upgrade, and it goes on: its θ, and how many messages were read alike."""
    folder = folders(old, place / "carried", *words)
    stop_midway(folder, everywhere(old))
    read = []
    for release in (old, new):
        copy = place / f"read by {release.name}"
        shutil.copytree(folder, copy)  # since reading a journal is an epoch of it
        read.append([sent_by(release, copy, i) for i in range(LEARNERS)])
    if read[0] != read[1] or not all(read[0]):
        raise Broken(f"journals of {old.name} have other messages in {new.name}")
    count = sum(len(channels) for one in read[0] for channels in one.values())
    return finish(folder, everywhere(new)), count


def upgraded(old: Release, new: Release, place: Path) -> tuple[float, int, float]:
    """Over an upgrade: how far θ is from a run without one, messages that were read alike, and ε against the budget."""
    theta, count = carried(old, new, place / "seeded", *SEEDED)
    folder = place / "never stopped"
    shutil.copytree(place / "seeded" / "carried", folder)
    for one in folder.glob("learner-*/journal.db*"):
        one.unlink()
    off = float(np.abs(theta - finish(folder, everywhere(new))).max())
    if not off <= 1e-12:
        raise Broken(f"θ over an upgrade is {off:g} from that without")
    most = 0.0
    known = old.run("peers", "init", "--help")
    for name, words in PRIVATE.items():
        if "--secrets" in words and "--secrets" not in known:
            continue  # it had no noise of pairs
        _, more = carried(old, new, place / name, "--epsilon", "3", *words)
        spent = [status_of(place / name / "carried", i)["epsilon"][0] for i in range(LEARNERS)]
        if not max(spent) <= 3.0 or not min(spent) > 2.99:
            raise Broken(f"noise {name}: over an upgrade ε is {spent}, expected the budget of 3")
        count, most = count + more, max(most, *spent)
    return off, count, most


def refused(old: Release, new: Release, place: Path) -> str:
    """Parties of an old release that means something else by θ: what the new one says of it, naming both."""
    folder = folders(old, place / "refused")
    with running(folder, {0: old, 1: new, 2: old, 3: new}) as started:
        wait_for(lambda: bool(status_of(folder, 1).get("differs")), "a neighbour to be refused", started)
        said = "; ".join(status_of(folder, 1)["differs"].values())
        wait_for(lambda: bool(status_of(folder, 0).get("refused")), "the old release to refuse as well", started)
        rounds = [status_of(folder, i).get("round", 0) for i in range(LEARNERS)]
    if any(rounds) or "gossamer" not in said:
        raise Broken(f"refused in rounds {rounds}, with: {said}")
    return said


def refused_journal(old: Release, new: Release, place: Path) -> str:
    """What the new release says of a journal that it must not go on with."""
    folder = folders(old, place / "journals")
    stop_midway(folder, everywhere(old))
    command = new.command("peer", "run", folder / "learner-0", "--quiet", *new.peer_options)
    tried = subprocess.run(command, env=new.environment(), capture_output=True, text=True, timeout=PATIENCE)
    if tried.returncode != 2 or "Traceback" in tried.stderr:
        raise Broken(f"a journal of {old.name}: code {tried.returncode}, {tried.stderr}")
    return tried.stderr.strip()


def rows_for(commit: str, place: Path) -> list[tuple[str, str, str]]:
    old, new = install(commit, place / commit), this_release()
    with tempfile.TemporaryDirectory() as room:
        if commit == EARLIER:
            said, journal = refused(old, new, Path(room)), refused_journal(old, new, Path(room))
            return [
                (f"{old.name}: refused with", escape(said), ""),
                (f"{old.name}: its journal is refused with", escape(journal), ""),
            ]
        off = together(old, new, Path(room))
        over, count, spent = upgraded(old, new, Path(room))
    return [
        (f"{old.name} and this one in one run: θ differs by", f"{off:.1g}", "≤ 1e-12"),
        (f"{old.name}, stopped, upgraded: θ differs by", f"{over:.1g}", "≤ 1e-12"),
        ("messages in journals that both read alike", str(count), "all"),
        ("ε over the upgrade, of 3", f"{spent:.6f}", "≤ 3"),
    ]


def named(commit: str) -> str:
    """A tag as it is, and a commit's hash short."""
    return commit[:7] if len(commit) == 40 else commit


def record(commit: str, cache: Path) -> Path:
    """Keep what the release sends and leaves behind: a run that it has stopped in the middle, and how it would end."""
    release, kept = install(commit, cache / commit), ROOT / "tests" / "golden" / f"peers-{named(commit)}.tar.xz"
    with tempfile.TemporaryDirectory() as room:
        place = Path(room)
        (place / "frames.json").write_text(release.python_says(FRAMES))
        rows = [f"{20 + 7 * k % 60},{k % 5},{int(7 * k % 60 + 9 * (k % 5) > 40)}" for k in range(3 * LEARNERS * STOP)]
        (place / "all.csv").write_text("\n".join(["age,dose,ill", *rows, ""]))
        words = (
            "--csv",
            str(place / "all.csv"),
            "--target",
            "ill",
            "--classes",
            "0,1",
            "--range",
            "age=0:120,dose=0:5",
        )
        for name, noise in (("seeded", SEEDED), ("private", ("--epsilon", "3", "--where", "messages"))):
            folder = folders(release, place / name, *words, *noise, steps=2 * STOP)
            stop_midway(folder, everywhere(release))
            copied = place / "copy" / name
            shutil.copytree(folder, copied)
            told = {"sent": [sent_by(release, copied, i) for i in range(LEARNERS)]}
            if name == "seeded":
                shutil.rmtree(copied)
                shutil.copytree(folder, copied)
                told["theta"] = finish(copied, everywhere(release)).tolist()
            (folder / "expected.json").write_text(json.dumps(told))
        with tarfile.open(kept, "w:xz") as packed:
            packed.add(place / "frames.json", "frames.json")
            for name in ("seeded", "private"):
                for one in sorted((place / name).rglob("*")):
                    if one.name in KEPT or one.name.startswith("journal.db"):
                        packed.add(one, str(one.relative_to(place)))
    return kept


def main(words: list[str]) -> None:
    kept = os.environ.get("GOSSAMER_RELEASES")  # environments that are kept from one time to the next
    cache = Path(kept or tempfile.mkdtemp(prefix="gossamer-releases-"))
    try:
        if words[:1] == ["--record"]:
            print(*[record(commit, cache) for commit in words[1:]], sep="\n")
        else:
            show("two releases", [rows_for(commit, cache) for commit in words or [COMPATIBLE, EARLIER]])
    except Broken as broken:
        raise SystemExit(f"NOT AS PROMISED: {broken}") from None
    finally:
        if kept is None:
            shutil.rmtree(cache)


if __name__ == "__main__":
    main(sys.argv[1:])
