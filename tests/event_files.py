"""What TensorBoard's reader and W&B's records say of files that a sink wrote."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2

_BLOCK = 32 * 1024
_HEADER = struct.Struct("<IHB")
_FULL, _LAST = 1, 4


def read_events_of(folder: Path) -> EventAccumulator:
    """TensorBoard's reader, with every event."""
    reader = EventAccumulator(str(folder), {"scalars": 0, "histograms": 0, "tensors": 0})
    reader.Reload()
    return reader


def read_scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read_events_of(folder).Scalars(tag)]


def read_offline_run(folder: Path) -> Iterator[Any]:
    """The records of the one offline run below a folder: W&B's messages, in the log format of
    LevelDB, whose reader W&B has in Go alone."""
    (path,) = folder.glob("offline-run-*/*.wandb")
    data = path.read_bytes()
    assert data[:4] == b":W&B"
    position, parts = 7, b""
    while position + _HEADER.size <= len(data):
        if _BLOCK - position % _BLOCK < _HEADER.size:
            position += _BLOCK - position % _BLOCK
            continue
        _, length, kind = _HEADER.unpack_from(data, position)
        position += _HEADER.size
        parts += data[position : position + length]
        position += length
        if kind in (_FULL, _LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The rows of the history of an offline run, by name."""
    return [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in row}
        for row in (
            record.history.item
            for record in read_offline_run(folder)
            if record.WhichOneof("record_type") == "history"
        )
    ]
