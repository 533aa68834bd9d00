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
from gossamer.peers.feed import Records
from gossamer.peers.outcome_file import OWN, read_outcome, read_own_model
from gossamer.peers.standing import standings
from gossamer.peers.status import read_statuses
from test_processes import make

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


READ = {
    "outcome.npz": read_outcome, "own-model.npy": read_own_model, "status.json": looked_at, "party.toml": read_config,
    "graph.json": read_config, "records.csv": records_of,
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A party's folder with all that it may have at its end."""
    folder = tmp_path_factory.mktemp("whole")
    make(folder / "run", 5, gs.Network.complete(3), m=3)
    place = folder / "run/learner-0"
    said = {"learner": 0, "round": 5, "run": "r", "theta": OWN, "claim": "c", "epsilon": None, "late": [], "model": "m"}
    about = np.frombuffer(json.dumps(said).encode(), dtype=np.uint8)
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


@pytest.mark.parametrize("text", ["[]", "{}", "7", '{"state": 3}', '{"state": "running", "round": 3}', "[" * 100_000])
def test_a_status_that_no_learner_writes_is_as_good_as_none(whole, tmp_path, text):
    place = shutil.copytree(whole, tmp_path / "learner-0")
    (place / "status.json").write_text(text)
    assert read_statuses(place) == [{"folder": "learner-0", "state": "not started"}]
