"""Generated data of a given size: the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

SIDE = 96
_NUMBERS, _CODES, _WORDS = 16, 3, 3
_CHUNK = 1_000_000
_CLASSES = 4


def make_table(rows: int, file: Path) -> None:
    """A CSV of so many rows of 23 columns: numbers, codes and words, and a target of two classes
    that depends on some of them."""
    with file.open("wb") as stream:
        for start in range(0, rows, _CHUNK):
            frame = _rows(min(_CHUNK, rows - start), start)
            frame.write_csv(stream, include_header=not start)


def _rows(rows: int, seed: int) -> pl.DataFrame:
    draw = np.random.default_rng([seed, 1])
    words = np.array([f"v{number}" for number in range(12)])
    columns: dict[str, np.ndarray] = {
        f"n{number:02}": draw.normal(size=rows).round(3) for number in range(_NUMBERS)
    }
    columns |= {f"k{number}": draw.integers(0, 40, rows) for number in range(_CODES)}
    columns |= {f"c{number}": words[draw.integers(0, 12, rows)] for number in range(_WORDS)}
    score = columns["n00"] + columns["n01"] * columns["n02"] + (columns["c0"] == "v3")
    noisy = score + 0.5 * (columns["k0"] > 20) + draw.logistic(size=rows)
    return pl.DataFrame({**columns, "y": np.where(noisy > 0.5, "yes", "no")})


def make_text(size: int, file: Path) -> None:
    """A text of about so many bytes: paragraphs of words that are as frequent as Zipf has them."""
    draw = np.random.default_rng(2)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    lengths = draw.integers(2, 10, 30_000)
    words = np.array(["".join(draw.choice(letters, length)) for length in lengths])
    written = 0
    with file.open("w", encoding="utf-8") as stream:
        while written < size:
            places = np.minimum(draw.zipf(1.3, 120), len(words)) - 1
            written += stream.write(" ".join(words[places].tolist()) + ".\n\n")


def make_images(count: int, folder: Path) -> None:
    """So many JPEG files of 96 x 96 in four folders of classes, which differ in where they are
    bright."""
    draw = np.random.default_rng(3)
    for code in range(_CLASSES):
        (folder / f"class{code}").mkdir(parents=True)
    for number in range(count):
        code = number % _CLASSES
        grid = draw.integers(0, 166, (12, 12, 3))
        grid[3 * code : 3 * code + 3] += 90
        image = Image.fromarray(grid.astype(np.uint8)).resize((SIDE, SIDE))
        image.save(folder / f"class{code}" / f"{number:06}.jpg", quality=85)
