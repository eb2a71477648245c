"""Verbs of `trainwright registry`. Heavy imports are inside the verbs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from trainwright.cli.arguments import RUNS, AsJson, RunName, Runs
from trainwright.core.errors import EXIT_VERDICT_NOT_MET
from trainwright.core.lazy_imports import need_package

Place = Annotated[
    str,
    typer.Option(
        "--registry",
        metavar="FOLDER|URL",
        help="A folder, or postgresql://HOST/DATABASE.",
        envvar="TRAINWRIGHT_REGISTRY",
    ),
]
Artifacts = Annotated[
    str,
    typer.Option(
        "--artifacts",
        metavar="FOLDER",
        help="Folder of the models' files; that of the registry has one.",
        envvar="TRAINWRIGHT_ARTIFACTS",
    ),
]
Reference = Annotated[
    str, typer.Argument(metavar="MODEL[:VERSION|@ALIAS]", help="For example income:3.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model's name.")]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Written into the log.")]
HERE = "registry"

registry_app = typer.Typer(
    help="Versions of models, and the one in use.", no_args_is_help=True, rich_markup_mode=None
)


@registry_app.callback()
def need_database() -> None:
    """Versions of models, and the one in use."""
    need_package("sqlalchemy", "registry", "--registry", "a registry of models")


@registry_app.command()
def add(
    run: RunName,
    name: Annotated[str, typer.Option("--name", metavar="MODEL", help="The model's name.")],
    registry: Place = HERE,
    artifacts: Artifacts = "",
    runs: Runs = RUNS,
    why: Why = "",
) -> None:
    """Register a judged run as the next version of a model."""
    from trainwright.registry.registry import Registry
    from trainwright.run.folder.planned_contract import find_run
    from trainwright.run.releases.register import register_run

    version = register_run(find_run(run, runs), name, Registry(registry, artifacts), why)
    typer.echo(f"registered {version.label}: run {version.run}, verdict {version.verdict}")


@registry_app.command()
def promote(
    reference: Reference,
    data: Annotated[str, typer.Option("--data", metavar="FILE", help="Labelled rows to judge on.")],
    margin: Annotated[
        float,
        typer.Option("--margin", metavar="NUMBER", min=0, help="By how much it must be better."),
    ] = 0.0,
    registry: Place = HERE,
    artifacts: Artifacts = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Put a version into use, if it passes the gate."""
    from trainwright.registry.registry import Registry
    from trainwright.run.releases.promote import promote as pass_gate

    promotion = pass_gate(reference, data, Registry(registry, artifacts), margin, why)
    if as_json:
        typer.echo(json.dumps(asdict(promotion)))
    else:
        for clause in promotion.clauses:
            typer.echo(f"{clause.status:10}{clause.name}: {clause.figures}")
        before = f"instead of {promotion.before}" if promotion.before else "as the first"
        is_promoted = promotion.decision == "promoted"
        typer.echo(f"{promotion.decision}: {promotion.version.label}" + f" {before}" * is_promoted)
    if promotion.decision != "promoted":
        raise typer.Exit(EXIT_VERDICT_NOT_MET)


@registry_app.command()
def rollback(
    model: Model, registry: Place = HERE, artifacts: Artifacts = "", why: Why = ""
) -> None:
    """Put the version into use that was before the last promotion."""
    from trainwright.registry.registry import Registry

    version = Registry(registry, artifacts).roll_back(model, why)
    typer.echo(f"in use: {version.label}")


@registry_app.command("list")
def show_versions(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Only of this one.")] = "",
    registry: Place = HERE,
    artifacts: Artifacts = "",
    as_json: AsJson = False,
) -> None:
    """List models, their versions and aliases."""
    from trainwright.registry.registry import Registry

    state = Registry(registry, artifacts).read()
    rows = []
    for version in state.versions:
        place = (version.model, version.number)
        aliases = [name for (of, name), number in state.aliases.items() if (of, number) == place]
        if model in ("", version.model):
            rows.append((version, aliases))
    if as_json:
        typer.echo(json.dumps([{**asdict(row), "aliases": aliases} for row, aliases in rows]))
        return
    for row, aliases in rows:
        value = "" if row.value is None else f" {row.metric} {row.value:.4g}"
        facts = (f"verdict {row.verdict}", f"purpose {row.purpose}", f"run {row.run}", *aliases)
        typer.echo(f"{row.label}{value} · {' · '.join(facts)}")


@registry_app.command("log")
def show_log(
    registry: Place = HERE,
    artifacts: Artifacts = "",
    verify: Annotated[
        bool, typer.Option("--verify", help="Check that no line was changed or removed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show who did what, when and why."""
    from trainwright.registry.audit_log import find_broken_links
    from trainwright.registry.registry import Registry

    lines = Registry(registry, artifacts).read().log
    broken = find_broken_links(lines) if verify else []
    if as_json:
        typer.echo(json.dumps([asdict(line) for line in lines]))
    else:
        for line in lines:
            why = f" ({line.reason})" if line.reason else ""
            typer.echo(
                f"{line.time[:19]} {line.user} {line.event} {line.model}:{line.version}{why}"
            )
            for clause in line.gate:
                if clause["status"] != "met":
                    typer.echo(f"    {clause['status']}: {clause['name']}: {clause['figures']}")
    for text in broken:
        typer.echo(text, err=True)
    if broken:
        from trainwright.core.errors import StorageFailed

        raise typer.Exit(StorageFailed.exit_code)
    if verify:
        typer.echo(f"{len(lines)} lines, none changed", err=True)
