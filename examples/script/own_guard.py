import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(1000, 8)
targets = inputs.square().sum(dim=1)
targets[123] = float("nan")  # one bad label
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)

feed = tw.Feed([inputs, targets], batch_size=50)
caution = tw.RollbackBackoff(optimizer, factor=0.5, steps=200)
guard = tw.PolicyGuard(tw.Guard(non_finite="skip"), caution, feed.rows_between)
for _ in range(2 * feed.steps_per_epoch):
    work = feed.next_step()
    ((x, y),) = work.micro_batches
    optimizer.zero_grad()
    loss = (model(x).squeeze(1) - y).square().mean()
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    number, size = loss.item(), norm.item()
    if norm.isfinite() and loss.isfinite():  # your step drops the update, the guard says what now
        optimizer.step()
    rate = optimizer.param_groups[0]["lr"]
    outcome = tw.StepOutcome(number, rate, size, 0.0, 0.0, 0.0, work.rows, work.samples, work.epoch)
    match guard.judge(outcome):
        case tw.Keep():
            pass
        case tw.Drop((dropped, *_)):
            print("dropped, with row 123 in it:", 123 in dropped.rows)
        case tw.RollBack(why):
            raise SystemExit(f"put your last checkpoint back: {why}")
        case tw.Halt(why):
            raise SystemExit(f"end here: {why}")
print("weights are finite:", all(p.isfinite().all().item() for p in model.parameters()))
