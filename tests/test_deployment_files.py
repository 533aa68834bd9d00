"""docs/examples for compose and Kubernetes: rendered, validated, and their shell lines run."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")
pytest.importorskip("yaml", reason="THE FILES FOR COMPOSE AND KUBERNETES WERE NOT READ: needs PyYAML")

import yaml

import gossamer as gs
from bare_root import read_containerfile
from test_operations import wait_until
from test_processes import make

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
IMAGE = read_containerfile((EXAMPLES / "Containerfile").read_text())
COMPOSE = EXAMPLES / "compose.yml"
LIMIT = 120.0  # seconds
KUBERNETES = "1.31"


def composer():
    """`docker compose`, docker-compose, podman-compose: whatever there is to render a file."""
    for command in (["docker", "compose"], ["docker-compose"], ["podman-compose"]):
        if shutil.which(command[0]) is None:
            continue
        if subprocess.run([*command, "version"], capture_output=True, timeout=LIMIT, check=False).returncode == 0:
            return command
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


@pytest.fixture
def rendered(tmp_path):
    """All that `kubectl apply -k` would send for a party's folder."""
    if shutil.which("kubectl") is None:
        pytest.skip("THE FILES FOR KUBERNETES WERE NOT RENDERED: kubectl is not installed")
    make(tmp_path / "run", 20, gs.Network.exponential(2), m=2)
    shutil.copytree(EXAMPLES / "kubernetes", tmp_path / "kubernetes")
    shutil.copytree(tmp_path / "run" / "learner-0", tmp_path / "kubernetes" / "party")
    asked = subprocess.run(
        ["kubectl", "kustomize", tmp_path / "kubernetes"], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert asked.returncode == 0, asked.stderr
    return list(yaml.safe_load_all(asked.stdout)), tmp_path / "run" / "learner-0"


def only(documents, kind):
    return next(one for one in documents if one["kind"] == kind)


def test_kubernetes_gets_the_folder_and_one_pod_on_it(rendered):
    documents, folder = rendered
    secret, learner = only(documents, "Secret"), only(documents, "StatefulSet")
    for name in ("party.toml", "graph.json", "authority.pem", "key.pem", "certificate.pem"):
        assert base64.b64decode(secret["data"][name]) == (folder / name).read_bytes()
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


def test_the_folder_is_copied_at_the_first_start_alone(tmp_path):
    words = [
        word.replace("/party", f"{tmp_path}/party").replace("/given", f"{tmp_path}/given") for word in shell_lines()[1]
    ]
    run = lambda: subprocess.run(words, timeout=LIMIT, check=True)  # noqa: E731
    (tmp_path / "given").mkdir()
    (tmp_path / "party" / "new").mkdir(parents=True)  # of a first start that broke off
    (tmp_path / "party" / "new" / "half").touch()
    (tmp_path / "given" / "party.toml").write_text("first")
    (tmp_path / "given" / "key.pem").write_text("key")
    run()
    own = tmp_path / "party" / "own"
    assert sorted(one.name for one in own.iterdir()) == ["key.pem", "party.toml"]
    assert own.stat().st_mode & 0o077 == 0
    assert (own / "key.pem").stat().st_mode & 0o077 == 0
    (tmp_path / "given" / "party.toml").write_text("second")
    (own / "key.pem").unlink()
    run()
    assert (own / "party.toml").read_text() == "first"
    assert not (own / "key.pem").exists(), "what a learner has removed does not come back"


def test_versions_are_said_and_are_this_release():
    text = (EXAMPLES / "kubernetes" / "kustomization.yaml").read_text()
    assert re.search(r"newTag: (\S+)", text)[1] == gs.__version__
