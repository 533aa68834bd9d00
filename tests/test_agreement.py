"""Two parties whose settings differ: each says which setting, both values and what to do, and neither ends for it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from queue import Empty, Queue

import msgspec
import numpy as np
import pytest

import gossamer as gs

pytest.importorskip("grpc", reason="needs the extra `peers`")
from rich.console import Console

from gossamer.cli.peers import view_of
from gossamer.peers.agreement import encode_settings, shared_settings, tell_differences
from gossamer.peers.config import SecretsPlan, graph_json, read_config
from gossamer.peers.node import FORGET, Node
from gossamer.peers.process import LearnerProcess
from gossamer.peers.transport import Arrived
from gossamer.peers.wire import SETTINGS_LIMIT, Frame, Hello, Refusal, Settings, pack, unpack
from test_operations import edit, wait_until
from test_peers import M, N, Team, simulated
from test_processes import LIMIT, make

RING = gs.Network.ring(4)
LONGEST = 1200  # letters of a sentence, whatever somebody else has said


def plain_tables(folder):
    make(folder, 20, RING, m=4)
    config = read_config(folder / "learner-0").config
    tables = msgspec.to_builtins({"run": config.run, "model": config.model, "records": config.records})
    agreed = SecretsPlan(share=0.5, floor=2.0, exponent=0.5, releases="1,4", keys={"0": "ab", "1": "cd"})
    tables["secrets"] = msgspec.to_builtins(agreed)
    tables["records"]["categories"] = {"ward": ["a", "b"]}
    tables["model"] |= {"clip": 1.5, "remember": 20}
    return tables


def other_than(value):
    """A value of the same kind that is not this one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "-other"
    if isinstance(value, dict):
        return {name: other_than(inner) for name, inner in value.items()}
    return [*value[:-1], other_than(value[-1])] if value else ["other"]


def shown(value):
    """As TOML has it; these are values that JSON writes in the same way."""
    return json.dumps(value)


def test_every_setting_that_all_share_is_named_with_both_values(tmp_path):
    tables = plain_tables(tmp_path / "run")
    own = shared_settings(tables, RING)
    for table, values in tables.items():
        for name, value in values.items():
            changed = {**tables, table: {**values, name: other_than(value)}}
            theirs = shared_settings(changed, RING)
            says = tell_differences(own, theirs, 0, 3)
            assert says == tell_differences(theirs, own, 3, 0), "both ends say the same"
            key, one, other = name, value, other_than(value)
            place = table
            if isinstance(value, dict):
                key = min(value)
                place, one, other = f"{table}.{name}", value[key], other[key]
            assert f"[{place}] {key} is {shown(one)} at learner 0 and {shown(other)} at learner 3" in says
            assert re.search(r": (agree on one value|these are folders of two runs).*\.$", says)


def test_what_only_one_party_declares_and_links_that_differ_are_named(tmp_path):
    tables = plain_tables(tmp_path / "run")
    own = shared_settings(tables, RING)
    more = json.loads(json.dumps(tables))
    more["records"]["ranges"]["age"] = [0.0, 120.0]
    more["model"]["clip"] = None
    says = tell_differences(own, shared_settings(more, RING), 2, 1)
    assert "[records.ranges] age is [0.0, 120.0] at learner 1 and not there at learner 2" in says
    assert "[model] clip is not there at learner 1 and 1.5 at learner 2" in says
    heavier = gs.Network(RING.R * 0.5, RING.C)
    says = tell_differences(own, shared_settings(tables, heavier), 0, 1)
    assert "[run] graph: the weight of 0 → 1 in R is 0.25 at learner 0 and 0.125 at learner 1" in says
    assert "; and 1 more: agree on one value" in says
    assert "change its graph file" in says
    code = tell_differences(shared_settings(tables, RING, "one"), shared_settings(tables, RING, "two"), 0, 1)
    assert re.search(r'\[run\] method is "ldp_gradient_tracking" with code \w{12} at learner 0 and ', code)


def test_a_release_is_named_only_where_nothing_else_differs(tmp_path):
    own = shared_settings(plain_tables(tmp_path / "run"), RING)
    other = {**own, "gossamer": {"release": "9.9"}}
    says = tell_differences(own, other, 0, 1)
    assert says.endswith("and 9.9 at learner 1: install the same at both.")
    assert "9.9" not in tell_differences(own, {**other, "run": {**own["run"], "steps": "7"}}, 0, 1)
    assert "install the same release of gossamer at both" in tell_differences(own, own, 0, 1)


def test_long_values_are_shown_where_they_differ():
    names = [f"ward-{k}" for k in range(500)]
    one = {"records.categories": {"ward": json.dumps(names)}}
    other = {"records.categories": {"ward": json.dumps([*names[:300], "ward-new", *names[300:]])}}
    says = tell_differences(one, other, 0, 1)
    assert "ward-300" in says
    assert "ward-new" in says
    assert len(says) < 400


def test_settings_that_are_too_long_to_send_go_by_their_fingerprint(tmp_path):
    tables = plain_tables(tmp_path / "run")
    tables["records"]["ranges"] = {f"column {k}": [0.0, 1.0] for k in range(5000)}
    own = shared_settings(tables, RING)
    assert len(encode_settings(own)) <= SETTINGS_LIMIT
    tables["records"]["ranges"]["column 7"] = [0.0, 2.0]
    sent = msgspec.msgpack.decode(encode_settings(shared_settings(tables, RING)), type=dict[str, dict[str, str]])
    says = tell_differences(own, sent, 0, 1)
    assert re.match(
        r"the fingerprint of \[records\.ranges\] is \w{12} at learner 0 and \w{12} at learner 1: agree", says
    )


class Unlike(Team):
    """A run in which learner 0 has one more round than the others."""

    def start(self, i):
        super().start(i)
        run, steps = ("run:other", "61") if i == 0 else ("run:usual", "60")
        shared = {"run": {"steps": steps, "id": '"run"'}}
        self.nodes[i] = Node(self.parties[i], self.boxes[i], run, self.journals[i].epoch, self.hook, shared=shared)


def test_both_ends_of_every_link_say_what_differs_and_both_go_on_waiting(tmp_path):
    team = Unlike(tmp_path)
    for _ in range(30):
        team.sweep()
    apart = {*team.parties[0].hears, *team.parties[0].tells}
    for j in apart:
        says = f"[run] steps is 61 at learner 0 and 60 at learner {j}: "
        assert team.nodes[0].differences[j].startswith(says)
        assert team.nodes[j].differences[0] == team.nodes[0].differences[j]
        assert team.journals[j].unused is not any(
            k not in (0, j) for k in team.parties[j].hears + team.parties[j].tells
        )
    assert team.journals[0].unused, "nobody was welcome, so nothing was sent"
    assert set(team.nodes[0].differences) == apart
    assert team.parties[0].round == 0


def hostile_settings(rng):
    odd = ["\x1b[2J", "\n", "\u202e", "[bold]", "x" * rng.randrange(2000), "run", "", "steps", "graph", "id", "𝟘"]
    tables = {rng.choice(odd): {rng.choice(odd): rng.choice(odd) for _ in range(rng.randrange(20))} for _ in range(9)}
    payload = msgspec.msgpack.encode(tables)
    return rng.choice([payload, payload[: rng.randrange(len(payload))], rng.randbytes(50), b"\x91" * 3000, b""])


def test_whatever_a_neighbour_says_of_its_settings_is_bounded_and_ends_nobody(tmp_path):
    team, rng = Team(tmp_path), random.Random(0)
    node, neighbour = team.nodes[0], team.parties[0].hears[0]
    for k in range(3000):
        run = rng.choice(["run:other", "\x1b[31m" * 700, ""])
        frames = [pack(Frame(Hello(run, neighbour, 1, 0, N, "f8"))), pack(Frame(Settings(), hostile_settings(rng)))]
        frames.append(pack(Frame(Refusal("run", rng.choice(["\x1b]0;title\x07", "y" * 3000])))))
        version = bytearray(frames[0])
        version[4] = 1 + rng.randrange(200)
        refusal = node.take(Arrived(neighbour, b"".join(frames[: 1 + k % 3]) if k % 7 else bytes(version)))
        for said in (str(refusal), *node.differences.values()):
            assert said.isprintable()
            assert len(said) < LONGEST
        assert set(node.differences) == {neighbour}
    table = Console(width=100, file=io.StringIO())
    status = {"folder": "learner-0", "state": "waiting", "differs": {"1": node.differences[neighbour] + "[/][bold"}}
    table.print(view_of([status]))
    assert "settings differ" in table.file.getvalue()
    np.testing.assert_allclose(team.run(), simulated(), rtol=0, atol=1e-12)
    assert not node.differences, "a hello in order ends it"


def test_settings_larger_than_the_limit_are_refused_and_answers_are_few(tmp_path):
    team = Team(tmp_path)
    node, neighbour = team.nodes[0], team.parties[0].hears[0]
    refusal = node.take(Arrived(neighbour, pack(Frame(Settings(), bytes(SETTINGS_LIMIT + 1)))))
    assert refusal.reason == "payload"
    sent = node.sent
    for _ in range(100):
        node.take(Arrived(neighbour, pack(Frame(Hello("other", neighbour, 1, 0, N, "f8")))))
    assert node.sent - sent <= 2 * len(node._settings), "one answer a second, whoever asks"


def test_frames_of_another_version_are_named_with_both_versions(tmp_path):
    team = Team(tmp_path)
    node, neighbour = team.nodes[0], team.parties[0].hears[0]
    frame = bytearray(pack(Frame(Hello("run", neighbour, 1, 0, N, "f8"))))
    frame[4] = 9
    node.take(Arrived(neighbour, bytes(frame)))
    says = node.differences[neighbour]
    assert (
        says
        == f"learner {neighbour} sent a frame of version 9, expected 1: install the same release of gossamer at both."
    )


def test_a_link_that_only_the_sender_has_is_named_at_both_ends_over_tls(tmp_path):
    """Learner 0's graph has 0 → 2, and learner 2's has not: 2 does not hear it, and both learn why."""
    folder = tmp_path / "run"
    make(folder, 20, RING, m=4)
    off = {(0, 2): 0.1}
    R, C = np.array(RING.R.todense() if hasattr(RING.R, "todense") else RING.R), RING.C
    for (a, b), weight in off.items():
        R[b, a] += weight
        R[b, b] -= weight
    (folder / "learner-0" / "graph.json").write_text(graph_json(gs.Network(R, C)))

    async def work():
        learners = [LearnerProcess(read_config(folder / f"learner-{i}")) for i in (0, 2)]
        tasks = [asyncio.ensure_future(learner.run()) for learner in learners]
        try:
            async with asyncio.timeout(LIMIT):
                while True:
                    found = [
                        (learner._status.node.differences if learner._status.node else {}).get(2 - learner.plan.learner)
                        for learner in learners
                    ]
                    if all(why and "[run] graph: the weight" in why for why in found):
                        return found
                    for task in tasks:
                        assert not task.done(), task
                    await asyncio.sleep(0.02)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for learner in learners:
                learner.journal.close()

    one, other = asyncio.run(work())
    assert one == other
    assert "[run] graph: the weight of 0 → 2 in R is 0.1 at learner 0 and not there at learner 2" in one


def test_a_stranger_that_dials_no_more_is_forgotten(tmp_path):
    team = Team(tmp_path)
    node, party = team.nodes[0], team.parties[0]
    stranger = next(j for j in range(1, M) if j not in party.hears and j not in party.tells)
    for when, known in ((time.monotonic(), True), (time.monotonic() - 2 * FORGET, False)):
        hello, _, refusal = map(unpack, node.answer_stranger(stranger))
        assert isinstance(hello.header, Hello)
        assert f"no link {stranger} → 0 in its [run] graph" in refusal.header.sentence
        assert refusal.header.sentence == node.differences[stranger]
        node._strangers[stranger] = when
        node.tick()
        assert (stranger in node.differences) is known


class Up:
    """`gossamer peers up` with its output in a pipe, line by line."""

    def __init__(self, folder, log):
        command = [sys.executable, "-m", "gossamer", "peers", "up", str(folder), "--not-private"]
        env = {**os.environ, "FORCE_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)
        self.lines, self._queue = [], Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._queue.put(line)
        self._queue.put(None)

    def until(self, pattern):
        """The next line with this in it."""
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                line = self._queue.get(timeout=max(0.1, deadline - time.monotonic()))
            except Empty:
                raise AssertionError(f"no {pattern!r} in {self.lines}") from None
            if line is None:
                assert pattern is None, f"no {pattern!r} in {self.lines}"
                return self.process.wait(LIMIT)
            self.lines.append(line)
            assert line.rstrip("\n").isprintable(), line
            if pattern is not None and re.search(pattern, line):
                return line


def test_peers_up_in_a_pipe_tells_what_differs_and_goes_on_once_it_is_corrected(tmp_path):
    folder, m, started = tmp_path / "run", 2, []
    make(folder, 1500, gs.Network.ring(m), m=m)
    place = folder / "learner-1"
    edit(place, 'path = "records.csv"', 'path = "records.csv"\nfollow = true')
    lines = (place / "records.csv").read_text().splitlines(keepends=True)
    (place / "records.csv").write_text("".join(lines[:751]))  # half: it cannot be done before it was killed
    before = (place / "party.toml").read_text()
    edit(place, '"x0003" = [-1.0, 1.0]', '"x0003" = [-1.0, 2.0]')
    try:
        started.append(up := Up(folder, tmp_path / "err-1"))
        line = up.until("^settings differ: ")
        says = "[records.ranges] x0003 is [-1.0, 1.0] at learner 0 and [-1.0, 2.0] at learner 1: agree on one value"
        while says not in line:
            line = up.until("^settings differ: ")
        for i, j in ((0, 1), (1, 0)):
            status = lambda: json.loads((folder / f"learner-{i}/status.json").read_text())  # noqa: B023, E731
            wait_until(lambda: says in status().get("differs", {}).get(str(j), ""))  # noqa: B023
            assert says in (folder / f"learner-{i}/log.jsonl").read_text()
        up.process.send_signal(signal.SIGINT)
        assert up.until(None) == 130
        assert "[records.ranges] x0003" in " ".join("".join(up.lines[-20:]).split()), "beneath the last table"
        (place / "party.toml").write_text(before)
        started.append(up := Up(folder, tmp_path / "err-2"))
        for _ in range(m):
            up.until("^learner . starts in round [0-9]+ of 1500$")
        up.until("round .* of 1500 is reached by all, accuracy ")
        killed = json.loads((folder / "learner-1/status.json").read_text())["pid"]
        os.kill(killed, signal.SIGKILL)
        up.until("^learner 1 was ended by signal 9, and is started again$")
        up.until("^learner 1 comes back in round [1-9]")
        with (place / "records.csv").open("a") as file:
            file.writelines(lines[751:])
        assert up.until(None) == 0
        assert (
            sum(bool(re.search("^learner . is done in round 1500 of 1500, accuracy ", line)) for line in up.lines) == m
        )
        assert sum("is reached by all" in line for line in up.lines) <= 10
    finally:
        for one in started:
            if one.process.poll() is None:
                one.process.terminate()
                one.process.wait()
            one.process.stdout.close()
    assert (tmp_path / "err-1").read_text() == (tmp_path / "err-2").read_text() == ""
