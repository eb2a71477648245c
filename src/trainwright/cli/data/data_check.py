"""`data check`: findings on the data, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import ROUNDED
from rich.table import Table
from rich.text import Text

from trainwright.cli.output.render import results_console, say, screen_on_stderr, show_json
from trainwright.core.errors import EXIT_DATA_FAULTY, EXIT_DONE
from trainwright.data.base.messages import some
from trainwright.data.quality.finding import Finding, findings_json, one_a_kind
from trainwright.data.quality.run_checks import Effort
from trainwright.run.after.data_quality import check_contract_data, file_findings
from trainwright.run.summary import labelled

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
