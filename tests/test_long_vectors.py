"""How vectors get from a state into messages and from messages into a state: to the bit what plain NumPy says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="needs the extra `peers`")
from gossamer.peers import wire
from gossamer.peers.mixing import add_scaled, add_terms, all_within, set_scaled
from gossamer.peers.wire import MESSAGE_LIMIT, PAYLOAD_LIMIT, Part, RefusedError, pack_vectors, split_frames, unpack
from peers_hub import Faults
from test_peers import Noise, Team, simulated

KINDS = pytest.mark.parametrize("dtype", ["f8", "f4"])
SIZES = st.one_of(st.integers(0, 3000), st.sampled_from([PAYLOAD_LIMIT + k for k in (-17, -8, 0, 8, 17)]))


@given(st.lists(SIZES, max_size=5), st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_what_is_packed_together_comes_apart_as_it_was(sizes, round_):
    payloads = {f"c{k}": np.random.default_rng(k).bytes(size) for k, size in enumerate(sizes)}
    found = dict.fromkeys(payloads, b"")
    messages = pack_vectors(round_, payloads.items())
    for message in messages:
        assert len(message) <= MESSAGE_LIMIT
        for frame in map(unpack, split_frames(message)):
            assert isinstance(frame.header, Part)
            assert frame.header.round == round_
            found[frame.header.channel] += bytes(frame.payload)
    assert found == payloads
    assert len(messages) <= 1 + 2 * sum(sizes) // PAYLOAD_LIMIT


def test_a_message_whose_transport_vouches_for_it_is_not_summed_up_and_all_else_is_still_checked():
    whole = bytearray(pack_vectors(3, [("theta", bytes(range(200)))])[0])
    whole[-1] ^= 1
    with pytest.raises(RefusedError, match="checksum"):
        unpack(bytes(whole))
    assert bytes(unpack(bytes(whole), intact=True).payload) != bytes(range(200))
    for broken in (whole[:-1], b"X" + whole[1:], whole[:4] + b"\x09\x00" + whole[6:], bytes(whole) + b"x"):
        with pytest.raises(RefusedError):
            unpack(bytes(broken), intact=True)


ODD = [0.0, -0.0, 1.0, -1e-46, 3e38, -3.0000001e38, 1e39, -1e300, np.inf, -np.inf, np.nan, 2.0**-1074]


@given(st.lists(st.one_of(st.floats(width=64), st.sampled_from(ODD)), max_size=70))
@settings(deadline=None)
def test_numbers_travel_as_numpy_would_round_them(numbers):
    vector = np.array([numbers], dtype=float)
    with np.errstate(over="ignore"):
        narrow = vector.clip(-wire.NARROW, wire.NARROW).astype("<f4")
    assert bytes(wire.encode(vector, "f4")) == narrow.tobytes()
    assert bytes(wire.encode(vector, "f8")) == vector.astype("<f8").tobytes()


@KINDS
def test_what_is_no_number_below_the_limit_is_refused_wherever_it_is(dtype):
    kind = wire.DTYPES[dtype]
    fine = np.ones(1001, dtype=kind)
    wire.decode(fine.tobytes(), dtype)
    for place in (0, 1, 500, 999, 1000):
        for value in (np.inf, -np.inf, np.nan, *((1e121, -1e120) if dtype == "f8" else ())):
            bad = fine.copy()
            bad[place] = value
            with pytest.raises(RefusedError) as refused:
                wire.decode(bad.tobytes(), dtype)
            assert refused.value.reason == "not finite"
            assert not all_within(bad, wire.LIMITS[dtype])


@KINDS
@given(weights=st.lists(st.floats(-2, 2), min_size=1, max_size=4), size=st.integers(1, 60), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_mixing_is_the_sum_in_the_order_of_senders_to_the_bit(dtype, weights, size, seed):
    """Also of vectors that begin anywhere in a message."""
    rng = np.random.default_rng(seed)
    vectors = [(rng.normal(size=size) * 10.0 ** rng.integers(-3, 4)).astype(wire.DTYPES[dtype]) for _ in weights]
    apart = [np.frombuffer(b"y" * 5 + v.tobytes(), wire.DTYPES[dtype], offset=5) for v in vectors]
    whole = np.zeros(size)
    for vector, weight in zip(vectors, weights, strict=True):
        whole += weight * vector.astype(float)
    found = np.full(size, np.nan)
    for k, (vector, weight) in enumerate(zip(apart, weights, strict=True)):
        (add_scaled if k else set_scaled)(found, vector, weight)
    assert found.tobytes() == whole.tobytes()


def test_noise_is_asked_for_once_a_round_however_many_listeners_there_are(tmp_path, monkeypatch):
    asked = []

    class Counted(Noise):
        def noise(self, channel, t, shape):
            asked.append((self._row, channel, t))
            return super().noise(channel, t, shape)

    monkeypatch.setattr("test_peers.Noise", Counted)
    Team(tmp_path, steps=5).run()
    assert len(asked) == len(set(asked)) > 0


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@given(cuts=st.lists(st.integers(0, 60), max_size=4), weights=st.lists(st.floats(-2, 2), min_size=1, max_size=3))
@settings(deadline=None, max_examples=40)
def test_a_vector_is_mixed_to_the_same_bits_in_whatever_pieces_it_came(dtype, cuts, weights):
    size, kind = 60, wire.DTYPES[dtype]
    rng, ends = np.random.default_rng(len(cuts)), sorted([0, *cuts, size])
    vectors = [rng.normal(size=size).astype(kind) for _ in weights]
    whole, found = np.full(size, np.nan), np.full(size, np.nan)
    for k, (vector, weight) in enumerate(zip(vectors, weights, strict=True)):
        (add_scaled if k else set_scaled)(whole, vector, weight)
    terms = [
        ([vector[first:end] for first, end in pairwise(ends)], weight)
        for vector, weight in zip(vectors, weights, strict=True)
    ]
    add_terms(found, terms)
    assert found.tobytes() == whole.tobytes()


def test_vectors_in_many_parts_over_bad_links_change_nothing(tmp_path, monkeypatch):
    """Two numbers a part: some are lost, come twice or in another order, and what is begun is begun anew."""
    monkeypatch.setattr(wire, "PAYLOAD_LIMIT", 16)
    team = Team(tmp_path, faults=Faults(lose=0.1, repeat=0.1, late=0.1, damage=0.05), steps=6)
    np.testing.assert_allclose(team.run(), simulated(steps=6), rtol=0, atol=1e-12)
    assert max(part for *_, part in team.payloads) > 2
    assert all(len(seen) == 1 for seen in team.payloads.values())
    assert "parts" in {reason for node in team.nodes.values() for _, reason in node.refused}


def test_a_vector_that_comes_again_with_another_last_part_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(wire, "PAYLOAD_LIMIT", 16)
    team = Team(tmp_path)
    party = team.parties[0]
    who = next(one.sender for one in party.missing() if one.channel == "theta")
    pieces = [bytes(frame.payload) for frame in wire.split_vector(0, "theta", wire.encode(np.ones(party.size), "f8"))]
    party.receive(who, 0, "theta", *pieces)
    party.receive(who, 0, "theta", *map(memoryview, pieces))
    with pytest.raises(RefusedError, match="drawn again"):
        party.receive(who, 0, "theta", *pieces[:-1], pieces[-1][::-1])
