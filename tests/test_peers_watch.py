"""`gossamer peers watch`: one table of a run, from parties that answer, are silent, lie, or have died."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from gossamer.cli.peers_troubles import troubles_in
from gossamer.cli.peers_watch import News
from gossamer.peers import scraping
from gossamer.peers.certificates import issue_certificate, make_authority
from gossamer.peers.config import PrivacyPlan
from gossamer.peers.exposition import Metric, read_exposition
from gossamer.peers.metrics import Endpoint
from gossamer.peers.scraping import Unanswered, fetch, parse_target, read_targets
from gossamer.peers.watching import Answer, Seen, Watch, read_answer
from test_operations import edit, wait_until
from test_processes import free_ports, make

LIMIT = 120.0  # seconds
USUAL = {"round": 5, "steps": 100, "waiting_seconds": 0.1, "epsilon_spent": 1.0, "epsilon_budget": 8.0}


def text_of(learner=0, waits_for=(), held=(), run="study:ab12", version="0.3.0", state="running", **numbers):
    """What a learner's /metrics says."""
    shown = [Metric(f"gossamer_{name}", "…", value) for name, value in (USUAL | numbers).items()]
    who = (("learner", str(learner)), ("run", run), ("version", version))
    shown.append(Metric("gossamer_info", "…", {who: 1}))
    shown.append(Metric("gossamer_state", "…", {(("state", state),): 1}))
    shown.append(Metric("gossamer_waits_for", "…", {(("learner", str(j)),): 1 for j in waits_for}))
    shown.append(Metric("gossamer_held", "…", {(("learner", str(j)),): 1 for j in held}))
    return "\n".join(line for metric in shown for line in metric.lines()) + "\n"


@pytest.fixture
def endpoints():
    """Starts real /metrics in a thread: endpoints(text, …) -> their addresses; a text may be changed by its number."""
    loop, texts, ends = asyncio.new_event_loop(), {}, []
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    on_loop = lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(LIMIT)  # noqa: E731

    def start(*said):
        port = free_ports(len(said))
        for k, text in enumerate(said):
            texts[port + k] = text
            ends.append(Endpoint(f"127.0.0.1:{port + k}", lambda k=k: texts[port + k]))
            on_loop(ends[-1].start())
        return [f"127.0.0.1:{port + k}" for k in range(len(said))]

    start.texts = texts
    start.end = lambda k: on_loop(ends[k].close())
    yield start
    for end in ends:
        on_loop(end.close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT)
    loop.close()


@pytest.fixture
def answering():
    """Starts a server that does with a connection what a function of it does, in a thread: its address."""
    listeners, ended = [], threading.Event()

    def start(talk):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve():
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                with link:
                    try:
                        link.recv(65536)
                        talk(link, ended)
                    except OSError:
                        pass

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    ended.set()
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def endless(link, ended):
    link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not ended.is_set():
        link.sendall(b"gossamer_round 1\n" * 4096)


def dripping(link, ended):
    link.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not ended.wait(0.02):
        link.sendall(b"a")


def silent(link, ended):
    ended.wait(LIMIT)


def says(data):
    return lambda link, ended: link.sendall(data)


HOSTILE = {
    "endless": (endless, "more than 1048576 bytes"),
    "endless head": (lambda link, ended: [link.sendall(b"x" * 65536) for _ in range(100)], "more than 1048576 bytes"),
    "dripping": (dripping, "no whole answer within"),
    "silent": (silent, "no whole answer within"),
    "closed": (says(b""), "closed without an answer in HTTP"),
    "garbage": (says(bytes(range(256)) * 9), "closed without an answer in HTTP"),
    "other software": (says(b"SSH-2.0-OpenSSH\x1b[2J\r\n\r\n"), r"the answer 'SSH-2.0-OpenSSH\?\[2J' instead"),
    "moved": (says(b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n"), "instead of HTTP's 200 OK"),
    "cut off": (says(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ngossamer_round 5\n"), "cut off"),
    "a web page": (says(b"HTTP/1.1 200 OK\r\n\r\n<html>"), "no learner's"),
    "nonsense": (says(b"HTTP/1.1 200 OK\r\n\r\ngossamer_round NaN\ngossamer_steps 5\n"), "no learner's"),
    "backwards": (says(b"HTTP/1.1 200 OK\r\n\r\ngossamer_round 7\ngossamer_steps 5\n"), "no learner's"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_answers_is_bounded_in_size_and_in_time(answering, kind):
    talk, why = HOSTILE[kind]
    seconds = 1.0 if "within" in why else LIMIT
    with pytest.raises(Unanswered, match=why):
        read_answer(fetch(parse_target(answering(talk)), seconds))


def test_one_that_is_silent_holds_up_nobody(endpoints, answering, gossamer):
    good, bad = endpoints(text_of(0), text_of(1)), [answering(silent), answering(dripping), answering(endless)]
    begun = time.monotonic()
    code, out, err = gossamer("peers", "watch", *good, *bad, "--once", "--timeout", 2, "--json")
    assert time.monotonic() - begun < LIMIT
    told = json.loads(out)
    assert code == 1, err
    assert [one.get("learner") for one in told["parties"]] == [0, 1, None, None, None]
    assert [one["whom"] for one in told["troubles"]] == bad


def test_one_look_at_a_party_that_has_ended_cannot_tell_it_from_one_that_is_down(endpoints, gossamer):
    at = endpoints(text_of(0, round=40), text_of(1, round=100))
    endpoints.end(1)
    code, out, err = gossamer("peers", "watch", *at, "--once")
    assert code == 1, err
    assert f"{at[1]} does not answer so far: Connection refused, so it is not there, or has ended." in out


def test_the_table_of_a_run_that_is_well(endpoints, gossamer):
    at = endpoints(text_of(0, round=40), text_of(1, round=38, certificate_days_left=200.5), text_of(2, epsilon_spent=7))
    code, out, err = gossamer("peers", "watch", *at, "--once")
    assert code == 0, out + err
    rows = [re.split(r"\s{2,}", line.strip()) for line in out.strip().splitlines()]
    assert rows[0] == [
        "learner", "at", "state", "round", "behind", "waits for", "ε spent", "certificate", "answer"
    ]  # fmt: skip
    assert rows[1][:4] == ["0", at[0], "running", "40/100"]
    assert rows[2][3:7] == ["38/100", "2 behind learner 0", "1 of 8", "200 d"]
    assert rows[3][3:6] == ["5/100", "35 behind learner 0", "7 of 8"]
    assert len(rows) == 4, "nothing is wrong"


def seen(learner, *, why="", age=1.0, **said):
    """One party as it is seen."""
    answer = Answer(learner, "r", "0.3.0", "running", 5, 100, 0.0, (), (), 1.0, 8.0, None, None)._replace(**said)
    return Seen(f"h{learner}:9400", answer, age, why)


def kinds(parties, late=30.0):
    return [(trouble.kind, trouble.whom) for trouble in troubles_in(parties, late)]


def test_who_is_late_is_who_waits_for_nobody():
    waits = lambda i, *whom, for_=60.0: seen(i, waiting=for_, waits_for=whom)  # noqa: E731
    assert kinds([waits(0, 1), waits(1, 2), seen(2)]) == [("late", "learner 2")]
    assert kinds([waits(0, 1, for_=20.0), seen(1)]) == [], "not for so long"
    assert kinds([waits(0, 1, for_=20.0), seen(1)], late=10.0) == [("late", "learner 1")]
    assert kinds([waits(0, 7)]) == [("late", "learner 7")], "nobody watches it"
    assert "not watched" in troubles_in([waits(0, 7)])[0].sentence
    assert kinds([waits(0, 1), waits(1, 0)]) == [("late", "learner 0"), ("late", "learner 1")], "in a circle"
    assert kinds([waits(0, 1), seen(1, why="gone", waiting=60.0, waits_for=(0,))]) == [
        ("unreachable", "h1:9400"), ("late", "learner 1"),
    ]  # fmt: skip
    sentence = troubles_in([waits(0, 2), waits(1, 2, for_=90.0), seen(2)])[0].sentence
    assert sentence == "learner 2 is late: learners 0, 1 wait for it for 1 min 30 s."


def test_budgets_and_certificates_that_come_to_their_end():
    assert kinds([seen(0, spent=8.0, paid_rounds=100.0, round=99)]) == [], "it lasts for the run"
    assert kinds([seen(0, spent=8.0, paid_rounds=50.0, round=45)]) == [("budget", "learner 0")]
    assert "lasts for 50 of 100 rounds" in troubles_in([seen(0, paid_rounds=50.0, round=45)])[0].sentence
    assert kinds([seen(0, spent=7.0, paid_rounds=50.0, round=44)]) == []
    assert kinds([seen(0, spent=None, budget=None)]) == []
    assert kinds([seen(0, days_left=13.9)]) == [("certificate", "learner 0")]
    assert "ends in 13 days" in troubles_in([seen(0, days_left=13.9)])[0].sentence
    assert "is no longer valid" in troubles_in([seen(0, days_left=-2.0)])[0].sentence
    assert kinds([seen(0, days_left=15.0)]) == []


def test_a_learner_at_two_places_and_parties_of_two_runs_are_named():
    one, copy, other = seen(3), seen(3)._replace(target="copy:9400"), seen(1, run="another")
    assert kinds([one, copy]) == [("twice", "learner 3")]
    assert "copies of one folder" in troubles_in([one, copy])[0].sentence
    assert kinds([one, copy._replace(why="gone")]) == [("unreachable", "copy:9400")], "it has moved"
    assert kinds([one, other]) == [("runs", "")]


def test_whose_journal_is_doubted_is_named():
    assert read_answer(text_of(1, held=(3, 0)).encode()).held == (0, 3)
    assert kinds([seen(1, held=(0, 3))]) == [("held", "learner 1")]
    assert (
        "learner 1 is told by learners 0, 3 that its journal is old" in troubles_in([seen(1, held=(0, 3))])[0].sentence
    )


def test_who_is_done_may_be_gone():
    gone = seen(0, why="Connection refused", age=900.0, round=100)
    assert gone.done
    assert kinds([gone]) == []
    assert kinds([gone._replace(answer=None)]) == [("unreachable", "h0:9400")]


NASTY = "\x1b]0;gone\x07\x1b[2J\x9b31m‮[red]"


def test_nothing_that_a_party_says_moves_a_cursor(endpoints, gossamer, capsys):
    text = text_of(0, run=NASTY, version=NASTY, state=NASTY).encode()
    assert read_answer(text).state == "".join(letter if letter.isprintable() else "?" for letter in NASTY)
    assert read_answer(text_of("9" * 50).encode()).learner is None
    assert read_answer(text_of("-1").encode()).learner is None
    at = endpoints(text_of(0, run=NASTY, version=NASTY, state=NASTY), text_of(1))
    code, out, _ = gossamer("peers", "watch", *at, "--once")
    assert code == 1, "two runs"
    assert "[red]" in out, "it is shown as it is, and is no markup"
    assert all(letter.isprintable() or letter == "\n" for letter in out)
    News().look([seen(0, why=NASTY), seen(1, run=NASTY)], 30.0)
    said = capsys.readouterr().out
    assert "[red]" in said
    assert all(letter.isprintable() or letter == "\n" for letter in said)


def test_what_is_written_is_read_again():
    labels = (("a", 'quote " backslash \\ and\nline \\n é'), ("b", "{,}"))
    metric = Metric("gossamer_x_total", "…", {labels: 3.0, (("a", ""), ("b", "")): float("inf")})
    assert read_exposition("\n".join(metric.lines()).encode()) == {
        "gossamer_x_total": {labels: 3.0, (("a", ""), ("b", "")): float("inf")}
    }
    assert read_exposition(b"gossamer_x{ 1\ngossamer_y}{ 2\nother 3\ngossamer_z x\n\xff\x00\n") == {}


@pytest.mark.parametrize(
    "text", ["a", "a:", "a:x", "a:70000", "ftp://a:1", "http://u:p@a:1", "a:1 b", "a:1\r\nX: y", "ä:1", "", ":9400"]
)
def test_addresses_that_are_none_are_refused_before_anybody_is_asked(text):
    with pytest.raises(gs.GossamerError, match="is no address of /metrics: expected HOST:PORT"):
        parse_target(text)


def test_addresses_as_words_and_of_files(tmp_path, gossamer):
    assert parse_target("[::1]:9400")[1:] == ("::1", 9400, "/metrics", False)
    assert parse_target("https://a.example.org/x/metrics?y=1")[1:] == ("a.example.org", 443, "/x/metrics?y=1", True)
    (tmp_path / "targets.txt").write_text("# ours\na:1\n\n  b:2  # theirs\n")
    assert read_targets(tmp_path / "targets.txt") == ["a:1", "b:2"]
    (tmp_path / "targets.json").write_text('[{"targets": ["a:1"], "labels": {"x": "y"}}, {"targets": ["b:2"]}]')
    assert read_targets(tmp_path / "targets.json") == ["a:1", "b:2"]
    for wrong in ("{}", "[1]", '[{"targets": [5]}]', "no"):
        (tmp_path / "targets.json").write_text(wrong)
        if wrong == "{}":
            assert read_targets(tmp_path / "targets.json") == []
            continue
        with pytest.raises(gs.GossamerError, match="is no list of targets"):
            read_targets(tmp_path / "targets.json")
    for words, says_so in (
        ((), "0 addresses to watch"),
        (("--file", "none.txt"), "none.txt cannot be read"),
        (("nowhere",), "'nowhere' is no address"),
        ([f"h:{k + 1}" for k in range(scraping.TARGETS + 1)], f"expected 1 to {scraping.TARGETS}"),
    ):
        code, _, err = gossamer("peers", "watch", "--once", *words)
        assert code == 2
        assert says_so in err


def test_a_proxy_with_tls_is_asked_over_tls_and_must_prove_its_name(tmp_path, monkeypatch):
    authority = make_authority("test")
    for pair, name in ((issue_certificate(authority, 0, ["localhost"]), "good"), (authority, "ca")):
        (tmp_path / f"{name}.pem").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "good.pem", tmp_path / "good.key")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                link, _ = listener.accept()
                with context.wrap_socket(link, server_side=True) as secured:
                    secured.recv(65536)
                    secured.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + text_of(3).encode())
            except ssl.SSLError:
                continue
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    at = parse_target(f"https://localhost:{listener.getsockname()[1]}")
    with pytest.raises(Unanswered, match="TLS failed"):
        fetch(at, LIMIT)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert read_answer(fetch(at, LIMIT)).learner == 3
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(LIMIT)


def test_a_log_gets_what_is_new_and_an_end(endpoints, capsys):
    """Somebody is late, goes on, falls silent, comes back; then all are done, and so is the command."""
    at = endpoints(text_of(0), text_of(1))
    first, second = endpoints.texts
    watch, news = Watch([parse_target(one) for one in at], 0.01, LIMIT), News()
    watch.start()
    watch.wait_for_all()

    def heard(line):
        """Look until it is said; all that was said by then."""
        said = ""
        until = time.monotonic() + LIMIT
        while line not in said.splitlines():
            assert time.monotonic() < until, said
            news.look(watch.seen(), 30.0)
            said += capsys.readouterr().out
            time.sleep(0.01)
        return said

    assert heard(f"learner 1 at {at[1]} is in round 5 of 100") == "".join(
        f"learner {i} at {at[i]} is in round 5 of 100\n" for i in (0, 1)
    )
    news.look(watch.seen(), 30.0)
    assert capsys.readouterr().out == "", "nothing is new"
    endpoints.texts[first] = text_of(0, [1], waiting_seconds=45)
    heard("late: learner 1 is late: learner 0 waits for it for 45 s.")
    endpoints.texts[first] = text_of(0, round=10)
    endpoints.texts[second] = text_of(1, round=12)
    said = heard("round 10 of 100 is reached by all that answer")
    assert "late: no longer, learner 1" in said
    endpoints.end(1)
    why = "Connection refused, so it is not there, or has ended."
    heard(f"unreachable: learner 1 at {at[1]} does not answer for 0 s: {why}")
    endpoints.texts[first] = text_of(0, round=100)
    heard("learner 0 has all its 100 rounds")
    assert not watch.seen()[1].done
    watch.stop()


def test_real_learners_are_watched_and_one_that_dies_is_named(tmp_path, fleet_of):
    m, steps = 3, 20000
    make(tmp_path / "run", steps, gs.Network.exponential(m), PrivacyPlan(epsilon=20.0), m=m)
    port = free_ports(m)
    for i in range(m):
        edit(tmp_path / f"run/learner-{i}", "[party]\n", f'[party]\nmetrics = "127.0.0.1:{port + i}"\n')
    (tmp_path / "targets.txt").write_text("".join(f"127.0.0.1:{port + i}\n" for i in range(m)))
    fleet = fleet_of(tmp_path / "run", m=m)
    fleet.start()
    wait_until(lambda: all(fleet.status(i).get("round", 0) > 5 for i in range(m)))
    command = [sys.executable, "-m", "gossamer", "peers", "watch", "--file", str(tmp_path / "targets.txt")]
    environment = {**os.environ, "COLUMNS": "80"}
    look = subprocess.run(
        [*command, "--once", "--json", "--late", "600"], capture_output=True, text=True, timeout=LIMIT, env=environment
    )
    assert look.returncode == 0, look.stdout + look.stderr
    parties = json.loads(look.stdout)["parties"]
    assert [one["learner"] for one in parties] == [0, 1, 2]
    assert {one["version"] for one in parties} == {gs.__version__}
    assert len({one["run"] for one in parties}) == 1
    assert all(0 < one["spent"] <= one["budget"] == 20 and one["round"] > 5 for one in parties)
    assert all(one["steps"] == steps for one in parties)
    watching = subprocess.Popen(
        [*command, "--every", "0.5", "--late", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment,
    )  # fmt: skip
    try:
        for line in watching.stdout:
            if line.startswith("learner 2 at"):
                break
        fleet.kill(2)
        found = set()
        for line in watching.stdout:
            assert all(letter.isprintable() for letter in line.rstrip("\n")), line
            found |= {kind for kind in ("unreachable: learner 2", "late: learner 2") if line.startswith(kind)}
            if len(found) == 2:
                break
        watching.send_signal(signal.SIGINT)
        watching.wait(LIMIT)
        assert watching.returncode == 130
    finally:
        watching.kill()
        watching.wait()
        watching.stdout.close()


def test_on_a_terminal_there_is_one_table_until_all_are_done(endpoints):
    at = endpoints(text_of(0, round=99), text_of(1, round=100, state=NASTY))
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "gossamer", "peers", "watch", *at, "--every", "0.5"]
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env={**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    )
    os.close(terminal)
    came = b""
    try:
        while b"99/100" not in came:
            came += os.read(controller, 65536)
        endpoints.texts[next(iter(endpoints.texts))] = text_of(0, round=100)
        while True:
            try:
                came += os.read(controller, 65536)
            except OSError:  # the terminal has nobody any more
                break
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.wait()
        os.close(controller)
    shown = came.decode()
    assert "100/100" in shown
    assert shown.count("certificate") > 1, "it was drawn again"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert all(letter.isprintable() or letter in "\r\n" for letter in plain), "nothing of a party moved the cursor"
    assert "]0;gone" not in came.decode().replace("?]0;gone", "")
