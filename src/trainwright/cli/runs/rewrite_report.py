"""`report` of a run or of a search."""

from __future__ import annotations

from pathlib import Path

from trainwright.cli.arguments import naming_damage
from trainwright.report.page import write_report
from trainwright.run.folder.planned_contract import find_run
from trainwright.tracking.run_list import find_study


def rewrite_report(run: str, runs: Path) -> Path:
    """Write the report of a run or a search again, by its name in `runs` or its path.

    Raises:
        Mistake: there is neither.
    """
    if study := find_study(run, runs):
        # Imported here: runs do not need it.
        from trainwright.report.study_page import write_study_report

        return write_study_report(study)
    folder = find_run(run, runs)
    with naming_damage(folder):
        return write_report(folder)
