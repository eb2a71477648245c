import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(1000, 8)
targets = inputs.square().sum(dim=1)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)

feed = tw.Feed([inputs, targets], batch_size=32, accumulate=4, seed=7)
for _ in range(10 * feed.steps_per_epoch):
    work = feed.next_step()  # never reaches over the end of an epoch
    total = 0.0
    for x, y in work.micro_batches:
        loss = (model(x).squeeze(1) - y).square().sum()
        (loss / work.targets).backward()  # the targets of the whole step: the last one is short
        total += float(loss.detach())
    optimizer.step()
    optimizer.zero_grad()
print(f"epoch {work.epoch}, {feed.samples} samples, loss {total / work.targets:.3f}")

feed.seek(5 * feed.rows + 256)  # anywhere, in constant time: the order is arithmetic
again = tw.Feed([inputs, targets], batch_size=32, accumulate=4, seed=7)
for _ in range(5 * again.steps_per_epoch + 2):
    again.next_step()
there, here = feed.next_step().micro_batches[0], again.next_step().micro_batches[0]
print("the same rows:", all(torch.equal(a, b) for a, b in zip(there, here, strict=True)))
