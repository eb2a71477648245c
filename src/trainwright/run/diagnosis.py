"""Which rows the step had in which a run dies again and again."""

from __future__ import annotations

from pathlib import Path

from trainwright.core.files import Json, read_json
from trainwright.run.position import Position

_SHOWN = 12
_WRONG_SHAPE = (OSError, ValueError, KeyError, TypeError)


def describe_step(folder: Path, position: Position) -> str:
    """The step after `position` with its rows, as far as the run's folder tells; and what can be
    done."""
    progress = position.progress
    text = f"step {progress.step + 1:,} (epoch {progress.epoch}), or the validation or save before"
    try:
        plan, split = read_json(folder / "plan.json"), read_json(folder / "data" / "split.json")
        rows = _rows(plan["contract"], split["rows"]["train"], position)
    except _WRONG_SHAPE:
        rows = ""
    return (
        f"{text}{rows}. The checkpoints are as they were: look at these rows and at the memory, "
        f"and go on with trainwright resume {folder}"
    )


def _rows(contract: Json, rows: int, position: Position) -> str:
    from trainwright.data.order import Order

    sampling = contract["data"].get("sampling", {"kind": "uniform"})
    if contract["data"].get("kind") == "tokens" or sampling["kind"] != "uniform":
        return f"; from sample {position.progress.samples:,} on"
    epoch, first = divmod(position.progress.samples, rows)
    count = position.rows or int(contract["training"]["effective_batch_size"])
    order = Order(rows, int(contract["seed"]), bool(contract["data"]["shuffle"]))
    numbers = [int(row) for row in order.at(epoch, first, min(rows, first + count))]
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"; training rows {', '.join(map(str, numbers[:_SHOWN]))}{more}"
