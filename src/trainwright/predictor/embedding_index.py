"""Embeddings of many rows in a folder, exact search, best matches.

index.json       format, hash of the bundle, side, and size and SHA-256 of the others
embeddings.npy   float32 [N, D], rows of length 1
rows.parquet     `name` of each row, and the columns that were kept
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import read_json, storage_errors, sync_folder, write_json
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.pair_inputs import Side
from trainwright.data.formats.parquet_sizes import read_parquet
from trainwright.predictor.bundle_files import (
    changes_of_files,
    describe_file,
    names_of_files,
    sync_file,
)

_BLOCK = 2**22
FORMAT = 1
_ABOUT, _EMBEDDINGS, _ROWS = "index.json", "embeddings.npy", "rows.parquet"
_BUILD = "build it again: trainwright index RUN DATA"


def best_matches(queries: Floats, candidates: Floats, names: pl.Series, top: int) -> pl.DataFrame:
    """The first `top` candidates of each query: `match_1`, `probability_1`, `cosine_1` and so on.

    Embeddings [N, D] and [M, D] are as a network gives them: the product of two is their logit, so
    that a softmax over all candidates gives the probability of each, were one of them right: with
    texts of classes for candidates that is a zero-shot classification (Radford et al. 2021,
    arXiv:2103.00020, section 3.1.2). Equal scores are in the order of the candidates.
    """
    shown = min(top, len(candidates))
    lengths = np.linalg.norm(candidates, axis=1)
    found: list[list[np.ndarray]] = [[], [], []]
    rows = max(1, _BLOCK // max(1, len(candidates)))
    for start in range(0, len(queries), rows):
        block = queries[start : start + rows]
        logits = block @ candidates.T
        places = np.argsort(-logits, axis=1, kind="stable")[:, :shown]
        most = logits.max(axis=1, keepdims=True)
        total = np.exp(logits - most).sum(axis=1, keepdims=True)
        best = np.take_along_axis(logits, places, axis=1)
        sizes = np.linalg.norm(block, axis=1)[:, None] * lengths[places]
        for kept, one in zip(
            found, (places, np.exp(best - most) / total, best / sizes), strict=True
        ):
            kept.append(one)
    places, chances, cosines = (np.concatenate(one) for one in found)
    columns = []
    for at in range(shown):
        columns += [
            names.gather(places[:, at]).alias(f"match_{at + 1}"),
            pl.Series(f"probability_{at + 1}", chances[:, at]),
            pl.Series(f"cosine_{at + 1}", cosines[:, at]),
        ]
    return pl.DataFrame(columns)


class IndexFacts(NamedTuple):
    """The bundle whose embeddings they are, by its hash, images or texts, their number and the
    features of each."""

    bundle: str
    side: Side
    rows: int
    width: int


class Nearest(NamedTuple):
    """For each of Q queries the nearest rows, [Q, k], and their cosines, the nearest first."""

    places: Integers
    cosines: Floats


@final
@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingIndex:
    """Rows of length 1, float32 [N, D], which may be mapped from a file, and what each is."""

    facts: IndexFacts
    embeddings: npt.NDArray[np.float32]
    rows: pl.DataFrame

    def nearest(self, queries: Floats, top: int) -> Nearest:
        """The `top` rows of the highest cosines with queries [Q, D] of length 1, all of them
        compared; of equal ones the first."""
        shown = min(top, len(self.embeddings))
        cosines = np.full((len(queries), 0), 0.0)
        places = np.zeros((len(queries), 0), dtype=np.int64)
        count = max(1, _BLOCK // max(1, len(queries), self.facts.width))
        for start in range(0, len(self.embeddings), count):
            block = np.asarray(self.embeddings[start : start + count], np.float64)
            found = np.concatenate([cosines, queries @ block.T], axis=1)
            at = np.arange(start, start + len(block))
            each = np.concatenate([places, np.tile(at, (len(queries), 1))], axis=1)
            order = np.argsort(-found, axis=1, kind="stable")[:, :shown]
            cosines = np.take_along_axis(found, order, axis=1)
            places = np.take_along_axis(each, order, axis=1)
        return Nearest(places, cosines)


def write_index(
    folder: Path, facts: IndexFacts, blocks: Iterator[Floats], rows: pl.DataFrame
) -> None:
    """Write embeddings, given in blocks of rows of length 1, to a new folder or over an index.

    Raises:
        Mistake: the folder holds something else. StorageFailed: the disk.
    """
    _check_free(folder)
    new = folder.with_name(f".tmp-{os.getpid()}-{folder.name}")
    with storage_errors(f"writing {folder}"):
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        try:
            _write_embeddings(new / _EMBEDDINGS, facts, blocks)
            rows.write_parquet(new / _ROWS)
            files = {name: describe_file(new / name) for name in (_EMBEDDINGS, _ROWS)}
            write_json(new / _ABOUT, {"format": FORMAT, **facts._asdict(), "files": files})
            for name in files:
                sync_file(new / name)
            sync_folder(new)
            if folder.exists():
                shutil.rmtree(folder)
            new.rename(folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        sync_folder(folder.parent)


def _write_embeddings(file: Path, facts: IndexFacts, blocks: Iterator[Floats]) -> None:
    shape = (facts.rows, facts.width)
    stored = np.lib.format.open_memmap(file, mode="w+", dtype="<f4", shape=shape)
    start = 0
    for block in blocks:
        stored[start : start + len(block)] = block
        start += len(block)
    assert start == facts.rows, "every row has its embedding"
    stored.flush()


def read_index(folder: Path, bundle: str) -> EmbeddingIndex:
    """Open an index of the model whose bundle has this hash, after its files were verified.

    Raises:
        Mistake: there is none, its files are others, or it is the index of another model.
    """
    about = folder / _ABOUT
    if not about.is_file() or about.is_symlink():
        raise _refused("there is no index", folder, "a folder that trainwright index has written")
    try:
        told = read_json(about)
        files, side = told["files"], told["side"]
        facts = IndexFacts(str(told["bundle"]), side, int(told["rows"]), int(told["width"]))
        if told["format"] != FORMAT or side not in get_args(Side):
            raise ValueError("another format")
        problems = list(changes_of_files(folder, {one: files[one] for one in (_EMBEDDINGS, _ROWS)}))
        if problems:
            raise ValueError("; ".join(one.message for one in problems))
        embeddings = np.load(folder / _EMBEDDINGS, mmap_mode="r", allow_pickle=False)
        rows = read_parquet(folder / _ROWS)
        shape = (facts.rows, facts.width)
        if embeddings.dtype != np.dtype("<f4") or embeddings.shape != shape:
            raise ValueError(f"embeddings of {embeddings.dtype} {embeddings.shape}")
        if rows.height != facts.rows or "name" not in rows.columns:
            raise ValueError(f"{rows.height:,} rows beside {facts.rows:,} embeddings")
    except (ValueError, TypeError, LookupError, AttributeError, EOFError, OSError) as error:
        said = (str(error).splitlines() or [repr(error)])[0]
        raise _refused(f"the index is damaged ({said:.200})", folder, "its own files") from error
    if facts.bundle != bundle:
        raise _refused(
            "the index holds embeddings of another model", folder, "an index of this run's model"
        )
    return EmbeddingIndex(facts, embeddings, rows)


def _check_free(folder: Path) -> None:
    is_index = (folder / _ABOUT).is_file()
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise Mistake(Problem(f"{folder} is no folder", path="-o", fix="choose another place"))
    if folder.is_dir() and names_of_files(folder) and not is_index:
        raise Mistake(
            Problem(
                f"{folder} holds other files",
                path="-o",
                expected="a new folder, or one with an index",
                fix="choose another place",
            )
        )


def _refused(message: str, folder: Path, expected: str) -> Mistake:
    return Mistake(
        Problem(message, path="--index", found=str(folder), expected=expected, fix=_BUILD)
    )
