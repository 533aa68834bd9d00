"""A relay that passes TLS on, HAProxy with the documented configuration: links through it, and what it cannot do."""

from __future__ import annotations

import asyncio
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
from test_dials import set_dial
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
