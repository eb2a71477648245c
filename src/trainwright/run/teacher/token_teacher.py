"""What a decoder predicts of the tokens of the training part (`training.teacher`): computed once,
and kept as a derived version of the data. Needs torch."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from pydantic import TypeAdapter

from trainwright.contract.document import Contract
from trainwright.contract.sections.model import Model, kinds_with
from trainwright.contract.sections.training.objective import Teacher
from trainwright.core.errors import ContractMistake, DataChanged, Problem, TrainwrightError
from trainwright.core.files import Json, damage_in, hash_bytes, hash_file, hash_value, read_json
from trainwright.core.formatting import show_bytes
from trainwright.data.audit.text_overlap import copied_segments
from trainwright.data.base.token_inputs import TaughtTokens, TokenInputs
from trainwright.data.dispatch import prepare, read_data
from trainwright.data.encoders.text_tokenizer import TextReading
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.data.read_table import Raw
from trainwright.data.sources.cache import open_cache
from trainwright.data.types import Prepared
from trainwright.model.families import family_of, network_family
from trainwright.model.input_shape import shape_of
from trainwright.predictor.bundle import MANIFEST
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.predictor.predicted_tokens import (
    read_predicted,
    target_positions,
    write_predicted,
)
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.teacher.soft_targets import TEACHER_PATH, read_teacher, same_division
from trainwright.tracking.run_folder import RunFolder, is_run_folder

_SECTION: TypeAdapter[Model] = TypeAdapter(Model)
_MOST_BYTES = 32 * 10**9
_FOLDER = (
    "whether the teacher was trained on test rows is not known: it is a folder of Hugging Face"
)


@final
class TokenTeacher(NamedTuple):
    """A decoder that teaches, the SHA-256 of what it is, and a doubt about its training text."""

    scorer: NetworkScorer
    sha256: str
    doubt: str


def teach_tokens(
    prepared: Prepared, contract: Contract, raw: Raw, folder: Path
) -> tuple[Prepared, dict[str, Json]]:
    """As `teach`, of the tokens of texts and chats.

    Raises:
        Mistake: there is no such decoder, its tokens are others, it was trained on test rows, or
            what it says does not fit on the disk.
    """
    section = contract.training.teacher
    assert isinstance(section, Teacher), "the contract has a teacher"
    teacher = _read(folder / section.bundle, prepared, contract, raw)
    inputs = TokenInputs.of_kind(prepared.train.inputs)
    outputs = TokenEncoding.of_kind(prepared.features).vocabulary.size
    top = outputs if section.top_k == "all" else min(section.top_k, outputs)
    _check_size(inputs, top)
    key = hash_value(
        {
            "scheme": 1,
            "teacher": teacher.sha256,
            "rows": prepared.version,
            "top_k": top,
            "temperature": section.temperature,
            "context": teacher.scorer.context,
        }
    )

    def write(entry: Path) -> Json:
        write_predicted(entry, teacher.scorer, inputs, outputs, top, section.temperature)
        return {}

    cache = open_cache(contract.data.cache_folder, folder)
    found, _ = cache.entry("values", key, f"soft targets of {section.bundle}", write)
    values = {one.name: getattr(inputs, one.name) for one in fields(TokenInputs)}
    train = replace(prepared.train, inputs=TaughtTokens(**values, soft=read_predicted(found)))
    about: dict[str, Json] = {
        "path": section.bundle,
        "sha256": teacher.sha256,
        "note": teacher.doubt,
    }
    return replace(prepared, train=train, version=key), about


def _read(place: Path, prepared: Prepared, contract: Contract, raw: Raw) -> TokenTeacher:
    is_ours = (place / MANIFEST).exists() or is_run_folder(place)
    if (place / "config.json").is_file() and not is_ours:
        return _read_hub_folder(place, prepared, contract)
    predictor = read_teacher(place)
    scorer = predictor.scorer
    same = predictor.target.task == "generation" and isinstance(scorer, NetworkScorer)
    if not same or not isinstance(scorer, NetworkScorer):
        raise _other_kind(f"{predictor.target.task} by a model of kind {scorer.kind}")
    ours, theirs = (
        TokenEncoding.of_kind(one).vocabulary for one in (prepared.features, predictor.features)
    )
    if theirs != ours:
        raise _other_tokens(f"{theirs.size:,} {theirs.kind}", f"{ours.size:,} {ours.kind}")
    within = RunFolder(place).bundle if is_run_folder(place) else place
    return TokenTeacher(
        scorer, hash_file(within / MANIFEST), check_unseen(place, prepared, contract, raw)
    )


def _read_hub_folder(place: Path, prepared: Prepared, contract: Contract) -> TokenTeacher:
    """A decoder of transformers with windows as long as those of the model."""
    (kind, *_) = kinds_with(lambda one: one.writes_text)
    windows = {"architecture": str(place.resolve()), "context": contract.model.context_length}
    asked = _SECTION.validate_python({"kind": kind, **windows})
    section = family_of(asked).read_files(asked, place, contract.data.form)
    if problems := list(family_of(section).encoding_problems(section, prepared.features)):
        raise _other_tokens(str(place), problems[0].found)
    shape = shape_of(prepared)
    network = network_family(section).build(section, shape).eval().requires_grad_(False)
    scorer = NetworkScorer(section, shape, prepared.target, network)
    return TokenTeacher(scorer, section.base_weights, _FOLDER)


def check_unseen(
    place: Path, prepared: Prepared, contract: Contract, raw: Raw, *, comparable: bool = True
) -> str:
    """Refuse a teacher that was trained on our test rows; what remains unknown, if anything. Texts
    in other tokens are not `comparable`.

    Raises:
        ContractMistake: it was.
    """
    unknown = "whether the teacher was trained on test rows is not known: "
    if not is_run_folder(place):
        return f"{unknown}it is no run"
    run = RunFolder.open(place)
    if same_division(run, contract, raw) and _same_sizes(run, prepared):
        return ""
    if not comparable:
        return f"{unknown}it divides its data otherwise, and has other tokens"
    try:
        theirs = _training_text(run)
    except (TrainwrightError, OSError) as error:
        return f"{unknown}{str(error).partition(chr(10))[0]}"
    seen = _repeated(theirs, prepared)
    own = _repeated(TokenInputs.of_kind(prepared.train.inputs), prepared)
    if count := int((seen & ~own).sum()):
        raise ContractMistake(
            Problem(
                "the teacher was trained on test rows of this contract",
                path=TEACHER_PATH,
                found=f"{count:,} of {len(seen):,} test segments stand in its training text",
                expected="a teacher that has seen none of them",
                fix="train the teacher on this split of the rows",
            )
        )
    return ""


def _training_text(run: RunFolder) -> TokenInputs:
    """The training part of a run, read again.

    Raises:
        Mistake: it cannot be read. DataChanged: its files are others by now.
    """
    contract = read_planned(run)
    with damage_in(run.plan):
        plan = read_json(run.plan)
        folder = Path(plan.get("contract_folder") or Path(plan["contract_path"]).parent)
    raw = read_data(contract.data, folder)
    with damage_in(run.data / "manifest.json"):
        listed = read_json(run.data / "manifest.json")["facts"]["files"]
    if [one["sha256"] for one in listed] != [one.sha256 for one in raw.facts.files]:
        raise DataChanged("its files have changed since")
    theirs = prepare(raw, contract.data, "generation", contract.split_seed, TextReading())
    return TokenInputs.of_kind(theirs.train.inputs.segments)


def _same_sizes(run: RunFolder, prepared: Prepared) -> bool:
    file = run.data / "split.json"
    if not file.is_file():
        return False
    with damage_in(file):
        return dict(read_json(file)["rows"]) == dict(prepared.split.rows)


def _repeated(train: TokenInputs, prepared: Prepared) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Test segments that repeat a training text, by its n-grams or as a whole document."""
    test = TokenInputs.of_kind(prepared.test.inputs.segments)
    pieces = TokenEncoding.of_kind(prepared.features).vocabulary.kind == "subwords"
    copied = copied_segments(train, test, pieces=pieces).copied
    if len(test.documents) < 2:
        return copied
    known = set(_documents(train))
    return copied | np.array([one in known for one in _documents(test)], np.bool_)


def _documents(inputs: TokenInputs) -> list[str]:
    """The hash of the document of each segment."""
    ends = np.append(inputs.documents[1:], len(inputs.tokens))
    hashes: dict[int, str] = {}
    found = []
    for owner in inputs.owners().tolist():
        if owner not in hashes:
            tokens = inputs.tokens[int(inputs.documents[owner]) : int(ends[owner])]
            hashes[owner] = hash_bytes(np.asarray(tokens, "<u4").tobytes())
        found.append(hashes[owner])
    return found


def _check_size(inputs: TokenInputs, top: int) -> None:
    size = len(target_positions(inputs)) * (8 * top + 4)
    if size > _MOST_BYTES:
        raise ContractMistake(
            Problem(
                "what the teacher says of every token does not fit on the disk",
                path="training.teacher.top_k",
                found=f"{top:,} tokens at each position: {show_bytes(size)}",
                expected=f"at most {show_bytes(_MOST_BYTES)}",
                fix="lower training.teacher.top_k",
            )
        )


def _other_kind(found: str) -> ContractMistake:
    return ContractMistake(
        Problem(
            "the teacher predicts no tokens",
            path=TEACHER_PATH,
            found=found,
            expected="a decoder",
            fix="name a run of a decoder",
        )
    )


def _other_tokens(found: str, expected: str) -> ContractMistake:
    return ContractMistake(
        Problem(
            "the tokens of the teacher are others",
            path=TEACHER_PATH,
            found=found,
            expected=f"the tokens of this data: {expected}",
            fix="train both on the same tokenizer",
        )
    )
