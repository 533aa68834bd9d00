"""Putting the house in order moves no number: seeded runs against what version 0.2.0 gave."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import golden_runs
from conftest import leave_undrawn


def test_every_seeded_run_gives_the_numbers_of_version_0_2_0(monkeypatch):
    leave_undrawn(monkeypatch)
    now = golden_runs.everything()
    with np.load(Path(__file__).parent / "golden" / "version-0.2.0.npz") as before:
        assert sorted(now) == sorted(before.files)
        for name in before.files:
            np.testing.assert_allclose(now[name], before[name], rtol=1e-9, atol=1e-12, err_msg=name)
