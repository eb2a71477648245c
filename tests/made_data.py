"""Tiny images and texts in the formats of the real ones."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import polars as pl


def idx_bytes(values: np.ndarray) -> bytes:
    """An IDX file of unsigned bytes."""
    sizes = struct.pack(f">{values.ndim}I", *values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


def make_images(folder: Path, train: int = 240, test: int = 60, size: int = 12) -> Path:
    """A folder in which the class of an image is the third that is bright."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, count in (("train", train), ("t10k", test)):
        labels = np.arange(count) % 3
        images = generator.integers(0, 60, (count, size, size))
        third = size // 3
        for row, label in enumerate(labels):
            images[row, label * third : (label + 1) * third] += 120
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(idx_bytes(images), mtime=0)
        )
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    return folder


def make_text(file: Path, sentences: int = 1500) -> Path:
    """A text of three words in random order."""
    generator = np.random.default_rng(0)
    words = np.array(["anna ", "bob ", "carla "])
    file.write_text("".join(words[generator.integers(0, 3, 4 * sentences)]))
    return file


def write_token_project(folder: Path, contract: str, sentences: int) -> Path:
    """`text.txt` and a contract beside it; the contract's path."""
    make_text(folder / "text.txt", sentences)
    path = folder / "contract.yaml"
    path.write_text(contract)
    return path


def saved_dataset(folder: Path, frame: pl.DataFrame, shards: int = 2, **info: object) -> None:
    """`frame` as `datasets` writes it with `save_to_disk`: Arrow streams and two notes of JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{at:05d}-of-{shards:05d}.arrow" for at in range(shards)]
    rows = -(-frame.height // shards)
    for at, name in enumerate(names):
        frame[at * rows : (at + 1) * rows].write_ipc_stream(folder / name)
    state = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": "0123456789abcdef",
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}, **info}))
