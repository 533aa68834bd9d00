"""Runs the tests of the files for deployment, and lets no skip pass for want of a tool: `make test-deploy`.

Python's tools are the extra `deploy`. Programs are the system's own: those that are missing are named beforehand, with
Debian's packages, and their tests may then be skipped. So may tests for what only a machine can give, such as a
container engine that answers.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

TESTS = ("relay", "monitoring_files", "deployment_files", "containerfile", "systemd_unit")
PROGRAMS = {  # and Debian's packages
    "haproxy": "haproxy",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "podman": "podman",
    "kubectl": "kubernetes-client",
    "systemd-analyze": "systemd",
    "strace": "strace",
}
INSTALLED = ("kubernetes-validate", "podman-compose", "PyYAML", "the extra `peers`")  # as reasons name them


class Skips:
    """A plugin of pytest's: why tests were skipped."""

    def __init__(self) -> None:
        self.reasons = dict[str, str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[report.nodeid] = report.longrepr[2]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):  # a whole file
            self.reasons[report.nodeid] = report.longrepr[2]


def names(reason: str, tool: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(tool)}(?![\w-])", reason) is not None


def wrongly_skipped(reasons: dict[str, str], missing: list[str]) -> dict[str, str]:
    """Skips that name what the extra installs, and no program that is missing."""
    return {
        test: reason
        for test, reason in reasons.items()
        if any(names(reason, tool) for tool in INSTALLED) and not any(names(reason, one) for one in missing)
    }


def main(options: list[str]) -> int:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        packages = " ".join(dict.fromkeys(PROGRAMS[program] for program in missing))
        print(f"Not here: {', '.join(missing)}. Their tests are skipped; on Debian: apt install {packages}", flush=True)
    skips = Skips()
    here = Path(__file__).parent
    code = int(pytest.main(["-rs", *options, *(str(here / f"test_{name}.py") for name in TESTS)], plugins=[skips]))
    wrong = wrongly_skipped(skips.reasons, missing)
    for test, reason in wrong.items():
        print(f"SKIPPED WITH ITS TOOL INSTALLED: {test}: {reason}", file=sys.stderr)
    return code or int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
