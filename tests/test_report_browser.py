"""report.html in a real browser: it shows the record's numbers, and can be read on a phone and in the dark."""

from __future__ import annotations

import pytest

import gossamer as gs
from browsing import complaints, open_page


@pytest.fixture(scope="module")
def record():
    stream = gs.datasets.mushrooms(learners=10, draw="once")
    privacy = gs.Gaussian.for_budget([1.0, 2.0] * 5, 1e-5, where="source")
    model, algorithm = gs.LogisticRegression(l2=1e-2), gs.ldp_gradient_tracking(gs.decay(1.0, 0.8))
    return gs.simulate(algorithm, gs.Network.paper(), stream, model=model, privacy=privacy, steps=200)


@pytest.fixture(scope="module")
def opened(record, tmp_path_factory, browser):
    path = record.report(tmp_path_factory.mktemp("report") / "report.html")

    def open_it(**settings):
        open_page(browser, path.as_uri(), **settings)
        return browser

    return open_it


def test_a_page_shows_the_records_numbers_and_loads_nothing(opened, record):
    page = opened()
    cells = page.execute_script(
        "return [...document.querySelectorAll('#table tbody tr')].map(r => [...r.cells].map(c => c.dataset.value))"
    )
    assert [float(row[1]) for row in cells] == record.learners.accuracy.tolist()
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert complaints(page) == []
