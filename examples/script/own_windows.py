from pathlib import Path

import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(1000, 8)
targets = inputs.square().sum(dim=1)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-9)  # far too low, so that it is reported


def train(work: tw.StepBatches) -> tw.StepOutcome:
    x, y = work.micro_batches[0]
    optimizer.zero_grad()
    loss = (model(x).squeeze(1) - y).square().mean()
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    optimizer.step()
    return tw.StepOutcome(
        loss.item(), 1e-9, norm.item(), 0.0, 0.0, 0.0, 50, work.samples, 0, 0.0, 50
    )


file = tw.WindowFile(Path("own_windows.jsonl"))
layers, units, silent = tw.LayerNorms(model), tw.DeadUnits(model), tw.SilentUnits(model)
windows = tw.Windows(
    50,
    [tw.Throughput(), layers, units, silent],
    [tw.HealthMonitor()],
    lines=file,
    tell=lambda noted: print(noted.message),
)
probes = tw.StepProbes(windows, [layers, units], [silent], every=2)
for number in range(1, 401):
    rows = torch.randint(0, 1000, (50,))
    work = tw.StepBatches([(inputs[rows], targets[rows])], 50, 50, 50 * number, 0, 0.0)
    with probes.around(work):
        outcome = train(work)
    windows.observe(tw.StepKept(tw.Progress(number, number, 50 * number, 0), outcome))
file.sync()
lines = tw.read_windows(Path("own_windows.jsonl"))
print(f"{len(lines)} windows; first layer: {lines[-1].numbers['update_ratio/0']:.0e} a step")
