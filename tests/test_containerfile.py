"""docs/examples/Containerfile: what it makes runs a learner, built by an engine or, without one, in a bare root."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
from bare_root import missing, read_containerfile, script_for
from gossamer.peers.config import PrivacyPlan, SecretsPlan
from test_operations import edit, wait_until
from test_processes import make

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "examples" / "Containerfile").read_text()
IMAGE = read_containerfile(TEXT)
LIMIT = 300.0  # seconds
M, STEPS = 2, 30


def test_everything_is_pinned():
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-[a-z]+", IMAGE.base), IMAGE.base
    steps = " ".join(step.rest for step in IMAGE.steps)
    assert "apt" not in steps, "no packages of the system's own"
    assert "-c /install/constraints.txt" in steps
    pinned = (ROOT / "constraints.txt").read_text()
    for name in ("grpcio", "msgspec", "numpy", "cryptography"):
        assert re.search(rf"(?m)^{name}==\d", pinned), name


def test_a_learner_is_no_root_and_ends_when_it_is_told_to():
    assert IMAGE.user == "10001:10001"
    assert IMAGE.volumes == [IMAGE.folder] == ["/party"]
    assert IMAGE.entry == ["/opt/gossamer/bin/gossamer", "peer", "run", "/party"], "no shell between it and signals"
    assert "STOPSIGNAL SIGTERM" in TEXT


def test_instructions_that_are_not_understood_are_not_passed_over():
    with pytest.raises(AssertionError, match="HEALTHCHECK is not understood"):
        read_containerfile("FROM x\nHEALTHCHECK NONE\n")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """What COPY finds: constraints.txt and a wheel of this checkout; and all wheels that it needs, for pip."""
    place = tmp_path_factory.mktemp("context")
    shutil.copy(ROOT / "constraints.txt", place)
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place / "dist")],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    if built.returncode:
        pytest.skip(f"THE CONTAINERFILE WAS NOT TRIED: no wheel could be built: {built.stderr[-300:]}")
    wheel = next((place / "dist").glob("*.whl"))
    words = ["download", "--quiet", "-d", str(place / "wheels"), "-c", str(ROOT / "constraints.txt"), f"{wheel}[peers]"]
    brought = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if brought.returncode:
        pytest.skip(f"THE CONTAINERFILE WAS NOT TRIED: no index of packages can be reached: {brought.stderr[-300:]}")
    return place


@pytest.fixture
def in_bare_root(context, tmp_path):
    """Starts the container of a party's folder: its process, once the steps are done; what it said is in steps.log."""
    if why := missing():
        pytest.skip(f"THE CONTAINERFILE'S STEPS WERE NOT RUN: {why}")
    started = []

    def start(party):
        (tmp_path / "root").mkdir()
        script = script_for(IMAGE, context, context / "wheels", tmp_path / "root", party)
        log = tmp_path / "steps.log"
        with log.open("wb") as said:
            process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdout=said, stderr=said)
        started.append(process)
        until = time.monotonic() + LIMIT
        while "THE STEPS ARE DONE" not in log.read_text():
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < until
            time.sleep(0.1)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def make_with_all_files(folder):
    """Two parties' folders with all that there may be in them: everybody's certificates, and a key for shared noise."""
    releases = {"exponent": 0.1, "releases": "1,2,20", "keys": {"0": "", "1": ""}, "colluders": 0}
    private = PrivacyPlan(epsilon=20.0, law="gaussian", where="source")
    secrets = SecretsPlan(share=0.5, floor=0.1, **releases)
    make(folder, STEPS, gs.Network.exponential(M), private, m=M, secrets=secrets)
    places = [folder / f"learner-{i}" for i in range(M)]
    members = b"".join((place / "certificate.pem").read_bytes() for place in places)
    for place in places:
        (place / "members.pem").write_bytes(members)
        edit(place, "[party]\n", '[party]\nmembers = "members.pem"\npartners = "members.pem"\n')
        (place / "partners.pem").unlink()


def test_the_steps_make_what_runs_a_learner_in_a_bare_root(in_bare_root, tmp_path, fleet_of):
    """Its root is read-only and has nothing of this checkout but the wheel; its neighbour runs outside.

    Told to stop it ends with 0; started again it goes on to its end, its key for shared noise in the journal.
    """
    make_with_all_files(tmp_path / "run")
    party, said = tmp_path / "run" / "learner-0", tmp_path / "steps.log"
    for place in (party, *party.iterdir()):
        os.chown(place, 10001, 10001)
    process = in_bare_root(party)
    fleet = fleet_of(tmp_path / "run", m=M)

    def wait_for(done):
        wait_until(lambda: done() or process.poll() is not None)
        assert done(), said.read_text()[-2000:]

    wait_for(lambda: fleet.status(0).get("state") in ("running", "waiting"))
    pid = fleet.status(0)["pid"]
    assert re.search(r"Uid:\s+10001\s+10001", Path(f"/proc/{pid}/status").read_text()), "it is not root"
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: "START 1 ENDED WITH 0" in said.read_text())
    fleet.start(1)
    wait_until(lambda: process.poll() is not None)
    assert process.returncode == 0, said.read_text()[-2000:]
    assert (fleet.status(0)["state"], fleet.status(0)["round"], fleet.status(0)["life"]) == ("done", STEPS, 2)
    assert (party / "journal.db").stat().st_uid == 10001
    assert not (party / "secret.pem").exists()
    assert list((tmp_path / "root").iterdir()) == [], "the root is gone with it"
    wait_until(lambda: fleet.code(1) == 0)


def engine():
    """A container engine that answers."""
    for name in ("podman", "docker"):
        if shutil.which(name) is None:
            continue
        try:
            asked = subprocess.run([name, "info"], capture_output=True, timeout=30, check=False)
        except subprocess.TimeoutExpired:
            continue
        if asked.returncode == 0:
            return name
    pytest.skip("THE CONTAINERFILE WAS NOT BUILT BY AN ENGINE: neither podman nor docker answers here")


def test_an_engine_builds_it_and_runs_two_learners(context, tmp_path, fleet_of):
    """GOSSAMER_BASE_IMAGE names another base than the Containerfile does, such as one with an index of packages."""
    name, base = engine(), os.environ.get("GOSSAMER_BASE_IMAGE", IMAGE.base)
    if subprocess.run([name, "image", "inspect", base], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip(f"THE CONTAINERFILE WAS NOT BUILT BY AN ENGINE: {base} is not on this machine; pull it first")
    tag = f"localhost/gossamer-peer-test-{os.getpid()}"
    built = subprocess.run(
        [name, "build", "-t", tag, "--build-arg", f"BASE={base}", "-f", ROOT / "docs/examples/Containerfile", context],
        capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    make(tmp_path / "run", STEPS, gs.Network.exponential(M), PrivacyPlan(epsilon=20.0), m=M)
    started = []
    try:
        for i in range(M):
            party = tmp_path / "run" / f"learner-{i}"
            for place in (party, *party.iterdir()):
                os.chown(place, 10001, 10001)
            words = ["--rm", "--network", "host", "--read-only", "--tmpfs", "/tmp", "-v", f"{party}:/party", tag]
            started.append(subprocess.Popen([name, "run", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        for process in started:
            said, _ = process.communicate(timeout=LIMIT)
            assert process.returncode == 0, said[-2000:]
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=LIMIT)
        subprocess.run([name, "rmi", "--force", tag], capture_output=True, timeout=LIMIT, check=False)
    fleet = fleet_of(tmp_path / "run", m=M)
    assert [fleet.status(i)["state"] for i in range(M)] == ["done"] * M
    assert (tmp_path / "run/learner-0/journal.db").stat().st_uid == 10001
