"""Recovery of a run from its copies, on a machine that has nothing else of it. Needs torch."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trainwright.checkpoint.copies.copied_file_sets import CopiedSet, FileSets, NoSet
from trainwright.checkpoint.files.file_entry import LEDGER
from trainwright.checkpoint.storages.ledger import Ledger
from trainwright.checkpoint.storages.object_files import ObjectFiles, open_system
from trainwright.contract.rules.training.checkpoint_rules import problems_of_address
from trainwright.core.errors import Mistake, Problem, StorageFailed
from trainwright.core.files import child_of, storage_errors, sync_folder
from trainwright.doctor.verify_checkpoints import WRONG_SHAPE
from trainwright.run.opening.open_folder import is_blank
from trainwright.run.recover.recover_parts import bring_checkpoints, bring_files, check_whole
from trainwright.tracking.checksums import remove_unfinished
from trainwright.tracking.identity import read_identity
from trainwright.tracking.run_folder import RunFolder, make_root

_LACKING = (
    "contract, plan, record, preflight, data version, signals, events and ledger: "
    "an earlier version made these copies, or they are those of a single fold"
)


def recover_run(url: str, runs: Path, say: Callable[[str], None]) -> RunFolder:
    """Restore a run into a new folder of its name, verified as a whole before it appears.

    An existing folder of the same run is replaced if it has nothing newer. Nothing is changed at
    `url`.

    Raises:
        Mistake: there is no such run, or the local folder belongs to another run or is newer;
            nothing was changed. NoValidCheckpoint: no checkpoint can be resumed from.
            StorageFailed: the copies are damaged or unreadable, or the disk is full. RunLocked: the
            run is active here.
    """
    url = url.rstrip("/")
    if problems := list(problems_of_address(url, "RUN")):
        raise Mistake(problems)
    remote, _, name = url.rpartition("/")
    objects = ObjectFiles(*open_system(url, "RUN"))
    sets = FileSets(objects)
    found = sets.newest()
    if isinstance(found, NoSet):
        raise _no_run(url, objects)
    if found.name != name:
        raise _renamed(url, found)
    make_root(runs)
    final = child_of(runs, name, "the run's name")
    with ExitStack() as held:
        was_free = RunFolder.is_free(runs, name)
        if not was_free:
            _take_over(final, found, url, held)
        remove_unfinished(runs)
        with _unfinished(runs / f".tmp-{os.getpid()}-{name}") as path:
            folder = RunFolder(path, called=name)
            say(f"run {name} as it was copied at {found.time} to {sets}")
            bring_files(found, sets, folder)
            bring_checkpoints(found, remote, folder, say)
            check_whole(folder, url)
            if was_free and not RunFolder.is_free(runs, name):
                # Another process has restored it meanwhile.
                _take_over(final, found, url, held)
            _check_nothing_newer(RunFolder(final), folder, url)
            _put_in_place(path, final)
    return RunFolder.open(final)


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """Folder that is deleted after the block, unless it was renamed."""
    with storage_errors(f"making {path}"):
        path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _put_in_place(path: Path, final: Path) -> None:
    replaced = path.with_name(f"{path.name}-replaced")
    with storage_errors(f"writing {final}"):
        if final.exists():
            final.rename(replaced)
        try:
            path.rename(final)
        finally:
            if replaced.exists() and not final.exists():
                replaced.rename(final)
        sync_folder(final.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _take_over(path: Path, found: CopiedSet, url: str, held: ExitStack) -> None:
    """Own the folder that is to be replaced.

    Raises:
        Mistake: it belongs to another run. RunLocked: the run is active.
    """
    here = RunFolder.open(path)
    held.enter_context(here.lock())
    if not is_blank(here) and _lineage(here) != found.lineage:
        raise Mistake(
            Problem(
                f"a run named {here.name} is there already, and it is another one",
                found=str(here.path),
                expected=f"nothing, or the run whose copies are in {url}",
                fix="give another folder for runs with --runs FOLDER",
            )
        )


def _lineage(here: RunFolder) -> str:
    try:
        return read_identity(here).lineage
    except WRONG_SHAPE as error:
        raise StorageFailed(
            f"{here.plan} is damaged, so it cannot be told which run it is of: {error!r:.200}; "
            f"move {here.path} away, and give the same command again"
        ) from error


def _check_nothing_newer(here: RunFolder, came: RunFolder, url: str) -> None:
    """Refuse to replace what the copies do not have."""
    there = dict(_progress(came))
    for what, number in _progress(here):
        if number > there.get(what, 0):
            raise Mistake(
                Problem(
                    f"run {here.name} is newer here than its copies",
                    found=f"{here.path}: {_shown(what, number)}",
                    expected=f"nothing newer than in {url}: {_shown(what, there.get(what, 0))}",
                    fix=f"go on with it: trainwright resume {shlex.quote(str(here.path))}",
                )
            )


def _progress(folder: RunFolder) -> Iterator[tuple[str, int]]:
    """Progress of a run and each training inside it: finished, or number and step of the newest
    checkpoint."""
    if not folder.path.is_dir():
        return
    for path in (folder.evaluation, *sorted(folder.path.glob("*/*/bundle/bundle.json"))):
        if path.is_file():
            yield path.relative_to(folder.path).as_posix(), 1
    for checkpoints in (folder.checkpoints, *sorted(folder.path.glob("*/*/checkpoints"))):
        lines = [line for line in Ledger(checkpoints / LEDGER).read().lines if line.is_kept]
        newest = max((line.sequence for line in lines), default=0)
        yield checkpoints.relative_to(folder.path).as_posix(), newest


def _shown(what: str, number: int) -> str:
    if not number:
        return f"no {what}"
    return f"{what}, save {number}" if what.endswith("checkpoints") else what


def _renamed(url: str, found: CopiedSet) -> Mistake:
    return Mistake(
        Problem(
            f"the copies here are those of run {found.name}",
            found=url,
            expected=f"a URL that ends with /{found.name}",
            fix="give the folder of the copies its name back",
        )
    )


def _no_run(url: str, objects: ObjectFiles) -> Mistake:
    with objects.errors("listing"):
        below = objects.folders()
    if steps := sorted(name.rpartition("-")[0] for name in below if name.startswith("step-")):
        return Mistake(
            Problem(
                "the copies here are checkpoints alone, and no run goes on from them alone",
                found=f"{url}: {len(steps)} of them, up to {steps[-1]}",
                expected=f"beside them {_LACKING}",
                fix="bring the run folder without its checkpoints here from elsewhere, then: "
                "trainwright train CONTRACT --run NAME --resume",
            )
        )
    near = [f"{url}/{name}" for name in below if name not in ("", "files")]
    return Mistake(
        Problem(
            "there are no copies of a run here",
            found=f"{url}: {'none that was made to its end' if below else 'nothing'}",
            expected="the address in training.checkpointing.remote with the run's name behind it",
            fix=f"try {', '.join(near[:5])}"
            if near
            else "check the URL, its bucket and its folder",
        )
    )
