"""A run that begins at a checkpoint of another one, which is read and never written to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self, final

from trainwright.checkpoint.files.file_entry import name_of
from trainwright.checkpoint.files.manifest import LostBase, read_manifest, read_parts
from trainwright.checkpoint.frozen_weights import FrozenBase
from trainwright.checkpoint.storages.checkpoint_files import base_reader
from trainwright.checkpoint.storages.local_storage import LocalStorage
from trainwright.checkpoint.store import CheckpointStore, Loaded, NoCheckpoint
from trainwright.checkpoint.store_calls import calls_of
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import NoValidCheckpoint
from trainwright.core.files import Json
from trainwright.tracking.run_folder import RunFolder


@final
@dataclass(frozen=True, slots=True)
class Origin:
    """Checkpoint of another run: the folder of the run, the step, and the run's lineage."""

    run: Path
    step: int
    lineage: str

    def to_json(self) -> dict[str, Json]:
        """Its entry in `plan.json`."""
        return {"run": str(self.run), "step": self.step, "lineage": self.lineage}

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> Self:
        """Inverse of `to_json`."""
        return cls(Path(str(value["run"])), int(value["step"]), str(value["lineage"]))

    def load(self) -> Loaded:
        """The checkpoint, verified.

        Raises:
            NoValidCheckpoint: it is gone, damaged or of another run.
        """
        name = name_of(self.step)
        folder = RunFolder(self.run).checkpoints
        storage = LocalStorage(folder)
        read = partial(storage.read, name)
        try:
            manifest, _ = read_manifest(read)
            if manifest.lineage != self.lineage or manifest.step != self.step:
                raise Damaged("it belongs to another run or step")
            parts = read_parts(read, manifest, base_reader(storage), FrozenBase().adopt)
        except LostBase as lost:
            raise lost.refusal(name, storage) from None
        except (Damaged, OSError) as error:
            raise NoValidCheckpoint(
                f"the checkpoint that this run begins at cannot be used: {folder / name} "
                f"({error}). Put it back, or begin at another one as a new run"
            ) from error
        return Loaded(name, self.step, parts, manifest.inventory, manifest.score, elsewhere=True)


def begin_elsewhere(store: CheckpointStore, origin: Origin) -> CheckpointStore:
    """Store of a run that has no checkpoint of its own yet: its first one is that of `origin`."""

    def newest_valid(up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        found = store.newest_valid(up_to, further)
        return found if isinstance(found, Loaded) or up_to is not None else origin.load()

    return replace(calls_of(store), newest_valid=newest_valid)
