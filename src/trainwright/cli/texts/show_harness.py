"""`evaluate --harness`: a task of the lm-evaluation-harness for the model of a run."""

from __future__ import annotations

from pathlib import Path

from trainwright.cli.output.damage import naming_damage
from trainwright.cli.output.render import say, show_json, show_table
from trainwright.core.errors import EXIT_DONE
from trainwright.core.formatting import many, show_number
from trainwright.core.optional_dependencies import need_torch
from trainwright.run.folder.planned_contract import find_run


def show_harness(run: str, runs: Path, task: Path, *, as_json: bool) -> int:
    """Values with intervals; the exit code. The harness has no targets, so there is no verdict."""
    need_torch("", "a decoder")
    from trainwright.run.after.evaluate_harness import evaluate_harness

    folder = find_run(run, runs)
    with naming_damage(folder):
        scores = evaluate_harness(folder, task)
    if as_json:
        show_json(scores.to_json())
        return EXIT_DONE
    for name, metrics in scores.metrics.items():
        say("task", f"{name} · {many(scores.rows[name], 'row')}")
        rows = [[metric, show_number(one.value), one.bounds] for metric, one in metrics.items()]
        show_table(["", "value", f"{scores.confidence:.0%} interval"], rows, named="first")
    return EXIT_DONE
