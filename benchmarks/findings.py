"""Every warning and error of `data check` on the real sets as they come, each judged by hand.

Each set gets the contract that `trainwright init` writes for it, and `trainwright data check` is
asked what it finds; nothing was planted. What a finding's rows show when they are looked at stands
in `qualities/judged.py`. A finding of level error that is not right, or one that was never looked
at, ends the script with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from page import write_section
from qualities.judged import JUDGED
from real import FOLDER

SETS = {
    "adult": ("adult/adult_train.csv", "--target", "income"),
    "airline": ("airline-passengers/airline-passengers.csv", "--target", "Passengers"),
    "alpaca": ("alpaca-en-demo/alpaca_en_demo.jsonl", "--text", "output"),
    "banking77": ("banking77/train.csv", "--target", "category"),
    "bike, days": ("bike-sharing/day.csv", "--target", "cnt"),
    "bike, hours": ("bike-sharing/hour.csv", "--target", "cnt"),
    "california": ("california-housing/housing.csv", "--target", "median_house_value"),
    "captions": ("emoji-captions/captions.csv", "--target", "group"),
    "elec2": ("elec2/elec.csv", "--target", "class"),
    "etth1": ("etth1/ETTh1.csv", "--target", "OT"),
    "fashion": ("fashion-mnist",),
    "insteval": ("insteval-ratings/InstEval.csv", "--target", "y"),
    "parkinsons": ("parkinsons-telemonitoring/parkinsons_updrs.csv", "--target", "total_UPDRS"),
    "penguins": ("penguins/penguins.csv", "--target", "species"),
    "shakespeare": ("tinyshakespeare/input.txt",),
    "sms": ("sms-spam/SMSSpamCollection.tsv", "--target", "column_1"),
    "telco": ("telco-churn/Telco-Customer-Churn.csv", "--target", "Churn"),
    "titanic": ("titanic/titanic_train.csv", "--target", "Survived"),
    "toolcall": ("toolcall-chat-demo/glaive_toolcall_en_demo.jsonl", "--text", "conversations"),
}
"""The words of `trainwright init` for each set."""

COMMAND = [sys.executable, "-m", "trainwright"]


@final
@dataclass(frozen=True, slots=True)
class Row:
    """A finding, and what it was found to be by hand."""

    dataset: str
    severity: str
    message: str
    verdict: str
    reason: str

    def line(self) -> str:
        message = self.message if len(self.message) <= 160 else f"{self.message[:157]}..."
        message = message.replace("|", "\\|").replace("`", "'").replace("\\n", " ")
        return f"| {self.dataset} | {self.severity} | {message} | {self.verdict}: {self.reason} |"


def rows_of(dataset: str, words: Sequence[str]) -> Iterator[Row]:
    """The findings that a person is asked to look at, of a set as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        contract = Path(folder, "contract.yaml")
        init = [*COMMAND, "init", str(FOLDER / words[0]), *words[1:], "-o", str(contract)]
        subprocess.run(init, check=True, capture_output=True)
        check = [*COMMAND, "data", "check", str(contract), "--json"]
        # Exit code 4 is a finding of level error.
        asked = subprocess.run(check, check=False, capture_output=True, text=True)
        if asked.returncode not in (0, 4):
            raise RuntimeError(f"data check of {dataset} ends with {asked.returncode}")
    for found in json.loads(asked.stdout)["findings"]:
        if found["severity"] in ("error", "warning"):
            key = " ".join([found["kind"], *found["columns"]])
            judged = JUDGED.get(dataset, {}).get(key)
            verdict, reason = judged or ("not looked at", "")
            yield Row(dataset, found["severity"], found["message"], verdict, reason)


def table(rows: Iterable[Row]) -> str:
    """The findings, a line each, below how many of them are what."""
    rows = list(rows)
    counts = Counter((row.severity, row.verdict) for row in rows)
    without = [name for name in SETS if not any(row.dataset == name for row in rows)]
    lines = [
        "The warnings and errors on the sets as they come, each looked at in its rows: "
        + ", ".join(
            f"{count} {severity if count == 1 else f'{severity}s'} {verdict}"
            for (severity, verdict), count in sorted(counts.items())
        )
        + ".",
        "",
        "| set | level | finding | by hand |",
        "| --- | --- | --- | --- |",
        *(row.line() for row in rows),
    ]
    if without:
        lines += ["", f"Without a warning: {', '.join(without)}."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    asked = parser.parse_args()
    rows = [row for name in asked.only for row in rows_of(name, SETS[name])]
    text = table(rows)
    print(text)
    if asked.write:
        write_section("findings", "Findings on untouched sets", text, ["polars", "lightgbm"])
    unsure = [row for row in rows if row.verdict == "not looked at"]
    sys.exit(bool(unsure or [r for r in rows if r.severity == "error" and r.verdict != "right"]))


if __name__ == "__main__":
    main()
