"""Tables of images, by path or as embedded bytes, with a label or a list of labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import final

import polars as pl

from trainwright.contract.sections.data.sources import USUAL
from trainwright.contract.sections.data.table_data import LabelCells
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.formatting import many
from trainwright.core.limits import MOST_IMAGE_BYTES
from trainwright.data.base.messages import some
from trainwright.data.columns.label_set import LabelSet, fit_label_set, label_lists
from trainwright.data.formats.file_format import known_format, packing_of
from trainwright.data.formats.parquet_sizes import check_parquet
from trainwright.data.images.class_folders import Tree
from trainwright.data.images.decode import ImageFault
from trainwright.data.images.raw_images import ImageRequest, Record
from trainwright.data.images.read_image_file import too_large
from trainwright.data.sources.cache import Tables
from trainwright.data.sources.find_source import absent_column, collected
from trainwright.data.sources.local_files import LocalFile

_LABEL, _PATH = "label", "data.fields.label"
_ROWS = 64


def tidy_labels(cells: pl.Series, names: pl.Series, cells_hold: LabelCells, path: str) -> pl.Series:
    """The labels of each image in alphabetical order, each once, with the separator between them.
    `names` are those of the images, `path` the place to blame.

    Raises:
        DataMistake: an image without a label, where that says that they are unknown.
    """
    lists = label_lists(cells, cells_hold.separator)
    nothing = lists.list.len() == 0
    if cells_hold.empty == "missing" and (count := int(nothing.sum())):
        raise DataMistake(
            Problem(
                f"{many(count, 'image has', 'images have')} no label",
                path=path,
                found=some(names.filter(nothing).head(5).to_list(), total=count),
                expected="labels of every image",
                fix="add them, or remove the images; if they have none, write "
                "data.labels.empty: none",
            )
        )
    return lists.list.unique().list.sort().list.join(cells_hold.separator)


def count_of_labels(cells: pl.Series, separator: str) -> int:
    """Different labels."""
    return label_lists(cells, separator).explode().drop_nulls().n_unique()


def fit_image_labels(train: pl.DataFrame, cells_hold: LabelCells) -> LabelSet:
    """The labels of the training images.

    Raises:
        DataMistake: as `fit_label_set`.
    """
    try:
        return fit_label_set(train, (_LABEL,), cells_hold.separator, cells_hold.empty)
    except DataMistake as mistake:
        raise DataMistake([replace(one, path=_PATH) for one in mistake.problems]) from None


def names_table(written: str) -> bool:
    """Is a file a table, by its name?"""
    return bool(known_format(written))


@final
class TableOfImages:
    """A row for each image. A path begins in `tree` and may not lead out of it; bytes may also
    stand in a struct with a field `bytes`, as Hugging Face datasets keep images. The rows of all
    but Parquet files are kept in `tables`."""

    def __init__(self, asked: ImageRequest, tree: Tree, tables: Tables) -> None:
        self.written = asked.written
        self._asked = asked
        self._tables = tables
        self._tree = tree

    def records(self) -> Iterator[Record]:
        """Row by row; a Parquet file is read a few rows at a time."""
        lines, batches = self._open()
        row = 0
        for batch in batches:
            rows = batch.rows()
            files = iter(self._tree.read([name for name, data, *_ in rows if _is_read(name, data)]))
            for name, data, label, group in rows:
                line = int(lines[row]) if len(lines) else 0
                found = next(files) if _is_read(name, data) else _without_file(row, name, data)
                place = Place(self.written, line)
                yield self._record(row, name, found, (label, group), place)
                row += 1

    def _record(
        self,
        row: int,
        name: str | None,
        found: bytes | ImageFault,
        told: tuple[str | None, str | None],
        place: Place,
    ) -> Record:
        label, group = (value or "" for value in told)
        called = name or f"row {row + 1}"
        if self._asked.labelled and not (label or self._asked.may_be_empty):
            raise DataMistake(
                Problem(
                    f"row {row + 1} has no label",
                    path="data.fields.label",
                    found=called,
                    expected=f"a class in column {self._asked.fields.label!r}",
                    fix="add the label, or remove the row",
                    place=place,
                )
            )
        return Record(called, label, group, found, place)

    def _open(self) -> tuple[list[int], Iterator[pl.DataFrame]]:
        """The line of each row where the file has lines, and its rows in portions, as the columns
        path, bytes, label and group."""
        asked = self._asked
        if known_format(self.written) == "parquet" and not packing_of(self.written):
            lazy = self._scan()
            wanted = self._wanted(dict(lazy.collect_schema()))
            return [], self._pulled(lazy.select(wanted))
        rows = LocalFile(asked.file, asked.written, asked.path, USUAL, self._tables)
        source = collected(asked.written, rows)
        chosen = source.frame.select(self._wanted(dict(source.frame.schema)))
        return source.lines.tolist(), chosen.iter_slices(_ROWS)

    def _pulled(self, lazy: pl.LazyFrame) -> Iterator[pl.DataFrame]:
        """The rows of a Parquet file: it may be damaged behind all that its footer says."""
        try:
            yield from lazy.collect_batches(chunk_size=_ROWS)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise DataMistake(self._not_parquet((str(error).splitlines() or [""])[0])) from error

    def _scan(self) -> pl.LazyFrame:
        try:
            with self._asked.file.open("rb") as stream:
                begins = stream.read(4)
            if begins != b"PAR1":
                raise DataMistake(self._not_parquet(f"a file that begins with {begins.hex(' ')}"))
            if check_parquet(self._asked.file, self.written, USUAL):
                raise DataMistake(self._not_parquet("the encoding DELTA_BYTE_ARRAY"))
            lazy = pl.scan_parquet(self._asked.file, glob=False)
            lazy.collect_schema()
            return lazy
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise DataMistake(self._not_parquet((str(error).splitlines() or [""])[0])) from error

    def _not_parquet(self, found: str) -> Problem:
        return Problem(
            "the file cannot be read as Parquet",
            path=self._asked.path,
            found=found[:200],
            expected="a whole Parquet file",
            fix="copy or export the file again",
            place=Place(self.written),
        )

    def _wanted(self, schema: dict[str, pl.DataType]) -> list[pl.Expr]:
        fields = self._asked.fields
        named = [("image", fields.image), ("label", fields.label), ("group", fields.group)]
        problems = [
            absent_column(f"data.fields.{field}", name, list(schema), Place(self.written))
            for field, name in named
            if name and name not in schema and (field != "label" or self._asked.labelled)
        ]
        if problems:
            raise DataMistake(problems)
        label = pl.col(fields.label) if self._asked.labelled else pl.lit(None)
        group = pl.col(fields.group) if fields.group else pl.lit(None)
        return [
            *self._image(schema[fields.image]),
            label.cast(pl.String).alias("label"),
            group.cast(pl.String).alias("group"),
        ]

    def _image(self, dtype: pl.DataType) -> list[pl.Expr]:
        column = pl.col(self._asked.fields.image)
        nothing = pl.lit(None)
        match dtype:
            case pl.String():
                return [column.alias("name"), nothing.cast(pl.Binary).alias("data")]
            case pl.Binary():
                return [nothing.cast(pl.String).alias("name"), column.alias("data")]
            case pl.Struct(fields=inner) if {"bytes"} <= {one.name for one in inner}:
                has_path = any(one.name == "path" and one.dtype == pl.String for one in inner)
                name = column.struct.field("path") if has_path else nothing.cast(pl.String)
                data = column.struct.field("bytes").cast(pl.Binary)
                return [name.alias("name"), data.alias("data")]
            case _:
                raise DataMistake(
                    Problem(
                        f"column {self._asked.fields.image!r} holds no images",
                        path="data.fields.image",
                        found=f"values of type {dtype}",
                        expected="paths as text, or the bytes of image files",
                        fix="name another column in data.fields.image",
                        place=Place(self.written),
                    )
                )


def _is_read(name: str | None, data: bytes | None) -> bool:
    """Whether a row's image is a file."""
    return data is None and name is not None and "://" not in name


def _without_file(row: int, name: str | None, data: bytes | None) -> bytes | ImageFault:
    """The image of a row that names no file."""
    if data is not None:
        return data if len(data) <= MOST_IMAGE_BYTES else too_large(len(data))
    if name is None:
        return ImageFault(f"row {row + 1} has no image", fix="add the path, or remove the row")
    return ImageFault(
        "a row names an image by a URL",
        found=name.partition("://")[0] + "://...",
        expected="a path that begins in one folder, here or elsewhere",
        fix="write what stands before all names to data.fields.root, and paths into the table",
        droppable=False,
    )
