"""Takes the pictures of pages that the documentation shows: `make screenshots`, or python docs/screenshots.py [NAME …].

Each picture is a function that opens a page in a headless Chromium of the system and leaves it as it is to be seen;
its file is docs/pictures/NAME.png. Runs are short and seeded, so that pictures change where pages do.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from browsing import missing, open_browser, open_page, take_picture  # noqa: E402

MOST = 250_000  # bytes of a picture
CSV = ("age,dose,clinic,ill", ("North General", "South Clinic", "West", "Lakeside", "St. Mary"))


class Studio:
    """A browser and a folder of runs, which are made when a picture first asks for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.browser = open_browser(folder / "profile")

    def run(self, name: str, *words: str) -> str:
        """The address of the report of `gossamer run …`."""
        place = self.folder / name
        if not place.exists():
            command = [sys.executable, "-m", "gossamer", "run", *words, "--out", str(place)]
            subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return (place / "report.html").as_uri()

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
            studio.browser.quit()


def _take(studio: Studio, name: str) -> None:
    PICTURES[name](studio)
    path = HERE / "pictures" / f"{name}.png"
    take_picture(studio.browser, path, whole=False)
    size: Any = path.stat().st_size
    print(f"{path.relative_to(HERE.parent)}: {size / 1000:.0f} kB")
    if size > MOST:
        sys.exit(f"{path} is larger than {MOST / 1000:.0f} kB: show less of the page.")


if __name__ == "__main__":
    main(sys.argv[1:])
