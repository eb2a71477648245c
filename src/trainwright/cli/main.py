"""The `trainwright` command. Heavy imports are inside the verbs, so that help is instant, and verbs
on finished runs and on data are imported when they are named."""

from __future__ import annotations

import os
import sys
import time
from collections import ChainMap
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, cast, final

import typer
from typer.core import TyperGroup

from trainwright.cli.arguments import (
    NO_CLASSES,
    NO_TASK,
    RUNS,
    AfterEnding,
    Against,
    AllowCode,
    AllowUnknown,
    AsJson,
    ContractPath,
    DryRun,
    Every,
    HarnessFile,
    JudgedRows,
    Longer,
    NameOfRun,
    Overrides,
    Questions,
    ReadAs,
    Restarts,
    RunName,
    RunOrCopies,
    Runs,
    Start,
    ToResume,
    ZeroShotFile,
    mentions_ranks,
    naming_damage,
)
from trainwright.core.errors import (
    EXIT_DONE,
    EXIT_VERDICT_NOT_MET,
    Mistake,
    NonFinite,
    TrainwrightError,
)
from trainwright.core.formatting import show_safely
from trainwright.core.lazy_imports import LazyTable
from trainwright.core.lean_imports import import_lean
from trainwright.core.process import code_allowed, lasting, loading


def _build_command(found: Any) -> Any:
    """The command of a verb's function, or of an app of several verbs."""
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command()(found)
    return typer.main.get_command(alone)


_HERE = "trainwright.cli"

_LATER: LazyTable[Any] = LazyTable(
    {
        "explain": f"{_HERE}.explain:explain",
        **{verb: f"{_HERE}.embeddings:{verb}" for verb in ("index", "search", "mine")},
        "tune": f"{_HERE}.tune_contract:tune",
        "launch": f"{_HERE}.launch_job:launch",
        "generate": f"{_HERE}.texts.generate:generate",
        "card": f"{_HERE}.runs.runs_app:card",
        "runs": f"{_HERE}.runs.runs_app:runs_app",
        "weights": f"{_HERE}.weights.weights_app:weights_app",
        "data": f"{_HERE}.data.data_app:data_app",
        "registry": f"{_HERE}.registry.registry_app:registry_app",
    },
    build=_build_command,
)


@final
class CommandGroup(TyperGroup):
    """A group that has the verbs of its app, and those of the table behind them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # The table comes first, as iteration begins with the last; nothing writes to either.
        self.commands = ChainMap(cast("dict[str, Any]", _LATER), dict(self.commands))


app = typer.Typer(
    cls=CommandGroup,
    name="trainwright",
    help="Trains models from a written contract, and proves what they reach.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def init(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file, folder, pattern or URL.")],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")] = "",
    text: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column whose texts are learned as tokens.")
    ] = "",
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Output path of the contract.")
    ] = Path("contract.yaml"),
    force: Annotated[bool, typer.Option(help="Overwrite an existing contract.")] = False,
    base: Annotated[
        str, typer.Option(metavar="FOLDER", help="A decoder of which texts train an adapter.")
    ] = "",
    tune: Annotated[bool, typer.Option("--tune", help="Propose values to search.")] = False,
    overrides: Overrides = [],  # noqa: B006  typer reads the default
    as_json: AsJson = False,
) -> None:
    """Inspect data and write a commented contract for it."""
    from trainwright.cli.init_predict import InitRequest, write_contract

    wanted = InitRequest(data, target, text, overrides, base, tune)
    write_contract(wanted, output, force=force, as_json=as_json)


@app.command()
def check(
    contract: ContractPath,
    overrides: Overrides = [],  # noqa: B006  typer reads the default
    runs: Runs = RUNS,
    every: Every = False,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Validate a contract and its data without training."""
    from trainwright.cli.check import check_contract

    with code_allowed(allow_code):
        code = check_contract(contract, overrides, runs, every=every, as_json=as_json)
    raise typer.Exit(code)


@app.command()
def train(
    contract: ContractPath,
    overrides: Overrides = [],  # noqa: B006  typer reads the default
    runs: Runs = RUNS,
    run: NameOfRun = "",
    resume: ToResume = False,
    start: Start = "",
    restart: Restarts = 0,
    dry_run: DryRun = False,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Train the model of a contract, and judge it."""
    if dry_run:
        from trainwright.cli.check import check_contract

        with code_allowed(allow_code):
            code = check_contract(contract, overrides, runs, start, as_json=as_json)
        raise typer.Exit(code)
    from trainwright.core.progress import StopFlag
    from trainwright.run.supervise.preemption import stop_on_signals

    if mentions_ranks(contract, overrides):
        from trainwright.run.ranks.launch import count_ranks

        if (ranks := count_ranks(contract, overrides)) > 1:
            from trainwright.cli.train_resume import train_in_ranks
            from trainwright.run.request import Request

            request = Request(contract, overrides, runs, run, resume, start=start)
            with stop_on_signals(StopFlag()), code_allowed(allow_code):
                raise typer.Exit(train_in_ranks(request, ranks, restart, as_json=as_json))
    watchers = []
    if restart:
        from trainwright.run.supervise.supervisor import supervise

        attempt = supervise(restart, run, resume, lambda text: typer.echo(text, err=True))
        run, resume, watchers = attempt.run, attempt.resume, [attempt.position]
    asked_at = time.monotonic()
    # From here on, also during imports, a signal ends the command gracefully.
    with stop_on_signals(StopFlag()), code_allowed(allow_code):
        with loading():
            from trainwright.run.request import Request
            from trainwright.run.screen import StreamScreen
            from trainwright.run.train import train as train_contract

        request = Request(
            contract, overrides, runs, run, resume, sys.argv, watchers, start, asked_at=asked_at
        )
        # Called here, so that few frames stand between the verb and a step.
        result = train_contract(request, StreamScreen(sys.stderr))
        # Imported here: a training does not wait for what shows its result.
        from trainwright.cli.render import show_trained

        code = show_trained(result, request, as_json=as_json)
    raise typer.Exit(code)


@app.command()
def resume(
    run: RunOrCopies,
    longer: Longer = None,
    schedule: AfterEnding = "hold",
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Resume a run that was stopped or killed, with its original contract; with --for, extend a
    finished one.

    If the machine is lost, give the URL of the copies made by training.checkpointing.remote: the
    run is restored to a folder of its name in --runs, verified as a whole and resumed. The data
    must be at its original path, or below the working folder as named in the contract."""
    from trainwright.core.progress import StopFlag
    from trainwright.run.request import ExtensionRequest
    from trainwright.run.supervise.preemption import stop_on_signals

    with stop_on_signals(StopFlag()), code_allowed(allow_code):
        from trainwright.cli.train_resume import resume_and_show

        extend = ExtensionRequest.read(longer, schedule)
        code = resume_and_show(run, runs, extend, as_json=as_json)
    raise typer.Exit(code)


@app.command()
def predict(
    run: RunName,
    rows: Annotated[str, typer.Argument(metavar="INPUT", help="A file with rows to predict.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="A .csv, .parquet or .jsonl file.")
    ] = Path("-"),
    keep: Annotated[
        list[str],
        typer.Option("--keep", metavar="COLUMN", help="Also write this column, such as an id."),
    ] = [],  # noqa: B006
    overrides: ReadAs = [],  # noqa: B006  typer reads the default
    zero_shot: ZeroShotFile = NO_CLASSES,
    candidates: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="Texts for images, or images for texts: give the best matches."
        ),
    ] = "",
    top: Annotated[int, typer.Option(min=1, metavar="K", help="How many of them.")] = 1,
    unknown: AllowUnknown = [],  # noqa: B006
    guard_formulas: Annotated[
        bool,
        typer.Option(
            "--guard-formulas", help="Put ' before CSV cells that a spreadsheet would run."
        ),
    ] = False,
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Predict the rows of a file with the model of a run."""
    from trainwright.cli.init_predict import PredictionOutput, predict_to_file
    from trainwright.run.folder.planned_contract import find_run

    written = PredictionOutput(output, keep, guard_formulas, candidates, top, zero_shot, unknown)
    with code_allowed(allow_code):
        predict_to_file(find_run(run, runs), rows, written, overrides, as_json=as_json)


@app.command()
def evaluate(
    run: RunName,
    data: JudgedRows = "",
    zero_shot: ZeroShotFile = NO_CLASSES,
    overrides: ReadAs = [],  # noqa: B006  typer reads the default
    questions: Questions = "",
    against: Against = [],  # noqa: B006  typer reads the default
    harness: HarnessFile = NO_TASK,
    unknown: AllowUnknown = [],  # noqa: B006
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Show the verdict of a run, or judge its model on other rows or on questions.

    With --zero-shot, judge a dual encoder as a classifier of images, by the classes, templates and
    clauses of a file; without DATA on the run's own test pairs."""
    if harness != NO_TASK:
        from trainwright.cli.texts.show_questions import show_harness

        with code_allowed(allow_code):
            raise typer.Exit(show_harness(run, runs, harness, as_json=as_json))
    if questions or against:
        from trainwright.cli.texts.show_questions import AskedFile, show_questions

        rows = data or ("" if zero_shot == NO_CLASSES else str(zero_shot))
        asked = AskedFile(questions, against, rows)
        with code_allowed(allow_code):
            raise typer.Exit(show_questions(run, runs, asked, overrides, as_json=as_json))
    from trainwright.cli.init_predict import judge_zero_shot
    from trainwright.cli.render import commands_with_a_run, show_result
    from trainwright.run.after.evaluate_rows import evaluate_rows
    from trainwright.run.folder.planned_contract import find_run
    from trainwright.run.judging.evaluation_file import read_judged

    folder = find_run(run, runs)
    own = not data and not overrides and zero_shot == NO_CLASSES
    with naming_damage(folder), code_allowed(allow_code):
        if own:
            result = read_judged(folder)
        elif zero_shot != NO_CLASSES:
            result = judge_zero_shot(folder, data, zero_shot, overrides)
        else:
            result = evaluate_rows(folder, data, overrides, unknown)
        following = commands_with_a_run(run, runs)
    show_result(result, following, as_json=as_json, of_run=own)
    raise typer.Exit(EXIT_DONE if result.verdict.status == "met" else EXIT_VERDICT_NOT_MET)


@app.command()
def report(run: RunName, runs: Runs = RUNS) -> None:
    """Rewrite the HTML report of a run, or of a search, from its folder."""
    from trainwright.cli.runs.rewrite_report import rewrite_report

    typer.echo(show_safely(str(rewrite_report(run, runs))))


@app.command()
def schema() -> None:
    """Print the JSON schema of contracts."""
    from trainwright.contract.reading.schema import schema_text

    typer.echo(schema_text(), nl=False)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Trains models from a written contract, and proves what they reach."""
    if show:
        from trainwright import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command; errors that are meant for people have no traceback."""
    if "OMP_WAIT_POLICY" not in os.environ:
        # Threads that spin take the cores of a busy machine from threads with work; those that
        # sleep at once cost small operations more than they gain. So they spin for a quarter of a
        # millisecond (libgomp, on an Intel Xeon). Read when the libraries are loaded.
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that cannot show a letter is no reason to lose a result.
            stream.reconfigure(errors="replace")
    import_lean()
    try:
        with lasting():
            app(prog_name="trainwright")
    except Mistake as mistake:
        for problem in mistake.problems:
            typer.echo(str(problem), err=True)
        sys.exit(mistake.exit_code)
    except TrainwrightError as error:
        typer.echo(show_safely(str(error)), err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        # Imported here: few commands need it.
        from trainwright.cli.system_errors import say_refused

        sys.exit(say_refused(error))
    except MemoryError:
        sys.exit(_say("the memory of this machine is exhausted", NonFinite.exit_code))
    except RecursionError:
        sys.exit(_say("the input is nested too deeply", Mistake.exit_code))
    except KeyboardInterrupt:
        sys.exit(130)


def _say(text: str, code: int) -> int:
    typer.echo(text, err=True)
    return code
