"""TensorBoard's event files, written by tensorboardX: small, and without TensorFlow.

Its SummaryWriter hands events to a thread, and waits for it for ever once the thread has ended, as on a full disk. So
the events are written here and now, by the class that its thread uses: a failure is an error where it happens.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gossamer.loggers.base import Numbers, by_tag, learners_in, needs
from gossamer.run_record import Record, plain


class TensorBoard:
    """A curve for every number, the configuration as text: `tensorboard --logdir FOLDER` (extra `tensorboard`)."""

    def __init__(self, folder: str | Path) -> None:
        needs("tensorboardX", "gossamer-learning[tensorboard]")
        self.folder = Path(folder)
        self._learners: Sequence[str] = ()
        self._file: Any = None

    def start(self, config: Mapping[str, Any]) -> None:
        writer = importlib.import_module("tensorboardX.event_file_writer")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._learners, first = learners_in(config), config["from"]
        own = f".{os.getpid()}.{first}"  # two files of one second are two files
        self._file = writer.EventsWriter(str(self.folder / "events"), own)
        if first:  # a viewer forgets what another file says of later rounds
            events = importlib.import_module("tensorboardX.proto.event_pb2")
            again = events.SessionLog(status=events.SessionLog.START)
            self._write(first + 1, session_log=again)
        text = json.dumps(plain(config), indent=1, ensure_ascii=False)
        summary = importlib.import_module("tensorboardX.summary")
        self._write(first, summary=summary.text("config", "\n".join(f"    {line}" for line in text.splitlines())))

    def log(self, t: int, numbers: Numbers) -> None:
        summaries = importlib.import_module("tensorboardX.proto.summary_pb2")
        tagged = by_tag(numbers, self._learners).items()
        values = [summaries.Summary.Value(tag=tag, simple_value=value) for tag, value in tagged]
        self._write(t, summary=summaries.Summary(value=values))

    def end(self, outcome: Record | BaseException) -> None:
        self._file.close()

    def _write(self, t: int, **what: Any) -> None:
        events = importlib.import_module("tensorboardX.proto.event_pb2")
        self._file.write_event(events.Event(wall_time=time.time(), step=t, **what))
        self._file.flush()
