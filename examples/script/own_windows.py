from pathlib import Path

import torch
from torch import nn

from trainwright.core.progress import Progress
from trainwright.data.feed import StepBatches
from trainwright.engine.gauges import Throughput
from trainwright.engine.inspection import SilentUnits
from trainwright.engine.layers import LayerNorms
from trainwright.engine.measuring import MeasuredStep
from trainwright.engine.trouble import EarlyTrouble
from trainwright.engine.units import DeadUnits
from trainwright.engine.windows import Windows
from trainwright.tracking.events import StepKept, StepOutcome
from trainwright.tracking.windows import WindowFile, read_windows

torch.manual_seed(0)
inputs = torch.randn(1000, 8)
targets = inputs.square().sum(dim=1)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-9)  # far too low, so that it is told


def train(work: StepBatches) -> StepOutcome:
    x, y = work.micro_batches[0]
    optimizer.zero_grad()
    loss = (model(x).squeeze(1) - y).square().mean()
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    optimizer.step()
    return StepOutcome(loss.item(), 1e-9, norm.item(), 0.0, 0.0, 0.0, 50, work.samples, 0, 0.0, 50)


file = WindowFile(Path("own_windows.jsonl"))
layers, units, silent = LayerNorms(model), DeadUnits(model), SilentUnits(model)
windows = Windows(
    50,
    [Throughput(), layers, units, silent],
    [EarlyTrouble()],
    lines=file,
    tell=lambda noted: print(noted.message),
)
step = MeasuredStep(train, windows, [layers, units], [silent], every=2)
for number in range(1, 401):
    rows = torch.randint(0, 1000, (50,))
    work = StepBatches([(inputs[rows], targets[rows])], 50, 50, 50 * number, 0, 0.0)
    windows.observe(StepKept(Progress(number, number, 50 * number, 0), step(work)))
file.sync()
lines = read_windows(Path("own_windows.jsonl"))
print(f"{len(lines)} windows; first layer: {lines[-1].numbers['update_ratio/0']:.0e} a step")
