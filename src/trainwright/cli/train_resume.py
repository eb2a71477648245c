"""`train` and `resume`: a run starts, or goes on, to its verdict."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from trainwright.cli.arguments import naming_damage
from trainwright.core.errors import Mistake, Problem
from trainwright.core.lazy_imports import need_torch
from trainwright.core.process import is_rank
from trainwright.data.sources.remote_store import is_remote
from trainwright.run.folder.planned_contract import find_run
from trainwright.run.ranks.launch import Meeting, count_ranks, start_ranks
from trainwright.run.request import (
    NO_EXTENSION,
    ExtensionRequest,
    Request,
    request_again,
    request_recovered,
)
from trainwright.run.screen import Screen, StreamScreen, labelled
from trainwright.run.train import train


def train_in_ranks(request: Request, ranks: int, restarts: int = 0, *, as_json: bool) -> int:
    """Train here, or start the ranks of a contract, or be one of them; the exit code. After a crash
    all ranks are started again, at most `restarts` times."""
    screen = StreamScreen(sys.stderr)
    if ranks == 1:
        return _train_and_show(request, screen, as_json=as_json)
    if not is_rank():
        return start_ranks(ranks, restarts, sys.argv[1:])
    # Imported here: the process that starts the ranks needs no torch.
    from trainwright.distributed.process_group import join_group

    with join_group() as group:
        if not group.rank:
            request = Meeting().request_again(request)
            return _train_and_show(request, screen, as_json=as_json)
        from trainwright.run.ranks.follow import follow

        follow(group)
        return 0


def resume_and_show(
    run: str, runs: Path, extend: ExtensionRequest = NO_EXTENSION, *, as_json: bool
) -> int:
    """Resume a run, `extend` with a new ending; the exit code."""
    # Imported here: a new run has no copies.
    from trainwright.checkpoint.copies.copied_file_sets import holds_copies

    if is_remote(run) or holds_copies(Path(run)):
        if extend.count:
            raise Mistake(_not_from_copies(run, runs))
        url = run if is_remote(run) else f"file://{Path(run).absolute()}"
        return _recover_and_show(url, runs, as_json=as_json)
    folder = find_run(run, runs)
    with naming_damage(folder):
        request = request_again(folder, sys.argv, extend)
        ranks = count_ranks(request.contract, request.overrides)
        return train_in_ranks(request, ranks, as_json=as_json)


def _not_from_copies(url: str, runs: Path) -> Problem:
    name = url.rstrip("/").rpartition("/")[2]
    back = shlex.join(["trainwright", "resume", url, "--runs", str(runs)])
    return Problem(
        "a run gets a new ending where it lies, and these are its copies",
        path="--for",
        found=url,
        fix=f"bring it back first: {back}; then give --for with {name}",
    )


def _recover_and_show(url: str, runs: Path, *, as_json: bool) -> int:
    """Recover a run from its copies, and resume it."""
    need_torch("RUN", "going on from copies")
    # Imported here: a local run needs none of it.
    from trainwright.run.recover.recover_run import recover_run

    screen = StreamScreen(sys.stderr)
    folder = recover_run(url, runs, lambda text: screen.say(labelled("copies", text)))
    with naming_damage(folder):
        request = request_recovered(folder, url, sys.argv)
        return _train_and_show(request, screen, as_json=as_json)


def _train_and_show(request: Request, screen: Screen, *, as_json: bool) -> int:
    result = train(request, screen)
    # Imported here: a training does not wait for what shows its result.
    from trainwright.cli.render import show_trained

    return show_trained(result, request, as_json=as_json)
