"""Final copy of a run's files, with its models, evaluation and checksums."""

from __future__ import annotations

from trainwright.contract.document import Contract
from trainwright.core.errors import StorageFailed
from trainwright.run.screen import Screen
from trainwright.run.summary import labelled
from trainwright.tracking.identity import read_identity
from trainwright.tracking.run_folder import RunFolder


def copy_finished(folder: RunFolder, contract: Contract, screen: Screen) -> None:
    """Copy what a finished run has written since its last checkpoint, if its contract asks for
    copies. A failure is only reported."""
    remote = contract.training.checkpointing.remote
    if remote == "off":
        return
    # Imported here: few runs are copied.
    from trainwright.checkpoint.copies.copied_file_sets import open_sets
    from trainwright.checkpoint.copies.run_copies import RunCopies

    try:
        copies = RunCopies(folder, open_sets(remote, folder.name), read_identity(folder).lineage)
        if copies.is_of_another():
            raise StorageFailed(f"the copies in {copies} belong to another run")
        copies.copy(copies.moment())
    except StorageFailed as error:
        text = f"the finished run is not copied to {remote}/{folder.name}: {error}"
        screen.say(labelled("warning", text))
