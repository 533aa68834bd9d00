"""Every algorithm is found by its name: those of the package, and one's own."""

from __future__ import annotations

import pkgutil
import sys

import pytest

import gossamer as gs
from gossamer import algorithms
from gossamer.algorithms import METHODS, find_method

NOT_METHODS = {"assumptions", "base", "registry"}

OWN = """
from gossamer.algorithms import dsgd, method


def plain(step):
    return dsgd(step)


@method(label="Mine", source="V", step_exponent=0.8, noise_exponent=0.7)
def declared(step):
    return dsgd(step)


number = 3
"""


def test_every_file_declares_a_method_of_its_name_and_tables_keep_their_order():
    files = {file.name for file in pkgutil.iter_modules(algorithms.__path__)} - NOT_METHODS
    variants = {name for name, one in METHODS.entries().items() if one.noises_own} | {"dsgd_naive"}
    assert files == set(METHODS.entries()) - variants
    assert list(METHODS.entries()) == [
        "ldp_gradient_tracking", "push_pull", "diadsp", "diadsp_own", "tailored_gradient_tracking",
        "stochastic_subgradient", "stochastic_subgradient_own", "subgradient_rescaling", "subgradient_rescaling_own",
        "ldol", "robust_push_pull", "wang_basar", "dsgd", "dsgd_naive",
    ]  # fmt: skip
    assert [name for name, one in METHODS.entries().items() if not one.compared] == ["dsgd_naive"]


@pytest.mark.parametrize("name", METHODS.entries())
def test_a_method_is_a_name_of_the_package_and_builds_from_a_first_step(name):
    one = find_method(name)
    assert one.factory is getattr(algorithms, name)
    assert one.build(0.3).parameters["step"] == repr(gs.decay(0.3, one.step_exponent))


def test_the_misuse_is_dsgd_over_R():
    naive = find_method("dsgd_naive").build(0.3)
    assert (naive.mixes, naive.strict, naive.parameters["over"]) == (("R",), False, "R")


def test_ones_own_module_is_found_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "own_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    plain, declared = find_method("own_methods:plain"), find_method("own_methods:declared")
    assert (plain.label, plain.step_exponent, plain.noise_exponent) == ("plain", 0.6, 0.55)
    assert (declared.label, declared.step_exponent, declared.noise_exponent) == ("Mine", 0.8, 0.7)
    assert plain.build(0.1).name == "dsgd"
    assert plain.make(gs.decay(0.1, 0.6), gs.decay(1.0, 0.7)).noise == gs.decay(1.0, 0.7)
    assert "own_methods:declared" not in METHODS.entries(), "nobody else compares it"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pushpull", r"it is not one of ldp_gradient_tracking, push_pull, .*; perhaps push_pull is meant"),
        ("zebra", "it is not one of .*; or package.module:name of your own"),
        ("no_such_module:x", "cannot be imported .No module named 'no_such_module'.; give package.module:name"),
        ("gossamer.types:Nothing", "cannot be imported .module 'gossamer.types' has no attribute 'Nothing'"),
        ("gossamer.version:__version__", "give a function that makes one"),
    ],
)
def test_what_is_no_method_is_refused_with_what_is(name, said):
    with pytest.raises(gs.BadValue, match=f"algorithm={name!r}: .*{said}"):
        find_method(name)
