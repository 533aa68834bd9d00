"""report.html in a real browser: it shows the record's numbers, and can be read on a phone and in the dark."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from browsing import complaints, open_page, wait_for
from gossamer.report.html import page as page_of

POINTS = 100_000
FRAME = 400.0  # milliseconds that the median frame may take, on a machine that is ten times busier than most
BUDGETS = [1.0, 2.0, 4.0, 8.0]
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def record():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4, 60, 2))
    stream = gs.streams.from_arrays(X, (X.sum(axis=2) > 0).astype(float), ranges=(-1, 1))
    privacy, model = gs.Gaussian.for_budget(BUDGETS, 1e-5, where="source"), gs.LogisticRegression(l2=1e-2)
    algorithm = gs.ldp_gradient_tracking(gs.decay(0.5, 0.8))
    return gs.simulate(algorithm, gs.Network.ring(4), stream, model=model, privacy=privacy, steps=60)


@pytest.fixture(scope="module")
def opened(record, tmp_path_factory, browser):
    path = tmp_path_factory.mktemp("report") / "report.html"

    def open_it(view=None, **settings):
        path.write_text(page_of(view or record.view(command="gossamer run")), encoding="utf-8")
        open_page(browser, path.as_uri(), **settings)
        return browser

    return open_it


def values(page, selector):
    told = page.execute_script(
        f"return [...document.querySelectorAll('{selector}')].map(r => [...r.cells].map(c => c.dataset.value))"
    )
    return told


def legend(page, chart):
    """What stands beside each curve: its name and its value."""
    return dict(
        page.execute_script(
            f"return [...document.querySelectorAll('[data-chart=\"{chart}\"] .legend button')]"
            ".map(b => [b.dataset.series, b.dataset.value])"
        )
    )


def shown(page, chart):
    """From where to where the rounds and the values are seen."""
    return page.execute_script(
        f"const s = gossamer.charts().get('{chart}').plot.scales; return [s.x.min, s.x.max, s.y.min, s.y.max]"
    )


def drag(page, chart, start, end):
    """Drag over a share of the chart's width, and wait until it is zoomed."""
    from selenium.webdriver.common.action_chains import ActionChains

    over = page.execute_script(f"return gossamer.charts().get('{chart}').plot.over")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    width = over.size["width"]
    actions = ActionChains(page, duration=0)
    actions.move_to_element_with_offset(over, round((start - 0.5) * width), 0).click_and_hold()
    actions.move_to_element_with_offset(over, round((end - 0.5) * width), 0).release().perform()


def test_a_page_shows_the_records_numbers_and_loads_nothing(opened, record):
    page = opened()
    assert [float(row[1]) for row in values(page, "#table tbody tr")] == record.learners.accuracy.tolist()
    foot = values(page, "#table tfoot tr")
    assert float(foot[0][1]) == record.history.accuracy[-1]
    assert [float(row[1]) for row in foot[1:]] == [record.config["baselines"][k] for k in ("majority", "optimum")]
    budgets = values(page, ".budgets tbody tr")
    assert [float(row[1]) for row in budgets] == record.epsilon.spent.tolist()
    assert [float(row[3]) for row in budgets] == BUDGETS
    accuracy = legend(page, "accuracy")
    assert float(accuracy["mean over the learners"]) == pytest.approx(record.history.accuracy[-1], rel=1e-6)
    perron = page.execute_script("return [...document.querySelectorAll('.node')].map(n => +n.dataset.perron)")
    np.testing.assert_allclose(perron, gs.Network.ring(4).perron, atol=1e-6)
    links = page.execute_script(
        "return [...document.querySelectorAll('.link')].map(l => [+l.dataset.from, +l.dataset.to])"
    )
    assert sorted(map(tuple, links)) == sorted((j, i) for j, i, _ in gs.Network.ring(4).edges())
    assert page.execute_script("return document.querySelector('.link').getAttribute('marker-end')") == "url(#arrow)"
    assert page.execute_script("return document.querySelector('#command').textContent") == "gossamer run"
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert complaints(page) == []


def test_curves_can_be_read_zoomed_and_hidden(opened, record):
    page = opened()
    from selenium.webdriver.common.action_chains import ActionChains

    whole = shown(page, "accuracy")
    assert whole[:2] == [0, 60]
    drag(page, "accuracy", 0.5, 0.8)
    wait_for(page, "document.querySelector('[data-chart=accuracy]').dataset.zoomed === 'true'")
    low, high = shown(page, "accuracy")[:2]
    assert (low, high) == pytest.approx((30, 48), abs=3)
    over = page.execute_script("return gossamer.charts().get('accuracy').plot.over")
    ActionChains(page, duration=0).move_to_element(over).perform()
    idx = wait_for(page, "gossamer.charts().get('accuracy').plot.cursor.idx")
    assert record.history.t[idx] == pytest.approx(39, abs=3)
    there = float(legend(page, "accuracy")["mean over the learners"])
    assert there == pytest.approx(record.history.accuracy[idx], rel=1e-6), "hovering shows the values there"
    ActionChains(page, duration=0).move_to_element(over).double_click().perform()
    wait_for(page, "document.querySelector('[data-chart=accuracy]').dataset.zoomed === 'false'")
    assert shown(page, "accuracy") == whole
    name = "central fit without noise (θ*)"
    page.execute_script(f"document.querySelector('[data-series=\"{name}\"]').click()")
    wait_for(page, f"gossamer.charts().get('accuracy').plot.scales.y.max < {whole[3]}")
    assert (
        page.execute_script(f"return document.querySelector('[data-series=\"{name}\"]').getAttribute('aria-pressed')")
        == "false"
    )
    assert page.execute_script("return gossamer.charts().get('errors').plot.scales.y.distr") == 3, "errors in decades"
    page.execute_script("document.querySelector('[data-chart=errors] .log').click()")
    assert page.execute_script("return gossamer.charts().get('errors').plot.scales.y.distr") == 1
    page.execute_script("document.querySelectorAll('.node')[2].dispatchEvent(new PointerEvent('pointerenter'))")
    told = page.execute_script("return document.querySelector('.told').textContent")
    assert told.startswith("Learner 2: Perron weight 1.000, hears 1, sends to 1.")
    assert complaints(page) == []


def contrast(page, selector):
    """Of a text against what it stands on, as WCAG 2 defines it."""
    colours = page.execute_script(
        f"const e = document.querySelector('{selector}'); let under = e; "
        "while (getComputedStyle(under).backgroundColor === 'rgba(0, 0, 0, 0)') under = under.parentElement; "
        "return [getComputedStyle(e).color, getComputedStyle(under).backgroundColor]"
    )
    parts = [[int(number) / 255 for number in colour[4:-1].split(",")] for colour in colours]
    linear = [[c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in part] for part in parts]
    high, low = sorted((float(np.dot(part, [0.2126, 0.7152, 0.0722])) for part in linear), reverse=True)
    return (high + 0.05) / (low + 0.05)


TEXTS = ("h1", "#subtitle", "#claim .said", "#claim .meaning", "#warnings li", ".fact .beside", ".hint", "td", "footer")


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_light_or_dark_as_the_reader_has_it_and_all_text_can_be_read(opened, record, dark):
    page = opened(record.view(warnings=["one"]), dark=dark)
    paper = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") != dark
    assert min((contrast(page, one), one) for one in TEXTS) >= (4.5, "")
    page.execute_script("document.querySelector('#theme').click()")
    other = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (other == "rgb(255, 255, 255)") == dark
    assert min((contrast(page, one), one) for one in TEXTS) >= (4.5, "")


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_nothing_is_wider_than_a_phone(opened, record, width):
    long = "a-very-long-name-" * 8
    page = opened(record.view(title=long, warnings=[long], command=long, config=long), width=width, height=800)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    drawn = page.execute_script("return gossamer.charts().get('accuracy').plot.width")
    assert 240 <= drawn <= width


def test_a_hostile_name_is_text(opened, record):
    page = opened(record.view(title=HOSTILE, warnings=[HOSTILE]))
    assert page.execute_script("return document.querySelector('h1').textContent") == HOSTILE
    assert page.execute_script("return document.querySelectorAll('img').length") == 0
    assert page.title == HOSTILE
    assert complaints(page) == []


FRAMES = """
const done = arguments[arguments.length - 1], chart = gossamer.charts().get("accuracy"), frames = [];
let t = 61, last = null;
const name = chart.spec.series[0].name;
function more(count) {
  const ts = Array.from({length: count}, (_, k) => t + k);
  const series = {[name]: ts.map((x) => 0.5 + 0.4 * Math.sin(x / 9000))};
  gossamer.append({seq: t, charts: {accuracy: {t: ts, series}}});
  t += count;
}
more(POINTS - 40 * 25);
function frame(now) {
  if (last !== null) frames.push(now - last);
  last = now;
  if (frames.length < 25) more(40);
  else if (frames.length < 45) chart.plot.setScale("x", {min: 500 * frames.length, max: 60000 + 500 * frames.length});
  else return done([frames, chart.t.length, chart.columns[0].values.length, chart.zoomed]);
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);
"""


def test_a_hundred_thousand_points_grow_and_zoom_smoothly_and_nothing_is_told_twice(opened, record):
    page = opened()
    before = len(record.history)
    frames, points, numbers, zoomed = page.execute_async_script(FRAMES.replace("POINTS", str(POINTS)))
    assert points == numbers == before + POINTS
    assert zoomed
    assert np.median(frames) < FRAME, f"milliseconds a frame: {np.round(frames)}"
    page.execute_script("gossamer.append({seq: 5, charts: {accuracy: {t: [10 ** 9], series: {}}}})")
    assert page.execute_script("return gossamer.charts().get('accuracy').t.length") == points, "seq 5 was long ago"
    assert complaints(page) == []
