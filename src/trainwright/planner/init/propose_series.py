"""First contract for a single series of which nothing but the time is known."""

from __future__ import annotations

from pathlib import Path

from trainwright.contract.sections.data.series import SeriesData
from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake
from trainwright.core.formatting import many
from trainwright.data.read_table import RawTable
from trainwright.data.series.read_series import read_series
from trainwright.data.statistics.row_structure import find_structures
from trainwright.planner.init.yaml_lines import comment, scalar

_STEPS_PER_HORIZON = 40
"""The test part, 15% of the steps, then has the 5 blocks of origins that an interval needs."""
_FEW_STEPS = 200


def propose_series(
    raw: RawTable, folder: Path, found: str, written: str, target: str, schema: str
) -> str:
    """Text of a contract for forecasts; empty where the rows are no single series, other columns
    can predict the target, or the times are not equally spaced.

    The data is `found` in the folder, and `written` in the contract.
    """
    structures = find_structures(raw.frames["train"], target)
    if not structures or structures[0].kind != "series" or raw.facts.target.kind != "numbers":
        return ""
    clock = structures[0].clock
    others = [c.name for c in raw.columns if c.kind != "ignored" and c.name not in clock]
    if others or len(clock) > 1:
        return ""
    exclude = [column.name for column in raw.columns if column.name not in clock]
    steps = raw.facts.rows
    horizon = max(1, steps // _STEPS_PER_HORIZON)
    section = SeriesData(
        kind="series",
        path=found,
        target=target,
        time=clock[0],
        horizon=horizon,
        exclude=tuple(exclude),
        reading=Reading(),
    )
    try:
        read_series(section, folder)
    except DataMistake:
        return ""
    model = "linear" if steps < _FEW_STEPS else "boosting"
    reason = "few steps" if steps < _FEW_STEPS else "the strongest start on series"
    return "\n".join(
        [
            *([f"# yaml-language-server: $schema={schema}"] if schema else []),
            f"# What forecasts of {comment(target)} must prove, proposed from {comment(written)}: "
            f"{many(steps, 'step')}.",
            f"task: forecasting  # {comment(structures[0].reason)}, and no other column is known",
            "data:",
            "  kind: series",
            f"  path: {scalar(written)}",
            f"  target: {scalar(target)}",
            f"  time: {scalar(clock[0])}",
            f"  horizon: {horizon}  # steps that are forecast from each origin",
            *([f"  exclude: [{', '.join(map(scalar, exclude))}]"] if exclude else []),
            f"model: {{kind: {model}}}  # {reason}; or linear, boosting, mlp",
            "metric:",
            "  name: mase  # the error in units of that of the seasonal naive forecast",
            "  # target: 1  # the largest allowed; by default: better than every baseline",
            "seed: 0  # the same number gives the same model",
            "",
        ]
    )
