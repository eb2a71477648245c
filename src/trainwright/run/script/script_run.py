"""Run folder of a training from a script: record, signals, events and checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import torch

from trainwright.checkpoint.store import Checkpoints
from trainwright.core.errors import Interrupted, TrainwrightError
from trainwright.core.files import hash_value, write_json
from trainwright.engine.job import Job, NoCheckpoints
from trainwright.run.compose.compose_step import WINDOW, reader
from trainwright.run.opening.undo_refused import NewFolders, locked_new, restored_if_refused
from trainwright.run.script.check_tensors import find_within
from trainwright.run.script.job_settings import DATA, JobSettings
from trainwright.tracking.checksums import remove_unfinished_of_run
from trainwright.tracking.clock import beating
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.events import Ended, Observer
from trainwright.tracking.identity import NoIdentity, RunIdentity, read_identity
from trainwright.tracking.record import Ending, RunFacts, RunRecord
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.signals import SignalRecorder


@final
@dataclass(frozen=True, slots=True)
class ScriptRun:
    """Run folder owned by this process."""

    folder: RunFolder
    record: RunRecord
    observers: tuple[Observer, ...]

    def bind(self, job: Job, settings: JobSettings) -> None:
        """Bind the job's checkpoints, which this process owns, to the run. Its identity is created
        at its first start; checkpoints of an earlier version, or without a run, are not bound.

        Raises:
            NoValidCheckpoint: they belong to another run; none was changed.
        """
        stores = find_within(job.checkpoints, Checkpoints)
        identity = read_identity(self.folder)
        if isinstance(identity, NoIdentity) and not any(store.names() for store in stores):
            about = {key: value for key, value in settings.values.items() if key != DATA}
            data = str(settings.values.get(DATA, ""))
            identity = replace(RunIdentity.new(hash_value(about), data), binds_request=False)
            write_json(self.folder.identity, identity.to_json())
        for store in stores:
            store.bind(identity)

    def finish(self, ended: Ended, kept_step: int) -> None:
        """Complete the record of a finished training; see `Ending`."""
        self.record.finish(Ending("finished", ended.reason, kept_step=kept_step))


def keep_in_run(job: Job, path: Path) -> Job:
    """The job with its checkpoints in the run folder, unless it stores them elsewhere. Writes
    nothing."""
    if not isinstance(job.checkpoints, NoCheckpoints):
        return job
    kept = Checkpoints(RunFolder(path).checkpoints, 1, job.patience.direction)
    return replace(job, checkpoints=kept)


@contextmanager
def open_script_run(path: Path, job: Job, settings: JobSettings) -> Iterator[ScriptRun]:
    """The folder, created or reopened, and locked for the block; an error inside is written into
    its record.

    Raises:
        Mistake: the name is unsafe or taken by something else. RunLocked: the run is in use.
            StorageFailed: it cannot be written.
    """
    made = NewFolders.of(path)
    is_new = not path.exists()
    folder = RunFolder.create(path.parent, path.name) if is_new else RunFolder.open(path)
    locked = locked_new(folder, made) if is_new else folder.lock()
    with ExitStack() as stack:
        stack.enter_context(locked)
        remove_unfinished_of_run(folder)
        stack.enter_context(nullcontext() if is_new else restored_if_refused(folder))
        device = next((one.device for one in job.model.parameters()), torch.device("cpu"))
        facts = RunFacts(
            command=sys.argv,
            source=Path(sys.argv[0]).absolute().parent,
            data_version=str(settings.values.get(DATA, "")),
            threads={"torch": torch.get_num_threads()},
            gpus=[torch.cuda.get_device_name(device)] if device.type == "cuda" else [],
        )
        write_json(folder.settings, settings.values)
        record = RunRecord.start(folder.record, facts)
        signals = SignalRecorder(folder.signals, WINDOW, reader(device))
        try:
            with beating(record.beat):
                yield ScriptRun(folder, record, (signals, EventLog(folder.events)))
        except (Exception, KeyboardInterrupt) as error:
            record.finish(_ending(error))
            raise


def _ending(error: BaseException) -> Ending:
    code = error.exit_code if isinstance(error, TrainwrightError) else 1
    stopped = isinstance(error, Interrupted | KeyboardInterrupt)
    text = str(error) or type(error).__name__
    return Ending("interrupted" if stopped else "failed", text, exit_code=code)
