#!/usr/bin/env bash
# torch 2.13.0: fully_shard (FSDP2) over gloo trains as it is, and raises as soon as
# set_gradient_divide_factor asks for sums of gradients in place of means, although a factor of 1
# needs no multiplication: "Cannot use ReduceOp.PREMUL_SUM with Gloo". With
# set_force_sum_reduction_for_comms(True) beside it, it trains, and gives the sums.
# Seen, the norm of the gradient of two ranks with equal rows, over that of one rank:
# as it is 1.0, with the factor a RuntimeError, with both calls 2.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cat > "$folder/ranks.py" <<'PY'
import os

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

distributed.init_process_group("gloo")
x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


def norm(wrap):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    wrap(model)
    model(x).square().sum().backward()
    grads = [p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
             for p in model.parameters()]
    return float(torch.cat([g.flatten() for g in grads]).norm())


def summed(model, forced):
    fully_shard(model)
    model.set_gradient_divide_factor(1.0)
    if forced:
        model.set_force_sum_reduction_for_comms(True)


alone = norm(lambda model: None)
mean, both = norm(fully_shard), norm(lambda model: summed(model, True))
try:
    norm(lambda model: summed(model, False))
    said = ""
except RuntimeError as error:
    said = str(error)
if distributed.get_rank() == 0:
    print(torch.__version__, round(mean / alone, 3), said, round(both / alone, 3))
assert abs(mean / alone - 1) < 1e-4
assert abs(both / alone - 2) < 1e-4
assert "PREMUL_SUM" in said
os._exit(0)
PY
"$folder/env/bin/python" -m torch.distributed.run --standalone --nproc-per-node 2 "$folder/ranks.py"
