"""What a person should know of the data and the plan, a line each."""

from __future__ import annotations

from collections import Counter

from trainwright.contract.model import Boosting, Linear, Mlp, Pretrained, TabularResNet
from trainwright.core.units import show_bytes, show_count
from trainwright.data.prepare import Prepared
from trainwright.data.reading import Raw
from trainwright.data.target import Classes
from trainwright.planner.plan import Plan

_MOST_NAMES = 4


def describe_data(raw: Raw, prepared: Prepared) -> list[str]:
    """Rows, columns, target, split and what was left out."""
    facts = raw.facts
    files = ", ".join(file.path for file in facts.files)
    kinds = Counter(column.kind for column in prepared.features.columns)
    columns = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    lines = [f"data   {files} · {facts.rows:,} rows · {columns} columns", _target(prepared)]
    split = prepared.split
    rows = " / ".join(
        f"{len(part):,}" for part in (prepared.train, prepared.validation, prepared.test)
    )
    lines.append(f"split  {split.kind} · train / validation / test {rows} · {split.reason}")
    if split.duplicate_rows:
        lines.append(
            f"note   {split.duplicate_rows:,} validation and test rows equal a training row"
        )
    left_out = [column.name for column in raw.columns if column.kind == "ignored"]
    if left_out:
        more = f" and {len(left_out) - _MOST_NAMES} more" if len(left_out) > _MOST_NAMES else ""
        lines.append(f"left out  {', '.join(left_out[:_MOST_NAMES])}{more} (reasons in the report)")
    return lines


def describe_plan(decided: Plan) -> str:
    """Model, length and size in a line."""
    contract, estimate = decided.contract, decided.estimate
    model = contract.model
    parts = [f"plan   {model.kind}"]
    match model:
        case Boosting():
            parts.append(f"at most {model.max_trees:,} trees of {model.num_leaves} leaves")
        case Linear():
            parts.append(f"penalty {model.penalty:g}")
        case Mlp() | TabularResNet():
            training = contract.training
            parts.append(
                f"at most {training.num_epochs} epochs of {estimate.steps_per_epoch:,} steps, "
                f"{training.effective_batch_size} rows a step, {training.mixed_precision}"
            )
        case Pretrained():
            parts.append(model.architecture)
    parts.append(f"{show_count(estimate.train_rows)} training rows")
    parts.append(f"{show_bytes(estimate.memory_bytes)} of encoded data")
    return " · ".join(parts)


def _target(prepared: Prepared) -> str:
    target = prepared.target
    if not isinstance(target, Classes):
        spread = f"mean {target.mean:,.5g}, deviation {target.deviation:,.5g}"
        return f"target {target.column} · {spread}"
    shares = prepared.split.class_shares.get("train", {})
    shown = ", ".join(
        f"{name} {share:.1%}"
        for name, share in sorted(shares.items(), key=lambda pair: -pair[1])[:_MOST_NAMES]
    )
    positive = f" · positive {target.names[target.positive]}" if len(target.names) == 2 else ""
    more = f" and {len(target.names) - _MOST_NAMES} more" if len(target.names) > _MOST_NAMES else ""
    return f"target {target.column} · {shown}{more}{positive}"
