"""The documentation site: it builds without a warning, has every public name, and a broken link ends its build."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys

from sphinx.util.inventory import InventoryFile

import gossamer as gs
from pages import LIMIT, ROOT

ROOMS = (
    "algorithms",
    "cluster",
    "datasets",
    "estimator",
    "loggers",
    "models",
    "networks",
    "predictions",
    "privacy",
    "streams",
    "theory",
)
# Tables that are looked into, and types; they have no docstring of their own.
TABLES = {"DATASETS", "LAWS", "MECHANISMS", "METHODS", "Gradient", "Numbers", "__version__"}


def build(source, target):
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", ROOT / "docs", source, target]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT)


def test_the_site_builds_without_a_warning_and_has_all_that_is_public(tmp_path):
    """One test, because the build takes most of its time."""
    ended = build(ROOT / "docs", tmp_path)
    assert ended.returncode == 0, ended.stderr
    landing = (tmp_path / "index.html").read_text(encoding="utf-8")
    for tutorial in ("hospitals", "methods", "table"):
        assert f'href="tutorials/{tutorial}.html"' in landing, "each user finds her way"
    contributing = (tmp_path / "contributing.html").read_text(encoding="utf-8")
    assert "Write a new algorithm in one file" in contributing, "it stands beside docs/"
    assert "rounds between evaluations" in (tmp_path / "api" / "running.html").read_text(encoding="utf-8")
    assert not missing_names(tmp_path)


def missing_names(site):
    """Public names that the reference does not have."""
    with (site / "objects.inv").open("rb") as file:
        known = InventoryFile.load(file, "", lambda base, path: path)
    names = {name for kind, items in known.items() if kind.startswith("py:") for name in items}
    rooms = {room: importlib.import_module(f"gossamer.{room}") for room in ROOMS}
    public = {name: {f"gossamer.{name}"} for name in gs.__all__ if name not in ROOMS}
    for room, module in rooms.items():
        public |= {f"{room}.{name}": {f"gossamer.{room}.{name}", f"gossamer.{name}"} for name in module.__all__}
    return [name for name, places in public.items() if name.split(".")[-1] not in TABLES and not places & names]


def test_a_link_that_leads_nowhere_ends_the_build(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    shutil.copytree(ROOT / "docs" / "_static", source / "_static")
    links = "[a](no-page.md) [b](#no-heading) [c](other.md#no-place)"
    (source / "index.md").write_text(f"# A page\n\n{links}\n\n```{{toctree}}\nother\n```\n")
    (source / "other.md").write_text("# Another page\n")
    ended = build(source, tmp_path / "built")
    assert ended.returncode != 0
    for nowhere in ("no-page", "no-heading", "no-place"):
        assert nowhere in ended.stderr


def test_docstrings_become_markup_and_keep_their_words(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    as_markup = importlib.import_module("plain_docstrings").as_markup
    told = [
        "Moves `x` by *one* step_ * 2.",
        "",
        "    s⁺ = (I+C) s",
        "",
        "step   how far,",
        "       at most",
        "noise  how much",
    ]
    assert as_markup(told) == [
        "Moves \\ ``x``\\  by \\ *one*\\  step\\_ \\* 2.", "", "::", "", "       s⁺ = (I+C) s", "",
        "\\ ``step``\\ ", "   how far,", "   at most", "\\ ``noise``\\ ", "   how much", "",
    ]  # fmt: skip
    told = ["Parameters", "----------", "epsilon : float", "    The budget."]
    assert as_markup(told) == ["**Parameters**", "", "\\ ``epsilon : float``\\ ", "   The budget.", ""]
