"""`generate`: texts written by the model of a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.cli.arguments import RUNS, AllowCode, AsJson, RunName, Runs, naming_damage

if TYPE_CHECKING:
    from trainwright.cli.texts.asked_texts import AskedTexts
    from trainwright.predictor.text_generation import DecodingOptions, TextGenerator
    from trainwright.run.after.generate_text import Asked
    from trainwright.tracking.run_folder import RunFolder

_NO_FILE = Path("-")

Prompt = Annotated[
    str, typer.Argument(metavar="PROMPT", help="The text to continue, or the path of an image.")
]
Prompts = Annotated[
    Path,
    typer.Option(
        "--from", metavar="FILE", help="Many prompts: one a line, or .jsonl with prompt keys."
    ),
]
Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="OUT", help="With --from: a .jsonl file.")
]
NewTokens = Annotated[int, typer.Option(metavar="N", min=1, help="Most new tokens.")]
Temperature = Annotated[
    float, typer.Option(metavar="T", min=0.0, help="0 takes the likeliest token.")
]
TopK = Annotated[
    int, typer.Option(metavar="K", min=0, help="Draw from the K likeliest tokens; 0: all.")
]
TopP = Annotated[
    float,
    typer.Option(
        metavar="P", min=0.0, max=1.0, help="Draw from the likeliest tokens that reach P."
    ),
]
Stops = Annotated[
    list[str],
    typer.Option("--stop", metavar="TEXT", help="End before this text; may be repeated."),
]
Chat = Annotated[bool, typer.Option("--chat", help="Answer a user, or messages.")]
Beside = Annotated[
    list[str],
    typer.Option("--beside", metavar="RUN", help="Its adapter on the same base too; repeat."),
]
Question = Annotated[
    str, typer.Option("--question", metavar="TEXT", help="What is asked of the image.")
]
WithBase = Annotated[bool, typer.Option("--with-base", help="The base without the adapter too.")]


def generate(
    run: RunName,
    prompt: Prompt = "",
    prompts: Prompts = _NO_FILE,
    output: Output = _NO_FILE,
    tokens: NewTokens = 200,
    temperature: Temperature = 0.8,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    stop: Stops = [],  # noqa: B006  typer reads the default
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Seed of the draws.")] = 0,
    chat: Chat = False,
    beside: Beside = [],  # noqa: B006  typer reads the default
    with_base: WithBase = False,
    question: Question = "",
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Continue a prompt with the decoder of a run, or each prompt of a file.

    A seed, the number of the prompt and the options give the same text again. A text also ends
    where the document ends, if the training texts were documents. With --chat, prompts are written
    by the template of the chats that the model was trained on, and an answer ends its turn.
    Adapters on one base, and the base, write beside each other; the base is held once. A model that
    writes of images gets the path of an image, or with --from a table or a folder of them."""
    from trainwright.cli.texts.asked_texts import AskedTexts
    from trainwright.core.lazy_imports import need_torch
    from trainwright.core.process import code_allowed
    from trainwright.run.folder.planned_contract import find_run

    asked = AskedTexts(prompt, prompts, output, question, chat, tuple(beside), with_base, as_json)
    asked.check()
    need_torch("", "a decoder")
    from trainwright.predictor.text_generation import DOCUMENT_END, DecodingOptions

    ends = (DOCUMENT_END, *(one for one in stop if one))
    decoding = DecodingOptions(tokens, temperature, top_k, top_p, ends, seed)
    folders = [find_run(one, runs) for one in (run, *beside)]
    with code_allowed(allow_code), naming_damage(folders[0]):
        _write(folders, asked, decoding)


def _write(folders: Sequence[RunFolder], asked: AskedTexts, decoding: DecodingOptions) -> None:
    """Write with the models of the runs, in the way that theirs do."""
    from trainwright.run.after.caption_images import writes_of_images
    from trainwright.run.after.generate_text import open_generator, read_prompts

    if writes_of_images(folders[0]):
        from trainwright.cli.texts.asked_texts import generate_captions

        asked.check_images()
        return generate_captions(folders[0], asked, decoding)
    asked.check_texts()
    if asked.is_comparison:
        from trainwright.cli.texts.asked_texts import generate_beside

        return generate_beside(folders, asked, decoding)
    generator, reader = open_generator(folders[0], decoding, is_chat=asked.is_chat)
    if asked.are_many:
        prompts = list(read_prompts(asked.prompts, reader))
        return _generate_all(generator, prompts, asked.output)
    return _generate_one(generator, reader.read(asked.prompt), as_json=asked.as_json)


def _generate_one(generator: TextGenerator, prompt: Asked, *, as_json: bool) -> None:
    from trainwright.cli.render import show_json
    from trainwright.cli.texts.show_questions import describe_text, tell_doubts
    from trainwright.core.formatting import show_safely

    if as_json:
        show_json(describe_text(prompt, generator.generate(prompt.pieces)))
        return

    def tell(text: str) -> None:
        sys.stdout.write(show_safely(text))
        sys.stdout.flush()

    found = generator.generate(prompt.pieces, tell=tell)
    sys.stdout.write("\n")
    tell_doubts(found, "the prompt")


def _generate_all(generator: TextGenerator, given: Sequence[Asked], output: Path) -> None:
    from trainwright.cli.texts.show_questions import describe_text, tell_doubts
    from trainwright.core.files import write_text
    from trainwright.core.formatting import show_safely

    lines = []
    for row, prompt in enumerate(given):
        found = generator.generate(prompt.pieces, row)
        tell_doubts(found, f"prompt {row + 1}")
        lines.append(json.dumps(describe_text(prompt, found), ensure_ascii=output == _NO_FILE))
        if output == _NO_FILE:
            sys.stdout.write(lines[-1] + "\n")
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r{row + 1:,} of {len(given):,} prompts")
    if output != _NO_FILE:
        write_text(output, "".join(line + "\n" for line in lines))
        sys.stdout.write(show_safely(f"{len(lines):,} texts in {output}\n"))
