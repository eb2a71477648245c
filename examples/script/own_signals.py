from pathlib import Path

import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(1000, 8)
targets = inputs.square().sum(dim=1)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)

recorder = tw.SignalRecorder(Path("own_signals.jsonl"), window=50)  # read and written 50 at a time
for step in range(1, 201):
    rows = torch.randint(0, 1000, (50,))
    optimizer.zero_grad()
    loss = (model(inputs[rows]).squeeze(1) - targets[rows]).square().mean()
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    optimizer.step()
    rate = optimizer.param_groups[0]["lr"]
    # Tensors may be passed: nothing waits for the device until the window is full.
    outcome = tw.StepOutcome(loss.detach(), rate, norm, 0.0, 0.0, 0.0, 50, 50 * step, 0)
    recorder.observe(tw.StepKept(tw.Progress(step, step, 50 * step, 0), outcome))
recorder.flush()
columns = tw.read_signals(Path("own_signals.jsonl"))
print(f"{len(columns['loss'])} steps; loss {columns['loss'][0]:.2f} to {columns['loss'][-1]:.2f}")
