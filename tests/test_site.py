"""The documentation site: it builds without a warning, has every public name, and a broken link ends its build."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys

import pytest
from sphinx.util.inventory import InventoryFile

import gossamer as gs
from pages import LIMIT, ROOT

ROOMS = ("algorithms", "datasets", "models", "networks", "predictions", "privacy", "streams", "theory")
# Tables that are looked into, and types; they have no docstring of their own.
TABLES = {"DATASETS", "LAWS", "MECHANISMS", "METHODS", "Gradient", "__version__"}


def build(source, target):
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", ROOT / "docs", source, target]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    ended = build(ROOT / "docs", target)
    assert ended.returncode == 0, ended.stderr
    return target


def test_the_site_builds_without_a_warning_and_shows_three_users_their_way(site):
    landing = (site / "index.html").read_text(encoding="utf-8")
    for tutorial in ("hospitals", "methods", "table"):
        assert f'href="tutorials/{tutorial}.html"' in landing
    assert (site / "contributing.html").exists()
    assert "Write a new algorithm in one file" in (site / "contributing.html").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference(site):
    with (site / "objects.inv").open("rb") as file:
        known = InventoryFile.load(file, "", lambda base, path: path)
    names = {name for kind, items in known.items() if kind.startswith("py:") for name in items}
    wanted = {f"gossamer.{name}" for name in gs.__all__}
    rooms = {room: importlib.import_module(f"gossamer.{room}") for room in ROOMS}
    missing = [
        f"{room}.{name}" for room, module in rooms.items() for name in module.__all__
        if name not in TABLES and not {f"gossamer.{room}.{name}", f"gossamer.{name}"} & names
    ]  # fmt: skip
    missing += sorted(wanted - names - {f"gossamer.{name}" for name in {*TABLES, *ROOMS}})
    assert not missing, missing


def test_equations_of_docstrings_stand_as_they_were_written(site):
    page = (site / "api" / "algorithms.html").read_text(encoding="utf-8")
    assert "Assumption 4" in page
    page = (site / "api" / "running.html").read_text(encoding="utf-8")
    assert "rounds between evaluations" in page


@pytest.mark.parametrize(
    ("link", "said"),
    [("[there](nowhere.md)", "nowhere.md"), ("[there](#nowhere)", "nowhere"), ("[there](other.md#no)", "no")],
    ids=["a page", "a heading", "a heading of another page"],
)
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path, link, said):
    source = tmp_path / "source"
    source.mkdir()
    shutil.copytree(ROOT / "docs" / "_static", source / "_static")
    (source / "index.md").write_text(f"# A page\n\n{link}\n\n```{{toctree}}\nother\n```\n")
    (source / "other.md").write_text("# Another page\n")
    ended = build(source, tmp_path / "built")
    assert ended.returncode != 0
    assert said in ended.stderr
