"""`launch`: what starts the processes of a contract on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from trainwright.cli.arguments import ContractPath, NameOfRun, Overrides

ToKubernetes = Annotated[
    bool, typer.Option("--kubernetes", help="Print an Indexed Job of Kubernetes, as YAML.")
]


def launch(
    contract: ContractPath,
    image: Annotated[
        str, typer.Option("--image", metavar="IMAGE", help="Image with Trainwright and torch.")
    ],
    volume: Annotated[
        str,
        typer.Option(
            "--volume",
            metavar="CLAIM",
            help="Claim of a volume that all hosts see: the contract's folder, and the run.",
        ),
    ],
    kubernetes: ToKubernetes = False,
    hosts: Annotated[
        int, typer.Option("--hosts", metavar="N", min=1, help="Hosts, with as many processes each.")
    ] = 1,
    restart: Annotated[
        int, typer.Option("--restart", metavar="N", min=0, help="Restarts after a crash.")
    ] = 3,
    cpu: Annotated[bool, typer.Option("--cpu", help="Ask for no GPUs.")] = False,
    run: NameOfRun = "",
    overrides: Overrides = [],  # noqa: B006  typer reads the default
) -> None:
    """Write what starts a contract on several hosts; nothing is started."""
    if not kubernetes:
        raise typer.BadParameter("say what is to be written: --kubernetes")
    from trainwright.run.ranks.kubernetes import Cluster, write_job

    cluster = Cluster(image, volume, hosts, restart, not cpu)
    typer.echo(write_job(contract, overrides, run, cluster), nl=False)
