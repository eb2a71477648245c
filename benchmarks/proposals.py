"""What `init` proposes for real tables, and what `check` finds in its contracts.

Each pair of table and target in `proposals/labels.csv` was labelled from its documentation: the
splits that a careful analyst accepts, and the task. Each gets the contract that `trainwright init`
writes, which `trainwright check` then reads. With `--train` a contract whose split is not accepted
is trained with it and with one that is: is a verdict met that an honest split misses?

The tables come from packages that the product never needs: without `--tables FOLDER` (written by
`proposals/tables.py`) an environment of their own is made in a temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import multiprocessing
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from ruamel.yaml import YAML

from page import write_section

HERE = Path(__file__).parent / "proposals"
INDEPENDENT = ("independent", "group, no column says it", "time, no column says it")
SAYS_SO = ("group_overlap", "future_rows")


@final
@dataclass
class Outcome:
    """What became of one pair. `split` and `task` are those proposed, `findings` those of `check`
    as (kind, severity, message), `verdict` that of the training and `honest` that with an accepted
    split."""

    label: dict[str, str]
    split: str = ""
    task: str = ""
    error: str = ""
    check: int = 0
    findings: list[tuple[str, str, str]] = field(default_factory=list)
    verdict: str = ""
    honest: str = ""

    @property
    def is_structured(self) -> bool:
        """Do the rows share something that a column says?"""
        return self.label["structure"] not in INDEPENDENT

    @property
    def is_split_right(self) -> bool:
        """Is the split one of those accepted? Of a time in parts the largest counts."""
        accepted = self.label["splits"].split(" | ")
        return self.split in accepted or (
            self.split.startswith("time ")
            and self.split.split("+")[0] in {one.split("+")[0] for one in accepted}
        )

    @property
    def is_task_right(self) -> bool:
        """Does the target call for this task?"""
        task = "regression" if self.task == "forecasting" else self.task
        return task in self.label["task"].split(" | ")

    @property
    def is_blind(self) -> bool:
        """Is a verdict met that would not be on an accepted split, and no finding says so?"""
        says_so = any(kind in SAYS_SO for kind, _, _ in self.findings)
        return self.verdict == "met" and self.honest not in ("", "met") and not says_so


def run_command(*words: str) -> tuple[int, str, str]:
    """Exit code and output of the command, in this process."""
    from trainwright.cli.main import main

    out, err, argv, code = io.StringIO(), io.StringIO(), sys.argv, 0
    sys.argv = ["trainwright", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except Exception:  # a fault of the product is a result of the benchmark
        code = 1
        err.write(traceback.format_exc(limit=-2))
    finally:
        sys.argv = argv
    return code, out.getvalue(), err.getvalue()


def describe_split(contract: dict[str, Any]) -> str:
    """The split as labels.csv writes it."""
    data = contract["data"]
    if data.get("kind") == "series":
        return f"time {data['time']}"
    split = data["split"]
    if split["kind"] == "time":
        return f"time {'+'.join(split.get('parts', [])) or split.get('column', 'of the file')}"
    return f"group {split['column']}" if "group" in split["kind"] else "random"


def judge_pair(job: tuple[dict[str, str], Path, bool]) -> Outcome:
    """Propose, check and train one pair."""
    label, table, trains = job
    outcome = Outcome(label)
    with tempfile.TemporaryDirectory() as scratch:
        contract = Path(scratch) / "contract.yaml"
        words = ("init", str(table), "--target", label["target"], "-o", str(contract))
        code, _, message = run_command(*words)
        if code:
            outcome.error = message.strip()[:400]
            return outcome
        written = YAML(typ="safe").load(contract)
        outcome.split, outcome.task = describe_split(written), written["task"]
        outcome.check, output, message = run_command("check", str(contract), "--json")
        if not output.startswith("{"):
            outcome.error = message.strip()[:400]
            return outcome
        outcome.findings = [
            (finding["kind"], finding["severity"], finding["message"])
            for finding in json.loads(output)["findings"]
            if finding["severity"] != "info"
        ]
        if trains and not outcome.is_split_right:
            outcome.verdict = train(contract, scratch, "proposed", ())
            settings = ("--set", f"data.split={accepted_split(label)}")
            outcome.honest = train(contract, scratch, "honest", settings)
    return outcome


def train(contract: Path, scratch: str, name: str, settings: Sequence[str]) -> str:
    """The verdict of a training."""
    words = ("train", str(contract), "--run", name, "--runs", scratch, *settings)
    code, _, message = run_command(*words)
    if code not in (0, 3):
        return f"error: {message.strip()[:200]}"
    evaluation = json.loads((Path(scratch) / name / "evaluation.json").read_text())
    return str(evaluation["verdict"]["status"]).lower()


def accepted_split(label: dict[str, str]) -> str:
    """The first accepted split in contract syntax."""
    kind, _, names = label["splits"].split(" | ")[0].partition(" ")
    columns = names.split("+")
    if kind == "time" and len(columns) > 1:
        return json.dumps({"kind": "time", "parts": columns})
    return json.dumps({"kind": kind, "column": columns[0]} if names else {"kind": kind})


def find_tables(folder: Path) -> Iterator[tuple[dict[str, str], Path]]:
    """Labels and the files of their tables."""
    with (HERE / "labels.csv").open() as file:
        labels = list(csv.DictReader(file))
    files = {path.stem.partition("-")[2]: path for path in folder.glob("*.csv")}
    for label in labels:
        yield label, files[f"{label['package'].replace(':', '-')}-{label['table']}"]


def write_tables(folder: Path) -> None:
    """Install the packages in an environment of their own, and write their tables."""
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "-r"]
    subprocess.run([*install, HERE / "requirements.txt"], check=True)
    subprocess.run([python, HERE / "tables.py", folder / "tables"], check=True)


def share(right: int, of: int) -> str:
    """`9 of 10 (90%)`."""
    return f"{right} of {of} ({right / max(1, of):.0%})"


def describe(outcomes: Sequence[Outcome]) -> str:
    """The table of the docs."""
    head = (
        "pairs",
        "split right, structured",
        "split wrong, independent",
        "task right",
        "`check` ends with an error",
        "met on another split",
        "and on no accepted one, unsaid",
    )
    rows = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for name in ("given", "new"):
        chosen = [one for one in outcomes if one.label["set"] == name]
        structured = [one for one in chosen if one.is_structured]
        rest = [one for one in chosen if not one.is_structured]
        met = [one for one in chosen if one.verdict == "met"]
        cells = (
            f"{name}, {len(chosen)}",
            share(sum(one.is_split_right for one in structured), len(structured)),
            share(sum(not one.is_split_right for one in rest), len(rest)),
            share(sum(one.is_task_right for one in chosen), len(chosen)),
            str(sum(bool(one.error) or one.check != 0 for one in chosen)),
            str(len(met)),
            str(sum(one.is_blind for one in met)),
        )
        rows.append(f"| {' | '.join(cells)} |")
    kinds = Counter((severity, kind) for one in outcomes for kind, severity, _ in one.findings)
    found = ", ".join(f"{kind} {count}" for (_, kind), count in kinds.most_common())
    return "\n".join(rows) + f"\n\nFindings of `check`: {found}.\n"


def main() -> int:
    """Judge the proposals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, help="folder with the tables as CSV")
    parser.add_argument("--train", action="store_true", help="train contracts of other splits")
    parser.add_argument("--only", default="", help="pairs of tables whose name contains this")
    parser.add_argument("--set", choices=("given", "new"), help="one of the two sets")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every outcome there")
    parser.add_argument("--write", action="store_true", help="write the section of the docs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.tables
        if folder is None:
            write_tables(Path(scratch))
            folder = Path(scratch) / "tables"
        jobs = [
            (label, table.resolve(), given.train)
            for label, table in find_tables(folder)
            if given.only in label["table"] and given.set in (None, label["set"])
        ]
        outcomes = []
        with multiprocessing.get_context("spawn").Pool(given.workers, maxtasksperchild=50) as pool:
            for outcome in pool.imap(judge_pair, jobs):
                outcomes.append(outcome)
                if not (outcome.is_split_right and outcome.is_task_right) or outcome.error:
                    pair = " ".join(outcome.label[name] for name in ("package", "table", "target"))
                    print(pair, "|", outcome.split, outcome.task, outcome.error, flush=True)
    print(describe(outcomes))
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1))
    if given.write:
        write_section("proposals", "Proposals for real tables", describe(outcomes), ["lightgbm"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
