"""docs/examples for compose and Kubernetes: rendered, validated, and their shell lines run."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")
pytest.importorskip("yaml", reason="THE FILES FOR COMPOSE AND KUBERNETES WERE NOT READ: needs PyYAML")

import yaml

import gossamer as gs
from bare_root import read_containerfile
from deployment_tools import INSTALLED, PROGRAMS, TESTS, wrongly_skipped
from test_operations import edit, wait_until
from test_processes import free_ports, make

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
IMAGE = read_containerfile((EXAMPLES / "Containerfile").read_text())
COMPOSE = EXAMPLES / "compose.yml"
LIMIT = 120.0  # seconds
KUBERNETES = "1.31"
M = 3


def composer():
    """`docker compose`, docker-compose, podman-compose: whatever there is to render a file."""
    for command in (["docker", "compose"], ["docker-compose"], ["podman-compose"]):
        if shutil.which(command[0]) is None:
            continue
        if subprocess.run([*command, "version"], capture_output=True, timeout=LIMIT, check=False).returncode == 0:
            return command
    if shutil.which("podman-compose") and shutil.which("podman") is None:
        pytest.skip("compose.yml WAS NOT RENDERED: podman is not installed, which podman-compose asks for its version")
    pytest.skip("compose.yml WAS NOT RENDERED: there is no docker compose, docker-compose or podman-compose here")


def composed(**given):
    kept = {name: value for name, value in os.environ.items() if name not in ("PARTY", "PORT", "NAME", "IMAGE")}
    return subprocess.run(
        [*composer(), "-f", str(COMPOSE), "config"], env=kept | given, capture_output=True, text=True, timeout=LIMIT,
        check=False,
    )  # fmt: skip


def test_compose_renders_a_container_that_cannot_be_started_twice():
    asked = composed(PARTY="./learner-1", PORT="7401")
    assert asked.returncode == 0, asked.stderr
    learner = yaml.safe_load(asked.stdout)["services"]["learner"]
    assert learner["container_name"] == "gossamer-learner", "a name is taken once"
    assert learner["user"] == IMAGE.user
    assert learner["read_only"] is True
    assert "learner-1" in str(learner["volumes"])
    assert "/party" in str(learner["volumes"])
    assert "7401" in str(learner["ports"])
    assert learner["restart"] == "on-failure:5"


@pytest.mark.parametrize(("given", "missed"), [({"PORT": "7401"}, "which folder"), ({"PARTY": "./x"}, "which port")])
def test_compose_says_what_it_is_to_be_told(given, missed):
    asked = composed(**given)
    assert asked.returncode != 0
    assert missed in asked.stderr


def packing_line():
    """The line of kustomization.yaml that makes the archive of a folder party/ beside it."""
    (line,) = re.findall(r"(?m)^#   (tar .*)$", (EXAMPLES / "kubernetes" / "kustomization.yaml").read_text())
    return line


def packed(party, place):
    """The example as it is applied for this party's folder."""
    shutil.copytree(EXAMPLES / "kubernetes", place)
    shutil.copytree(party, place / "party")
    subprocess.run(["sh", "-euc", packing_line()], cwd=place, timeout=LIMIT, check=True)
    return place


@pytest.fixture
def rendered(tmp_path):
    """All that `kubectl apply -k` would send for a party's folder, and what was packed."""
    if shutil.which("kubectl") is None:
        pytest.skip("THE FILES FOR KUBERNETES WERE NOT RENDERED: kubectl is not installed")
    make(tmp_path / "run", 20, gs.Network.exponential(2), m=2)
    place = packed(tmp_path / "run" / "learner-0", tmp_path / "kubernetes")
    asked = subprocess.run(["kubectl", "kustomize", place], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert asked.returncode == 0, asked.stderr
    return list(yaml.safe_load_all(asked.stdout)), place / "party.tar.gz"


def only(documents, kind):
    return next(one for one in documents if one["kind"] == kind)


def test_kubernetes_gets_the_folder_and_one_pod_on_it(rendered):
    documents, archive = rendered
    secret, learner = only(documents, "Secret"), only(documents, "StatefulSet")
    assert secret["immutable"]
    given = {name: base64.b64decode(data) for name, data in secret["data"].items()}
    assert given == {archive.name: archive.read_bytes()}
    pod = learner["spec"]["template"]["spec"]
    given = next(one for one in pod["volumes"] if one["name"] == "given")
    assert given["secret"]["secretName"] == secret["metadata"]["name"], "which has a fingerprint of what is in it"
    assert learner["spec"]["replicas"] == 1
    party = next(
        one for one in documents if one["kind"] == "PersistentVolumeClaim" and one["metadata"]["name"] == "party"
    )
    assert party["spec"]["accessModes"] == ["ReadWriteOncePod"], "two pods on one folder are two copies of a learner"
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == IMAGE.user
    assert pod["securityContext"]["runAsNonRoot"]
    for container in (*pod["containers"], *pod["initContainers"]):
        assert container["image"] == "registry.example.org/gossamer-peer:0.3.0"
        limits = container["securityContext"]
        assert limits["readOnlyRootFilesystem"]
        assert not limits["allowPrivilegeEscalation"]
    assert pod["containers"][0]["command"][:3] == IMAGE.entry[:3]
    labels = learner["spec"]["template"]["metadata"]["labels"]
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
        spec = only(documents, kind)["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        assert selector.get("matchLabels", selector) == labels


def test_kubernetes_files_are_of_its_own_schema(rendered):
    validate = pytest.importorskip(
        "kubernetes_validate",
        reason="THE FILES FOR KUBERNETES WERE NOT VALIDATED: pip install kubernetes-validate has its schemas",
        exc_type=ImportError,
    )
    documents, _ = rendered
    assert len(documents) == 8
    for one in documents:
        validate.validate(one, KUBERNETES, strict=True)
    learner = only(documents, "StatefulSet")
    learner["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    with pytest.raises(validate.ValidationError):
        validate.validate(learner, KUBERNETES, strict=True)


def shell_lines():
    """What is asked whether a learner lives: one and the same line everywhere; and what the first start does."""
    documents = list(yaml.safe_load_all((EXAMPLES / "kubernetes" / "learner.yaml").read_text()))
    pod = only(documents, "StatefulSet")["spec"]["template"]["spec"]
    learner = pod["containers"][0]
    probes = [learner[name]["exec"]["command"][-1].replace("/own", "") for name in ("startupProbe", "livenessProbe")]
    probes.append(yaml.safe_load(COMPOSE.read_text())["services"]["learner"]["healthcheck"]["test"][-1])
    assert len(set(probes)) == 1
    return probes[0], pod["initContainers"][0]["command"]


def test_a_learner_that_waits_for_others_is_alive_and_one_that_hangs_is_not(tmp_path, fleet_of):
    alive = lambda: subprocess.run(["sh", "-c", probe], timeout=LIMIT, check=False).returncode == 0  # noqa: E731
    make(tmp_path / "run", 20, gs.Network.exponential(2), m=2)
    place = tmp_path / "run" / "learner-0"
    probe = shell_lines()[0].replace("/party/", f"{place}/")
    assert not alive(), "it has not been started"
    fleet = fleet_of(tmp_path / "run", m=2)
    fleet.start(0)
    wait_until(lambda: fleet.status(0).get("waits_for") == [1])
    old = time.time() - 3600
    os.utime(place / "status.json", (old, old))
    wait_until(alive)  # it writes on while it waits
    fleet.kill(0)
    os.utime(place / "status.json", (old, old))
    assert not alive()


def first_start(archive, place):
    """What comes before the learner in its pod, with this archive in the secret: its exit code, and what it says."""
    (place / "given").mkdir(exist_ok=True)
    (place / "volume").mkdir(exist_ok=True)
    shutil.copy(archive, place / "given")
    words = [
        word.replace("/party/", f"{place}/volume/").replace("/given/", f"{place}/given/") for word in shell_lines()[1]
    ]
    done = subprocess.run(words, timeout=LIMIT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def names_in(folder):
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


@pytest.fixture
def party(tmp_path):
    """A small folder of files of any content."""
    (tmp_path / "party" / "changes").mkdir(parents=True)
    for name in ("party.toml", "key.pem", "changes/1.json", "records.csv"):
        (tmp_path / "party" / name).write_text(name)
    return tmp_path / "party"


def test_all_of_the_folder_but_its_records_is_unpacked_for_its_owner_alone(party, tmp_path):
    place = packed(party, tmp_path / "kubernetes")
    assert first_start(place / "party.tar.gz", tmp_path) == (0, "")
    own = tmp_path / "volume" / "own"
    assert names_in(own) == ["changes/1.json", "key.pem", "party.toml"]
    assert not [one for one in (own, *own.rglob("*")) if one.stat().st_mode & 0o077]


def test_the_folder_is_unpacked_at_the_first_start_alone(party, tmp_path):
    place, own = packed(party, tmp_path / "kubernetes"), tmp_path / "volume" / "own"
    (tmp_path / "volume" / "new").mkdir(parents=True)  # of a first start that broke off
    (tmp_path / "volume" / "new" / "half").touch()
    assert first_start(place / "party.tar.gz", tmp_path) == (0, "")
    assert not (own / "half").exists()
    (own / "key.pem").unlink()
    (party / "party.toml").write_text("second")
    assert first_start(packed(party, tmp_path / "again") / "party.tar.gz", tmp_path) == (0, "")
    assert (own / "party.toml").read_text() == "party.toml"
    assert not (own / "key.pem").exists(), "what a learner has removed does not come back"


def test_a_folder_that_was_started_is_not_started_again_in_a_pod(party, tmp_path):
    (party / "journal.db").touch()
    code, said = first_start(packed(party, tmp_path / "kubernetes") / "party.tar.gz", tmp_path)
    assert code == 2
    assert "has a journal" in said
    assert not (tmp_path / "volume" / "own").exists()


def enrolled(gossamer, place, *options):
    """Three parties that have enrolled, with their records: (the run's folder, the parties')."""
    port, parties = free_ports(M), [place / f"learner-{i}" for i in range(M)]
    declared = ("--target", "ill", "--classes", "no,yes", "--range", "age=0:100", "--steps", 6, "--clip", 1)
    steps = [("peers", "init", "study", "--own-keys", "--learners", M, "--graph", "ring", *declared, *options)]
    steps += [("party", "new", one, "--address", f"127.0.0.1:{port + i}") for i, one in enumerate(parties)]
    steps += [("peers", "sign", "study", *(one / "request.json" for one in parties))]
    steps += [("party", "join", one, f"study/{one.name}.json") for one in parties]
    for words in steps:
        code, _, said = gossamer(*words)
        assert code == 0, said
    rows = [f"{7 * k % 100},{'yes' if 7 * k % 100 > 50 else 'no'}" for k in range(6 * 4)]
    for one in parties:
        (one / "records.csv").write_text("\n".join(["age,ill", *rows, ""]))
    return place.parent / "study", parties


def made(gossamer, place, *options):
    """The same by somebody who has made all keys."""
    words = ("--learners", M, "--graph", "ring", "--steps", 6, "--port", free_ports(M), *options)
    code, _, said = gossamer("peers", "init", place, *words)
    assert code == 0, said
    return place, [place / f"learner-{i}" for i in range(M)]


def renew_inside(own, signed, gossamer, study):
    """Run docs/howto/deploy.md's commands for a new certificate, here instead of in a pod."""
    page = (EXAMPLES.parent / "howto" / "deploy.md").read_text()
    lines = re.findall(r"(?m)^    (inside .*)$", page)
    assert len(lines) == 4
    program = f"{sys.executable} -m gossamer"
    for line in lines:
        if "< learner-0.json" in line:  # meanwhile it was signed
            code, _, said = gossamer("peers", "sign", study, signed / "renewal.json")
            assert code == 0, said
            shutil.copy(study / "learner-0.json", signed)
        for there, here in (("/tmp/", f"{signed}/its-"), ("/party/own", own), ("/opt/gossamer/bin/gossamer", program)):
            line = line.replace(there, str(here))
        script = f'inside() {{ "$@"; }}; {line}'
        done = subprocess.run(
            ["sh", "-euc", script], cwd=signed, timeout=LIMIT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stderr)


SECRETS = ("--secrets", "complete", "--colluders", 1)


@pytest.mark.parametrize(
    ("parties_of", "options"),
    [(enrolled, ()), (enrolled, SECRETS), (made, ()), (made, SECRETS)],
    ids=["enrolled", "enrolled with secrets", "made", "made with secrets"],
)
def test_what_a_pod_unpacks_is_a_party_that_starts(tmp_path, gossamer, fleet_of, parties_of, options):
    """Its folder as in the pod, records in another place, the others' as they were made: checked, and run."""
    study, parties = parties_of(gossamer, tmp_path / "run", *options)
    (tmp_path / "records").mkdir()
    edit(parties[0], 'path = "records.csv"', f'path = "{tmp_path}/records/records.csv"')
    assert first_start(packed(parties[0], tmp_path / "kubernetes") / "party.tar.gz", tmp_path) == (0, "")
    os.replace(parties[0] / "records.csv", tmp_path / "records" / "records.csv")
    shutil.rmtree(parties[0])
    os.replace(tmp_path / "volume" / "own", parties[0])
    code, out, err = gossamer("peer", "check", parties[0])
    assert code == 0, out + err
    if parties_of is enrolled and options:
        before = (parties[0] / "certificate.pem").read_bytes()
        (tmp_path / "signed").mkdir()
        renew_inside(parties[0], tmp_path / "signed", gossamer, study)
        assert (parties[0] / "certificate.pem").read_bytes() != before
    fleet = fleet_of(tmp_path / "run", m=M)
    fleet.start()
    fleet.finish()
    assert {fleet.status(i)["state"] for i in range(M)} == {"done"}


def test_versions_are_said_and_are_this_release():
    text = (EXAMPLES / "kubernetes" / "kustomization.yaml").read_text()
    assert re.search(r"newTag: (\S+)", text)[1] == gs.__version__


def test_a_skip_is_forgiven_where_its_program_is_missing_alone():
    """What `make test-deploy` holds against a test that was skipped."""
    composer, validator = "podman is not installed, which podman-compose asks", "pip install kubernetes-validate"
    reasons = {"composer": composer, "validator": validator, "relay": "needs the program haproxy"}
    assert set(wrongly_skipped(reasons, ["podman", "haproxy"])) == {"validator"}
    assert set(wrongly_skipped(reasons, ["haproxy"])) == {"composer", "validator"}
    assert wrongly_skipped({"engine": "neither podman nor docker answers here"}, []) == {}


def test_every_program_that_these_tests_look_for_is_known_with_its_package():
    text = "".join((Path(__file__).with_name(f"test_{name}.py")).read_text() for name in TESTS)
    assert set(re.findall(r'shutil\.which\("([\w-]+)"\)', text)) <= {*PROGRAMS, *INSTALLED}
