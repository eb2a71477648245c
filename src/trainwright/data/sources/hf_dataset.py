"""Hugging Face `datasets` folders of `save_to_disk`, read without the library.

Such a folder holds Arrow streams, `state.json` (which names them in order, as `_data_files`) and
`dataset_info.json` (the columns, as `features`). A folder of several splits holds a folder for each
and `dataset_dict.json`, which names them (huggingface.co/docs/datasets, "Process: save").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake, Mistake, Place, Problem
from trainwright.core.files import Json, check_name, hash_value, read_json
from trainwright.data.base.messages import quoted
from trainwright.data.sources.cache import Tables
from trainwright.data.sources.folders import Parts
from trainwright.data.sources.local_files import LocalFile
from trainwright.data.sources.source_file import SourcePart

_STATE = "state.json"
_INFO = "dataset_info.json"
_SPLITS = "dataset_dict.json"


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return (folder / _STATE).is_file() or (folder / _SPLITS).is_file()


@final
@dataclass(frozen=True, slots=True)
class SavedDataset:
    """One split in a folder; `written` is what the contract calls it, at `path`."""

    written: str
    folder: Path
    path: str
    reading: Reading
    tables: Tables

    def parts(self) -> tuple[SourcePart, ...]:
        """The rows; numbers of a class label become its names.

        Raises:
            DataMistake: it holds several splits, rows that were chosen but not written out, or is
                not whole.
        """
        place = self.folder / self.written
        if (place / _SPLITS).is_file():
            raise DataMistake(self._several(self._read(_SPLITS).get("splits", [])))
        state = self._read(_STATE)
        if state.get("_indices_files"):
            raise DataMistake(
                self._problem(
                    "the folder holds rows that were chosen, not the chosen rows",
                    "dataset.flatten_indices().save_to_disk(...)",
                )
            )
        names = self._names(state)
        sources = tuple(
            LocalFile(place / name, f"{self.written}/{name}", self.path, self.reading, self.tables)
            for name in names
        )
        labels = _label_names(self._read(_INFO).get("features"))
        return tuple(_with_labels(part, labels) for part in Parts(sources, self.path).parts())

    def _names(self, state: Json) -> list[str]:
        try:
            names = [str(one["filename"]) for one in state["_data_files"]]
            for name in names:
                check_name(name, "a file of the dataset")
        except (KeyError, TypeError, Mistake):
            raise DataMistake(
                self._problem(f"{_STATE} does not name the files of the folder", "save it again")
            ) from None
        if not names:
            raise DataMistake(self._problem("the dataset has no rows", "save it again"))
        place = (self.folder / self.written).resolve()
        if any((place / name).resolve().parent != place for name in names):
            raise DataMistake(
                self._problem("a file of the folder is a link that leads out of it", "copy it")
            )
        return names

    def _read(self, name: str) -> Json:
        try:
            found = read_json(self.folder / self.written / name)
        except (OSError, ValueError, RecursionError) as error:
            raise DataMistake(
                self._problem(f"{name} cannot be read: {error}", "save the dataset again")
            ) from error
        return found if isinstance(found, dict) else {}

    def _several(self, splits: list[str]) -> Problem:
        named = ", ".join(f"{self.written.rstrip('/')}/{split}" for split in splits)
        return Problem(
            "the folder holds several splits",
            path=self.path,
            found=quoted([str(split) for split in splits]),
            expected="one of them in each path",
            fix=f"name one, for example in train_path and test_path: {named}",
            place=Place(self.written),
        )

    def _problem(self, message: str, fix: str) -> Problem:
        return Problem(message, path=self.path, fix=fix, place=Place(self.written))


def _label_names(features: Json) -> dict[str, list[str]]:
    """The names of the classes of each column that is a `ClassLabel`."""
    columns = features if isinstance(features, dict) else {}
    return {
        name: [str(label) for label in feature["names"]]
        for name, feature in columns.items()
        if isinstance(feature, dict)
        and feature.get("_type") == "ClassLabel"
        and isinstance(feature.get("names"), list)
    }


def _with_labels(part: SourcePart, labels: dict[str, list[str]]) -> SourcePart:
    """The part with the names of its classes; -1 is a row without a label, as `datasets` has it."""
    columns = [
        pl.col(name).replace_strict(range(len(names)), names, default=None, return_dtype=pl.String)
        for name, names in labels.items()
        if name in part.frame.columns and part.frame.schema[name].is_integer()
    ]
    if not columns:
        return part
    # The numbers lie in the file, but what they mean does not.
    sha256 = hash_value([part.sha256, labels])
    return replace(part, sha256=sha256, frame=part.frame.with_columns(columns))
