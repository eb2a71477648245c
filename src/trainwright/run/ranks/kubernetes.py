"""A Job of Kubernetes that trains a contract on several hosts. Imports no torch."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import Mistake, Problem

_FOLDER = "/work"
_PORT = 29400
_NAME_LENGTH = 50
"""A pod's name is that of the Job and its number, and at most 63 letters."""

_JOB = """\
# kubectl apply -f FILE. The volume {claim} holds the contract's folder, with {contract}, and gets
# the run: {folder}/runs/{name}. The Job is complete when another start would change nothing; the
# verdict is in the log of its first pod.
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    job-name: {name}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {hosts}
  parallelism: {hosts}
  backoffLimit: {failures}
  template:
    spec:
      subdomain: {name}
      restartPolicy: Never
      terminationGracePeriodSeconds: {grace}
      containers:
        - name: train
          image: {image}
          workingDir: {folder}
          command: ["sh", "-c"]
          args:
            - |
              first=false
              if [ "$JOB_COMPLETION_INDEX" = 0 ]; then first=true; fi
              exec torchrun --nnodes={hosts} --nproc-per-node={per_host} \\
                --max-restarts={restarts} --rdzv-backend=c10d --rdzv-id={name} \\
                --rdzv-endpoint={name}-0.{name}:{port} --rdzv-conf=is_host=$first \\
                -m -- {command}
          env:
            - name: TORCH_DISABLE_SHARE_RDZV_TCP_STORE
              value: "1"
          ports:
            - containerPort: {port}
{resources}\
          volumeMounts:
            - name: work
              mountPath: {folder}
            - name: memory
              mountPath: /dev/shm
      volumes:
        - name: work
          persistentVolumeClaim:
            claimName: {claim}
        - name: memory
          emptyDir:
            medium: Memory
"""
_GPUS = """\
          resources:
            limits:
              nvidia.com/gpu: {per_host}
"""


class Cluster(NamedTuple):
    """What a Job uses: hosts, an image with Trainwright, the claim of a volume that all hosts see,
    restarts after a crash, and whether each process has a GPU."""

    image: str
    claim: str
    hosts: int = 1
    restarts: int = 3
    has_gpus: bool = True


def write_job(contract: Path, overrides: Sequence[str], run: str, cluster: Cluster) -> str:
    """YAML of an Indexed Job, and of the headless service by which its hosts find each other.

    Raises:
        Mistake: in the contract, or it cannot be divided among the hosts.
    """
    document = read_contract(contract, overrides).contract
    ranks = document.distributed.num_gpus
    is_divided = isinstance(ranks, int) and ranks % cluster.hosts == 0
    if document.distributed.strategy == "single" or not is_divided:
        raise Mistake(
            Problem(
                f"the processes cannot be divided among {cluster.hosts} hosts",
                path="distributed",
                found=f"strategy: {document.distributed.strategy}, num_gpus: {ranks}",
                expected="a strategy of several processes, and as many on each host",
                fix="--set distributed.strategy=ddp --set distributed.num_gpus=8 --hosts 2",
            )
        )
    name = _name_job(run or document.name)
    words = ["trainwright.cli.rank_process", "train", contract.name, "--run", name, "--resume"]
    words += [word for override in overrides for word in ("--set", override)]
    per_host = int(ranks) // cluster.hosts
    grace = document.resume.grace_seconds
    return _JOB.format(
        name=name,
        contract=contract.name,
        hosts=cluster.hosts,
        per_host=per_host,
        restarts=cluster.restarts,
        failures=cluster.restarts * cluster.hosts,
        grace=30 if grace == "auto" else math.ceil(grace),
        image=json.dumps(cluster.image),
        claim=json.dumps(cluster.claim),
        command=shlex.join(words),
        resources=_GPUS.format(per_host=per_host) if cluster.has_gpus else "",
        folder=_FOLDER,
        port=_PORT,
    )


def _name_job(run: str) -> str:
    """The run's name in letters that names of hosts have."""
    name = re.sub(r"[^a-z0-9]+", "-", run.lower())[:_NAME_LENGTH].strip("-")
    return name if name[:1].isalpha() else f"run-{name}".rstrip("-")
