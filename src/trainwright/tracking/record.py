"""`record.json`: what is needed to reproduce the run, and how it ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self, final

from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json, read_json, to_json, write_atomic, write_json, write_text
from trainwright.core.redaction import redact, redact_command
from trainwright.tracking.clock import Clock, Spent, SystemClock, show_time
from trainwright.tracking.environment import (
    describe_container,
    describe_environment,
    describe_hardware,
    describe_source,
    list_imported_packages,
)

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about a run known only to the caller. Environment variables are never recorded."""

    command: Sequence[str]
    source: Path
    """Folder of the checkout whose commit is recorded, for example the contract's."""
    data_version: str
    seeds: Mapping[str, int] = field(default_factory=dict)
    threads: Mapping[str, int] = field(default_factory=dict)
    gpus: Sequence[str] = ()
    gpu_uuid: str = ""
    """UUID of the GPU whose use is recorded; empty for none."""
    determinism: Mapping[str, Json] = field(default_factory=dict)
    """Determinism level, and its cost."""
    price_per_hour: float = 0.0
    """Price of the machine per hour; 0 if unknown."""
    budget: Mapping[str, Json] = field(default_factory=dict)
    """Allotment of a budget, with the `seconds_before` that passed before this record."""


@final
@dataclass(slots=True)
class GpuUse:
    """Samples of a GPU by NVIDIA's management library; none without its UUID."""

    uuid: str = ""
    absent: str = ""
    """Why there are none."""
    samples: list[dict[str, float]] = field(default_factory=list)

    def sample(self) -> None:
        """Take a sample, within milliseconds. What NVML refuses is not asked again."""
        if not self.uuid or self.absent:
            return
        try:
            import pynvml

            pynvml.nvmlInit()
            device = pynvml.nvmlDeviceGetHandleByUUID(self.uuid)
            used = pynvml.nvmlDeviceGetMemoryInfo(device).used
            busy = pynvml.nvmlDeviceGetUtilizationRates(device).gpu / 100
            watts = pynvml.nvmlDeviceGetPowerUsage(device) / 1000
        except ImportError:
            self.absent = "pip install 'trainwright[nvml]'"
        except pynvml.NVMLError as error:
            self.absent = str(error)
        else:
            self.samples.append({"busy": busy, "watts": watts, "memory_bytes": float(used)})

    def to_json(self) -> Json:
        """Mean of each number, `busy` as a share of time, and the most memory."""
        if self.absent:
            return {"absent": self.absent}
        columns = {name: [sample[name] for sample in self.samples] for name in self.samples[0]}
        means = {name: sum(values) / len(values) for name, values in columns.items()}
        most = int(max(columns["memory_bytes"]))
        return {**means, "most_memory_bytes": most, "samples": len(self.samples)}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended; a `fitted` one has its models, which are not judged yet, and `validation`:
    the contract's metric by name on its validation rows, if there are any. `verdict` is empty if
    there is none; `kept_step` is the step of the best validation if the model has its weights,
    else 0."""

    state: Literal["finished", "fitted", "interrupted", "failed"]
    reason: str
    verdict: str = ""
    exit_code: int = 0
    kept_step: int = 0
    validation: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "state": self.state,
            "reason": redact(self.reason),
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "kept_step": self.kept_step,
            **({"validation": dict(self.validation)} if self.validation else {}),
        }


@final
class RunRecord:
    """Writes `record.json`: complete at the start of each attempt, updated at its end.

    Every start of the process is one entry of `attempts`; the other keys describe the latest
    attempt, except `started`, which is the first, and `seconds`, `price` (if the machine has one)
    and `training_seconds`, which are totals. `beat` records the time spent so far, so that it is
    not lost if the process is killed. Dates come from the machine's clock, `seconds` from the
    monotonic one, so no duration is ever negative.
    """

    def __init__(self, path: Path, content: dict[str, Json], clock: Clock, gpu: GpuUse) -> None:
        self._path = path
        self._content = content
        self._clock = clock
        self._gpu = gpu
        self._began = clock.monotonic_seconds()
        self._lock = threading.Lock()
        self._is_finished = False
        self.spent = Spent(content["training_seconds"], clock)
        self.price = 0.0

    @classmethod
    def start(cls, path: Path, facts: RunFacts, clock: Clock | None = None) -> Self:
        """Write the record of a new attempt, after those that `path` contains.

        Raises:
            StorageFailed: the record cannot be written, or the existing one cannot be read.
        """
        used: Clock = SystemClock() if clock is None else clock
        now = show_time(used.now())
        before = _read(path)
        source = describe_source(facts.source)
        command = redact_command(facts.command)
        attempt = {"command": command, "git": source, "started": now, "seconds": 0.0}
        content: dict[str, Json] = {
            "format": _FORMAT,
            "git": source,
            "data_version": facts.data_version,
            "environment": describe_environment(),
            "container": describe_container(),
            "hardware": describe_hardware(facts.gpus),
            "threads": dict(facts.threads),
            "determinism": dict(facts.determinism),
            "seeds": dict(facts.seeds),
            "command": command,
            "started": before.get("started", now),
            "seconds": before.get("seconds", 0.0),
            "price_per_hour": facts.price_per_hour,
            "training_seconds": _seconds_of(path, before.get("training_seconds", {})),
            **({"budget": dict(facts.budget)} if facts.budget else {}),
            "attempts": [*before.get("attempts", []), attempt],
        }
        record = cls(path, content, used, GpuUse(facts.gpu_uuid))
        write_json(path, content)
        return record

    def finish(self, ending: Ending) -> None:
        """Complete the record, and write the packages that were imported.

        Raises:
            StorageFailed: the record is unchanged.
        """
        done = {"ended": show_time(self._clock.now()), "ending": ending.to_json()}
        packages = "".join(f"{line}\n" for line in list_imported_packages())
        with self._lock:
            content = self._until_now(done)
            self.price = content.get("price", 0.0)
            write_text(self._path.with_name("requirements.txt"), packages)
            write_json(self._path, content)
            self._is_finished = True

    def beat(self) -> None:
        """Write the time spent so far; no effect once the record is complete. Thread-safe.

        Raises:
            StorageFailed: the record is unchanged.
        """
        with self._lock:
            if not self._is_finished:
                self._gpu.sample()
                write_atomic(self._path, to_json(self._until_now({})).encode(), by_clock=True)

    def _until_now(self, done: Mapping[str, Json]) -> dict[str, Json]:
        seconds = max(0.0, self._clock.monotonic_seconds() - self._began)
        *earlier, attempt = self._content["attempts"]
        if self._gpu.samples or self._gpu.absent:
            attempt = {**attempt, "gpu_use": self._gpu.to_json()}
        total = self._content["seconds"] + seconds
        price = total / 3600 * self._content["price_per_hour"]
        return {
            **self._content,
            **done,
            "seconds": total,
            **({"price": price} if price else {}),
            "training_seconds": self.spent.to_json(),
            **self._used(total),
            "attempts": [*earlier, {**attempt, **done, "seconds": seconds}],
        }

    def _used(self, seconds: float) -> dict[str, Json]:
        """The budget with the share used, including time before the record."""
        if "budget" not in self._content:
            return {}
        budget = self._content["budget"]
        used = budget["seconds_before"] + seconds
        ratio = used / budget["limit_seconds"]
        return {"budget": {**budget, "used_seconds": used, "used_ratio": ratio}}


def _seconds_of(path: Path, value: Json) -> dict[str, float]:
    if isinstance(value, dict) and all(
        isinstance(seconds, int | float) and seconds >= 0 for seconds in value.values()
    ):
        return {name: float(seconds) for name, seconds in value.items()}
    raise StorageFailed(f"{path} is damaged: training_seconds are not seconds by name")


def reopen_record(path: Path) -> None:
    """Take the ending out of the record of a finished run that goes on: the attempt keeps it.

    Raises:
        StorageFailed: the record is as it was.
    """
    content = _read(path)
    write_json(path, {key: content[key] for key in content.keys() - {"ended", "ending"}})


def _read(path: Path) -> dict[str, Json]:
    try:
        content = read_json(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StorageFailed(f"reading {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise StorageFailed(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("attempts", []), list):
        raise StorageFailed(f"{path} is damaged: it does not hold the record of a run")
    return content
