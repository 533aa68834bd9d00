"""Learners on two hosts, as network namespaces: one that stands still, a cut, a slow link, loss, and going on late.

Needs Linux, root, `ip` and, for links that fail, one of nft, iptables or tc; skipped where they are not there.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import datetime

import numpy as np
import pytest

import gossamer as gs
import test_processes
from conftest import Zygote
from test_processes import LIMIT, SIMULATED, Fleet, make, rounds_sent, simulated

LEARNERS, LATE = 4, 5
HOSTS = ("198.51.100.1", "198.51.100.2")
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
RING = gs.Network.ring(LEARNERS)
WAYS = {  # to lose some packets that arrive at a device (netem: that leave it); whichever works first
    "nft": (
        "nft add table netdev faults",
        "nft add chain netdev faults arriving '{{ type filter hook ingress device {device} priority 0 ; }}'",
        "nft add rule netdev faults arriving numgen random mod 100 '<' {percent} drop",
    ),
    "iptables": ("iptables -A INPUT -i {device} -m statistic --mode random --probability {share} -j DROP",),
    "netem": ("tc qdisc add dev {device} root netem loss {percent}%",),
    "bpf": (  # a random number, and whether it is this large: TC_ACT_SHOT, else TC_ACT_UNSPEC
        "tc qdisc add dev {device} clsact",
        "tc filter add dev {device} ingress bpf direct-action bytecode "
        "'4,32 0 0 4294963256,53 0 1 {large},6 0 0 2,6 0 0 4294967295'",
    ),
}
UNDO = (
    "nft delete table netdev faults",
    "iptables -F INPUT",
    "tc qdisc del dev {device} root",
    "tc qdisc del dev {device} clsact",
)
PROBE = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), 0.5)
except OSError as error:
    print(type(error).__name__)
"""


def done(*command):
    """Whether a command ended well, and what it said."""
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return found.returncode == 0, (found.stdout + found.stderr).strip()


class Wire:
    """Two namespaces, joined by a veth pair that can fail."""

    def __init__(self):
        tag = f"gs{os.getpid()}"
        self.names = [tag + "a", tag + "b"]  # of the namespaces, and of the device in each

    def lay(self):
        one, two = self.names
        commands = [
            f"ip netns add {one}",
            f"ip netns add {two}",
            f"ip link add {one} address {MACS[0]} netns {one} type veth peer name {two} address {MACS[1]} netns {two}",
        ]
        for k, name in enumerate(self.names):  # neighbours that stay known: a cut link gives no error of its own
            commands += [
                f"ip -n {name} address add {HOSTS[k]}/24 dev {name}",
                f"ip -n {name} link set lo up",
                f"ip -n {name} link set {name} up",
                f"ip -n {name} neighbour replace {HOSTS[1 - k]} lladdr {MACS[1 - k]} dev {name} nud permanent",
            ]
        for command in commands:
            well, why = done(*command.split())
            if not well:
                pytest.skip(f"network namespaces cannot be used here ({command}: {why})")
        until(lambda: self.probe() == "ConnectionRefusedError", "namespaces that reach each other")

    def inside(self, k, command, **values):
        return done("ip", "netns", "exec", self.names[k], *shlex.split(command.format(device=self.names[k], **values)))

    def probe(self):
        """What a call to the other host's closed port meets: a refusal where it is reached."""
        return done("ip", "netns", "exec", self.names[0], sys.executable, "-I", "-c", PROBE, HOSTS[1])[1]

    def lose(self, percent):
        """Lose so many of the packets both ways, without a word."""
        why = {}
        values = {"percent": percent, "share": percent / 100, "large": round((1 - percent / 100) * 2**32)}
        for way, commands in WAYS.items():
            tried = (self.inside(k, command, **values) for k in (0, 1) for command in commands)
            why[way] = next((said for well, said in tried if not well), None)
            if why[way] is None and (percent < 100 or self.probe() == "TimeoutError"):
                return
            self.mend()
        pytest.skip(f"no way to lose packets works here: {why}")

    def slow(self, rate):
        for k in (0, 1):
            well, why = self.inside(k, f"tc qdisc add dev {{device}} root tbf rate {rate} burst 32kb latency 100ms")
            if not well:
                pytest.skip(f"tc tbf does not work here ({why})")

    def mend(self):
        for k, command in itertools.product((0, 1), UNDO):
            self.inside(k, command)

    def sent_again(self):
        """TCP segments that were sent a second time, on both hosts."""
        total = 0
        for k in (0, 1):
            names, values = [line for line in self.inside(k, "cat /proc/net/snmp")[1].splitlines() if "Tcp:" in line]
            total += int(dict(zip(names.split(), values.split(), strict=True))["RetransSegs"])
        return total

    def remove(self):
        for name in self.names:
            done("ip", "-n", name, "link", "delete", name)
            done("ip", "netns", "delete", name)


class Spread(Fleet):
    """A fleet on both hosts: the first half of the learners on one, the others on the other."""

    def __init__(self, folder, zygotes):
        self.folder, self.m, self.tap = folder, LEARNERS, folder.with_name("tap")
        self.tap.touch()
        self.fleets = [Fleet(zygote, folder, self.tap) for zygote in zygotes]

    @property
    def pids(self):
        return self.fleets[0].pids | self.fleets[1].pids

    def start(self):
        for i in range(self.m):
            self.fleets[host(i)].start(i)

    def code(self, i):
        return self.fleets[host(i)].code(i)

    def signal(self, i, number):
        assert self.code(i) is None, f"learner {i} has ended"
        os.kill(self.pids[i], number)

    def rounds(self):
        return [self.status(i).get("round", 0) for i in range(self.m)]

    def under_way(self):
        """Wait until all links stand: some rounds, and most of them to come."""
        opened = {(i, (i + k) % LEARNERS) for i in range(LEARNERS) for k in (1, LEARNERS - 1)}
        until(lambda: {edge(line) for _, line in self.said("link open")} == opened, "links")
        rounds = rounds_sent(self.tap)
        until(lambda: next(rounds) >= 10, "rounds")

    def said(self, event):
        """(learner, line) for all lines of an event."""
        there = [i for i in range(self.m) if (self.place(i) / "log.jsonl").exists()]
        return [(i, line) for i in there for line in self.log(i) if line["event"] == event]


def host(i):
    return 2 * i // LEARNERS


def edge(line):
    one, _, other = line["edge"].split()
    return int(one), int(other)


def when(line):
    return datetime.fromisoformat(line["time"]).timestamp()


def until(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"no {what} within {LIMIT} s"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def hosts():
    """Both namespaces, and in each a process that starts learners."""
    if not sys.platform.startswith("linux") or os.geteuid():
        pytest.skip("network namespaces need Linux and root")
    if not shutil.which("ip"):
        pytest.skip("network namespaces need the program ip")
    with contextlib.ExitStack() as ended:
        wire, zygotes = Wire(), []
        ended.callback(wire.remove)
        wire.lay()
        for name in wire.names:
            zygotes.append(Zygote(("ip", "netns", "exec", name)))
            ended.callback(zygotes[-1].close)
        yield wire, zygotes


@pytest.fixture
def wire(hosts):
    yield hosts[0]
    hosts[0].mend()


@pytest.fixture
def spread(hosts, wire, tmp_path):
    """Start a run's learners on the two hosts."""
    made = []

    def start(steps, **changes):
        place, changes = tmp_path / "run", {"durability": "process"} | changes
        make(place, steps, RING, SIMULATED, LEARNERS, host=lambda i: HOSTS[host(i)], **changes)
        made.append(Spread(place, hosts[1]))
        made[0].start()
        return made[0]

    yield start
    for fleet in made:
        fleet.close()


def finds_the_simulators_values(fleet, steps):
    theta = fleet.finish()
    assert fleet.rounds() == [steps] * LEARNERS
    assert [fleet.status(i)["late"] for i in range(LEARNERS)] == [0] * LEARNERS, "no round was lost"
    assert not any(fleet.status(i)["refused"] for i in range(LEARNERS))
    np.testing.assert_allclose(theta, simulated(steps, RING, LEARNERS), rtol=0, atol=1e-12)


def test_a_learner_that_stands_still_is_waited_for(spread):
    steps = 200
    fleet = spread(steps)
    fleet.under_way()
    fleet.signal(2, signal.SIGSTOP)

    def waited():
        return [(i, line["round"]) for i, line in fleet.said("waiting") if 2 in line["for"]]

    until(waited, "neighbour that said that it waited for learner 2")
    fleet.signal(2, signal.SIGCONT)
    finds_the_simulators_values(fleet, steps)
    assert {i for i, _ in waited()} <= {1, 3}, "its neighbours alone wait for it"
    assert all(0 < round_ < steps for _, round_ in waited()), "the run was not in its middle"


def test_a_silent_cut_is_noticed_and_heals(wire, spread):
    steps = 200
    fleet = spread(steps)
    fleet.under_way()
    for i in range(LEARNERS):  # while the cut is made, which takes as long as many rounds
        fleet.signal(i, signal.SIGSTOP)
    wire.lose(100)
    assert wire.probe() == "TimeoutError", "a cut is silent"
    cut = time.time()
    for i in range(LEARNERS):
        fleet.signal(i, signal.SIGCONT)

    def lost():
        return [(i, line) for i, line in fleet.said("link lost") if cut < when(line)]

    def waited():
        return [(i, j) for i, line in fleet.said("waiting") if cut < when(line) for j in line["for"]]

    until(lost, "link that was lost")
    until(lambda: any(host(i) != host(j) for i, j in waited()), "learner that said that it waited for the other host")
    lost_by_the_cut, stood = lost(), fleet.rounds()
    assert 0 < max(stood) < steps - 10, "the run was not in its middle"
    wire.mend()
    until(lambda: min(fleet.rounds()) > max(stood) + 10, "progress after the cut")
    finds_the_simulators_values(fleet, steps)
    assert min(when(line) for _, line in lost_by_the_cut) < cut + 30, "keepalive waits for 3 + 5 s"
    for i, line in lost_by_the_cut:
        assert i in edge(line)
        assert host(edge(line)[0]) != host(edge(line)[1]), "links within a host stand"
        assert line["why"]


def test_a_slow_link_only_takes_longer(wire, spread, monkeypatch):
    steps, features = 60, 2100  # vectors of 17 kB: two rounds of them are not on the way at once
    monkeypatch.setattr(test_processes, "FEATURES", features)
    wire.slow("10mbit")
    started = time.monotonic()
    fleet = spread(steps)
    finds_the_simulators_values(fleet, steps)
    crossing = 2 * steps * 8 * (features + 1)  # bytes each way, at least
    assert time.monotonic() - started > 8 * crossing / 10e6, "the link was not slow"


def test_loss_changes_no_number(wire, spread):
    steps, before = 150, wire.sent_again()
    wire.lose(10)
    fleet = spread(steps)
    until(lambda: wire.sent_again() > before + 20, "packets that were lost")
    wire.mend()  # for the rest: who misses a neighbour's last word stays for LINGER
    finds_the_simulators_values(fleet, steps)


def newest_round(folder, copy):
    """The round in the journal of a learner that stands still, from a copy: its own is locked."""
    copy.mkdir()
    for path in folder.glob("journal.db*"):
        shutil.copy(path, copy)
    return rows(copy, "select max(round) from rounds")[0][0]


def rows(folder, query):
    db = sqlite3.connect(folder / "journal.db")
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def test_late_neighbours_go_on_for_so_many_rounds_and_no_more(spread, tmp_path):
    """Whoever hears the one that stands still uses its newest message, then LATE rounds without; whoever is a link
    further away may use what those have sent, then LATE rounds without, and so on."""
    steps = 200
    fleet = spread(steps, lateness=LATE, late=LATE, patience=0.5)
    fleet.under_way()
    fleet.signal(2, signal.SIGSTOP)
    until(lambda: all(fleet.status(i).get("waits", 0) >= 3 for i in (0, 1, 3)), "standstill")
    newest, stood = newest_round(fleet.place(2), tmp_path / "copy"), fleet.rounds()
    states = [fleet.status(i) for i in range(LEARNERS)]
    fleet.signal(2, signal.SIGCONT)
    theta = fleet.finish()

    assert max(stood) < steps
    assert all(2 in states[i]["waits_for"] for i in (1, 3))
    assert max(stood[1], stood[3]) <= newest + 1 + LATE
    assert stood[0] <= newest + 2 * (1 + LATE)
    assert fleet.rounds() == [steps] * LEARNERS
    assert np.isfinite(theta).all()
    assert np.ptp(theta, axis=0).max() < 0.02
    for i in range(LEARNERS):
        late = rows(fleet.place(i), "select round, sender from late order by round, sender")
        assert fleet.status(i)["late"] == len(late) >= states[i]["late"]
        about = json.loads(np.load(fleet.place(i) / "outcome.npz")["about"].tobytes())
        assert [tuple(one) for one in about["late"]] == late
        if i in (1, 3):
            without = set(range(stood[i] - LATE, stood[i]))
            assert without <= {t for t, j in late if j == 2}, "the journal has the rounds that went without it"
            assert stood[i] - LATE - 1 not in {t for t, j in late if j == 2}, "LATE rounds in a row at most"
            assert states[i]["late"] >= LATE
