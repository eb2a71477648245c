"""The end of a training on stdout: its report, the verdict, and the next commands."""

from __future__ import annotations

from pathlib import Path

from trainwright.contract.reading.read_contract import ContractText
from trainwright.core.errors import EXIT_DONE, EXIT_VERDICT_NOT_MET
from trainwright.run.request.run_request import Request
from trainwright.run.run_result import Result


def show_trained(result: Result, request: Request, *, as_json: bool) -> int:
    """Write the report of a judged run, and show its verdict; the exit code."""
    # Imported here: a training does not wait for it.
    from trainwright.cli.output.render import commands_after_training, show_result
    from trainwright.report.page import write_report

    write_report(result.folder)

    following = commands_after_training(_folder_of(request.contract), result, request.runs)
    show_result(result, following, as_json=as_json)
    return EXIT_DONE if result.verdict.status == "met" else EXIT_VERDICT_NOT_MET


def _folder_of(contract: Path | ContractText) -> Path:
    """Where the contract's relative paths start, as the caller would write it."""
    return contract.folder if isinstance(contract, ContractText) else contract.parent
