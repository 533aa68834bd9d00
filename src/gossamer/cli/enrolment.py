"""What people are told who let parties into a run, or are let in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from gossamer.cli.bullets import say
from gossamer.errors import GossamerError
from gossamer.peers.authorities import rotate
from gossamer.peers.certificates import certificate_fingerprint, key_fingerprints_in, learner_of, name_of
from gossamer.peers.config import read_config
from gossamer.peers.enrolment import Enrolled
from gossamer.peers.folders import learners_in
from gossamer.peers.key_files import CERTIFICATE, read_authority
from gossamer.peers.revocation import revoke

BY_TELEPHONE = "Compare these words with every other party by telephone. Others mean another run, or somebody between:"


def in_fours(words: str) -> list[str]:
    """Four words a line, as one reads them out."""
    each = words.split()
    return [" ".join(each[k : k + 4]) for k in range(0, len(each), 4)]


def say_words(console: Console, words: str) -> None:
    say(console, BY_TELEPHONE)
    for line in in_fours(words):
        console.print(f"    [bold]{line}[/]", highlight=False)


def show_enrolled(console: Console, done: Enrolled) -> None:
    for i, request in sorted(done.here.items()):
        where = "" if request.address is None else f" at {request.address}"
        say(console, f"learner {i}: {request.name}{where}, asked on {request.made}: {request.words}")
    for sentence in _next(done):
        say(console, sentence)
    if done.words:
        say_words(console, done.words)


def _next(done: Enrolled) -> Iterator[str]:
    silent = [one.name for _, one in sorted(done.here.items()) if one.address is None and one.secret is not None]
    if silent:  # but in a renewal, which has no secret
        yield (
            f"No address from {', '.join(silent)}: the others dial this machine, or what --hosts has said; on another "
            "machine ask again, gossamer party new FOLDER --address HOST:PORT."
        )
    if done.missing:
        listed = ", ".join(map(str, done.missing))
        yield f"Waiting for the requests of learners {listed}; nothing goes back before all are in."
    for i, path in sorted(done.bundles.items()):
        yield f"Send {path} to {done.here[i].name}, which takes it with: gossamer party join FOLDER {path.name}"
    if done.again:
        listed = ", ".join(done.here[i].name for i in sorted(done.again))
        yield (
            f"The run is final, and the first request of {listed} came again: the new file is good for who has not "
            "joined yet as for who has, and then has a new certificate."
        )
    if done.until is not None:
        until = f"The certificate{'s end' if len(done.bundles) > 1 else ' ends'} on {done.until:%Y-%m-%d}"
        yield (
            f"{until}, with the authority's own: let another follow, gossamer peers rotate."
            if done.cut
            else f"{until}."
        )


def show_revoked(
    console: Console, study: Path, learner: int, serial: str | None, certificate: Path | None, authority: Path | None
) -> None:
    """Write the next list; all keys that the learner has had, unless one certificate is named."""
    place, numbers = study / name_of(learner), [learner_of(one.name) for one in learners_in(study)]
    if learner not in numbers:
        raise GossamerError(f"--learner {learner}: expected one of {', '.join(map(str, numbers))}.")
    if serial is not None and certificate is not None:
        raise GossamerError("--serial and --certificate: give one of the two.")
    if serial is not None:
        try:
            what = [{"serial": f"{int(serial.replace(':', ''), 16):x}"}]
        except ValueError:
            raise GossamerError(f"--serial {serial}: expected a number in hexadecimal.") from None
    elif certificate is not None:
        what = [{"certificate": certificate_fingerprint(_read(certificate))}]
    else:
        what = [{"key": one} for one in key_fingerprints_in(_read(place / CERTIFICATE))]
    signer = None if authority is None else read_authority(authority)
    path = revoke(study, read_config(learners_in(study)[0]).run_name, learner, what, signer)
    _say_given(console, path, authority)
    say(console, "Who has not got it goes on as before. Lists are numbered: an older one undoes nothing.")


def show_rotated(console: Console, study: Path, to: Path, authority: Path | None, overlap: int, days: int) -> None:
    plan = read_config(learners_in(study)[0])
    first, m = plan.read(plan.config.party.authority), plan.config.run.learners
    signer = None if authority is None else read_authority(authority)
    path = rotate(study, plan.run_name, m, first, signer, to, overlap, days)
    _say_given(console, path, authority)
    say(console, f"Certificates of both count for {overlap} days.")
    say(console, f"Renew all of them in that time: gossamer peers sign {study} REQUEST … --authority {to}")
    say(console, f"Keep {to / 'key.pem'} apart, and destroy the key of the old authority when all have renewed.")


def _say_given(console: Console, path: Path, authority: Path | None) -> None:
    if authority is None:
        say(console, f"Every party signs it, one after the other: gossamer peer accept FOLDER {path} --sign")
    say(console, f"Give {path} to every party: gossamer peer accept FOLDER {path.name}; it need not stop for it.")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise GossamerError(f"{path} cannot be read ({error.strerror}): give a certificate as PEM.") from None
