"""Model card of a judged run: Markdown in the layout of the Hugging Face hub."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from trainwright.contract.sections.model import sections
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, read_json, write_text
from trainwright.core.formatting import show_bytes
from trainwright.core.redaction import hide_in_urls, redact_command, redact_named
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.predictor.bundle import MANIFEST
from trainwright.report.format import clean_lines, count_text, show_range, show_value, show_when
from trainwright.report.load_run import Contents, StoredEvaluation, read_contents
from trainwright.report.markdown import block, bullets, code, plain, table, without_folders
from trainwright.report.sections.calibration_section import view_calibration
from trainwright.report.sections.data_section import view_data
from trainwright.report.sections.record_section import view_record, view_times
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.tracking.run_folder import RunFolder

_KINDS = {
    "table": "tabular",
    "images": "image",
    "tokens": "text",
    "series": "time series",
    "chats": "chat",
    "preferences": "preference",
    "captions": "image and caption",
}
_CONTRACT_LETTERS = 20_000
_SHOWN_FACTS = ("hardware", "threads", "active time", "price", "started", "ended", "extended")
_REPEATED_FACTS = ("source", "seeds", "Python", "main libraries")

CARD = "model_card.md"
"""Its name in the folder of a run for production."""


@final
@dataclass(frozen=True, slots=True)
class CardSource:
    """What a card is made from: the contents of a judged run, and its bundle's manifest, empty for
    a model of the caller's own."""

    contents: Contents
    bundle: Mapping[str, Json]

    @property
    def judged(self) -> StoredEvaluation:
        """The evaluation and the verdict."""
        return self.contents.judged[0]

    @property
    def contract(self) -> Mapping[str, Json]:
        """The resolved contract."""
        found: Mapping[str, Json] = self.contents.plan.get("contract") or {}
        return found

    @property
    def model(self) -> Mapping[str, Json]:
        """Its section `model`."""
        found: Mapping[str, Json] = self.contract.get("model") or {}
        return found


def render_card(source: CardSource) -> str:
    """The card as Markdown. Names and messages of the data are escaped; secrets and folders of
    this machine are omitted, and so is everything that the record does not hold."""
    parts = (
        f"# {plain(source.contents.name)}",
        _summary(source),
        *_section("Verdict", _verdict(source.judged)),
        *_section("Metrics", _metrics(source.judged)),
        *_section("Probabilities and decision", _calibration(source.judged)),
        *_section("Baselines", _baselines(source.judged)),
        *_section("Targets", _each_target(source.judged)),
        *_section("Slices", _slices(source.judged)),
        *_section("Data", _data(source)),
        *_section("Limits", _limits(source)),
        *_section("Training", _training(source)),
        *_section("Compute", _facts(source, _SHOWN_FACTS), _times(source.judged)),
        *_section("Reproduce", *_reproduce(source)),
        *_section("Files", _files(source.bundle)),
    )
    return f"{_head(source)}\n" + "\n\n".join(parts) + "\n"


def _section(title: str, *contents: str) -> Iterator[str]:
    if any(contents):
        yield f"## {title}"
        yield from filter(None, contents)


def _head(source: CardSource) -> str:
    """The YAML head; every scalar is written as JSON, which YAML reads."""
    judged, contract = source.judged, source.contract
    data: Mapping[str, Json] = contract.get("data") or {}
    task = f"{_KINDS.get(str(data.get('kind')), 'other')}-{contract.get('task')}"
    files = source.contents.manifest.get("facts", {}).get("files") or []
    names = [_scalar(_file_name(str(one["path"]))) for one in files] or [_scalar("rows")]
    lines = ["---", "library_name: trainwright", f"pipeline_tag: {_scalar(task)}"]
    lines += ["tags:", "- trainwright", f"- {_scalar(str(source.model.get('kind', '')))}"]
    values = {
        name: interval.value
        for name, interval in judged.evaluation.metrics.items()
        if math.isfinite(interval.value)
    }
    lines += ["metrics:", *(f"- {_scalar(name)}" for name in values)] if values else []
    lines += ["model-index:", f"- name: {_scalar(source.contents.name)}", "  results:"]
    lines += ["  - task:", f"      type: {_scalar(task)}"]
    lines += ["    dataset:", f"      name: {names[0]}", f"      type: {names[0]}"]
    lines += [f"      split: {_scalar(judged.evaluation.part)}"]
    if version := source.contents.manifest.get("version"):
        lines += [f"      revision: {_scalar(str(version))}"]
    lines += ["    metrics:"] if values else ["    metrics: []"]
    for name, value in values.items():
        lines += [f"    - type: {_scalar(name)}", f"      value: {value!r}"]
    return "\n".join([*lines, "---", ""])


def _scalar(text: str) -> str:
    return json.dumps(redact_named(text))


def _file_name(path: str) -> str:
    """Name of a data file: folders, hosts and keys of a URL stay on this machine."""
    return hide_in_urls(path).partition("?")[0].rstrip("/\\").replace("\\", "/").rpartition("/")[2]


def _summary(source: CardSource) -> str:
    contract = source.contract
    target = (contract.get("data") or {}).get("target")
    named = ", ".join(map(str, target)) if isinstance(target, list) else str(target or "")
    of_what = f" of {code(named)}" if target else ""
    kind = code(str(source.model.get("kind", "")))
    own = "" if source.bundle else " The model is the caller's own: its run holds no copy of it."
    return (
        f"A model of kind {kind} for {plain(str(contract.get('task')))}{of_what}, judged by a "
        f"written contract: **{source.judged.verdict.status}**.{own}"
    )


def _verdict(judged: StoredEvaluation) -> str:
    rows = (
        [
            code(clause.name),
            code(clause.slice),
            show_value(clause.target),
            *_of(clause.interval),
            f"**{clause.status}**",
        ]
        for clause in judged.verdict.clauses
    )
    evaluation = judged.evaluation
    about = f"On {count_text(evaluation.rows, 'row', 'rows')} of the part {evaluation.part}"
    if evaluation.units != evaluation.rows:
        about += f", {evaluation.units:,} independent units"
    confidence = f"{evaluation.confidence:.0%} interval"
    shown = table(("Clause", "Rows", "Target", "Value", confidence, "Status"), rows)
    opened = bullets(f"opened {show_when(time)}: {plain(why)}" for time, why in judged.opened)
    return "\n\n".join(filter(None, (f"{about}.", shown, opened)))


def _metrics(judged: StoredEvaluation) -> str:
    metrics = judged.evaluation.metrics.items()
    return table(
        ("Metric", "Value", "Interval"), ([code(name), *_of(value)] for name, value in metrics)
    )


def _calibration(judged: StoredEvaluation) -> str:
    """What a calibration or a threshold changed on the judged rows."""
    parts = []
    for view in view_calibration(judged.calibration, in_folds=judged.in_folds):
        rows = (
            [code(one.metric), one.before, one.after, one.difference, one.range]
            for one in view.rows
        )
        names = ("Metric", "Before", "After", "Difference", "Interval")
        parts += [plain(view.sentence), table(names, rows)]
    return "\n\n".join(parts)


def _baselines(judged: StoredEvaluation) -> str:
    """The baselines in the metrics that the clauses name; in all without such clauses."""
    evaluation = judged.evaluation
    named = {clause.metric for clause in judged.verdict.clauses} or set(evaluation.metrics)
    rows = (
        [
            code(who),
            code(name),
            *_of(value),
            *_of(evaluation.gains.get(who, {}).get(name, Interval(math.nan, -math.inf, math.inf))),
        ]
        for who, metrics in evaluation.baselines.items()
        for name, value in metrics.items()
        if name in named
    )
    return table(
        ("Baseline", "Metric", "Value", "Interval", "Model minus baseline", "Interval"), rows
    )


def _slices(judged: StoredEvaluation) -> str:
    rows = (
        [code(one.name), code(one.metric), f"{one.rows:,}", *_of(one.interval)]
        for one in judged.evaluation.slices
    )
    return table(("Slice", "Metric", "Rows", "Value", "Interval"), rows)


def _each_target(judged: StoredEvaluation) -> str:
    rows = (
        [code(one.name), code(metric), *_of(interval)]
        for one in judged.evaluation.targets
        for metric, interval in one.metrics.items()
    )
    return table(("Target", "Metric", "Value", "Interval"), rows)


def _of(interval: Interval) -> list[str]:
    return [show_value(interval.value), show_range(interval)]


def _data(source: CardSource) -> str:
    manifest = source.contents.manifest
    files = (manifest.get("facts") or {}).get("files") or []
    listed = table(
        ("File", "Rows", "Size", "SHA-256"),
        (
            [
                code(_file_name(str(one["path"]))),
                f"{int(one['rows']):,}",
                show_bytes(one["size_bytes"]),
                code(str(one["sha256"])),
            ]
            for one in files
        ),
    )
    version = f"Version {code(str(manifest['version']))}." if manifest.get("version") else ""
    parts = [version, listed]
    for view in view_data(source.contents):
        split = f"Split {plain(view.split)}." if view.split else ""
        names = ("Part", "Rows", *map(plain, view.part_columns))
        rows = ([one.name, f"{one.rows:,}", *map(plain, one.more)] for one in view.parts)
        columns = ([code(one.name), plain(one.kind), plain(one.missing)] for one in view.columns)
        excluded = (f"excluded: {plain(one.what)}, {plain(one.why)}" for one in view.excluded)
        parts += [split, table(names, rows), bullets(map(plain, view.checks))]
        parts += [table(("Column", "Kind", "Missing"), columns), bullets(excluded)]
    return "\n\n".join(filter(None, parts))


def _limits(source: CardSource) -> str:
    """Warnings, also of the checks of the data, and findings that were tried or accepted."""
    judged = source.judged
    lines = [plain(warning) for warning in judged.evaluation.warnings]
    lines += [
        f"{one.severity}: {plain(one.message)}"
        for one in source.contents.findings
        if one.severity != "info" and one.message not in judged.evaluation.warnings
    ]
    for tried in judged.verdict.experiments:
        numbers = "" if math.isnan(tried.before) else f", {plain(tried.numbers)}"
        accepted = f"; accepted: {plain(tried.reason)}" if tried.outcome == "accepted" else ""
        outcome = tried.outcome.replace("_", " ")
        lines.append(f"{plain(tried.name)}: {plain(tried.message)} ({outcome}{numbers}){accepted}")
    return bullets(lines)


def _training(source: CardSource) -> str:
    """Settings of the model, and of the training if it is a network's."""
    kept = {"model": source.model}
    section = sections().get(str(source.model.get("kind")))
    if section is not None and section.traits.trained_by == "loop":
        kept["training"] = source.contract.get("training") or {}
    rows = ([code(path), code(value)] for path, value in _settings("", kept))
    return table(("Setting", "Value"), rows)


def _settings(path: str, value: Json) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, below in value.items():
            yield from _settings(f"{path}.{key}" if path else str(key), below)
    else:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _facts(source: CardSource, wanted: tuple[str, ...]) -> str:
    facts = [fact for view in view_record(source.contents) for fact in view.facts]
    return bullets(f"{one.name}: {plain(one.value)}" for one in facts if one.name in wanted)


def _times(judged: StoredEvaluation) -> str:
    rows = ([plain(row.name), row.seconds] for row in view_times(judged.seconds))
    return table(("Stage", "Time"), rows)


def _reproduce(source: CardSource) -> Iterator[str]:
    """The contract as it was written, and what it ran with."""
    contents = source.contents
    if contents.contract_text and source.bundle:
        written = without_folders(redact_named(contents.contract_text))
        words = ["trainwright", "train", "contract.yaml"]
        for override in contents.plan.get("overrides") or []:
            words += ["--set", str(override)]
        command = code(shlex.join(redact_command(words)))
        yield f"With the files of the data beside this contract, {command}:"
        yield block(clean_lines(written, _CONTRACT_LETTERS), "yaml")
    hashes = {"contract": source.bundle.get("contract_hash"), "plan": contents.plan.get("hash")}
    shown = bullets(f"hash of the {name}: {code(str(one))}" for name, one in hashes.items() if one)
    yield "\n".join(filter(None, (_facts(source, _REPEATED_FACTS), shown)))


def _files(bundle: Mapping[str, Json]) -> str:
    rows = (
        [code(name), show_bytes(one["size_bytes"]), code(str(one["sha256"]))]
        for name, one in (bundle.get("files") or {}).items()
    )
    return table(("File of the bundle", "Size", "SHA-256"), rows)


def make_card(folder: RunFolder) -> str:
    """The card of a judged run.

    Raises:
        Mistake: it has no verdict, or a file of it cannot be read.
    """
    read_judged(folder)
    contents = read_contents(folder)
    if contents.damaged:
        raise Mistake(
            Problem(f"{name} of run {folder.name} cannot be read", found=why)
            for name, why in contents.damaged
        )
    manifest = folder.bundle / MANIFEST
    return render_card(CardSource(contents, read_json(manifest) if manifest.exists() else {}))


def write_card(folder: RunFolder, output: Path) -> Path:
    """Write the card of a judged run, and return where.

    Raises:
        Mistake: as `make_card`. StorageFailed: the disk.
    """
    write_text(output, make_card(folder))
    return output
