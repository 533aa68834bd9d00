"""Starts learners' processes for tests: one process that has loaded everything, and forks itself for each learner.

Commands are lines of JSON on standard input, answers lines of JSON on standard output:
{"start": FOLDER, "fault": [MOMENT, COUNT] | null, "tap": FILE | null, "known": BOOL, "files": MOST | null}
  -> {"pid": …}
{"poll": PID} -> {"code": … | null}

When nobody gives commands any more, whatever happened to the tests, all learners are killed.

A fault ends the process by SIGKILL at the COUNTth time that it comes to MOMENT. A tap gets, before it is sent, a line
for every part of a vector: learner, round, channel, part, digest. A learner whose own noise is "known" draws it as
known_noise.py says. No more than MOST "files" may be open in it, connections included.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys

import numpy as np
import scipy.optimize
import scipy.sparse.csgraph  # noqa: F401, with what follows: loaded once, before it is needed

from gossamer.errors import GossamerError
from gossamer.models import kernels  # noqa: F401
from gossamer.peers import compiled  # noqa: F401
from gossamer.peers.config import read_config
from gossamer.peers.links import Links
from gossamer.peers.passing import CODE, passing_state
from gossamer.peers.process import run_learner
from gossamer.peers.wire import Part, split_frames, unpack
from gossamer.privacy import exact_gaussian, exact_laplace, table
from known_noise import know_own_noise


def warm():
    table.own_gaussian(np.zeros(3, dtype=np.int64), 1 << 41)
    for draw in (exact_laplace, exact_gaussian):
        draw(np.zeros((1, 3)), np.ones((1, 1)))


def fault_at(moment, count):
    left = [count]

    def hook(now):
        if now == moment:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


def tap(learner, path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    send = Links.send

    def tapped(self, to, data):
        for frame in map(unpack, split_frames(data)):
            if isinstance(frame.header, Part):
                part = frame.header
                digest = hashlib.sha256(frame.payload).hexdigest()
                os.write(file, f"{learner} {part.round} {part.channel} {part.part} {digest}\n".encode())
        send(self, to, data)

    Links.send = tapped


def child(folder, fault, tapped, known, files):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    errors = os.open(os.path.join(folder, "stderr.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    if files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files // 2, files))  # what is allowed it may use
    try:
        plan = read_config(folder)
        if tapped:
            tap(plan.learner, tapped)
        if known:
            know_own_noise([plan.learner], setattr)
        return run_learner(plan, fault_at(*fault) if fault else None)
    except GossamerError as error:
        print(f"gossamer: {error}", file=sys.stderr, flush=True)
        return 2 if passing_state(error) is None else CODE  # as `gossamer peer run` does


def main():
    warm()
    print(json.dumps({"ready": True}), flush=True)
    running = set()
    try:
        serve(running)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)


def serve(running):
    """Carry out commands; `running` are the learners that have not been waited for."""
    for line in sys.stdin:
        command = json.loads(line)
        if "start" in command:
            pid = os.fork()
            if not pid:
                code = 70
                try:
                    asked = (command.get(name) for name in ("fault", "tap", "known", "files"))
                    code = child(command["start"], *asked)
                finally:
                    sys.stderr.flush()
                    os._exit(code)
            running.add(pid)
            answer = {"pid": pid}
        else:
            done, status = os.waitpid(command["poll"], os.WNOHANG)
            running.discard(done)
            answer = {"code": os.waitstatus_to_exitcode(status) if done else None}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
