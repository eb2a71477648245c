"""Remote tables, fetched into the cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import final

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.redaction import redact
from trainwright.data.formats.file_format import DELTA_LOG, EXPECTED, is_part, known_format
from trainwright.data.sources.cache import Tables
from trainwright.data.sources.folders import Parts, is_pattern, mixed, parts_among
from trainwright.data.sources.local_files import LocalFile
from trainwright.data.sources.remote_store import RemotePlace
from trainwright.data.sources.source_file import Source, SourcePart, is_partition, with_partition


@final
@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """A file, folder or pattern at a URL."""

    written: str
    path: str
    reading: Reading
    tables: Tables

    def parts(self) -> tuple[SourcePart, ...]:
        """The rows, from files that were fetched first.

        Raises:
            DataMistake: the place cannot be reached, or what is there cannot be read.
            MissingExtra: the package for such URLs is not installed.
        """
        store = RemotePlace(self.written, self.path, self.reading, self.tables)
        with store.errors():
            sources = tuple(self._local(store, name, url) for name, url in self._listed(store))
        return Parts(sources, self.path).parts()

    def _local(self, store: RemotePlace, name: str, url: str) -> Source:
        file, shown = store.fetched(name, url), redact(url)
        local = LocalFile(file, shown, self.path, self.reading, self.tables, told_by=url)
        return with_partition(local, url, self.path)

    def _listed(self, store: RemotePlace) -> list[tuple[str, str]]:
        """The files by their names in the store, each with its URL."""
        if is_pattern(self.written):
            names = parts_among(store.matching(), store.root)
        elif known_format(self.written):
            return [(store.root, self.written)]
        else:
            names = self._below(store, store.root)
        if not names:
            raise DataMistake(
                Problem(
                    "there is no file of data at this URL",
                    path=self.path,
                    found=redact(self.written),
                    expected=f"{EXPECTED}, a folder or a pattern of them",
                    fix="correct the URL",
                )
            )
        return [(name, store.url(name)) for name in sorted(names)]

    def _below(self, store: RemotePlace, folder: str) -> list[str]:
        """The files of data in a folder and in its partitions."""
        # Some stores list a folder inside itself.
        listed = store.inside(folder).items()
        inside = {name: kind for name, kind in listed if name.rstrip("/") != folder.rstrip("/")}
        if any(_last_piece(name) == DELTA_LOG for name in inside):
            raise DataMistake(self._delta())
        names = [name for name in inside if is_part(_last_piece(name))]
        folders = [
            name
            for name, kind in inside.items()
            if kind == "directory" and is_partition(_last_piece(name))
        ]
        if names and folders:
            said = [_last_piece(name) for name in (names[0], *folders)]
            raise DataMistake(mixed(said, redact(self.written), self.path))
        return names + [name for below in folders for name in self._below(store, below)]

    def _delta(self) -> Problem:
        return Problem(
            "Delta tables are read on this machine only: a folder of one also holds files that are "
            "no longer part of it",
            path=self.path,
            found=DELTA_LOG,
            fix="copy the folder here, or write the version out as Parquet and name that",
            place=Place(redact(self.written)),
        )


def _last_piece(name: str) -> str:
    """The name of a file without its folders and without what stands behind a `?`."""
    return PurePosixPath(name.partition("?")[0]).name
