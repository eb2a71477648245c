"""First contract for a table, images, or texts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os.path import relpath
from pathlib import Path
from typing import NamedTuple, final

from trainwright.contract.reading.overrides import set_values
from trainwright.contract.reading.read_contract import ContractText, read_contract, refuse_secret
from trainwright.contract.reading.yaml_reader import ParsedYaml, Plain
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake, Mistake, Place, Problem
from trainwright.core.formatting import show_count
from trainwright.data.base.messages import some
from trainwright.data.columns.doubts import Doubt
from trainwright.data.columns.resolve_doubts import find_free_text, with_doubts
from trainwright.data.formats.file_format import known_format
from trainwright.data.images.resolve_source import is_idx
from trainwright.data.read_table import RawTable, read_table
from trainwright.data.sources.find_source import holds_table, read_source
from trainwright.data.sources.folders import is_pattern
from trainwright.data.sources.remote_store import is_remote
from trainwright.data.text.prepare_text import read_tokens
from trainwright.planner.init.guess_format import looks_headless, read_first, with_numbers
from trainwright.planner.init.propose_images import are_images, propose_images
from trainwright.planner.init.propose_series import propose_series
from trainwright.planner.init.propose_table import ProposalSettings, propose
from trainwright.planner.init.yaml_lines import comment, scalar, with_settings

_MOST_CLASSES = 20
_ROWS_OF_A_CLASS = 2

_CHAT = "  reading: {nested: chat}  # a list of turns becomes a line 'role: content' for each"


@final
@dataclass(frozen=True, slots=True)
class GivenData:
    """Data, `found` in a folder and called `written` in the contract, and the caller's settings:
    `data` is the path or URL that was typed."""

    folder: Path
    found: str
    written: str
    overrides: Sequence[str]
    data: str
    target: str
    text: str
    schema: str
    contract_folder: Path
    base: str = ""

    @property
    def place(self) -> Path:
        """Where it is, unless it is at a URL."""
        return self.folder / self.found


class Proposal(NamedTuple):
    """How `init` knows a kind of data, and the contract that it writes for it."""

    recognises: Callable[[GivenData], bool]
    propose: Callable[[GivenData], str]


def propose_contract(
    data: str,
    target: str,
    contract_folder: Path,
    schema: str = "",
    text: str = "",
    overrides: Sequence[str] = (),
    base: str = "",
) -> str:
    """Inspect data and propose a contract for it, to be written into `contract_folder`. `data` is a
    path or a URL; `target` the column to predict, `text` the column of a table whose texts are
    learned as tokens; `base` a folder with a decoder, of which an adapter is trained.
    `overrides` of the data decide how it is read; all of them are written into the contract.

    Raises:
        DataMistake: the data cannot be used for training, or no target is named.
        ContractMistake: an invalid override.
    """
    refuse_secret(data, "DATA")
    folder, found, written = located(data, contract_folder)
    wanted = GivenData(
        folder, found, written, overrides, data, target, text, schema, contract_folder, base
    )
    proposal = next(one for one in PROPOSALS if one.recognises(wanted))
    if base and proposal.propose is not _for_texts:
        raise Mistake(
            Problem(
                "only texts are learned beside a base that init is given",
                path="--base",
                found=found,
                expected="a text, or --text COLUMN",
                fix="leave out --base, and add model.adapter to the contract",
            )
        )
    proposed = proposal.propose(wanted)
    if not overrides:
        return proposed
    changed = with_settings(proposed, overrides)
    read_contract(ContractText(changed, contract_folder))
    return changed


def _refuse(wanted: GivenData) -> str:
    """One of four IDX files, or a table without a target."""
    if is_idx(wanted.place):
        raise DataMistake(_one_of_four(wanted.data, wanted.place))
    raise DataMistake(_no_target(wanted.found, wanted.folder))


def located(data: str, contract_folder: Path) -> tuple[Path, str, str]:
    """The folder and name to read, and the path in the contract."""
    if is_remote(data):
        return Path(), data, data
    absolute = Path(data).absolute() if is_pattern(data) else Path(data).resolve()
    written = Path(relpath(absolute, contract_folder.resolve())).as_posix()
    if is_pattern(data):
        return contract_folder, written, written
    return absolute.parent, absolute.name, written


def is_table(data: str, place: Path) -> bool:
    """Is data that is not images a table rather than a text? `place` is its location."""
    if is_remote(data) or is_pattern(data):
        return True
    if place.is_dir():
        return holds_table(place)
    return bool(known_format(data))


def _one_of_four(data: str, place: Path) -> Problem:
    return Problem(
        "images in IDX files are read as a folder that holds images and labels",
        path="DATA",
        found=place.name,
        fix=f"trainwright init {shlex.quote(str(Path(data).parent))}",
    )


def _no_target(found: str, folder: Path) -> Problem:
    first = read_first(folder, found, Reading(), "")
    frame = read_source(found, folder, "DATA", first.reading).frame
    names, header = frame.columns, ""
    if looks_headless(frame):
        names = [f"column_{at}" for at in range(1, frame.width + 1)]
        header = "; the first line looks like a row, so the columns go by their numbers"
    return Problem(
        "it is not said which column to predict",
        path="--target",
        found=found,
        expected=f"one of: {some([name[:40] for name in names], 12)}{header}",
        fix=f"--target {shlex.quote(names[-1])}, or --text COLUMN to learn the texts of a column "
        "as tokens",
    )


def _for_table(wanted: GivenData) -> str:
    """Resolve and report everything between a file and its contract."""
    folder, found, target = wanted.folder, wanted.found, wanted.target
    asked = _section(wanted, target)
    first = read_first(folder, found, asked.reading, target)
    reading, lines = with_numbers(folder, found, first.reading, first.yaml())
    section = asked.model_copy(update={"reading": reading})
    if "missing_target" not in asked.model_fields_set:
        section = section.model_copy(update={"missing_target": "drop"})
    try:
        raw = read_table(section, folder)
    except DataMistake as mistake:
        raw = _with_target(section, folder, mistake)
    _check_classes(raw, target, found)
    if series := propose_series(raw, folder, found, wanted.written, target, wanted.schema):
        return series
    raw = _with_texts(section, folder, raw)
    rows = []
    if dropped := raw.facts.target.missing:
        what = f"the target is missing in {dropped} of {raw.facts.rows + dropped} rows"
        rows.append(f"  missing_target: drop  # {what}: they are excluded")
    return propose(raw, wanted.written, target, ProposalSettings(wanted.schema, lines, tuple(rows)))


def _section(wanted: GivenData, target: str) -> TableData:
    """The section with the caller's settings."""
    data = {**_set_of(wanted, "data"), "path": wanted.found, "target": target}
    text = ContractText.of({"data": data, "model": {"kind": "boosting"}}, wanted.folder)
    return TableData.of(read_contract(text).contract.data)


def _text_section(wanted: GivenData, text: str) -> TokenData:
    """The section with the caller's settings for it and for the model."""
    column = {"text": text} if text else {}
    data = {"kind": "tokens", **_set_of(wanted, "data"), "path": wanted.found, **column}
    model = {"kind": "gpt", **_set_of(wanted, "model")}
    section = read_contract(ContractText.of({"data": data, "model": model}, wanted.folder))
    return TokenData.of(section.contract.data)


def _set_of(wanted: GivenData, name: str) -> dict[str, Plain]:
    """The caller's settings for a section of the contract."""
    values, _ = set_values(ParsedYaml({}, {}), wanted.overrides)
    section = values.value.get(name) if isinstance(values.value, dict) else None
    return section if isinstance(section, dict) else {}


def _with_target(section: TableData, folder: Path, mistake: DataMistake) -> RawTable:
    """The rows without the few whose target is not a number, if most are."""
    problem = next((one for one in mistake.problems if one.kind == "unreadable_target"), None)
    if problem is None or section.target_name in section.columns:
        raise mistake
    doubt = Doubt(
        section.target_name,
        Column(kind="numeric", unreadable="missing"),
        f"{problem.found}: no numbers, and excluded",
    )
    raw = read_table(with_doubts(section, [doubt]), folder)
    return replace(raw, facts=replace(raw.facts, doubts=(*raw.facts.doubts, doubt)))


def _with_texts(section: TableData, folder: Path, raw: RawTable) -> RawTable:
    """The rows with free text as a feature, where its terms fit into memory."""
    if raw.facts.placing.rows_in == "files":
        return raw
    frame = raw.frames["train"]
    found = [find_free_text(column, frame[column.name]) for column in raw.columns]
    texts = [doubt for doubt in found if doubt and doubt.column not in section.exclude]
    if not texts:
        return raw
    doubts = (*raw.facts.doubts, *texts)
    read = read_table(with_doubts(section, doubts), folder)
    return replace(read, facts=replace(read.facts, doubts=doubts))


def _check_classes(raw: RawTable, target: str, found: str) -> None:
    """Refuse a target that identifies rows."""
    classes = raw.facts.target.classes
    if len(classes) <= max(_MOST_CLASSES, raw.facts.rows / _ROWS_OF_A_CLASS):
        return
    raise DataMistake(
        Problem(
            "the target has another value in nearly every row",
            path="--target",
            found=f"{len(classes):,} classes in {raw.facts.rows:,} rows",
            expected="classes that repeat, or numbers",
            fix=f"name another column, or learn the texts: --text {shlex.quote(target)}",
            place=Place(found),
        )
    )


def _is_nested(folder: Path, found: str, reading: Reading, column: str = "") -> bool:
    """Do rows contain lists or objects: in lines of JSON, or in a column?"""
    try:
        frame = read_source(found, folder, "DATA", reading).frame
    except Mistake as mistake:
        return mistake.is_about("nested_values")
    return column in frame.columns and frame.schema[column].is_nested()


def _for_texts(wanted: GivenData) -> str:
    folder, found, written = wanted.folder, wanted.found, wanted.written
    text = wanted.text
    section = _text_section(wanted, text)
    says_nested = "nested" in section.reading.model_fields_set
    if text and not says_nested and _is_nested(folder, found, section.reading, text):
        chat = section.reading.model_copy(update={"nested": "chat"})
        section = section.model_copy(update={"reading": chat})
    raw = read_tokens(section, folder)
    size = f"{show_count(raw.facts.rows)} characters, {raw.text.vocabulary.size} of them different"
    return "\n".join(
        [
            f"# What a model of the texts in {comment(written)} must prove: {size}.",
            "task: generation",
            "data:",
            "  kind: tokens",
            f"  path: {scalar(written)}",
            *([f"  text: {scalar(text)}"] if text else []),
            *([_CHAT] if section.reading.nested == "chat" else []),
            *_model_of_texts(wanted),
            "metric:",
            "  name: nats_per_token",
            "  # target: 1.9  # the largest allowed; by default: better than every baseline",
            "seed: 0  # the same number gives the same windows and the same model",
            "",
        ]
    )


def _model_of_texts(wanted: GivenData) -> list[str]:
    """A small decoder, or an adapter of a base."""
    if not wanted.base:
        return [
            "  vocabulary: characters  # or bytes, for many scripts",
            "model: {kind: gpt, layers: 4, heads: 4, width: 128, context: 64}",
        ]
    # Imported here: it needs torch.
    from trainwright.planner.init.propose_adapter import propose_adapter

    place = Path(relpath(Path(wanted.base).resolve(), wanted.contract_folder.resolve()))
    return propose_adapter(place.as_posix(), wanted.contract_folder)


PROPOSALS = (
    Proposal(lambda it: is_idx(it.place), _refuse),
    Proposal(lambda it: bool(it.text), _for_texts),
    Proposal(
        lambda it: not is_remote(it.data) and are_images(it.place),
        lambda it: propose_images(it.place, it.target, it.contract_folder),
    ),
    Proposal(lambda it: bool(it.target), _for_table),
    Proposal(lambda it: is_table(it.data, it.place), _refuse),
    Proposal(lambda _: True, _for_texts),
)
"""The first that recognises the data proposes its contract."""
