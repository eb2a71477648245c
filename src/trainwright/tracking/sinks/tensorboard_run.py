"""A training as event files of TensorBoard."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, final

from trainwright.core.files import hash_value
from trainwright.tracking.sinks import Say
from trainwright.tracking.sinks.cursor import Cursor
from trainwright.tracking.sinks.spool import Point
from trainwright.tracking.sinks.training_facts import TrackedTraining

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

_DECADES = "gradient_sizes/"
_ZERO = "zero"
_SHARES = 1_000_000
"""Counts of a histogram of shares, of which the file keeps six digits."""

_TEXTS = ("contract.yaml", "requirements.txt", "log.txt")


@final
class TensorboardRun:
    """Appends to one event file of the training.

    After each group of points the cursor notes the file's size, and what follows it when the
    file is opened again is cut. Steps that are repeated after a rollback begin with a session
    start, at which TensorBoard discards the steps from there on.
    """

    def __init__(self, training: TrackedTraining, cursor: Cursor, parent: str, say: Say) -> None:
        self._training = training
        chosen = str(training.settings["tensorboard_folder"])
        inside = training.run.path / "tensorboard" / training.part
        folder = Path(cursor.run) if chosen else inside
        if cursor.address != chosen or not all((folder / name).is_file() for name in cursor.files):
            folder = _free_folder(training, Path(parent), say) if chosen else inside
            cursor.restart(chosen, str(folder))
        if not cursor.files:
            name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
            cursor.files = {name: 0}
        (name,) = cursor.files
        self._path = folder / name
        if not cursor.files[name]:
            from tensorboard.compat.proto.event_pb2 import Event

            self._append([Event(wall_time=time.time(), file_version="brain.Event:2")], cursor)

    def send(self, points: Sequence[Point], cursor: Cursor) -> None:
        """Scalars, one event for the numbers of a step; sizes of gradients as a histogram."""
        self._append(list(_events(points)), cursor)

    def rewind(self, cursor: Cursor) -> None:
        """Let TensorBoard discard the steps that are repeated."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        started = SessionLog(status=SessionLog.START)
        event = Event(wall_time=time.time(), step=cursor.last + 1, session_log=started)
        self._append([event], cursor)

    def finish(self, cursor: Cursor) -> None:
        """Results as scalars, the contract as hyperparameters, and texts; once for each ending."""
        training = self._training
        texts = {name: (training.folder.path / name) for name in _TEXTS}
        shown = {name: path.read_text() for name, path in texts.items() if path.is_file()}
        shown["tags"] = "\n".join(
            f"{k}: {v}" for k, v in {**training.tags(), **cursor.tags}.items()
        )
        digest = hash_value([training.ended(), {k: v for k, v in shown.items() if k != "log.txt"}])
        if cursor.sent.get("ending") == digest:
            return
        # A trial that is judged ends twice, and TensorBoard drops no second copy of a point.
        results = list(training.results(max(cursor.last, cursor.curve, 0)))
        sent = {point.name: hash_value([point.value, point.step]) for point in results}
        new = [point for point in results if cursor.sent.get(point.name) != sent[point.name]]
        events = list(_events(new))
        events += [_summary_event(_text(name, text)) for name, text in shown.items()]
        if "hparams" not in cursor.sent:
            from tensorboard.plugins.hparams.summary_v2 import hparams_pb

            parameters = hparams_pb(training.parameters(), trial_id=training.name)
            events.append(_summary_event(parameters))
            sent["hparams"] = training.identity
        self._append(events, cursor)
        cursor.sent.update(sent, ending=digest)

    def _append(self, events: Sequence[Event], cursor: Cursor) -> None:
        """Write events at the size that the cursor knows, and note the new one."""
        from tensorboard.summary.writer.record_writer import RecordWriter

        with self._path.open("r+b") as stream:
            stream.truncate(cursor.files[self._path.name])
            stream.seek(0, os.SEEK_END)
            writer = RecordWriter(stream)
            for event in events:
                writer.write(event.SerializeToString())
            stream.flush()
            os.fsync(stream.fileno())
            cursor.files[self._path.name] = stream.tell()


def _free_folder(training: TrackedTraining, parent: Path, say: Say) -> Path:
    """Folder of the training among those of other runs: that of the run's name if it is free."""
    if training.part:
        return Path(str(parent).removesuffix(training.outer)) / training.part
    shared = training.contract_folder / str(training.settings["tensorboard_folder"])
    folder = shared / parent / training.run.name
    if not folder.exists():
        return folder
    other = folder.with_name(f"{folder.name}-{training.identity[:8]}")
    say("warning", f"TensorBoard has a run in {folder} already: this one is in {other.name}")
    return other


def _events(points: Sequence[Point]) -> Iterator[Event]:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    for (step, moment), group in groupby(points, key=lambda p: (p.step, p.milliseconds)):
        values, decades = [], {}
        for point in group:
            if point.name.startswith(_DECADES):
                decades[point.name.removeprefix(_DECADES)] = point.value
            else:
                values.append(Summary.Value(tag=point.name, simple_value=point.value))
        if decades:
            tag = _DECADES.rstrip("/")
            values.append(Summary.Value(tag=tag, histo=_histogram(decades)))
        yield Event(wall_time=moment / 1000, step=step, summary=Summary(value=values))


def _histogram(shares: dict[str, float]) -> HistogramProto:
    """Shares of the sizes of numbers by decade: -5 is 0.00001 to 0.0001. On the axis is the
    decade, as sizes over ten decades would be one bar; zeros are below the least one."""
    from tensorboard.compat.proto.summary_pb2 import HistogramProto

    by_decade = {int(name): share for name, share in shares.items() if name != _ZERO}
    least = min(by_decade, default=0) - 1
    by_decade[least] = shares.get(_ZERO, 0.0)
    counts = {decade: share * _SHARES for decade, share in sorted(by_decade.items())}
    return HistogramProto(
        min=least,
        max=max(counts) + 1,
        num=sum(counts.values()),
        sum=sum(decade * count for decade, count in counts.items()),
        sum_squares=sum(decade * decade * count for decade, count in counts.items()),
        bucket_limit=[decade + 1 for decade in counts],
        bucket=list(counts.values()),
    )


def _summary_event(summary: Summary) -> Event:
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(wall_time=time.time(), summary=summary)


def _text(name: str, text: str) -> Summary:
    """A text, unformatted."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    lines = "\n".join(f"    {line}" for line in text.splitlines())
    plugin = SummaryMetadata.PluginData(plugin_name="text")
    tensor = TensorProto(dtype=DT_STRING, string_val=[lines.encode()])
    value = Summary.Value(tag=name, metadata=SummaryMetadata(plugin_data=plugin), tensor=tensor)
    return Summary(value=[value])
