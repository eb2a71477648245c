"""`index`, `search` and `mine`: embeddings of a file, and what is nearest to a query."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from trainwright.cli.arguments import RUNS, AllowCode, AsJson, RunName, Runs, naming_damage

_NO_FILE = Path("-")
As = Annotated[
    Literal["auto", "images", "texts", "queries", "passages"],
    typer.Option(
        "--as", help="What is read of a table that has both; auto: images, or what is found."
    ),
]


def index(
    run: RunName,
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A table of images or texts, or a folder.")
    ],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FOLDER", help="Where the index is written."),
    ] = _NO_FILE,
    side: As = "auto",
    keep: Annotated[
        list[str],
        typer.Option("--keep", metavar="COLUMN", help="Also keep this column, for example an id."),
    ] = [],  # noqa: B006  typer reads the default
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Write the embeddings of the images or texts of a file, for `search`.

    By default into the folder `index` of the run. An index names the model that made it, and
    another one does not search in it."""
    from trainwright.cli.render import show_json
    from trainwright.core.formatting import show_safely
    from trainwright.core.process import code_allowed
    from trainwright.run.after.search_embeddings import index_file
    from trainwright.run.folder.planned_contract import find_run

    folder = find_run(run, runs)
    place = folder.path / "index" if output == _NO_FILE else output
    with naming_damage(folder), code_allowed(allow_code):
        facts = index_file(folder, data, place, "found" if side == "auto" else side, keep)
    if as_json:
        show_json({"index": str(place), **facts._asdict()})
    else:
        what = f"{facts.rows:,} {facts.side}, {facts.width} features each"
        sys.stdout.write(show_safely(f"{what}, in {place}\n"))


def search(
    run: RunName,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A text.")] = "",
    file: Annotated[
        str,
        typer.Option(
            "--from", metavar="FILE", help="Images, or a table of images or texts, to search for."
        ),
    ] = "",
    where: Annotated[
        Path, typer.Option("--index", metavar="FOLDER", help="By default that of the run.")
    ] = _NO_FILE,
    top: Annotated[int, typer.Option(min=1, metavar="K", help="How many of the nearest.")] = 10,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="A .csv, .parquet or .jsonl file.")
    ] = _NO_FILE,
    side: As = "auto",
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
) -> None:
    """Find the rows of an index that are nearest to a text, or to each row of a file.

    Every row of the index is compared. Written are the rank, the name, the cosine and the kept
    columns of each match, as CSV or as the suffix of -o says."""
    from trainwright.cli.init_predict import check_folder, encode_table, table_kind
    from trainwright.core.files import write_atomic
    from trainwright.core.formatting import show_safely
    from trainwright.core.process import code_allowed
    from trainwright.run.after.search_embeddings import read_queries, search_rows
    from trainwright.run.folder.planned_contract import find_run

    _check_query(query, file)
    kind = ".csv" if output == _NO_FILE else table_kind(output, "matches")
    if output != _NO_FILE:
        check_folder(output)
    folder = find_run(run, runs)
    place = folder.path / "index" if where == _NO_FILE else where
    with naming_damage(folder), code_allowed(allow_code):
        asked = read_queries(folder, file, query, "given" if side == "auto" else side)
        found = search_rows(folder, asked, place, top)
    if output == _NO_FILE:
        text = found.write_csv()
        sys.stdout.write(show_safely(text) if sys.stdout.isatty() else text)
        return
    write_atomic(output, encode_table(found, kind))
    sys.stdout.write(show_safely(f"{found.height:,} matches in {output}\n"))


def mine(
    run: RunName,
    pairs: Annotated[str, typer.Argument(metavar="PAIRS", help="A table of text pairs.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="A .csv, .parquet or .jsonl file.")
    ],
    negatives: Annotated[int, typer.Option(min=1, metavar="K", help="How many a pair.")] = 4,
    margin: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="M",
            help="Pass over what is nearer than M times the cosine of the right passage.",
        ),
    ] = 0.95,
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
) -> None:
    """Find hard negatives for each pair of a table with the model of a run.

    They are the nearest passages of the table that do not answer the query; one that is about as
    near as the right passage may answer it, and is passed over. Written are the rows with columns
    negative_1, negative_2 and so on, for data.negatives."""
    from trainwright.cli.init_predict import check_folder, encode_table, table_kind
    from trainwright.core.files import write_atomic
    from trainwright.core.formatting import show_safely
    from trainwright.core.process import code_allowed
    from trainwright.run.after.mine_negatives import mine_negatives
    from trainwright.run.folder.planned_contract import find_run

    kind = table_kind(output, "pairs with negatives")
    check_folder(output)
    folder = find_run(run, runs)
    with naming_damage(folder), code_allowed(allow_code):
        found = mine_negatives(folder, pairs, negatives, margin)
    write_atomic(output, encode_table(found.frame, kind))
    cells = found.frame.height * len(found.columns)
    none = f", {found.empty:,} of {cells:,} cells empty" if found.empty else ""
    sys.stdout.write(show_safely(f"{found.frame.height:,} pairs in {output}{none}\n"))
    sys.stdout.write(f"next: data: {{negatives: [{', '.join(found.columns)}]}}\n")


def _check_query(query: str, file: str) -> None:
    from trainwright.core.errors import Mistake, Problem

    if bool(query.strip()) == bool(file):
        raise Mistake(
            Problem(
                "one text is searched for, or the rows of a file",
                found="both" if file else "neither",
                fix='trainwright search RUN "a red circle"',
            )
        )
