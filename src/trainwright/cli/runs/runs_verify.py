"""`runs verify`: verify a run folder."""

from __future__ import annotations

from pathlib import Path

from trainwright.cli.output.render import say, show_json
from trainwright.core.errors import EXIT_DONE, NoValidCheckpoint, StorageFailed
from trainwright.doctor.verify_run import verify_run
from trainwright.run.folder.planned_contract import find_run

_STYLE = {"whole": "green", "note": "yellow", "broken": "bold red"}


def show_verified(run: str, runs: Path, *, as_json: bool) -> int:
    """All findings; the exit code is 0 if nothing is broken, 12 if no checkpoint verifies, else
    13."""
    findings = verify_run(find_run(run, runs))
    if as_json:
        show_json([finding.to_json() for finding in findings])
    else:
        for finding in findings:
            say(finding.status, f"{finding.what} · {finding.message}", _STYLE[finding.status])
    wrong = [finding.what for finding in findings if finding.status == "broken"]
    if not wrong:
        return EXIT_DONE
    return NoValidCheckpoint.exit_code if "checkpoints" in wrong else StorageFailed.exit_code
