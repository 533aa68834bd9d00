"""Ports that there are not: refused where they are written, and where they are read, before anybody listens."""

from __future__ import annotations

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

from gossamer.errors import GossamerError
from gossamer.peers.addresses import port_in
from gossamer.peers.config import read_config
from test_enrolment import DECLARED

NONE = [
    "127.0.0.1:22999999",
    "127.0.0.1:65536",
    "127.0.0.1:-1",
    "127.0.0.1:",
    "127.0.0.1",
    ":7400",
    "",
    "a:٧٤٠٠",
    "a:+1",
]


def test_a_port_is_a_number_that_there_is():
    assert [port_in(f"a.example.org:{port}") for port in (1, 7400, 65535, "07400")] == [1, 7400, 65535, 7400]
    assert port_in("[::1]:7400") == 7400
    assert [port_in(address) for address in [*NONE, "a:0"]] == [None] * (len(NONE) + 1)
    assert port_in("127.0.0.1:0", least=0) == 0, "any that is free"


@pytest.fixture
def place(tmp_path, gossamer):
    assert gossamer("peers", "init", "run", "--learners", 3, *DECLARED)[0] == 0
    return tmp_path / "run/learner-1"


def test_a_party_whose_file_names_no_port_is_refused_by_every_command(place, gossamer):
    """gRPC would listen at 62399 in place of 22999999, and every other word would say 22999999."""
    whole = (place / "party.toml").read_text()
    listen, address = 'listen = "127.0.0.1:7401"', 'address = "127.0.0.1:7400"'
    assert listen in whole
    assert address in whole
    for wrong in NONE:
        for old, new, said in (
            (listen, f'listen = "{wrong}"', "[party] listen"),
            (listen, f'{listen}\nmetrics = "{wrong}"', "[party] metrics"),
            (address, f'address = "{wrong}"', "[neighbours.0] address"),
        ):
            (place / "party.toml").write_text(whole.replace(old, new))
            with pytest.raises(GossamerError) as refused:
                read_config(place)
            assert f"{said} = {wrong!r}: expected HOST:PORT with a port from 1 to 65535" in str(refused.value)
    for command, expected in (("check", 1), ("run", 2)):
        code, out, err = gossamer("peer", command, place)
        assert code == expected
        assert "[neighbours.0] address = 'a:+1': expected HOST:PORT" in " ".join((out + err).split())
    (place / "party.toml").write_text(whole.replace(listen, 'listen = "127.0.0.1:0"\nmetrics = "127.0.0.1:0"'))
    assert read_config(place).config.party.listen == "127.0.0.1:0"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["peers", "init", "new", "--learners", 600, "--port", 65000, *DECLARED], "learner 599 would have port 65599"),
        (["peers", "init", "new", "--learners", 600, "--metrics-port", 65000, *DECLARED], "--metrics-port 65000: le"),
        (["peers", "init", "new", "--port", 22999999, *DECLARED], "expected a whole number from 1 to 65000"),
        (["peers", "init", "new", "--learners", 3, "--hosts", "a.org:22999999", *DECLARED], "host 'a.org:22999999'"),
        (["party", "new", "new", "--address", "a.org:22999999"], "expected HOST:PORT"),
        (["peers", "change", "run", "--at", 3, "--join", "3=a.org:22999999"], "expected a number and an address"),
        (["peers", "change", "run", "--at", 3, "--leave", 1, "--address", "0=a.org:65536"], "expected a number and an"),
    ],
)  # fmt: skip
def test_commands_write_no_port_that_there_is_not(place, gossamer, tmp_path, words, said):
    code, _, err = gossamer(*words)
    assert code == 2
    assert said in err
    assert not list((tmp_path / "new").glob("*"))
    assert not (tmp_path / "run/changes").exists()
