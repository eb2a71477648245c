"""Time and memory of every stage as the data grow, beside a script that is written by hand.

Every side is a process of its own, one after the other: `check` with an empty cache, then `train`,
which finds what `check` kept (of more than 5,000 images a sample), then the script on the same
files. Tables are 23 columns of a CSV, for boosted trees with early stopping; texts are encoded by a
BPE of 1,024 tokens for a small GPT, images are JPEG files of 96 x 96 for a small residual network,
both of which make a few steps only: what is measured is what grows with the data. `prepare` of ours
is reading and preparing, in whichever of both processes took longer, `judge` is what comes after
the test rows are scored: baselines, intervals, verdict. Memory is the peak of the resident memory,
mapped pages included. Seconds are wall clock, and on a machine with other work grow with it; the
processor time of whole processes grows less.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from page import PAGE, goal, write_section
from scales import made
from scales.run_measured import run_measured

Kind = Literal["table", "text", "images"]

ALL: Mapping[Kind, tuple[int, ...]] = {
    "table": tuple(10**power for power in range(4, 8)),
    "text": tuple(10**power for power in range(6, 10)),
    "images": tuple(10**power for power in range(3, 6)),
}
SMALL: Mapping[Kind, tuple[int, ...]] = {
    "table": (10**4, 10**5),
    "text": (10**6,),
    "images": (10**3,),
}
UNITS: Mapping[Kind, str] = {"table": "rows", "text": "bytes of text", "images": "images"}
STAGES = ("check", "prepare", "train", "predict", "judge")
MOST_OF_TRAINING: Mapping[str, float] = {"check": 0.1, "judge": 0.05}
FROM_ROWS = 10**6
PICTURE = PAGE.parent / "pictures" / "scale.svg"

_CONTRACTS: Mapping[Kind, str] = {
    "table": "data: {{kind: table, path: {path}, target: y}}\n"
    "model: {{kind: boosting, learning_rate: 0.1, max_trees: {effort}, early_stopping_rounds: 50}}"
    "\n",
    "text": "data: {{kind: tokens, path: {path}, vocabulary: bpe, vocabulary_size: 1024}}\n"
    "model: {{kind: gpt, context: 64}}\n"
    "training: {{num_epochs: 1, effective_batch_size: 64, mixed_precision: fp32, "
    "compute: {{compile: off}}, stop: {{max_steps: {effort}}}}}\n",
    "images": "data: {{kind: images, path: {path}}}\n"
    "model: {{kind: resnet, width: 8}}\n"
    "training: {{num_epochs: 1, effective_batch_size: 64, mixed_precision: fp32, "
    "compute: {{compile: off}}, stop: {{max_steps: {effort}}}}}\n",
}
_MAKERS: Mapping[Kind, Callable[[int, Path], None]] = {
    "table": made.make_table,
    "text": made.make_text,
    "images": made.make_images,
}
_PATHS: Mapping[Kind, str] = {"table": "rows.csv", "text": "text.txt", "images": "images"}
_MET = (0, 3, 4)
"""Exit codes of processes that came to their end: a verdict, and faults that were found."""


@dataclass(frozen=True)
class Took:
    """Of a stage, or of a whole process."""

    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Size:
    """What was measured at one size: stages of ours and of the script, and their whole processes;
    `check` is a process of its own. `processor_seconds` are of the three processes."""

    kind: Kind
    size: int
    ours: Mapping[str, Took]
    script: Mapping[str, Took]
    processor_seconds: Mapping[str, float]

    def share(self, stage: str) -> float:
        """The time of a stage over that of the training."""
        return self.ours[stage].seconds / self.ours["train"].seconds


def measure(kind: Kind, size: int, effort: int) -> Size:
    """Ours and the script at one size, on data that is made for it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _MAKERS[kind](size, folder / _PATHS[kind])
        contract = _CONTRACTS[kind].format(path=_PATHS[kind], effort=effort)
        (folder / "contract.yaml").write_text(contract, encoding="utf-8")
        check = run_measured(folder, "command", "check", "contract.yaml")
        train = run_measured(folder, "command", "train", "contract.yaml", "--run", "ours")
        script = run_measured(folder, "script", kind, _PATHS[kind], str(effort))
    sides = {"check": check, "ours": train, "script": script}
    return Size(
        kind=kind,
        size=size,
        ours={"check": _whole(check), **_stages(check, train), "whole": _whole(train)},
        script={**_of_script(script), "whole": _whole(script)},
        processor_seconds={side: one["processor_seconds"] for side, one in sides.items()},
    )


def _whole(report: Mapping[str, Any]) -> Took:
    return Took(report["seconds"], report["megabytes"])


def _of_script(report: Mapping[str, Any]) -> dict[str, Took]:
    return {name: Took(**one) for name, one in report["stages"].items()}


def _stages(check: Mapping[str, Any], train: Mapping[str, Any]) -> dict[str, Took]:
    """The stages of a training; reading and preparing by the process that found least kept."""
    later = _of_script(train)
    first = max(_of_script(check), later, key=lambda one: one["read"].seconds)

    def joined(found: Mapping[str, Took], *names: str) -> Took:
        parts = [found[name] for name in names if name in found]
        return Took(sum(one.seconds for one in parts), max(one.megabytes for one in parts))

    return {
        "prepare": joined(first, "read", "prepare"),
        "train": later["train"],
        "predict": later["predict"],
        "judge": joined(later, "baselines", "judge", "try findings"),
    }


def to_json(found: Sequence[Size]) -> str:
    """What `read_found` reads."""
    return json.dumps([asdict(one) for one in found], indent=1)


def read_found(file: Path) -> list[Size]:
    """What an earlier call measured on this machine; nothing if there is no such file."""
    if not file.is_file():
        return []

    def took(stages: Mapping[str, Any]) -> dict[str, Took]:
        return {name: Took(**one) for name, one in stages.items()}

    return [
        Size(**{**one, "ours": took(one["ours"]), "script": took(one["script"])})
        for one in json.loads(file.read_text(encoding="utf-8"))
    ]


def show_took(took: Took | None) -> str:
    """Seconds and megabytes."""
    return "" if took is None else f"{took.seconds:,.1f} s, {took.megabytes:,.0f} MB"


def table(found: Sequence[Size], kind: Kind) -> str:
    """A row a size and side; the sizes that were not run are named."""
    heads = ["size", "side", *STAGES, "whole process", "processor time"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    here = sorted((one for one in found if one.kind == kind), key=lambda one: one.size)
    for one in here:
        for side, stages in (("ours", one.ours), ("by hand", one.script)):
            cells = [show_took(stages.get(stage)) for stage in (*STAGES, "whole")]
            used = one.processor_seconds
            script = f"{used['script']:,.0f} s"
            both = f"check {used['check']:,.0f} s, train {used['ours']:,.0f} s"
            cells.append(both if side == "ours" else script)
            lines.append(f"| {one.size:,} | {side} | {' | '.join(cells)} |")
    left = [f"{size:,}" for size in ALL[kind] if size not in {one.size for one in here}]
    not_run = f"Not run: {', '.join(left)} {UNITS[kind]}." if left else ""
    return "\n\n".join(part for part in ("\n".join(lines) if here else "", not_run) if part)


def goals(found: Sequence[Size]) -> str:
    """The goals for large tables: shares of the training, and memory beside the script."""
    lines = []
    for one in found:
        if one.kind != "table" or one.size < FROM_ROWS:
            continue
        shares = [
            f"{stage} takes {one.share(stage):.1%} of the training "
            f"(goal: {goal(f'at most {most:.0%}', one.share(stage) <= most)})"
            for stage, most in MOST_OF_TRAINING.items()
        ]
        most, by_hand = one.ours["whole"].megabytes, one.script["whole"].megabytes
        memory = f"no more than {by_hand:,.0f} MB of the script"
        shares.append(f"memory is {most:,.0f} MB (goal: {goal(memory, most <= by_hand)})")
        lines.append(f"At {one.size:,} rows {', '.join(shares)}.")
    return "\n\n".join(lines)


def draw(found: Sequence[Size], file: Path) -> None:
    """Seconds of each stage, and the memory of both sides, over the size."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same bytes for the same numbers.
    mpl.rcParams["svg.hashsalt"] = "scale"
    import matplotlib.pyplot as plt

    kinds = [kind for kind in ALL if any(one.kind == kind for one in found)]
    figure, axes = plt.subplots(2, len(kinds), figsize=(4 * len(kinds), 6), squeeze=False)
    for column, kind in enumerate(kinds):
        here = sorted((one for one in found if one.kind == kind), key=lambda one: one.size)
        sizes = [one.size for one in here]
        top, bottom = axes[0][column], axes[1][column]
        for stage in STAGES:
            top.plot(sizes, [one.ours[stage].seconds for one in here], marker="o", label=stage)
        whole = [one.script["whole"].seconds for one in here]
        top.plot(sizes, whole, marker="s", color="black", linestyle="--", label="by hand, whole")
        for name, values in (
            ("check", [one.ours["check"].megabytes for one in here]),
            ("train", [one.ours["whole"].megabytes for one in here]),
            ("by hand", [one.script["whole"].megabytes for one in here]),
        ):
            bottom.plot(sizes, values, marker="o", label=name)
        for axis, label in ((top, "seconds"), (bottom, "peak memory, MB")):
            axis.set(xscale="log", yscale="log", xlabel=UNITS[kind], ylabel=label)
            axis.grid(alpha=0.3)
            axis.legend(fontsize=7)
    figure.tight_layout()
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


def main(arguments: Sequence[str]) -> None:
    """Measure the sizes that are asked for, print, and write the section and its picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=SMALL["table"], metavar="N")
    parser.add_argument("--text", type=int, nargs="*", default=SMALL["text"], metavar="BYTES")
    parser.add_argument("--images", type=int, nargs="*", default=SMALL["images"], metavar="N")
    parser.add_argument("--trees", type=int, default=1000, help="at most so many trees")
    parser.add_argument("--steps", type=int, default=20, help="steps of the networks")
    parser.add_argument("--found", type=Path, help="file of what was measured, to go on with")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    parser.add_argument("--write", action="store_true", help="write its section of the page")
    given = parser.parse_args(arguments)
    asked: Mapping[Kind, Sequence[int]] = {
        "table": given.rows,
        "text": given.text,
        "images": given.images,
    }
    found = read_found(given.found) if given.found else []
    there = {(one.kind, one.size) for one in found}
    for kind, sizes in asked.items():
        for size in sizes:
            if (kind, size) in there:
                continue
            effort = given.trees if kind == "table" else given.steps
            found.append(measure(kind, size, effort))
            if given.found:
                given.found.write_text(to_json(found), encoding="utf-8")
            print(f"{kind}, {size:,} {UNITS[kind]}: measured", file=sys.stderr)
    if given.json:
        print(to_json(found))
    titles = {"table": "Tables", "text": "Texts", "images": "Images"}
    parts = [f"### {titles[kind]}\n\n{table(found, kind)}" for kind in ALL]
    parts += [said] if (said := goals(found)) else []
    text = "\n\n".join(parts)
    if not given.json:
        print(text)
    if given.write:
        draw(found, PICTURE)
        what = " ".join((__doc__ or "").splitlines()[2:]).strip()
        effort = f"At most {given.trees:,} trees, {given.steps} steps."
        picture = f"![Seconds and memory over the size](pictures/{PICTURE.name})"
        calls = " The sizes were measured in several calls." if given.found else ""
        whole = f"{what} {effort}{calls}\n\n{picture}\n\n{text}"
        packages = ("torch", "polars", "lightgbm", "tokenizers", "pillow")
        write_section("scale", "As the data grow", whole, packages)


if __name__ == "__main__":
    main(sys.argv[1:])
