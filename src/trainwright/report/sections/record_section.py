"""Record section: environment, plan choices and durations."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard, final

from trainwright.core.files import Json
from trainwright.core.formatting import show_bytes, show_count, show_price, show_seconds
from trainwright.report.format import clean, show_when
from trainwright.report.load_run import Contents
from trainwright.report.sections.data_section import shorten_hash
from trainwright.run.extend.extendable import describe_extensions, describe_start

_MAIN = (
    "trainwright",
    "numpy",
    "polars",
    "scikit-learn",
    "lightgbm",
    "torch",
    "scipy",
    "pydantic",
    "matplotlib",
)

_PARTS = ("read", "plan", "prepare", "train", "baselines", "predict", "judge")


@final
@dataclass(frozen=True, slots=True)
class Fact:
    """A name-value pair."""

    name: str
    value: str


@final
@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """A choice of the plan for an `auto` of the contract."""

    path: str
    value: str
    reason: str


@final
@dataclass(frozen=True, slots=True)
class TimeRow:
    """Duration of one part; `share` in percent of the total."""

    name: str
    seconds: str
    share: float


@final
@dataclass(frozen=True, slots=True)
class RecordView:
    """Facts of the record, and long collapsible lists."""

    facts: tuple[Fact, ...]
    attempts: tuple[tuple[str, str, str], ...]
    packages: tuple[str, ...]


def view_times(seconds: Mapping[str, float]) -> tuple[TimeRow, ...]:
    """Durations in run order, with the total last."""
    if not seconds:
        return ()
    total = sum(seconds.values())
    order = [*(name for name in _PARTS if name in seconds), *sorted(seconds.keys() - set(_PARTS))]
    rows = [
        TimeRow(
            name,
            show_seconds(seconds[name]),
            round(100 * seconds[name] / total, 1) if total > 0 else 0.0,
        )
        for name in order
    ]
    return (*rows, TimeRow("together", show_seconds(total), 100.0))


def view_choices(plan: Mapping[str, Json]) -> tuple[ChoiceRow, ...]:
    """Choices in the order in which they were made."""
    return tuple(
        ChoiceRow(str(one["path"]), _written(one["value"]), str(one["reason"]))
        for one in plan.get("choices") or []
    )


def view_estimate(plan: Mapping[str, Json]) -> tuple[Fact, ...]:
    """Estimates of the plan."""
    estimate = plan.get("estimate") or {}
    shown = {"train_rows": show_count, "steps_per_epoch": show_count, "steps": show_count}
    facts = [
        Fact(name.replace("_", " "), show(estimate[name]))
        for name, show in shown.items()
        if _is_number(estimate.get(name)) and estimate[name]
    ]
    if _is_number(estimate.get("parameters")):
        facts.append(Fact("parameters", show_count(estimate["parameters"])))
    if _is_number(estimate.get("memory_bytes")):
        facts.append(Fact("memory of the encoded rows", show_bytes(estimate["memory_bytes"])))
    if plan.get("hash"):
        facts.append(Fact("hash of the plan", shorten_hash(str(plan["hash"]))))
    return tuple(facts)


def view_record(contents: Contents) -> tuple[RecordView, ...]:
    """The record section, or empty without a record."""
    record = contents.record
    if not record:
        return ()
    environment = record.get("environment") or {}
    packages = [str(package) for package in environment.get("packages") or []]
    facts = [
        Fact("source", _source(record.get("git") or {})),
        Fact("command", _command(record.get("command"))),
        Fact("data version", shorten_hash(str(record.get("data_version", "")))),
        Fact("seeds", _pairs(record.get("seeds"))),
        Fact("hardware", _hardware(record.get("hardware") or {})),
        Fact("threads", _pairs(record.get("threads"))),
        Fact("Python", f"{environment.get('python', '')} on {environment.get('platform', '')}"),
        Fact("main libraries", _main(packages)),
        Fact("started", show_when(str(record.get("started", "")))),
        Fact("ended", _ending(record)),
        Fact("extended", "; ".join(describe_extensions(contents.plan))),
        Fact("began at", describe_start(contents.plan)),
        Fact("active time", _seconds(record.get("seconds"))),
        Fact("price", _price(record)),
    ]
    return (
        RecordView(
            tuple(fact for fact in facts if fact.value),
            tuple(_attempt(each) for each in record.get("attempts") or []),
            tuple(packages),
        ),
    )


def _is_number(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _written(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _source(git: Mapping[str, Json]) -> str:
    if "absent" in git:
        return f"no commit: {git['absent']}"
    if not git.get("commit"):
        return ""
    commit = f"commit {shorten_hash(str(git['commit']))}"
    if not git.get("dirty"):
        return f"{commit}, clean"
    return f"{commit}, modified (diff {shorten_hash(str(git.get('diff_sha256', '')))})"


def _command(command: Json) -> str:
    if isinstance(command, list):
        return clean(shlex.join(str(word) for word in command), 600)
    return clean(str(command or ""), 600)


def _pairs(values: Json) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) if values else ""


def _hardware(hardware: Mapping[str, Json]) -> str:
    memory = hardware.get("memory_bytes")
    gpus: Sequence[Json] = hardware.get("gpus") or []
    found = [
        str(hardware.get("cpu", "")),
        f"{hardware['cores']} cores" if "cores" in hardware else "",
        f"{show_bytes(memory)} memory" if _is_number(memory) else "",
        ", ".join(map(str, gpus)) or "no GPU used",
    ]
    return ", ".join(part for part in found if part)


def _main(packages: Sequence[str]) -> str:
    versions = dict(package.split("==", 1) for package in packages if "==" in package)
    return ", ".join(f"{name} {versions[name]}" for name in _MAIN if name in versions)


def _ending(record: Mapping[str, Json]) -> str:
    ending = record.get("ending") or {}
    if not ending:
        return ""
    reason = f": {ending['reason']}" if ending.get("reason") else ""
    return f"{show_when(str(record.get('ended', '')))}, {ending.get('state', '')}{reason}"


def _price(record: Mapping[str, Json]) -> str:
    """`1.20 (2.5 an hour)`."""
    price, hour = record.get("price"), record.get("price_per_hour")
    if not (_is_number(price) and _is_number(hour)):
        return ""
    return f"{show_price(float(price))} ({float(hour):g} an hour)"


def _seconds(value: Json) -> str:
    return show_seconds(value) if _is_number(value) and value else ""


def _attempt(attempt: Mapping[str, Json]) -> tuple[str, str, str]:
    return (
        show_when(str(attempt.get("started", ""))),
        _seconds(attempt.get("seconds")),
        _ending(attempt),
    )
