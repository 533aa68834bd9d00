"""What an operator does with learners: stop, start, watch, run out of disk, make mistakes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.peers.config import PrivacyPlan, read_config
from test_processes import LIMIT, Fleet, free_ports, make, payloads_seen, rounds_sent, simulated

M = 4
RING = gs.Network.exponential(M)


@pytest.fixture
def fleet_of(zygote):
    made = []

    def start(folder, tap=None, m=M):
        made.append(Fleet(zygote, folder, tap, m))
        return made[-1]

    yield start
    for fleet in made:
        fleet.close()


def edit(place, old, new):
    path = place / "party.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def wait_until(done, about=lambda: ""):
    until = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < until, about()
        time.sleep(0.01)


def test_a_learner_that_was_told_to_stop_goes_on_later(tmp_path, fleet_of):
    steps, tap = 400, tmp_path / "tap"
    make(tmp_path / "run", steps, RING, m=M)
    fleet = fleet_of(tmp_path / "run", tap)
    tap.touch()
    rounds = rounds_sent(tap)
    fleet.start()
    wait_until(lambda: next(rounds) > 20)
    os.kill(fleet.pids[2], signal.SIGTERM)
    wait_until(lambda: fleet.code(2) is not None)
    assert fleet.code(2) == 0
    assert fleet.status(2)["state"] == "stopped"
    assert fleet.log(2)[-1]["event"] == "ended"
    fleet.start(2)
    np.testing.assert_allclose(fleet.finish(), simulated(steps, RING, M), rtol=0, atol=1e-12)
    assert fleet.status(2)["life"] == 2


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def test_metrics_tell_rounds_and_epsilon_and_nothing_of_the_records(tmp_path, fleet_of):
    steps = 3000
    make(tmp_path / "run", steps, RING, PrivacyPlan(epsilon=20.0), m=M)
    port = free_ports(2)
    for i in (0, 1):
        edit(
            tmp_path / f"run/learner-{i}",
            "[privacy]",
            "[privacy]",
        )
        path = tmp_path / f"run/learner-{i}" / "party.toml"
        more = f'metrics = "127.0.0.1:{port + i}"\n' + ("show_errors = true\n" if i else "")
        path.write_text(path.read_text().replace("[party]\n", "[party]\n" + more))
    fleet = fleet_of(tmp_path / "run")
    fleet.start()
    wait_until(lambda: all(fleet.status(i).get("round", 0) > 5 for i in (0, 1)))
    text, shown = metrics(port), metrics(port + 1)
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) gossamer_\w+ .+|gossamer_\w+(\{[^{}]*\})? [0-9.e+-]+", line), line
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(found["gossamer_round"]) > 5
    assert 0 < float(found["gossamer_epsilon_spent"]) <= float(found["gossamer_epsilon_budget"]) == 20
    assert float(found["gossamer_sent_bytes_total"]) > 0
    assert "own" not in text
    assert "gossamer_own_accuracy" in shown
    assert "NOT noised" in shown
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60)
    refused.value.close()


@pytest.fixture
def small_disk(tmp_path):
    """An empty folder, and a function that mounts a disk there with such options: whether it could."""
    place = tmp_path / "disk"

    def mount(*options):
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(place)]
        return subprocess.run(command, capture_output=True).returncode == 0

    place.mkdir()
    yield place, mount
    if place.is_mount():
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_ends_a_learner_before_it_sends(tmp_path, small_disk, fleet_of):
    steps = 3000
    make(tmp_path / "run", steps, RING, PrivacyPlan(epsilon=20.0), m=M)
    place, (disk, mount) = tmp_path / "run" / "learner-1", small_disk
    path = place / "party.toml"
    path.write_text(path.read_text().replace("[party]\n", f'[party]\njournal = "{disk}/journal.db"\n'))
    if not mount("size=96k"):
        pytest.skip("needs a small disk, which only root can mount")
    fleet = fleet_of(tmp_path / "run", tmp_path / "tap")
    fleet.start()
    wait_until(lambda: fleet.code(1) is not None)
    assert fleet.code(1) == 75
    assert fleet.status(1)["state"] == "disk full"
    why = (place / "stderr.log").read_text()
    assert "cannot be used" in why
    assert "nothing of this round was sent" in why
    assert "Traceback" not in why
    seen = payloads_seen(tmp_path / "tap")
    assert set(map(len, seen.values())) == {1}
    sent = max(t for learner, t, *_ in seen if learner == 1)
    for j in (0, 2, 3):
        os.kill(fleet.pids[j], signal.SIGTERM)
    wait_until(lambda: all(fleet.code(j) is not None for j in (0, 2, 3)))
    assert mount("remount", "size=20m")
    fleet.start()  # with room again it goes on from what it had committed
    wait_until(lambda: fleet.status(1).get("round", 0) > sent + 20)
    assert set(map(len, payloads_seen(tmp_path / "tap").values())) == {1}


@pytest.fixture
def up(tmp_path):
    """Runs `gossamer peers up`; where a test ends before it does, it is told to stop, and so ends its learners."""
    started = []

    def run(folder):
        command = [sys.executable, "-m", "gossamer", "peers", "up", folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path)
        started.append(process)
        out, _ = process.communicate(timeout=LIMIT)
        return process.returncode, out

    yield run
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.communicate()


MISTAKES = {
    "there is no folder": lambda place: edit(place, "[party]\n", '[party]\njournal = "nowhere/journal.db"\n'),
    "is not valid TOML": lambda place: edit(place, "[party]\n", "[party\n"),
    r"\[party\] of .*party.toml has no 'latte': perhaps late is": lambda place: edit(
        place, "[party]\n", "[party]\nlatte = 3\n"
    ),
    "the run allows 0": lambda place: edit(place, "[party]\n", "[party]\nlate = 3\n"),
    "the key is not the certificate's": lambda place: shutil.copy(place / "../learner-1/key.pem", place / "key.pem"),
    "put it there": lambda place: (place / "authority.pem").unlink(),
    "put the records there": lambda place: (place / "records.csv").unlink(),
    "is not a finite number": lambda place: (place / "records.csv").write_text(
        (place / "records.csv").read_text().replace("\n0.", "\no.", 1)
    ),
    r"\[run\] method = .magic.: expected one of": lambda place: edit(place, "[run]\n", '[run]\nmethod = "magic"\n'),
    "has no address": lambda place: (place / "party.toml").write_text(
        re.sub(r"\[neighbours\.1\]\naddress.*\n", "", (place / "party.toml").read_text())
    ),
    "expected a learner's number": lambda place: edit(place, "[neighbours.1]", "[neighbours.one]"),
    "expected HOST:PORT": lambda place: edit(place, "[party]\n", '[party]\nmetrics = "here"\n'),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_gets_one_sentence_and_nothing_is_sent(tmp_path, words, monkeypatch):
    make(tmp_path / "run", 20, RING, m=M)
    place = tmp_path / "run" / "learner-0"
    MISTAKES[words](place)
    from gossamer.peers.process import run_learner

    with pytest.raises(gs.GossamerError, match=words):
        run_learner(read_config(place), quiet=True)


@pytest.mark.parametrize(
    ("table", "wrong", "says"),
    [
        ("neighbours.2", 'dial = "reciever"', ".2] dial: invalid enum value 'reciever', expected one of \"sender\", "),
        ("neighbours.2", "believe = 3", "[neighbours.2] believe: expected `bool`"),
        ("run", 'gradient = "newest"', "[run] gradient: invalid enum value 'newest', expected one of \"history\""),
        ("run", "per_round = 0", "[run] per_round: expected `int` >= 1"),
    ],
)
def test_a_wrong_value_is_told_with_its_place_in_the_file_and_what_it_may_be(tmp_path, table, wrong, says):
    make(tmp_path / "run", 5, gs.Network.complete(3), m=3)
    place = tmp_path / "run" / "learner-1"
    name = wrong.partition(" ")[0]
    lines = [line for line in (place / "party.toml").read_text().splitlines() if not line.startswith(f"{name} =")]
    lines.insert(lines.index(f"[{table}]") + 1, wrong)
    (place / "party.toml").write_text("\n".join(lines))
    with pytest.raises(gs.GossamerError) as refused:
        read_config(place)
    assert says in str(refused.value)
    (place / "party.toml").write_text("[neighbours]\n7 = 4\n")
    with pytest.raises(gs.GossamerError, match=r"\[neighbours.7\]: expected `object`, got `int`"):
        read_config(place)


def test_a_budget_that_records_do_not_last_for_is_refused(tmp_path):
    make(tmp_path / "run", 20, RING, PrivacyPlan(epsilon=3.0), m=M)
    place = tmp_path / "run" / "learner-0"
    lines = (place / "records.csv").read_text().splitlines()
    (place / "records.csv").write_text("\n".join(lines[:10]) + "\n")
    from gossamer.peers.process import run_learner

    with pytest.raises(gs.GossamerError, match="privacy is proved for a full round every time"):
        run_learner(read_config(place), quiet=True)
    edit(place, "epsilon = 3.0\n", "")
    edit(place, "[run]\n", '[run]\ngradient = "latest"\n')
    with pytest.raises(gs.GossamerError, match="needs new ones in each"):
        run_learner(read_config(place), quiet=True)


def test_a_learner_leaves_the_umask_of_its_process_as_it_was(tmp_path):
    make(tmp_path / "run", 20, RING, m=M)
    MISTAKES[next(iter(MISTAKES))](tmp_path / "run" / "learner-0")
    from gossamer.peers.process import run_learner

    before = os.umask(0o027)
    try:
        with pytest.raises(gs.GossamerError):
            run_learner(read_config(tmp_path / "run" / "learner-0"), quiet=True)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_every_party_sets_its_own_budget(tmp_path, fleet_of):
    budgets = [1.0, 2.0, 4.0, 8.0]
    plan = lambda i: PrivacyPlan(epsilon=budgets[i], law="gaussian", where="source")  # noqa: E731
    make(tmp_path / "run", 60, RING, plan, m=M, gradient="latest")
    fleet = fleet_of(tmp_path / "run")
    fleet.start()
    fleet.finish()
    spent = [fleet.status(i)["epsilon"][0] for i in range(M)]
    np.testing.assert_allclose(spent, budgets, rtol=1e-6)
    assert all(s <= b for s, b in zip(spent, budgets, strict=True))


def report_in(path):
    """What a page shows."""
    return json.loads(path.read_text().split('id="view">')[1].split("</script>")[0])


def test_from_init_to_collect(tmp_path, gossamer, up):
    """As a user would: learners on mushrooms, watched, collected."""
    code, out, err = gossamer("peers", "init", "demo", "--learners", M, "--port", free_ports(M), "--steps", 12)
    assert code == 0, err
    assert "Keep demo/authority/key.pem apart" in out
    assert (tmp_path / "demo/authority/key.pem").stat().st_mode & 0o077 == 0
    assert (tmp_path / "demo/learner-3").stat().st_mode & 0o077 == 0
    code, _, err = gossamer("peers", "init", "demo")
    assert code == 2
    assert "exists already" in err
    code, _, err = gossamer("peers", "collect", "demo")
    assert code == 2
    assert "left no outcome yet" in err
    code, out = up("demo")
    assert code == 0, out
    assert out.count("12/12") >= M
    statuses = json.loads(gossamer("peers", "status", "demo", "--json")[1])
    assert [one["state"] for one in statuses] == ["done"] * M
    assert all(one["epsilon"][0] <= 8 for one in statuses)
    code, _, err = gossamer("peers", "collect", "demo", "--out", "all")
    assert code == 0, err
    record = gs.Record.load(tmp_path / "all")
    assert record.theta.shape == (M, 117)
    assert record.t == 12
    assert record.epsilon.shape == (M,)
    assert record.epsilon.dtype.names == ("spent", "for_ever")
    names = record.config["stream"]["columns"]
    assert len(names) == record.theta.shape[1]
    assert (names[0], names[-1]) == ("bruises=f", "intercept")
    assert "exact gaussian noise at the source" in record.claim
    view = report_in(tmp_path / "demo" / "report.html")
    assert [one["y"][-1] for one in view["epsilon"]["learners"]] == record.epsilon.spent.tolist()
    assert view["epsilon"]["t"][-1] == 12
    assert len(view["network"]["edges"]) == record.config["network"]["links"]
    assert "[party]" not in view["config"], "what is a party's own business is in no page of all"


def test_noise_that_cancels_from_init_to_collect(tmp_path, gossamer, up):
    words = ("--secrets", "complete", "--colluders", 1, "--learners", M, "--port", free_ports(M), "--steps", 24)
    code, out, err = gossamer("peers", "init", "demo", *words)
    assert code == 0, err
    assert "together with up to one other learner" in out
    for i in range(M):
        assert (tmp_path / f"demo/learner-{i}/secret.pem").stat().st_mode & 0o777 == 0o600
    plan = read_config(tmp_path / "demo/learner-2")
    assert len(set(plan.config.secrets.keys.values())) == M
    assert 2**-6 <= plan.config.secrets.share <= 2**6
    code, out = up("demo")
    assert code == 0, out
    assert "ε holds against anybody who sees all messages, together with up to one other learner." in out
    assert "if all others collude" in out
    code, out, err = gossamer("peers", "collect", "demo", "--out", "all", "--json", "told.json")
    assert code == 0, err
    assert (tmp_path / "told.json").read_text() == (tmp_path / "all.json").read_text()
    assert re.search(r"ε spent \S+ \(\S+ if all others collude\), against anybody who", out)
    record = gs.Record.load(tmp_path / "all")
    assert (record.epsilon.spent < record.epsilon.all_collude).all()
    assert (
        report_in(tmp_path / "demo" / "report.html")["epsilon"]["if_all_collude"] == record.epsilon.all_collude.tolist()
    )
    assert (record.epsilon.spent <= 8).all()
    assert (record.epsilon.spent > 7.9).all()
    for place in (tmp_path / "demo").glob("learner-*/journal.db*"):
        place.unlink()
    from gossamer.peers.process import run_learner

    with pytest.raises(gs.GossamerError, match=r"has no secret: .* join a new run"):
        run_learner(read_config(tmp_path / "demo/learner-1"), quiet=True)


def test_secrets_of_init_are_decided_once_for_all(tmp_path, gossamer):
    code, _, err = gossamer("peers", "init", "run", "--secrets", "ring", "--epsilon", "1,2,4", "--learners", 3)
    assert code == 0, err
    plans = [read_config(tmp_path / f"run/learner-{i}") for i in range(3)]
    assert len({plan.run_name for plan in plans}) == 1
    assert plans[0].config.secrets.graph == "secrets.json"
    assert plans[0].secrets.edges(3) == ((0, 1), (0, 2), (1, 2))
    own = [plan.mechanism().epsilon for plan in plans]
    assert own == [1.0, 2.0, 4.0]
    for wrong, says in (
        (("--colluders", 2), "--colluders goes with --secrets"),
        (("--share", 2), "--share goes with --secrets"),
        (("--secrets", "complete", "--noise", "0.1,0.6"), "leave out --noise"),
        (("--secrets", "complete", "--where", "messages"), "noise at the source"),
        (("--secrets", "complete", "--law", "laplace"), "use --law gaussian"),
        (("--secrets", "complete", "--colluders", 9), "can be left alone"),
        (("--secrets", "complete", "--share", 1000), "expected"),
        (("--secrets", "sun"), "sun"),
    ):
        code, _, err = gossamer("peers", "init", "other", *wrong)
        assert code == 2, wrong
        assert says in err
        assert not (tmp_path / "other").exists()


def test_a_run_for_parties_that_bring_their_records(tmp_path, gossamer):
    words = ("--learners", 3, "--target", "ill", "--classes", "0,1", "--range", "age=0:120")
    code, out, err = gossamer("peers", "init", "run", *words, "--hosts", "a.org,b.org,c.org")
    assert code == 0, err
    assert "followed as it grows" in out
    plan = read_config(tmp_path / "run/learner-1")
    assert plan.config.party.listen == "0.0.0.0:7401"
    assert plan.config.neighbours["2"].address == "c.org:7402"
    assert plan.config.data.follow
    for wrong, says in (
        (("--target", "ill"), "need them declared"),
        (("--classes", "0,1"), "need --target"),
        (("--csv", "none.csv"), "--csv needs --target"),
        (("--hosts", "a,b"), "give one, or one each"),
        (("--method", "magic"), "is not one of"),
        (("--epsilon", "1,2"), "2 budgets for 10 learners"),
        (("--numbers", "f16"), "a run cannot be made"),
    ):
        code, _, err = gossamer("peers", "init", "other", *wrong)
        assert code == 2
        assert says in err
        assert not (tmp_path / "other").exists()


def test_a_regression_runs(tmp_path, gossamer, fleet_of):
    rows = "\n".join(f"{k % 10},{k % 7}" for k in range(60))
    (tmp_path / "all.csv").write_text("x,y\n" + rows + "\n")
    words = ("--learners", 3, "--target", "y", "--range", "x=0:10,y=0:10", "--clip", 1, "--port", free_ports(3))
    code, _, err = gossamer("peers", "init", "run", "--csv", "all.csv", *words, "--graph", "complete")
    assert code == 0, err
    fleet = fleet_of(tmp_path / "run", m=3)
    fleet.start()
    fleet.finish()
    assert [fleet.status(i)["state"] for i in range(3)] == ["done"] * 3


def test_an_error_of_ours_is_in_the_log_and_the_status(tmp_path, monkeypatch):
    make(tmp_path / "run", 20, RING, m=M)
    from gossamer.peers import process

    def broken(self):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(process.LearnerProcess, "_records", broken)
    place = tmp_path / "run" / "learner-0"
    with pytest.raises(ZeroDivisionError):
        process.run_learner(read_config(place), quiet=True)
    assert json.loads((place / "status.json").read_text())["state"] == "failed"
    assert "ZeroDivisionError" in json.loads((place / "log.jsonl").read_text().splitlines()[-1])["error"]


def test_what_is_not_over_is_not_collected(tmp_path, fleet_of):
    """An outcome of an earlier end goes when a learner starts again; a party that is not there is missed."""
    make(tmp_path / "run", 2000, RING, m=M)
    fleet = fleet_of(tmp_path / "run")
    fleet.start()
    wait_until(lambda: fleet.status(2).get("round", 0) > 10)
    os.kill(fleet.pids[2], signal.SIGTERM)
    wait_until(lambda: fleet.code(2) is not None)
    assert (fleet.place(2) / "outcome.npz").exists()
    fleet.start(2)
    wait_until(lambda: not (fleet.place(2) / "outcome.npz").exists())
    for i in range(M):
        os.kill(fleet.pids[i], signal.SIGTERM)
    wait_until(lambda: all(fleet.code(i) is not None for i in range(M)))
    from gossamer.peers.outcome import collect_outcomes

    record = collect_outcomes(tmp_path / "run")
    assert record.theta.shape == (M, 7)
    assert record.config["stream"]["columns"] == tuple(read_config(fleet.place(0)).schema.column_names)
    shutil.rmtree(fleet.place(1))
    with pytest.raises(gs.GossamerError, match="learners 1 are missing"):
        collect_outcomes(tmp_path / "run")
