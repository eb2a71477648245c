import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(1024, 8)
targets = inputs[:, 0] + 0.1 * torch.randn(1024)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
objective = tw.GradientPenalty(tw.Supervised(tw.HuberLoss(delta=1.0)), weight=0.01)

feed = tw.Feed([inputs, targets], batch_size=64)
step = tw.OptimizerStep(model, objective, optimizer)
ended = tw.fit(tw.Job(model, feed, step, stop_rules=(tw.StepLimit(5 * feed.steps_per_epoch),)))
with torch.no_grad():
    loss = tw.Supervised(tw.HuberLoss())(model, (inputs, targets))
print(f"{ended.kind}; loss {float(loss.sum) / loss.targets:.4f}")
