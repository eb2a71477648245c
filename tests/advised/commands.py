"""Commands that refuse, and the command that their fix names."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from command import NETWORK, command, inside, stopped_at, unended, write_project
from made_data import make_images
from made_pictures import write_table
from trainwright.tracking.run_folder import RunFolder


def cut(project: Path) -> None:
    """A run that was stopped, and its copies."""
    saving = f"{{save_every_n_steps: 5, remote: file://{project}/copies}}"
    given = ("--set", f"training.checkpointing={saving}")
    assert stopped_at(12, "train", "net.yaml", "--run", "cut", *given).code == 75


@final
@dataclass(frozen=True, slots=True)
class Refused:
    """A command that is refused with a fix, and the commands that do what it says: each ends with
    one of `codes`. `spoiled` is done in the project before, and {} stands for its folder."""

    fix: str
    words: str
    then: tuple[str, ...]
    spoiled: Callable[[Path], None] = lambda _: None
    codes: tuple[int, ...] = (0, 3)
    code: int = 2

    def __str__(self) -> str:
        return self.fix[:60]


def make_project(folder: Path) -> Path:
    """A project with a finished run of trees, one of a network, and one that was cut and has
    copies."""
    write_project(folder)
    with inside(folder):
        Path("net.yaml").write_text(NETWORK)
        for contract, run in (("small.yaml", "one"), ("net.yaml", "net")):
            ran = command("train", contract, "--run", run)
            assert ran.code in (0, 3), ran.err
        cut(folder)
    return folder


def check_refused(one: Refused, made: Path, folder: Path) -> None:
    """The fix is said, its commands are among those that are done, and each of them works."""
    project = folder / "project"
    shutil.copytree(made, project)
    with inside(project):
        one.spoiled(project)
        ran = command(*shlex.split(one.words.format(project)))
        assert ran.code == one.code, ran.err
        said = ran.err + ran.out
        assert one.fix.replace("{}", str(project)) in " ".join(said.split()), said
        for flag in re.findall(r"--[a-z-]+|trainwright [a-z]+(?: [a-z]+)?", one.fix):
            word = flag.removeprefix("trainwright ")
            given = any(word in line for line in one.then)
            assert given or "without" in one.fix, f"{flag} of the fix is not tried"
        for line in one.then:
            words = shlex.split(line.format(project))
            if words[0] == "cp":
                shutil.copy(*words[1:])
                continue
            done = command(*words)
            assert done.code in one.codes, f"{line!r} ends with {done.code}: {done.err}"


def half(_: Path) -> None:
    shutil.copytree("runs/one", "runs/half")
    unended(Path("runs/half"))


def two(_: Path) -> None:
    shutil.copytree("runs/one", "runs/half")


def blank(_: Path) -> None:
    RunFolder.create(Path("runs"), "begun")


def begun(_: Path) -> None:
    RunFolder.create(Path("runs"), "begun")
    shutil.copy("runs/one/record.json", "runs/begun/record.json")


def nameless(_: Path) -> None:
    shutil.move("runs", "elsewhere")


def more_rows(_: Path) -> None:
    lines = Path("rows.csv").read_text().splitlines()
    keyed = [f"key,code,{lines[0]}"]
    keyed += [f"{at},c{at},{line}" for at, line in enumerate(lines[1:])]
    Path("keyed.csv").write_text("\n".join(keyed) + "\n")
    Path("later.csv").write_text("\n".join(keyed[:200]) + "\n")


def keyed(project: Path) -> None:
    more_rows(project)
    words = ["--set", "data.path=keyed.csv", "--set", "data.split={kind: random, key: key}"]
    assert command("train", "small.yaml", "--run", "keyed", *words).code in (0, 3)


def numbered(_: Path) -> None:
    """A contract with a column that is called 3, and one that says so in quotes."""
    text = Path("small.yaml").read_text()
    Path("rows.csv").write_text(Path("rows.csv").read_text().replace("visits", "3", 1))
    for name, key in (("numbered.yaml", "3"), ("quoted.yaml", '"3"')):
        columns = f"data:\n  columns:\n    {key}: {{kind: numeric}}\n"
        Path(name).write_text(text.replace("data:\n", columns, 1))


def dotted(_: Path) -> None:
    """A contract with a column whose name has a point, and numbers that are none."""
    rows = Path("rows.csv").read_text().replace("visits", "visits.2020", 1)
    Path("dotted.csv").write_text(rows.replace(",no", "many,no", 3))
    columns = "  columns:\n    visits.2020: {kind: numeric}\n"
    text = Path("small.yaml").read_text().replace("rows.csv\n", f"dotted.csv\n{columns}")
    Path("dotted.yaml").write_text(text)


def words(_: Path) -> None:
    Path("words.csv").write_text(
        "text,flag\n"
        + "\n".join(
            f"a line of text number {at} that says more than the one before,{at % 2}"
            for at in range(300)
        )
        + "\n"
    )


def empty(_: Path) -> None:
    Path("none.yaml").write_text("")
    Path("list.yaml").write_text("- a\n")


INIT = "init rows.csv --target bought -o new.yaml"


def odd(_: Path) -> None:
    lines = ["a report,of 2020", "by us,for you", "x,z,y"]
    lines += [f"{at},{at * 7 % 13},{('no', 'yes')[at % 3 == 0]}" for at in range(99)]
    Path("odd.csv").write_text("\n".join(lines) + "\n")


def bare(_: Path) -> None:
    lines = Path("rows.csv").read_text().splitlines()
    Path("bare.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    narrow = [line.split(",") for line in lines]
    Path("narrow.csv").write_text("\n".join(",".join(line[1:]) for line in narrow) + "\n")
    filled = [",".join(["age" if not at else "", *line[1:]]) for at, line in enumerate(narrow)]
    Path("filled.csv").write_text("\n".join(filled) + "\n")


def pictures(project: Path) -> None:
    table = write_table(project).read_text().replace("label", "kind", 1)
    (project / "pictures.csv").write_text(table)


def garments(project: Path) -> None:
    make_images(project / "garments")


CASES = (
    Refused(
        "see what there is: trainwright registry list",
        "registry promote shop:9 --data rows.csv",
        ("registry list",),
    ),
    Refused(
        "see what happened: trainwright registry log",
        "registry rollback shop",
        ("registry log",),
    ),
    Refused(
        "let it end: trainwright resume runs/half",
        "registry add half --name shop",
        ("resume runs/half", "registry add half --name shop"),
        half,
    ),
    Refused(
        "choose another name with -o FILE, or write over it with --force",
        "init rows.csv --target bought -o small.yaml",
        (INIT, "init rows.csv --target bought -o small.yaml --force"),
    ),
    Refused(
        "mkdir -p away",
        "init rows.csv --target bought -o away/new.yaml",
        ("init rows.csv --target bought -o small.yaml --force",),
    ),
    Refused(
        "check the path, or write one with: trainwright init DATA --target COLUMN",
        "check nothing.yaml",
        (INIT, "check new.yaml"),
    ),
    Refused(
        "write one with: trainwright init DATA --target COLUMN",
        "check none.yaml",
        (INIT, "check new.yaml"),
        empty,
    ),
    Refused(
        "write one with: trainwright init DATA --target COLUMN",
        "check list.yaml",
        (INIT, "check new.yaml"),
        empty,
    ),
    Refused(
        "name the file in it, for example runs/contract.yaml", "check runs", ("check small.yaml",)
    ),
    Refused(
        "--target bought, or --text COLUMN to learn the texts of a column as tokens",
        "init rows.csv -o new.yaml",
        (INIT, "init words.csv --text text -o text.yaml"),
        words,
    ),
    Refused(
        "name another column, or learn the texts: --text text",
        "init words.csv --target text -o new.yaml",
        ("init words.csv --target flag -o new.yaml", "init words.csv --text text -o t.yaml"),
        words,
    ),
    Refused(
        "write for example --set training.batch_size=64",
        "check small.yaml --set batch",
        ("check small.yaml --set model.kind=mlp --set training.batch_size=64",),
    ),
    Refused(
        "write for example --set slices.0=...",
        "check small.yaml --set slices.x=3",
        ("check small.yaml --set slices.0.column=city",),
    ),
    Refused(
        "go on with it through --resume, or choose another name with --run NAME",
        "train small.yaml --run one",
        ("train small.yaml --run one --resume", "train small.yaml --run two"),
    ),
    Refused(
        "start one without --resume, or name one with --run NAME",
        "train small.yaml --resume",
        ("train small.yaml --run two", "train small.yaml --run one --resume"),
    ),
    Refused(
        "put the value back, or start a new run without --resume",
        "train small.yaml --run one --resume --set model.max_trees=9",
        ("train small.yaml --run one --resume", "train small.yaml --set model.max_trees=9"),
    ),
    Refused(
        "write --set training.effective_batch_size=32 as well, or start a new run without --resume",
        "train net.yaml --run net --resume --set training.batch_size=64",
        (
            "train net.yaml --run net --resume --set training.batch_size=32 --set "
            "training.effective_batch_size=32",
        ),
    ),
    Refused(
        "let it end: trainwright resume runs/half",
        "evaluate half",
        ("resume runs/half", "evaluate half"),
        half,
    ),
    Refused(
        "trainwright train CONTRACT --runs runs --run begun --resume",
        "resume begun",
        ("train small.yaml --runs runs --run begun --resume",),
        blank,
    ),
    Refused(
        "start a new run without --resume",
        "train small.yaml --run begun --resume",
        ("train small.yaml --run begun-again",),
        begun,
    ),
    Refused(
        "start a new run without --resume", "data diff begun rows.csv", ("train small.yaml",), begun
    ),
    Refused(
        "there are no runs in runs: name the folder that holds them with --runs FOLDER",
        "runs show one",
        ("runs show one --runs elsewhere",),
        nameless,
    ),
    Refused("did you mean one?", "runs show oen", ("runs show one",)),
    Refused(
        "name them: trainwright runs compare A B",
        "runs compare one one",
        ("runs compare one half",),
        two,
    ),
    Refused(
        "trainwright explain RUN ROWS.csv -o OUT.csv",
        "explain one -o out.csv",
        ("explain one rows.csv -o out.csv",),
    ),
    Refused(
        "-o FILE.html",
        "runs compare one half -o page.txt",
        ("runs compare one half -o page.html",),
        two,
    ),
    Refused(
        "list them with: trainwright runs checkpoints runs/one",
        "runs pin one 7",
        ("runs checkpoints runs/one",),
    ),
    Refused(
        "list the checkpoints with: trainwright runs checkpoints runs/one",
        "weights export one --step 3",
        ("runs checkpoints runs/one",),
    ),
    Refused(
        "-o answers.csv",
        "predict one rows.csv -o answers.txt",
        ("predict one rows.csv -o answers.csv",),
    ),
    Refused(
        "-o answers.csv, or leave out --guard-formulas",
        "predict one rows.csv -o answers.parquet --guard-formulas",
        (
            "predict one rows.csv -o answers.csv --guard-formulas",
            "predict one rows.csv -o answers.parquet",
        ),
    ),
    Refused(
        "write for example --set data.reading.encoding=cp1252",
        "predict one rows.csv --set model.kind=linear",
        ("predict one rows.csv --set data.reading.encoding=cp1252",),
    ),
    Refused(
        "did you mean 'city'?",
        "predict one rows.csv --keep ciyt",
        ("predict one rows.csv --keep city",),
    ),
    Refused(
        "name the column that identifies rows: --key COLUMN",
        "data diff one keyed.csv --key id",
        ("data diff one keyed.csv --key key",),
        more_rows,
    ),
    Refused(
        "name another column: --key COLUMN",
        "data diff keyed.csv later.csv --key city",
        ("data diff keyed.csv later.csv --key key",),
        more_rows,
    ),
    Refused(
        "for other data: trainwright data check CONTRACT",
        "data show small.yaml",
        ("data check small.yaml",),
        codes=(0, 4),
    ),
    Refused(
        "say how fields are divided, --set data.reading.separator=';', how many lines stand "
        "above the header, --set data.reading.skip_lines=2, or export the data again",
        "init odd.csv --target y -o new.yaml",
        (
            """init odd.csv --target y -o new.yaml --set 'data.reading.separator=","' """
            "--set data.reading.skip_lines=2",
        ),
        odd,
    ),
    Refused(
        "add the column, or use predict for rows without a target",
        "evaluate one bare.csv",
        ("predict one bare.csv",),
        bare,
    ),
    Refused(
        "add the column, empty where it is not known",
        "predict one narrow.csv",
        ("predict one filled.csv --allow-unknown age",),
        bare,
    ),
    Refused(
        "add --target COLUMN",
        "init pictures.csv -o new.yaml",
        ("init pictures.csv --target kind -o new.yaml",),
        pictures,
    ),
    Refused(
        "give the files with one key: trainwright data diff A B --key key",
        "data diff keyed later.csv --key code",
        ("data diff keyed.csv later.csv --key key",),
        keyed,
    ),
    Refused('put it in quotes: "3"', "check numbered.yaml", ("check quoted.yaml",), numbered),
    Refused(
        "add the spelling to data.missing_values, or set "
        'data.columns."visits.2020".kind to categorical',
        "check dotted.yaml",
        ("""check dotted.yaml --set 'data.columns."visits.2020".kind=categorical' """,),
        dotted,
    ),
    Refused(
        "trainwright init garments",
        "init garments/train-images-idx3-ubyte.gz",
        ("init garments",),
        garments,
    ),
)
