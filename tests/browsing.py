"""A headless Chromium for tests and for the screenshots of the documentation."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

WAIT = 60.0  # seconds: a machine may be busy
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip


def missing() -> str:
    """What is not installed here; "" where a browser can be opened."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    absent += [] if find_spec("selenium") else ["selenium"]
    return f"{' and '.join(absent)} not installed: apt install chromium chromium-driver, pip install selenium" * bool(
        absent
    )


def open_browser(profile: Path, width: int = 1200, height: int = 900) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_page_load_timeout(WAIT)
    driver.set_script_timeout(WAIT)
    return driver


def open_page(
    driver: Any, url: str, width: int = 1200, height: int = 900, dark: bool = False, scale: float = 1
) -> None:
    """Load a page in a window of this size, and wait until it is drawn."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    if not driver.current_url.startswith(url.split("?")[0].split("#")[0]):
        driver.get("about:blank")  # what the page before it still asked of a server that has ended is none of its own
        driver.get_log("browser")
    driver.get(url)
    wait_for(driver, "document.documentElement.dataset.ready === 'true'")


def wait_for(driver: Any, condition: str, seconds: float = WAIT) -> Any:
    """Wait until a JavaScript expression is true; its value."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, seconds, poll_frequency=0.02).until(
        lambda page: page.execute_script(f"return {condition}"), f"never true: {condition}"
    )


def complaints(driver: Any) -> list[str]:
    """Errors that the page wrote to the console since it was asked last."""
    return [json.dumps(entry) for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def take_picture(driver: Any, path: Path, whole: bool = True) -> None:
    """The whole page, or what the window shows of it, as a PNG."""
    import base64

    told = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
    path.write_bytes(base64.b64decode(told["data"]))
