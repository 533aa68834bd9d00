"""Runs that wait in the middle for more records, so that a test can change what lies in the parties' folders."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives import serialization

import gossamer as gs
from gossamer.peers.certificates import Pair, certify, key_pem
from gossamer.peers.key_files import read_authority
from test_operations import edit
from test_processes import LIMIT, make, simulated

M, STEPS, HALF = 3, 40, 20
RING = gs.Network.ring(M)


def read_key(pem):
    return serialization.load_pem_private_key(pem, password=None)


class Halfway:
    """Three parties that know each other's keys, with records for half of their rounds."""

    def __init__(self, folder: Path, fleet_of, enrolled: bool = True) -> None:
        make(folder / "run", STEPS, RING, m=M)
        self.folder, self.fleet = folder / "run", fleet_of(folder / "run", m=M)
        self.places = [self.folder / f"learner-{i}" for i in range(M)]
        self.authority = read_authority(self.folder / "authority")
        self.rest = []
        members = b"".join((place / "certificate.pem").read_bytes() for place in self.places)
        for place in self.places:
            if enrolled:
                (place / "members.pem").write_bytes(members)
                edit(place, "[party]\n", '[party]\nmembers = "members.pem"\n')
            edit(place, 'path = "records.csv"', 'path = "records.csv"\nfollow = true')
            lines = (place / "records.csv").read_text().splitlines(keepends=True)
            self.rest.append("".join(lines[1 + HALF :]))
            (place / "records.csv").write_text("".join(lines[: 1 + HALF]))

    def start(self) -> None:
        """Until all wait for more records."""
        self.fleet.start()
        self.wait(lambda: all(self.fleet.status(i).get("round", 0) >= HALF - 1 for i in range(M)))

    def wait(self, done) -> None:
        until = time.monotonic() + LIMIT
        while not done():
            assert time.monotonic() < until, [self.fleet.status(i) for i in range(M)]
            codes = {i: self.fleet.code(i) for i in self.fleet.pids}
            assert not any(codes.values()), [(self.places[i] / "stderr.log").read_text()[-800:] for i in codes]
            time.sleep(0.02)

    def said(self, i: int, event: str) -> list:
        return [one for one in self.fleet.log(i) if one["event"] == event]

    def wait_for(self, event: str, learners=range(M), times: int = 1) -> None:
        self.wait(lambda: all(len(self.said(i, event)) >= times for i in learners))

    def restart(self, i: int) -> None:
        self.fleet.kill(i)
        self.fleet.start(i)

    def bring_rest(self) -> None:
        for place, rest in zip(self.places, self.rest, strict=True):
            with (place / "records.csv").open("a") as file:
                file.write(rest)

    def check_outcome(self) -> None:
        """The simulator's numbers: no round was lost, and none came from anybody else."""
        np.testing.assert_allclose(self.fleet.finish(), simulated(STEPS, RING, M), rtol=0, atol=1e-12)

    def renew(self, i: int, key=None, before=(), signer: Pair | None = None, days: int = 30) -> None:
        """A new certificate for learner i's key, or for another one."""
        place, signer = self.places[i], signer or self.authority
        own = read_key((place / "key.pem").read_bytes()) if key is None else key
        hosts = ["localhost", "127.0.0.1"]
        certificate = certify(signer, i, own.public_key(), hosts, days, before=before)
        if key is not None:
            (place / "key-new.pem").write_bytes(key_pem(own))
            (place / "key-new.pem").chmod(0o600)
            (place / "key-new.pem").replace(place / "key.pem")
        (place / "certificate-new.pem").write_bytes(certificate)
        (place / "certificate-new.pem").replace(place / "certificate.pem")

    def give(self, file: Path, learners=range(M)) -> None:
        """A document into parties' folders."""
        for i in learners:
            shutil.copy(file, self.places[i] / "coming")
            (self.places[i] / "coming").replace(self.places[i] / file.name)
