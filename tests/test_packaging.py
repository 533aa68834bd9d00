"""What is released: built, installed into an environment of its own, and used as a user would."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

import gossamer as gs

ROOT = Path(__file__).parents[1]
LIMIT = 600.0  # seconds, on a machine that is busy with other things
SHELL_LIMIT = 120.0
OURS = ("LICENSE", "NOTICE")


def run(*words, **more):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(wheel, sdist), of the files as they are."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", out, cwd=ROOT)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def bin_of(built, tmp_path_factory):
    """The commands of a fresh environment with the wheel in it; what it needs is borrowed, so nothing is downloaded."""
    place = tmp_path_factory.mktemp("installed") / "env"
    run(sys.executable, "-m", "venv", "--without-pip", place)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(place), "platbase": str(place)}))
    run(sys.executable, "-m", "pip", "--python", place, "install", "--no-deps", "--no-index", "--no-compile", built[0])
    borrowed = [path for path in sys.path if path.endswith("-packages")]
    (site / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    return place / "bin"


def alone(**more):
    """An environment in which only the installed package can be found."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return kept | {"NUMBA_DISABLE_JIT": "1"} | more  # a new place would have all kernels compiled anew


def test_the_wheel_has_the_package_its_data_and_licences_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
        texts = {name: wheel.read(name) for name in names if name.endswith((".py", "METADATA", "RECORD"))}
        about = email.message_from_bytes(next(text for name, text in texts.items() if name.endswith("METADATA")))
    info = f"gossamer_learning-{gs.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"gossamer", info}
    assert {"gossamer/py.typed", "gossamer/datasets/mushrooms.data.xz"} <= names
    assert {f"{info}/licenses/{name}" for name in OURS} <= names
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "gossamer").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules
    assert not [name for name in names if "test" in Path(name).name.lower() or name.endswith((".pyc", ".nbc", ".nbi"))]
    for name, text in texts.items():
        assert str(ROOT).encode() not in text, name
        assert not re.search(rb"/home/\w|/Users/\w|/tmp/\w", text), name
    assert about["Name"] == "gossamer-learning"
    assert about["License-Expression"] == "Apache-2.0"
    assert built[0].stat().st_size < 3e6


def test_bundled_parts_name_their_licences():
    notice = (ROOT / "NOTICE").read_text()
    assert "gossamer/datasets/mushrooms.data.xz" in notice
    assert "CC BY 4.0" in notice
    for licence in (ROOT / "src" / "gossamer").rglob("*.LICENSE"):
        assert str(licence.relative_to(ROOT / "src")) in notice


def test_the_sdist_can_build_the_same_wheel_by_itself(built, tmp_path):
    wheel, sdist = built
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    needed = {"README.md", "CHANGELOG.md", "Makefile", "constraints.txt", "pyproject.toml", "tests", "docs", *OURS}
    assert needed <= {path.name for path in source.iterdir()}
    assert not list(source.rglob("results")), "studies' numbers are many megabytes"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=source, env=alone())
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(next((tmp_path / "again").glob("*.whl"))) as other:
        assert {info.filename: info.CRC for info in one.infolist()} == {i.filename: i.CRC for i in other.infolist()}


@pytest.mark.parametrize("name", ["gossamer", "gossamer-learning"])
def test_the_command_is_there_by_both_names(bin_of, name, tmp_path):
    assert run(bin_of / name, "--version", cwd=tmp_path, env=alone()).stdout == f"gossamer {gs.__version__}\n"


def test_what_is_installed_runs_the_first_experiment(bin_of, tmp_path):
    where = "import gossamer; print(gossamer.__file__)"
    assert str(bin_of.parent) in run(bin_of / "python", "-c", where, cwd=tmp_path, env=alone()).stdout
    said = run(bin_of / "gossamer", "run", "mushrooms", "--steps", 5, "--out", "first", cwd=tmp_path, env=alone())
    assert said.stdout.count("not private\n") == 10
    assert gs.Record.load(tmp_path / "first").t == 5


COMPLETE = """
eval "$(gossamer --show-completion)"
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    $(complete -p gossamer | sed 's/.*-F \\([^ ]*\\).*/\\1/') gossamer  # as bash calls it
    echo "${COMPREPLY[@]}"
}
complete_words gossamer fron
complete_words gossamer peers st
complete_words gossamer run --eps
complete_words gossamer budget --law ''
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT TESTED: completion, as there is no bash here")
def test_bash_completes_commands_options_and_choices(bin_of, tmp_path):
    path = f"{bin_of}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "complete.sh").write_text(COMPLETE)
    before = time.monotonic()
    said = run(shutil.which("bash"), "--norc", "complete.sh", cwd=tmp_path, env=alone(PATH=path)).stdout
    assert said.splitlines() == ["frontier", "status", "--epsilon", "laplace gaussian"]
    assert time.monotonic() - before < SHELL_LIMIT


def test_a_citation_names_this_version():
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    top = dict(line.split(": ", 1) for line in lines if re.match(r"[a-z-]+: ", line))
    assert {"cff-version", "message", "title", "type", "version", "license"} <= set(top)
    assert "authors:" in lines
    assert top["version"].strip('"') == gs.__version__
    assert top["license"] == "Apache-2.0"
