"""A relay that passes TLS on, HAProxy with the documented configuration: links through it, and what it cannot do."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers.folders import learners_in
from test_dials import BEHIND, set_dial
from test_links import LIMIT, STEPS, linked
from test_peers import simulated
from test_processes import free_ports, make
from test_processes import simulated as simulated_run

WRITTEN = Path(__file__).parents[1] / "docs" / "examples" / "haproxy.cfg"
pytestmark = pytest.mark.skipif(not shutil.which("haproxy"), reason="needs the program haproxy")


def configured(port, ports):
    """What is documented, with another port, and with the places of these learners."""
    text = WRITTEN.read_text(encoding="utf-8")
    head = text[: text.index("\nbackend ")].replace("bind :7400", f"bind 127.0.0.1:{port}")
    assert f"bind 127.0.0.1:{port}" in head
    return head + "".join(f"\nbackend learner-{i}\n    server party 127.0.0.1:{at}\n" for i, at in ports.items())


class Relay:
    """HAProxy with these learners behind it."""

    def __init__(self, folder, ports):
        self.port, self._place = free_ports(1), folder / "haproxy.cfg"
        self._place.write_text(configured(self.port, ports), encoding="utf-8")

    def __enter__(self):
        self._process = subprocess.Popen(
            ["haproxy", "-db", "-f", self._place], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        end = time.monotonic() + LIMIT
        while True:
            assert self._process.poll() is None, self._process.stderr.read()
            assert time.monotonic() < end
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return self
            except OSError:
                time.sleep(0.05)

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()


def test_the_documented_configuration_is_valid_and_has_no_key():
    checked = subprocess.run(["haproxy", "-c", "-f", WRITTEN], capture_output=True, text=True, timeout=LIMIT)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "WARNING" not in checked.stdout + checked.stderr
    text = "\n".join(
        line for line in WRITTEN.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")
    )
    assert not re.search(r"\bcrt\b|\bca-file\b|\bssl\b(?!_)|\.pem", text), "it could not end TLS if it wanted to"


def test_processes_behind_a_relay_one_of_which_nobody_can_reach(tmp_path, fleet_of):
    """Everybody's address is the relay's. It has no place for learner 2, which has no port and opens all its links."""
    m, steps, network = 3, 60, gs.Network.ring(3)
    first = make(tmp_path / "run", steps, network, m=m)
    with Relay(tmp_path, {0: first, 1: first + 1}) as relay:
        places = learners_in(tmp_path / "run")
        set_dial(places[2], {"0": "self", "1": "self"}, listen=False)
        for place in places[:2]:
            set_dial(place, {"2": "neighbour"})
        for place in places:
            text = (place / "party.toml").read_text(encoding="utf-8")
            text = re.sub(r'address = "[^"]*"', f'address = "127.0.0.1:{relay.port}"', text)
            (place / "party.toml").write_text(text, encoding="utf-8")
        fleet = fleet_of(tmp_path / "run", m=m)
        fleet.start()
        theta = fleet.finish()
    np.testing.assert_allclose(theta, simulated_run(steps, network, m), rtol=0, atol=1e-12)


def through(relay, world):
    """Everybody dials the relay, whomever it means."""
    for links in world.links.values():
        for j in links._addresses:
            links.reach(j, f"127.0.0.1:{relay.port}")


def test_whom_a_party_means_is_in_the_name_that_it_asks_for(tmp_path):
    async def work(world):
        with Relay(tmp_path, {i: links.port for i, links in world.links.items()}) as relay:
            through(relay, world)
            return await world.run()

    np.testing.assert_allclose(linked(work, tmp_path), simulated(steps=STEPS), rtol=0, atol=1e-12)


def test_a_relay_that_leads_elsewhere_is_found_out(tmp_path):
    """It sends everybody's links to learner 0: those that mean another one see that it is not."""

    async def work(world):
        with Relay(tmp_path, dict.fromkeys(world.links, world.links[0].port)) as relay:
            through(relay, world)
            for links in world.links.values():
                links.dial()
            async with asyncio.timeout(LIMIT):
                while any(times < 3 for links in world.links.values() for j, times in links.dials.items() if j):
                    await asyncio.sleep(0.02)
            for i, links in world.links.items():
                assert {way.neighbour for way in links._queues if way.sends} <= {0}
                if i:
                    assert not world.nodes[i].releases.keys() - {0}, "nobody else has said a word"

    linked(work, tmp_path)


class Tunnel:
    """A party's way to the relay's machine, opened from the inside, with the account that the page describes."""

    def __init__(self, folder, outer, inner):
        self._folder, self._outer, self._inner, self._port = folder, outer, inner, free_ports(1)
        self._running = []

    def __enter__(self):
        for name in ("host", "party"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._folder / name], check=True)
        allowed = f'restrict,port-forwarding,permitlisten="127.0.0.1:{self._outer}" '
        (self._folder / "allowed").write_text(allowed + (self._folder / "party.pub").read_text())
        (self._folder / "sshd_config").write_text(
            f"Port {self._port}\nListenAddress 127.0.0.1\nHostKey {self._folder / 'host'}\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self._folder / 'allowed'}\nStrictModes no\nPasswordAuthentication no\n"
        )
        self._start(shutil.which("sshd"), "-D", "-e", "-f", self._folder / "sshd_config")
        self._until(self._port)
        self._start(
            "ssh", "-N", "-R", f"127.0.0.1:{self._outer}:127.0.0.1:{self._inner}", "-p", str(self._port), "-i",
            self._folder / "party", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
            "ExitOnForwardFailure=yes", "-o", "BatchMode=yes", "-F", "none", "127.0.0.1",
        )  # fmt: skip
        self._until(self._outer)
        return self

    def _start(self, *command):
        self._running.append(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )

    def _until(self, port):
        """Wait until somebody listens there; where the account cannot be used, nothing can be shown here."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if self._running[-1].poll() is not None:
                said = self._running[-1].stderr.read().decode()
                self.__exit__()
                pytest.skip(f"an SSH tunnel cannot be opened here: {said[-300:]}")
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 5).close()
                return
            time.sleep(0.05)
        raise AssertionError(f"nobody listens at {port}")

    def __exit__(self, *_):
        for process in reversed(self._running):
            process.kill()
            process.communicate()


@pytest.mark.skipif(not (shutil.which("sshd") and shutil.which("ssh")), reason="needs the programs ssh and sshd")
def test_a_party_that_lets_nobody_in_is_reached_through_its_own_tunnel_to_the_relay(tmp_path):
    async def work(world):
        outer = free_ports(1)
        ports = {i: links.port for i, links in world.links.items()}
        with Tunnel(tmp_path, outer, ports[BEHIND]), Relay(tmp_path, ports | {BEHIND: outer}) as relay:
            through(relay, world)
            return await world.run()

    np.testing.assert_allclose(linked(work, tmp_path), simulated(steps=STEPS), rtol=0, atol=1e-12)
