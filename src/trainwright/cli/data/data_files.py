"""`data check`, `data diff`, `data show`, `data tokenize` and `data distil`: findings, changes
and files."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.box import ROUNDED
from rich.table import Table
from rich.text import Text

from trainwright.cli.arguments import naming_damage
from trainwright.cli.init_predict import check_folder
from trainwright.cli.render import results_console, say, screen_on_stderr, show_json
from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import EXIT_DATA_FAULTY, EXIT_DONE, Mistake, Problem
from trainwright.core.files import write_text
from trainwright.core.formatting import many, show_bytes
from trainwright.core.lazy_imports import need_torch
from trainwright.data.base.messages import some
from trainwright.data.dispatch import modality_of
from trainwright.data.quality.finding import Finding, findings_json, one_a_kind
from trainwright.data.quality.run_checks import Effort
from trainwright.run.after.data_quality import check_contract_data, file_findings
from trainwright.run.folder.planned_contract import find_run
from trainwright.run.screen import StreamScreen, labelled

_STYLE = {"error": "bold red", "warning": "yellow", "info": "dim"}
_CONTRACTS = (".yaml", ".yml")
_ROWS_SHOWN = 4


def check_quality(
    source: str,
    target: str,
    overrides: Sequence[str] = (),
    *,
    quick: bool,
    every: bool = False,
    as_json: bool = False,
) -> int:
    """Print the findings, one line per kind unless `every` one is requested; the exit code is 4 if
    one is an error, else 0."""
    screen = screen_on_stderr()
    effort: Effort = "quick" if quick else "all"

    def tell(what: str) -> None:
        screen.say(labelled("look for", what))

    if source.endswith(_CONTRACTS):
        findings = check_contract_data(Path(source), target, effort, tell, overrides)
    else:
        findings = file_findings(source, target, effort, tell, overrides)
    if as_json:
        show_json(findings_json(findings))
    else:
        show_findings(findings, every=every)
    return exit_code(findings)


def exit_code(findings: Sequence[Finding]) -> int:
    """4 if a finding is an error, else 0."""
    faulty = any(finding.severity == "error" for finding in findings)
    return EXIT_DATA_FAULTY if faulty else EXIT_DONE


def show_findings(findings: Sequence[Finding], *, every: bool) -> None:
    """Findings as a table, the worst first: one line per kind, or every one with its fix."""
    if not findings:
        say("ok", "nothing was found")
        return
    console = results_console()
    table = Table(box=ROUNDED if console.is_terminal else None, pad_edge=console.is_terminal)
    table.add_column("severity", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("rows", overflow="fold")
    table.add_column("what", overflow="fold", ratio=1)
    for finding in findings if every else one_a_kind(findings):
        with_fix = finding.fix and (every or finding.severity != "info")
        table.add_row(
            Text(finding.severity, style=_STYLE[finding.severity]),
            finding.kind,
            f"{finding.count:,}",
            some(finding.rows, _ROWS_SHOWN, finding.count) if finding.rows else "",
            Text(f"{finding.message}\nfix: {finding.fix}" if with_fix else finding.message),
        )
    console.print(table)
    counts = [
        f"{number} {name}{'s' * (number != 1 and name != 'info')}"
        for name in _STYLE
        if (number := sum(finding.severity == name for finding in findings))
    ]
    more = "" if every else "; every one with --all"
    say("found", f"{', '.join(counts)}{more}")


def show_images(
    contract: Path, overrides: Sequence[str], output: Path, images: int, epochs: int
) -> None:
    """Write the contact sheet."""
    need_torch("", "the augmentation of images")
    from trainwright.run.contact_sheet import write_contact_sheet

    check_folder(output)
    lines = write_contact_sheet(contract, overrides, output, images, epochs)
    sys.stdout.write(
        f"{many(lines, 'image')}, each beside {many(epochs, 'epoch')} of it, in {output}\n"
    )


def write_tokens(contract: Path, overrides: Sequence[str], output: Path, *, as_json: bool) -> None:
    """Write the token file and its manifest, and show what they hold."""
    check_folder(output)
    document = read_contract(contract, overrides)
    section = document.contract.data
    screen = StreamScreen(sys.stderr)
    manifest = modality_of(section.kind).tokenize(
        section,
        document.source.folder,
        output,
        lambda text: screen.say(labelled("tokenize", text)),
    )
    if as_json:
        show_json(manifest)
        return
    vocabulary = manifest["vocabulary"]
    sys.stdout.write(
        f"{output}: {many(manifest['tokens'], 'token')} of {vocabulary['size']:,} different "
        f"{vocabulary['kind']} in {many(manifest['documents'], 'document')}, "
        f"{manifest['dtype']}, {show_bytes(manifest['bytes'])}\n"
    )


def write_distilled(
    run: str,
    runs: Path,
    contract: Path,
    overrides: Sequence[str],
    output: Path,
    *,
    tokens: int,
    as_json: bool,
) -> None:
    """Write the chats as JSON Lines, and say how many answers are the teacher's."""
    if output.suffix != ".jsonl":
        raise Mistake(
            Problem(
                "chats are written as .jsonl",
                path="-o",
                found=str(output),
                fix="trainwright data distil RUN CONTRACT -o CHATS.jsonl",
            )
        )
    check_folder(output)
    need_torch("", "a decoder")
    from trainwright.run.after.distil_chats import distil_chats

    folder = find_run(run, runs)
    with naming_damage(folder):
        found = distil_chats(folder, contract, overrides, tokens)
    lines = [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in found.rows]
    write_text(output, "".join(lines))
    if as_json:
        counts = {"chats": len(lines), "training": found.training, "answered": found.answered}
        show_json({"file": str(output), **counts, "note": found.doubt})
        return
    if found.doubt:
        say("note", found.doubt)
    left = found.training - found.answered
    kept = f" · {left:,} keep theirs" if left else ""
    say("answers", f"{found.answered:,} of {found.training:,} training chats{kept}")
    say("written", f"{len(lines):,} chats in {output}")
