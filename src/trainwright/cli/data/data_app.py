"""Verbs of `trainwright data`. Heavy imports are inside them, so that help is instant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.arguments import RUNS, AllowCode, AsJson, ContractPath, Every, Overrides, Runs
from trainwright.core.process import code_allowed

data_app = typer.Typer(
    help="Check, compare and show data.", no_args_is_help=True, rich_markup_mode=None
)
cache_app = typer.Typer(help="Cached data.", no_args_is_help=True, rich_markup_mode=None)
data_app.add_typer(cache_app, name="cache")

CheckedAs = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Replace a value of the contract, of a file one below data.",
    ),
]


@data_app.command("check")
def check_data(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA|CONTRACT", help="A file, folder, pattern or URL, or a contract."
        ),
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")] = "",
    overrides: CheckedAs = [],  # noqa: B006  typer reads the default
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip checks that sort, search or fit models.")
    ] = False,
    every: Every = False,
    as_json: AsJson = False,
) -> None:
    """Check data for duplicates, leaks, wrong values, label errors and other faults."""
    from trainwright.cli.data.data_files import check_quality

    code = check_quality(source, target, overrides, quick=quick, every=every, as_json=as_json)
    raise typer.Exit(code)


@data_app.command("show")
def show_data(
    contract: ContractPath,
    overrides: Overrides = [],  # noqa: B006  typer reads the default
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="A .png file.")
    ] = Path("images.png"),
    images: Annotated[int, typer.Option(metavar="N", min=1, help="Number of images.")] = 8,
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Epochs per image.")] = 6,
) -> None:
    """Write a contact sheet of training images and their augmentations."""
    from trainwright.cli.data.data_files import show_images

    show_images(contract, overrides, output, images, epochs)


@data_app.command("tokenize")
def tokenize_data(
    contract: ContractPath,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Path of the token file.")
    ] = Path("texts.tokens"),
    overrides: Overrides = [],  # noqa: B006  typer reads the default
    as_json: AsJson = False,
) -> None:
    """Write the tokens of a contract's text once, as a file to train from."""
    from trainwright.cli.data.data_files import write_tokens

    write_tokens(contract, overrides, output, as_json=as_json)


@data_app.command("distil")
def distil_data(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The teacher: a run of chats.")],
    contract: ContractPath,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="A .jsonl file.")
    ] = Path("distilled.jsonl"),
    tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Most tokens an answer.")] = 256,
    overrides: Overrides = [],  # noqa: B006  typer reads the default
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Write the chats of a contract with training answers by a trained model."""
    from trainwright.cli.data.data_files import write_distilled

    with code_allowed(allow_code):
        write_distilled(run, runs, contract, overrides, output, tokens=tokens, as_json=as_json)


@cache_app.command("list")
def list_cache(as_json: AsJson = False) -> None:
    """List cached data, with its size."""
    from trainwright.cli.data.data_cache import show_cache

    show_cache(as_json=as_json)


@cache_app.command("clear")
def clear_cache(
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="Prefix of their keys; by default all.")
    ] = [],  # noqa: B006  typer reads the default
    as_json: AsJson = False,
) -> None:
    """Remove cached data. Runs lose nothing: data is read again when needed."""
    from trainwright.cli.data.data_cache import clear_kept

    clear_kept(keys, as_json=as_json)


@data_app.command("diff")
def diff_data(
    before: Annotated[str, typer.Argument(metavar="A", help="A run, or a data file.")],
    after: Annotated[str, typer.Argument(metavar="B", help="A run, or a data file.")],
    key: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column that identifies the rows of files.")
    ] = "",
    runs: Runs = RUNS,
    as_json: AsJson = False,
) -> None:
    """Compare the data of two runs, of two files, or of a run and a file."""
    from trainwright.cli.data.data_diff import show_difference

    show_difference(before, after, runs, key, as_json=as_json)
