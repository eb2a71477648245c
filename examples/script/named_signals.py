from pathlib import Path

import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(1000, 8)
targets = inputs.square().sum(dim=1)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)

own = tw.OwnSignals()


def objective(model: nn.Module, batch: tw.Batch) -> tw.LossSum:
    x, y = batch
    error = model(x).squeeze(1) - y
    own("within_one", (error.abs() < 1).sum(), len(y))  # a total and its count: a share of the rows
    own("largest_error", error.abs().max())  # one number; the mean over the micro-batches
    return tw.LossSum(error.square().sum(), len(y))


windows = tw.Windows(50, [tw.OwnMeans()], lines=tw.WindowFile(Path("named_windows.jsonl")))
job = tw.Job(
    model=model,
    feed=tw.Feed([inputs, targets], batch_size=50, accumulate=2),
    step=tw.OptimizerStep(model, objective, optimizer).recording(own),
    stop_rules=(tw.StepLimit(200),),
    observers=(tw.SignalRecorder(Path("named_signals.jsonl"), window=50), windows),
    state={"windows": windows},
)
print(tw.fit(job).reason)
share = list(tw.read_own_signals(Path("named_signals.jsonl"))["within_one"].values())
print(f"{len(share)} steps; within one: {share[0]:.2f} at first, {share[-1]:.2f} at last")
line = tw.read_windows(Path("named_windows.jsonl"))[-1]
print(f"{line.numbers['own/within_one']:.2f} in the last window")
