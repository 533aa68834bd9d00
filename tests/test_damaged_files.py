"""Files of a party that were cut off, or of which a bit has flipped: a sentence, and never a traceback."""

from __future__ import annotations

import io
import json
import random
import shutil
import time

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.cli.peers import view_of
from gossamer.cli.peers_lines import Lines
from gossamer.peers.config import read_config
from gossamer.peers.credentials import read_credentials
from gossamer.peers.feed import Records
from gossamer.peers.outcome_file import OUTCOME, OWN, OWN_MODEL, own_model_bytes, read_outcome, read_own_model
from gossamer.peers.standing import standings
from gossamer.peers.status import read_statuses
from test_processes import make

SAID = {"learner": 0, "round": 5, "run": "r", "theta": OWN, "claim": "c", "epsilon": None, "late": [], "model": "m"}
STATUS = {
    "learner": 0, "pid": 1, "life": 1, "steps": 5, "round": 3, "updated": time.time(), "state": "waiting",
    "epsilon": [1, 2], "budget": 3, "waits_for": [1], "waits": 3.0, "errors": {"loss": 0.3, "accuracy": 0.4},
    "differs": {"1": "x"}, "held": {"1": "y"}, "records": 5, "claim": "c", "late": 0, "refused": {}, "why": "z",
}  # fmt: skip


def packed(save, *given, **named):
    file = io.BytesIO()
    save(file, *given, **named)
    return file.getvalue()


def looked_at(place):
    statuses = read_statuses(place)
    view_of(statuses)
    standings(statuses)
    Lines(say=lambda line: None).look(statuses)


def records_of(place):
    plan = read_config(place)
    feed = Records(place / "records.csv", "csv", plan.schema, 1, follow=False)
    feed.read(len(feed) - 1)


def credentials_of(place):
    """As a learner that runs looks at them, too: what is none must not end it."""
    read_credentials(read_config(place))


READ = {
    "outcome.npz": read_outcome, "own-model.npy": read_own_model, "status.json": looked_at, "party.toml": read_config,
    "graph.json": read_config, "records.csv": records_of, "key.pem": credentials_of, "certificate.pem": credentials_of,
    "authority.pem": credentials_of,
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A party's folder with all that it may have at its end."""
    folder = tmp_path_factory.mktemp("whole")
    make(folder / "run", 5, gs.Network.complete(3), m=3)
    place = folder / "run/learner-0"
    about = np.frombuffer(json.dumps(SAID).encode(), dtype=np.uint8)
    (place / "outcome.npz").write_bytes(packed(np.savez, theta=np.ones((1, 7)), about=about))
    (place / "own-model.npy").write_bytes(packed(np.save, np.ones((1, 7))))
    (place / "status.json").write_text(json.dumps(STATUS))
    return place


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READ)
def test_a_file_that_was_damaged_gets_a_sentence(whole, tmp_path, name):
    place = shutil.copytree(whole, tmp_path / "learner-0")
    READ[name](place)
    data, rng, refused = (place / name).read_bytes(), random.Random(0), 0
    for k in range(1200 if name.startswith(("out", "own", "stat")) else 150):
        changed = bytearray(data)
        bit = rng.randrange(8 * len(data))
        changed[bit // 8] ^= 1 << bit % 8
        (place / name).write_bytes(changed if k % 4 else data[: bit // 8])
        try:
            READ[name](place)
        except gs.GossamerError:
            refused += 1
    assert refused or name == "status.json", "of which a damaged one is as good as none"


def left_by(place, n):
    """An outcome and an own model of n parameters."""
    rng = np.random.default_rng(n)
    about = np.frombuffer(json.dumps(SAID).encode(), dtype=np.uint8)
    (place / OUTCOME).write_bytes(packed(np.savez, theta=rng.normal(size=(1, n)), about=about))
    (place / OWN_MODEL).write_bytes(own_model_bytes(rng.normal(size=(1, n))))


def flips(data, most):
    """The bits of a file's beginning and end, and some of those in between."""
    ends = 8 * min(len(data), 600)
    some = random.Random(0).sample(range(8 * len(data)), min(8 * len(data), most))
    return sorted({*range(ends), *range(8 * len(data) - ends, 8 * len(data)), *some})


@pytest.mark.parametrize("n", [2, 7, 5000], ids=lambda n: f"n={n}")
@pytest.mark.parametrize(("name", "read"), [(OUTCOME, read_outcome), (OWN_MODEL, read_own_model)])
def test_any_bit_that_flips_in_what_a_learner_leaves_is_refused_or_changes_nothing(tmp_path, name, read, n):
    """Also in a header that says how many numbers there are, and where an archive is larger than is read at once."""
    left_by(tmp_path, n)
    data, before, refused = (tmp_path / name).read_bytes(), read(tmp_path), list[str]()
    for bit in flips(data, 500):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        (tmp_path / name).write_bytes(changed)
        try:
            found = read(tmp_path)
        except gs.GossamerError as error:
            refused.append(str(error))
            continue
        np.testing.assert_array_equal(found.theta, before.theta, err_msg=f"bit {bit}")
        assert found.about == before.about, f"bit {bit}"
    assert len(refused) > 500
    assert not [sentence for sentence in refused if "\n" in sentence]


def test_an_own_model_is_what_numpy_reads_and_one_of_before_its_digest_is_read(tmp_path):
    left_by(tmp_path, 7)
    theta = read_own_model(tmp_path).theta
    np.testing.assert_array_equal(np.load(tmp_path / OWN_MODEL), theta)
    (tmp_path / OWN_MODEL).write_bytes(packed(np.save, theta))
    np.testing.assert_array_equal(read_own_model(tmp_path).theta, theta)


def test_a_bit_that_flips_in_a_graph_is_refused_or_makes_it_another_runs(whole, tmp_path):
    """Whose weights are others says hello for another run, and its journal is not this run's."""
    place = shutil.copytree(whole, tmp_path / "learner-0")
    before, data, refused = read_config(place), (place / "graph.json").read_bytes(), 0
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        (place / "graph.json").write_bytes(changed)
        try:
            now = read_config(place)
        except gs.GossamerError:
            refused += 1
            continue
        if now.run_name == before.run_name:
            np.testing.assert_allclose(now.network.R, before.network.R, rtol=0, atol=1e-12, err_msg=f"bit {bit}")
            np.testing.assert_allclose(now.network.C, before.network.C, rtol=0, atol=1e-12, err_msg=f"bit {bit}")
    assert refused


@pytest.mark.parametrize("text", ["[]", "{}", "7", '{"state": 3}', '{"state": "running", "round": 3}', "[" * 100_000])
def test_a_status_that_no_learner_writes_is_as_good_as_none(whole, tmp_path, text):
    place = shutil.copytree(whole, tmp_path / "learner-0")
    (place / "status.json").write_text(text)
    assert read_statuses(place) == [{"folder": "learner-0", "state": "not started"}]
