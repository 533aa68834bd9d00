"""What a live page costs a run: the same rounds with a page that follows them and without, in turn, as ratios.

A page is open all the while: another process reads the stream of events, as a browser does. Rounds are those of the
mushrooms with the paper's settings. The cost is that of the rounds; that the page is loaded and the server started,
once, is told apart. On a machine that others use the ratios swing; the time of the page's own thread does not, and it
is what a run that has a core for itself gives away.

    python benchmarks/live.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import gossamer as gs
from gossamer.report.feed import Feed
from gossamer.report.html import page
from gossamer.report.live import starting_view
from gossamer.report.server import Address, Server
from gossamer.simulate.engine import Progress
from gossamer.simulate.following import Follower

ROUNDS, PAIRS = 4000, 5
READ = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1] + "events") as stream:
    events = sum(line.startswith(b"id: ") for line in stream)
print(events)
"""


class Stopwatch:
    """Seconds of the wall and of the processor from the second round to the last: the first one sets things up."""

    def __init__(self, callback: Callable[[Progress], object]) -> None:
        self._callback, self.first, self.beside = callback, 0.0, 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.t == 1:
            before = time.perf_counter()
            self._callback(progress)
            self.first = time.perf_counter() - before
            self._wall, self._cpu = time.perf_counter(), time.process_time()
            return
        self._callback(progress)
        if progress.t == progress.steps:
            self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu


def run(callback: Callable[[Progress], object]) -> Stopwatch:
    watch = Stopwatch(callback)
    algorithm: Any = gs.ldp_gradient_tracking(step=gs.decay(1.0, 0.8), noise=gs.decay(0.2, 0.6))
    gs.simulate(
        algorithm, gs.Network.paper(), gs.datasets.mushrooms(learners=10, seed=1),
        model=gs.LogisticRegression(l2=1e-2), steps=ROUNDS, callback=watch,
    )  # fmt: skip
    return watch


def run_with_page() -> tuple[Stopwatch, float, int]:
    """The run, how long the server took to start, and how many events its reader got."""
    follower, before = Follower(), time.perf_counter()
    view: dict[str, Any] = dict(starting_view("run", "benchmark", ""))
    server = Server(Feed(view), follower.take, lambda shown: page(shown, live=True), Address())
    url = server.start()
    started = time.perf_counter() - before
    reader = subprocess.Popen([sys.executable, "-c", READ, url], stdout=subprocess.PIPE, text=True)
    while not server.streams:
        time.sleep(0.01)
    thread = next(one for one in threading.enumerate() if one.name == "live page" and one.is_alive())
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    before = time.clock_gettime(clock)
    watch = run(follower)
    watch.beside = time.clock_gettime(clock) - before
    server.close({"ended": True})
    return watch, started, int(reader.communicate()[0])


def main() -> None:
    run(lambda _: None)  # compiles
    wall, cpu, beside, firsts, starts, counts = [], [], [], [], [], []
    for _ in range(PAIRS):
        without = run(lambda _: None)
        with_page, started, events = run_with_page()
        wall.append(with_page.wall / without.wall)
        cpu.append(with_page.cpu / without.cpu)
        beside.append(with_page.beside / with_page.wall)
        firsts.append(with_page.first)
        starts.append(started)
        counts.append(events / (with_page.wall + with_page.first))
    print(f"{ROUNDS} rounds with a live page that is open, against the same rounds without; median of {PAIRS} pairs")
    print(f"  time of the rounds      × {statistics.median(wall):.3f}   ({min(wall):.3f} to {max(wall):.3f})")
    print(f"  processor, all threads  × {statistics.median(cpu):.3f}   ({min(cpu):.3f} to {max(cpu):.3f})")
    print(f"  the page's own thread     {100 * statistics.median(beside):.2f} % of a core")
    print(f"  once, in the first round  {1e3 * statistics.median(firsts):.0f} ms; server {1e3 * starts[-1]:.0f} ms")
    print(f"  events a second           {statistics.median(counts):.1f}")


if __name__ == "__main__":
    main()
