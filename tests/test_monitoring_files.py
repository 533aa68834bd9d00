"""The files for Prometheus and Grafana: they ask for what /metrics has, and alerts come when they are meant to."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="needs the extra `peers`")
pytest.importorskip("grpc", reason="needs the extra `peers`")

import gossamer as gs
import gossamer.peers
from gossamer.peers.config import PrivacyPlan
from test_operations import edit, wait_until
from test_processes import LIMIT, free_ports, make

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
RULES = (EXAMPLES / "alerts.yml").read_text()
DASHBOARD = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
NAME = re.compile(r"\bgossamer_\w+")
METRICS = (Path(gossamer.peers.__file__).parent / "metrics.py").read_text()
WRITTEN = set(re.findall(r'"(gossamer_\w+)"', METRICS))


def queries():
    """Every query of the dashboard, as Grafana asks it."""
    return [target["expr"].replace("$run", ".*") for panel in DASHBOARD["panels"] for target in panel["targets"]]


def promtool(*words):
    """What promtool says of files, and whether it is content with them."""
    if shutil.which("promtool") is None:
        pytest.skip("ALERTS WERE NOT TRIED: promtool is not installed; Debian has it in the package prometheus")
    asked = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, timeout=120)
    return asked.returncode == 0, asked.stdout + asked.stderr


def test_whatever_is_asked_for_is_written():
    expressions = "\n".join(line for line in RULES.splitlines() if not line.strip().startswith("#"))
    assert len(WRITTEN) > 15
    assert set(NAME.findall(expressions)) <= WRITTEN
    asked = set(NAME.findall("\n".join(queries())))
    assert asked <= WRITTEN
    assert len(asked) > 12


def test_every_metric_that_is_written_is_in_the_manual():
    manual = (ROOT / "docs" / "peers.md").read_text()
    assert [name for name in sorted(WRITTEN) if f"`{name}" not in manual] == []


def test_the_dashboards_panels_have_a_place_each():
    panels = DASHBOARD["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    cells = [
        (x, y)
        for panel in panels
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells)), "two panels overlap"
    assert max(x for x, _ in cells) < 24
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__all"} == variables == {"datasource", "run"}


def test_rules_and_configuration_are_prometheus_own():
    good, said = promtool("check", "rules", EXAMPLES / "alerts.yml")
    assert good, said
    good, said = promtool("check", "config", EXAMPLES / "prometheus.yml")
    assert good, said


def test_the_dashboards_queries_are_promql(tmp_path):
    rules = "".join(f"      - record: q{k}\n        expr: {json.dumps(one)}\n" for k, one in enumerate(queries()))
    (tmp_path / "queries.yml").write_text("groups:\n  - name: dashboard\n    rules:\n" + rules)
    good, said = promtool("check", "rules", tmp_path / "queries.yml")
    assert good, said
    assert f"{len(queries())} rules found" in said


def test_alerts_come_when_they_are_meant_to_and_not_otherwise(tmp_path):
    good, said = promtool("test", "rules", ROOT / "tests" / "alerts.yml")
    assert good, said
    cases = (ROOT / "tests" / "alerts.yml").read_text().replace("../docs/examples/", "")
    (tmp_path / "cases.yml").write_text(cases)
    for old, new in (
        ("unless on (instance)\n", "unless on (job)\n"),
        ("unless on (run, learner)\n", "unless on (run)\n"),
        ("group_left (run) gossamer_info", "group_left () gossamer_info"),
        ("gossamer_waiting_seconds > 900", "gossamer_waiting_seconds > 9000"),
        ("0.9 * gossamer", "0.8 * gossamer"),
        ("days_left < 14", "days_left < 13"),
        ("gossamer_held == 1", "gossamer_held == 2"),
        ("[15m])) > 10", "[15m])) > 1000"),
        ("[1h]) > 3", "[1h]) > 0"),
        ("< 200e6", "< 20e6"),
        ("(gossamer_info) > 1", "(gossamer_info) > 0"),
    ):
        assert old in RULES
        (tmp_path / "alerts.yml").write_text(RULES.replace(old, new))
        good, said = promtool("test", "rules", tmp_path / "cases.yml")
        assert not good, f"no case tells {new!r} from {old!r}"


QUIET = ("gossamer_waits_for", "gossamer_refused_total", "gossamer_held")  # of learners that are well there may be none


def test_a_real_prometheus_has_numbers_of_real_learners_for_every_panel(tmp_path, fleet_of):
    """Two learners, docs/examples/prometheus.yml with their addresses, and what the dashboard asks for."""
    if shutil.which("prometheus") is None:
        pytest.skip("THE DASHBOARD'S QUERIES WERE NOT ASKED: prometheus is not installed")
    port, config = free_ports(3), (EXAMPLES / "prometheus.yml").read_text()
    make(tmp_path / "run", 40000, gs.Network.exponential(2), PrivacyPlan(epsilon=20.0), m=2)
    for i in range(2):
        edit(tmp_path / f"run/learner-{i}", "[party]\n", f'[party]\nmetrics = "127.0.0.1:{port + i}"\n')
    for old, new in (
        ('["127.0.0.1:9400"]', f'["127.0.0.1:{port}", "127.0.0.1:{port + 1}"]'),
        ("scrape_interval: 15s", "scrape_interval: 1s"),
        ("scrape_timeout: 10s", "scrape_timeout: 1s"),
    ):
        assert old in config
        config = config.replace(old, new)
    (tmp_path / "prometheus.yml").write_text("global: {evaluation_interval: 1s}\n" + config)
    shutil.copy(EXAMPLES / "alerts.yml", tmp_path)

    def ask(path, **given):
        address = f"http://127.0.0.1:{port + 2}/api/v1/{path}?{urllib.parse.urlencode(given)}"
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            error.close()
            return None
        except OSError:
            return None  # it has not started yet

    fleet = fleet_of(tmp_path / "run", m=2)
    fleet.start()
    with (tmp_path / "prometheus.log").open("wb") as log:
        words = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
        started = subprocess.Popen(
            ["prometheus", *words, f"--web.listen-address=127.0.0.1:{port + 2}"], stdout=log, stderr=log
        )
    try:
        left = [one for one in queries() if not any(name in one for name in QUIET)]
        assert len(left) > 20

        def answered():
            assert started.poll() is None, (tmp_path / "prometheus.log").read_text()[-2000:]
            left[:] = [one for one in left if not (ask("query", query=one) or {}).get("result")]
            time.sleep(0.2)
            return not left

        wait_until(answered)
        runs = ask("series", **{"match[]": "gossamer_info"})
        assert {one["learner"] for one in runs} == {"0", "1"}
        assert len({one["run"] for one in runs}) == 1

        def evaluated():
            rules = [rule for group in (ask("rules") or {}).get("groups", []) for rule in group["rules"]]
            return len(rules) == RULES.count("- alert:") and all(rule["health"] == "ok" for rule in rules) and rules

        wait_until(evaluated)
        assert [rule["name"] for rule in evaluated() if rule["state"] == "firing"] == []
    finally:
        started.terminate()
        started.wait(LIMIT)
