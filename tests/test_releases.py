"""What neighbours run: both say it on their link, whoever says nothing is as welcome, and nobody has to be believed."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

from gossamer.peers import certificates, links
from gossamer.peers.release import CAPABILITIES, OWN_RELEASE, Release, decode_release, encode_release
from gossamer.peers.wire import Frame, Hello, pack
from gossamer.version import __version__
from test_links import STEPS, knock, linked
from test_peers import N, simulated


def test_a_release_is_read_as_it_was_said():
    assert Release(__version__, CAPABILITIES) == OWN_RELEASE
    assert decode_release(encode_release()) == OWN_RELEASE
    said = Release("9.9", frozenset({"membership", "renew"}))
    assert dict(encode_release(said))["gossamer-capabilities"] == "membership renew", "words are sorted"
    assert decode_release(encode_release(said)) == said


@pytest.mark.parametrize("nothing", [None, (), [("user-agent", "grpc")], [("gossamer-release", "")]])
def test_who_says_nothing_has_no_version_and_no_capability(nothing):
    assert decode_release(nothing) == Release("", frozenset())


def test_what_is_said_is_bounded_whatever_it_is():
    version, words = "gossamer-release", "gossamer-capabilities"
    for odd in ("1.0 or so", "1" * 41, "\x1b[2J", "0.3\n", "٣", b"0.3", 3):
        assert decode_release([(version, odd)]).version == ""
    assert decode_release([(words, b"renew")]).capabilities == frozenset()
    many = " ".join(f"word-{k}" for k in range(10_000))
    assert len(decode_release([(words, many)]).capabilities) <= 32
    assert decode_release([(words, "renew Renew re\x1bnew " + "a" * 41)]).capabilities == {"renew"}


def test_both_sides_of_a_link_learn_what_the_other_runs(tmp_path):
    told = []

    async def work(world):
        for i, end in world.links.items():
            end._tell_release = lambda j, release, i=i: told.append((i, j, release))
        return await world.run()

    np.testing.assert_allclose(linked(work, tmp_path), simulated(steps=STEPS), rtol=0, atol=1e-12)
    assert {release for *_, release in told} == {OWN_RELEASE}
    heard_of = {(i, j) for i, j, _ in told}
    assert heard_of == {(j, i) for i, j in heard_of}, "each side of every link"


def test_a_release_before_this_one_is_heard_as_ever(tmp_path, monkeypatch):
    """It sends no metadata and looks at none: here nobody does."""
    monkeypatch.setattr(links, "encode_release", lambda: ())
    np.testing.assert_allclose(linked(lambda world: world.run(), tmp_path), simulated(steps=STEPS), rtol=0, atol=1e-12)


def test_frames_that_another_release_sends_are_refused_with_both_versions(tmp_path, caplog):
    async def work(world):
        hears, node = world.team.parties[0].hears[0], world.nodes[0]
        odd = bytearray(pack(Frame(Hello("run", hears, 1, 0, N, "f8"))))
        odd[4] = 2  # the version of its frames
        credentials = certificates.issue_certificate(world.authority, hears)
        await knock(world, credentials, 0, [bytes(odd)], encode_release(Release("9.9", frozenset())))
        async with asyncio.timeout(60):
            while hears not in node.differences:
                await asyncio.sleep(0.01)
        both = f"learner {hears} (gossamer 9.9; here gossamer {__version__}) sent a frame of version 2"
        assert both in node.differences[hears]
        await knock(world, credentials, 0, [bytes(odd)])
        async with asyncio.timeout(60):
            while "does not say which" not in node.differences[hears]:
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING, "gossamer.peers"):
        linked(work, tmp_path)
    said = [record.why for record in caplog.records if record.message == "refused"]
    assert any("gossamer 9.9" in why and __version__ in why for why in said)
