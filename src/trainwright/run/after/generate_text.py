"""Texts written by the model of a run. Needs torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, final

from trainwright.core.errors import Mistake, Place, Problem
from trainwright.core.files import Json
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.model.families import network_family
from trainwright.model.model_call import TokenDecoder
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.text_generation import DecodingOptions, TextGenerator, text_generator
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.planned_contract import read_planned
from trainwright.tracking.run_folder import RunFolder


class Asked(NamedTuple):
    """A prompt as it was given, and its pieces, between which no token reaches."""

    given: Json
    pieces: Sequence[str]


@final
@dataclass(frozen=True, slots=True)
class ChatPrompts:
    """How the model of a run reads prompts: as texts, or as messages of its template."""

    encoding: TokenEncoding
    are_messages: bool

    def read(self, given: str | Sequence[Json], tools: str = "") -> Asked:
        """A text, or what a user says; or a list of messages.

        Raises:
            Mistake: the model reads no messages, or they are none.
        """
        if isinstance(given, str) and not self.are_messages:
            return Asked(given, (given,))
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
        return Asked(given, self.encoding.ask(json.dumps(messages), tools))


def open_generator(
    folder: RunFolder, decoding: DecodingOptions, *, is_chat: bool = False
) -> tuple[TextGenerator, ChatPrompts]:
    """A generator with the model of a finished run, and how it reads prompts. Of a chat, an answer
    also ends where the template ends it.

    Raises:
        Mistake: its model writes no texts. StorageFailed: its files were changed.
    """
    return _writing(read_writer(folder), decoding, is_chat=is_chat)


def _writing(
    predictor: Predictor, decoding: DecodingOptions, *, is_chat: bool
) -> tuple[TextGenerator, ChatPrompts]:
    encoding = TokenEncoding.of_kind(predictor.features)
    if is_chat:
        decoding = replace(decoding, stop=(*filter(None, [encoding.turn_end]), *decoding.stop))
    generator = text_generator(predictor, encoding, decoding)
    return generator, ChatPrompts(encoding, is_chat)


def open_generators(
    folders: Sequence[RunFolder],
    decoding: DecodingOptions,
    *,
    is_chat: bool = False,
    with_base: bool = False,
) -> list[tuple[str, TextGenerator, ChatPrompts]]:
    """Generators with the adapters of several runs on one base, which is held once, by the names of
    the runs; `with_base` also the base without an adapter, by the name `base`.

    Raises:
        Mistake: a run has no adapter, or one on another base; or as `open_generator`.
    """
    bases = {one.full_name: _base_of(one) for one in folders}
    first = next(iter(bases.values()))
    for folder in folders:
        if not bases[folder.full_name] or bases[folder.full_name] != first:
            raise Mistake(
                Problem(
                    "only adapters on one base write beside each other",
                    path="--beside" if len(folders) > 1 else "--with-base",
                    found="; ".join(f"{name}: {base or 'none'}" for name, base in bases.items()),
                    expected="runs with model.adapter whose base has the same SHA-256",
                    fix="generate with each run by itself",
                )
            )
    found = [(one.name, *open_generator(one, decoding, is_chat=is_chat)) for one in folders]
    if with_base:
        predictor = read_writer(folders[0])
        assert isinstance(predictor.scorer, NetworkScorer), "it writes texts"
        network_family(predictor.scorer.section).unmerge(predictor.scorer.network)
        found.append(("base", *_writing(predictor, decoding, is_chat=is_chat)))
    return found


def _base_of(folder: RunFolder) -> str:
    """SHA-256 of the base that a run has trained an adapter on; empty without one."""
    section = read_planned(folder).model
    return section.base_weights if section.has_adapter else ""


def read_writer(folder: RunFolder) -> Predictor:
    """The model of a finished run, which writes texts.

    Raises:
        Mistake: it writes none. StorageFailed: its files were changed.
    """
    if not folder.bundle.exists():
        raise _writes_nothing(folder, f"no {folder.bundle.name}: it is not finished")
    predictor = read_own_bundle(folder)
    scorer = predictor.scorer
    if not isinstance(scorer, NetworkScorer) or not isinstance(scorer.network, TokenDecoder):
        raise _writes_nothing(folder, f"a model of kind {scorer.kind}")
    return predictor


def read_prompts(file: Path, reader: ChatPrompts) -> Iterator[Asked]:
    """Prompts of a file: of .jsonl the key `prompt` of each line, or of chats `messages` and
    `tools`; of others each line.

    Raises:
        Mistake: it is missing, or a line has no prompt.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise Mistake(
            Problem(
                "the prompts cannot be read",
                path="--from",
                found=f"{file}: {error}",
                expected="a text in UTF-8 with a prompt in each line, or .jsonl with prompt keys",
                fix="name such a file",
            )
        ) from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            is_json = file.suffix == ".jsonl"
            yield _prompt_of(line, number, file, reader) if is_json else reader.read(line)


def _prompt_of(line: str, number: int, file: Path, reader: ChatPrompts) -> Asked:
    try:
        row = json.loads(line)
        found = row.get("messages") if reader.are_messages else None
        found, tools = found or row["prompt"], row.get("tools") or ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found, tools = None, ""
    place = Place(str(file), number)
    if isinstance(found, str | list) and found:
        try:
            return reader.read(found, tools if isinstance(tools, str) else json.dumps(tools))
        except Mistake as wrong:
            raise Mistake([replace(one, place=place) for one in wrong.problems]) from wrong
    raise Mistake(
        Problem(
            "a line has no prompt",
            path="--from",
            found=line[:80],
            expected='{"prompt": "a text"}, or with --chat a list of messages',
            fix="repair the line",
            place=place,
        )
    )


def _writes_nothing(folder: RunFolder, found: str) -> Mistake:
    return Mistake(
        Problem(
            f"run {folder.name} has no model that writes texts",
            found=found,
            expected="a finished run of a decoder, model.kind: gpt",
            fix="train one, or use trainwright predict",
        )
    )
