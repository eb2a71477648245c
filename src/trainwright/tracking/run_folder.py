"""The folder of a run: where each file stands, and how a folder is made, opened and listed."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Self, final

from trainwright.core.errors import Mistake, Problem, StorageFailed
from trainwright.core.files import check_name, child_of, storage_errors, write_text
from trainwright.tracking.lock import RunLock, check_contents

_SHOWN_RUNS = 5
_NAME_ROOM = 58
_FOLDS = "folds"
_SEEDS = "seeds"
_CANDIDATES = "candidates"
REFITS = "refits"
"""Folder of the training on training and validation rows, a run folder of its own."""
_NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP})


@final
@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths inside the folder of one run. Who may read it is what the umask says.

    `called` is the name that no other training has; empty where that is the folder's own.
    """

    path: Path
    called: str = ""

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    @property
    def full_name(self) -> str:
        """The run's name; behind it the fold and its data where this is the training of one."""
        return self.called or self.name

    @property
    def contract(self) -> Path:
        """The contract as it was written."""
        return self.path / "contract.yaml"

    @property
    def plan(self) -> Path:
        """The plan: resolved, hashed, costed."""
        return self.path / "plan.json"

    @property
    def settings(self) -> Path:
        """The settings of a training from a script."""
        return self.path / "settings.json"

    @property
    def identity(self) -> Path:
        """The identity of a training from a script; that of others stands in the plan."""
        return self.path / "identity.json"

    @property
    def record(self) -> Path:
        """With what the run was made."""
        return self.path / "record.json"

    @property
    def preflight(self) -> Path:
        """What was checked before budget was spent."""
        return self.path / "preflight.json"

    @property
    def data(self) -> Path:
        """Folder of the data reports."""
        return self.path / "data"

    @property
    def distributions(self) -> Path:
        """How the values of each column are distributed."""
        return self.data / "distributions.json"

    @property
    def signals(self) -> Path:
        """One line a step."""
        return self.path / "signals.jsonl"

    @property
    def windows(self) -> Path:
        """One line a window of steps."""
        return self.path / "windows.jsonl"

    @property
    def events(self) -> Path:
        """One line for each rare event."""
        return self.path / "events.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def bundle(self) -> Path:
        """Folder of the predictor."""
        return self.path / "bundle"

    @property
    def predictions(self) -> Path:
        """What the judged model gave for each test row."""
        return self.path / "predictions.parquet"

    @property
    def own_target(self) -> Path:
        """The target of a model that the run holds no bundle of."""
        return self.data / "target.json"

    @property
    def is_of_script(self) -> bool:
        """Whether a script trained here, without a contract."""
        return self.settings.is_file() and not self.plan.exists()

    @property
    def has_own_model(self) -> bool:
        """Whether only a script has the model: it was trained by one, or judged in one."""
        return self.is_of_script or self.own_target.is_file()

    @property
    def evaluation(self) -> Path:
        """Metrics, slices, intervals, verdict."""
        return self.path / "evaluation.json"

    @property
    def explanation(self) -> Path:
        """What the model reads, as `explain` measured it."""
        return self.path / "explanation.json"

    @property
    def endings(self) -> Path:
        """Folder of the evaluations of earlier endings, one a step, of a run that went on."""
        return self.path / "endings"

    @property
    def checksums(self) -> Path:
        """SHA-256 of every file that the decision of a finished run rests on."""
        return self.path / "checksums.json"

    @property
    def report(self) -> Path:
        """The page for people."""
        return self.path / "report.html"

    @property
    def folds(self) -> Path:
        """Folder of the trainings of single folds, each a run folder of its own."""
        return self.path / _FOLDS

    @property
    def seeds(self) -> Path:
        """Folder of the trainings with other seeds, each a run folder of its own."""
        return self.path / _SEEDS

    @property
    def ladder(self) -> Path:
        """The candidates of a selection, how they compare, and which is kept."""
        return self.path / "ladder.json"

    def candidate(self, name: str) -> Path:
        """Folder of the trainings of a candidate, each a run folder of its own."""
        return self.path / _CANDIDATES / name

    @property
    def lock_file(self) -> Path:
        """Held by the process that owns the folder."""
        return self.path / "lock"

    def fold(self, number: int, version: str) -> RunFolder:
        """The folder of a fold's training on data of this version, made if it is missing; folds
        count from 1.

        What was trained there on other data is removed: rows move from fold to fold then, and such
        a model may have seen those that the fold tests.

        Raises:
            StorageFailed: it cannot be made.
        """
        return self._inner(self.folds, "fold", number, version)

    def seed(self, number: int, version: str) -> RunFolder:
        """The folder of a training with another seed, as `fold` makes one."""
        return self._inner(self.seeds, "seed", number, version)

    def refit(self, version: str) -> RunFolder:
        """The folder of the second training, as `fold` makes one, for its data and length."""
        return self._inner(self.path / REFITS, "refit", 1, version)

    def of_candidate(self, name: str, number: int, version: str) -> RunFolder:
        """The folder of a training of a candidate, as `fold` makes one.

        Raises:
            StorageFailed: it cannot be made.
        """
        make_root(self.candidate(name))
        return self._inner(self.candidate(name), f"candidate-{name}", number, version)

    def _inner(self, within: Path, kind: str, number: int, version: str) -> RunFolder:
        name = f"{number:02d}"
        inner = RunFolder(within / name, f"{self.full_name}-{kind}-{name}-{version[:12]}")
        of_version = inner.data / "version.txt"
        with storage_errors(f"making {inner.path}"):
            known = of_version.read_bytes() if of_version.is_file() else b""
            if known != version.encode() and inner.path.exists():
                shutil.rmtree(inner.path)
            for folder in (within, inner.path, inner.data, inner.checkpoints):
                folder.mkdir(exist_ok=True)
        if not of_version.is_file():
            write_text(of_version, version)
        return inner

    def lock(self) -> RunLock:
        """Take the folder for this process.

        Raises:
            RunLocked: another process owns it. StorageFailed: the lock cannot be written.
        """
        return RunLock.acquire(self.lock_file)

    @classmethod
    def create(cls, root: Path, name: str) -> Self:
        """Make the folder of a new run, together with `root` if that is missing. An empty folder of
        that name is taken: a process that died in this very place has left it.

        Raises:
            Mistake: the name is taken or unsafe, or `root` cannot be written; nothing was written.
            StorageFailed: the disk refused for another reason.
        """
        check_name(name, "the run's name")
        make_root(root)
        path = child_of(root, name, "the run's name")
        if not _make_folder(path):
            cls.check_free(root, name)
        return cls._with_parts(path)

    @classmethod
    def check_free(cls, root: Path, name: str) -> None:
        """Whether `create` would take the name; writes nothing.

        Raises:
            Mistake: the name is taken or unsafe.
        """
        if not cls.is_free(root, name):
            path = root / name
            raise Mistake(
                Problem(
                    f"a run named {name} is there already",
                    found=str(path),
                    fix="go on with it through --resume, or choose another name with --run NAME",
                )
            )

    @classmethod
    def is_free(cls, root: Path, name: str) -> bool:
        """Whether nothing has this name, or only the empty folder of a process that died at once.

        Raises:
            Mistake: the name is unsafe.
        """
        path = child_of(root, check_name(name, "the run's name"), "the run's name")
        return not os.path.lexists(path) or _is_empty(path)

    @classmethod
    def create_next(cls, root: Path, contract_name: str) -> Self:
        """Make the folder `<contract name>-<number>` with the number after the highest there is.

        Raises:
            As `create`.
        """
        base = check_name(contract_name, "the contract's name")[:_NAME_ROOM]
        make_root(root)
        number = _highest_number(root, base) + 1
        while not _make_folder(path := child_of(root, f"{base}-{number}", "the run's name")):
            number += 1
        return cls._with_parts(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder of a run that was started before.

        Raises:
            Mistake: there is none at `path`.
        """
        if path.is_symlink():
            raise _no_run(path, "a link", "give the path that the link leads to")
        if not path.is_dir():
            raise _no_run(path, "a file" if path.exists() else "nothing", "check the path")
        folder = cls(path)
        if not is_run_folder(path):
            raise _no_run(path, "a folder without record.json", "check the path")
        check_contents(path)
        return folder

    @classmethod
    def find(cls, root: Path, name: str) -> Self:
        """`open` for a run of `root` by its name."""
        path = child_of(root, name, "the run's name")
        if not os.path.lexists(path):
            raise _no_run(path, "nothing", _other_runs(root, name))
        return cls.open(path)

    @classmethod
    def _with_parts(cls, path: Path) -> Self:
        folder = cls(path)
        for part in (folder.data, folder.checkpoints):
            _make_folder(part)
        return folder


def is_run_folder(path: Path) -> bool:
    """Whether a run was begun in this folder; one that died at once has written nothing yet."""
    folder = RunFolder(path)
    parts = folder.data.is_dir() and folder.checkpoints.is_dir()
    return parts or folder.record.is_file() or folder.contract.is_file()


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _highest_number(root: Path, base: str) -> int:
    pattern = re.compile(re.escape(base) + r"-([0-9]{1,5})")
    matches = (pattern.fullmatch(path.name) for path in root.iterdir())
    return max((int(match[1]) for match in matches if match), default=0)


def make_root(root: Path) -> None:
    """Make the folder for runs, if it is missing.

    Raises:
        Mistake: it cannot be written. StorageFailed: the disk refused for another reason.
    """
    missing = root
    while not missing.exists() and missing != missing.parent:
        missing = missing.parent
    if not missing.is_dir():
        raise _not_writable(missing, "not a folder")
    _storage(root, lambda: root.mkdir(parents=True, exist_ok=True))


def _make_folder(path: Path) -> bool:
    """Whether `path` was made; false if something has that name."""
    return _storage(path, lambda: path.mkdir())


def _storage(path: Path, make: Callable[[], None]) -> bool:
    try:
        make()
    except FileExistsError:
        return False
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _NOT_WRITABLE:
            raise _not_writable(path.parent, reason) from error
        raise StorageFailed(f"making {path}: {reason}") from error
    return True


def _not_writable(folder: Path, reason: str) -> Mistake:
    return Mistake(
        Problem(
            "the folder for runs cannot be written",
            found=f"{folder}: {reason}",
            expected="a folder in which this user may make folders",
            fix="choose another folder or change its rights",
        )
    )


def _other_runs(root: Path, name: str) -> str:
    """What a person may have meant by a name that no run of `root` has."""
    names = sorted(path.name for path in root.glob("[!.]*") if is_run_folder(path))
    if not names:
        return f"there are no runs in {root}: name the folder that holds them with --runs FOLDER"
    if near := get_close_matches(name, names, n=1):
        return f"did you mean {near[0]}?"
    return f"name one of the runs: {', '.join(names[-_SHOWN_RUNS:])}"


def _no_run(path: Path, found: str, fix: str) -> Mistake:
    return Mistake(
        Problem("there is no run here", found=f"{path}: {found}", expected="a run folder", fix=fix)
    )
