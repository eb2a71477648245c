"""Earlier endings of an extended run: their evaluations, and their number."""

from __future__ import annotations

from trainwright.core.files import Json, damage_in, read_json, storage_errors, write_json
from trainwright.tracking.run_folder import RunFolder


def keep_evaluation(folder: RunFolder, step: int) -> None:
    """Keep the evaluation of the ending at a step where the next one does not replace it.

    Raises:
        StorageFailed: the disk.
    """
    with storage_errors(f"making {folder.endings}"):
        folder.endings.mkdir(exist_ok=True)
    write_json(folder.endings / f"step-{step:010d}.json", read_json(folder.evaluation))
    with storage_errors(f"removing {folder.evaluation}"):
        folder.evaluation.unlink()


def read_opened(folder: RunFolder) -> list[Json]:
    """All openings of a run's test rows, by this ending and earlier ones."""
    kept = sorted(folder.endings.glob("step-*.json")) if folder.endings.is_dir() else []
    written = [path for path in (*kept, folder.evaluation) if path.is_file()]
    if not written:
        return []
    with damage_in(written[-1]):
        return list(read_json(written[-1])["opened"])


def describe_extensions(plan: Json) -> list[str]:
    """`by 1 epoch after step 40, where the verdict was met` for each extension in a plan."""
    return [
        f"by {one['by']} after step {int(one['step']):,}, where the verdict was {one['verdict']}"
        for one in plan.get("extensions", [])
    ]


def describe_start(plan: Json) -> str:
    """`step 8 of long-1`, of a run that began at a checkpoint of another one; else empty."""
    start = plan.get("start", {})
    if not start:
        return ""
    return f"step {int(start['step']):,} of {str(start['run']).rpartition('/')[2]}"


def doubt_of_extensions(extensions: int) -> list[str]:
    """Caveat on the verdict of an extended run."""
    if not extensions:
        return []
    return [
        f"the run went on after a verdict was known: this is verdict {extensions + 1} on the same "
        "test rows, and the intervals are those of a single one"
    ]
