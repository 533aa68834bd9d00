"""Takes the pictures of pages that the documentation shows: `make screenshots`, or python docs/screenshots.py [NAME …].

Each picture is a function that opens a page in a headless Chromium of the system and leaves it as it is to be seen;
its file is docs/pictures/NAME.png. Runs are short and seeded, so that pictures change where pages do.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from browsing import missing, open_browser, open_page, take_picture, wait_for  # noqa: E402

MOST = 250_000  # bytes of a picture
CSV = ("age,dose,clinic,ill", ("North General", "South Clinic", "West", "Lakeside", "St. Mary"))


class Studio:
    """A browser and a folder of runs, which are made when a picture first asks for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.browser = open_browser(folder / "profile")
        self.after: Callable[[], None] = lambda: None  # what is left to do when a picture was taken
        self._going: list[subprocess.Popen[bytes]] = []

    def run(self, name: str, *words: str) -> str:
        """The address of the report of `gossamer run …`."""
        place = self.folder / name
        if not place.exists():
            command = [sys.executable, "-m", "gossamer", "run", *words, "--out", str(place)]
            subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return (place / "report.html").as_uri()

    def live(self, *words: str) -> str:
        """The address of the live page of a command, which goes on until the studio closes."""
        said = self.folder / f"said-{len(self._going)}"
        with said.open("w") as file:
            command = [sys.executable, "-m", "gossamer", *words]
            self._going.append(subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=file))
        while not (found := re.search(r"http://\S+", said.read_text())):
            if self._going[-1].poll() is not None:
                sys.exit(said.read_text())
            time.sleep(0.1)
        return found[0]

    def close(self) -> None:
        self.browser.quit()
        for process in self._going:
            process.send_signal(signal.SIGINT)
        for process in self._going:
            process.wait()

    def clinics(self) -> str:
        """A report on made-up visits to five clinics, each with a budget of its own."""
        import numpy as np

        rng = np.random.default_rng(0)
        head, names = CSV
        rows = [head]
        for k in range(3000):
            age, dose = int(rng.integers(20, 90)), rng.uniform(0, 5)
            ill = "yes" if age / 70 + dose / 5 + 0.1 * rng.normal() > 1.3 else "no"
            rows.append(f"{age},{dose:.3f},{names[k % 5]},{ill}")
        (self.folder / "visits.csv").write_text("\n".join(rows) + "\n")
        words = ("--csv", "visits.csv", "--target", "ill", "--split-by", "clinic", "--range", "age=20:90,dose=0:5")
        return self.run("clinics", *words, "--classes", "no,yes", "--epsilon", "1,1,2,4,4")


PICTURES: dict[str, Callable[[Studio], None]] = {}


def picture(shown: Callable[[Studio], None]) -> Callable[[Studio], None]:
    PICTURES[shown.__name__.replace("_", "-")] = shown
    return shown


@picture
def report_light(studio: Studio) -> None:
    open_page(studio.browser, studio.clinics(), width=1100, height=1560)


@picture
def report_dark(studio: Studio) -> None:
    open_page(studio.browser, studio.clinics(), width=1100, height=1560, dark=True)


@picture
def report_phone(studio: Studio) -> None:
    open_page(studio.browser, studio.clinics(), width=390, height=1500)


@picture
def report_warning(studio: Studio) -> None:
    address = studio.run("noisy", "mushrooms", "--epsilon", "0.05")
    open_page(studio.browser, address, width=1100, height=760)


@picture
def live_run(studio: Studio) -> None:
    address = studio.live("run", "mushrooms", "--epsilon", "1,2,3,4,5,1,2,3,4,5", "--steps", "12000", "--live")
    open_page(studio.browser, address, width=1100, height=1300)
    wait_for(studio.browser, "gossamerLive.live.t > 10000 && gossamerLive.messages > 12", 600)


@picture
def live_peers(studio: Studio) -> None:
    """Six learners, of whom one does not answer: whoever hears it waits."""
    words = ("--learners", "6", "--per-round", "1", "--port", "17400", "--durability", "process")
    init = [sys.executable, "-m", "gossamer", "peers", "init", "fleet", *words]
    subprocess.run(init, check=True, cwd=studio.folder, stdout=subprocess.DEVNULL)
    open_page(studio.browser, studio.live("peers", "up", "fleet", "--live"), width=1100, height=1240)
    wait_for(studio.browser, "gossamerLive.live.t > 0.8 * gossamerLive.live.steps", 600)
    stopped = json.loads((studio.folder / "fleet/learner-3/status.json").read_text())["pid"]
    os.kill(stopped, signal.SIGSTOP)
    wait_for(studio.browser, "document.querySelectorAll('#live li[data-state=waiting]').length === 5", 600)
    wait_for(studio.browser, "document.querySelector('#live li[data-learner=\"3\"]').dataset.state === 'late'", 600)
    studio.after = lambda: os.kill(stopped, signal.SIGCONT)


def main(names: list[str]) -> None:
    if missing():
        sys.exit(f"no screenshots: {missing()}.")
    (HERE / "pictures").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        studio = Studio(Path(folder))
        try:
            for name in names or list(PICTURES):
                _take(studio, name)
        finally:
            studio.close()


def _take(studio: Studio, name: str) -> None:
    studio.after = lambda: None
    PICTURES[name](studio)
    path = HERE / "pictures" / f"{name}.png"
    take_picture(studio.browser, path, whole=False)
    studio.after()
    size: Any = path.stat().st_size
    print(f"{path.relative_to(HERE.parent)}: {size / 1000:.0f} kB")
    if size > MOST:
        sys.exit(f"{path} is larger than {MOST / 1000:.0f} kB: show less of the page.")


if __name__ == "__main__":
    main(sys.argv[1:])
