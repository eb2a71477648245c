"""`data distil`: chats with the answers of a teacher."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from trainwright.cli.init_predict import check_folder
from trainwright.cli.output.damage import naming_damage
from trainwright.cli.output.render import say, show_json
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import write_text
from trainwright.core.optional_dependencies import need_torch
from trainwright.run.folder.planned_contract import find_run


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
