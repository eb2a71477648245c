from dataclasses import dataclass, field

import numpy as np
import polars as pl

import trainwright as tw

draw = np.random.default_rng(0)
age = draw.integers(18, 81, size=600)
people = pl.DataFrame({"age": age, "bought": age + draw.normal(0, 12, size=600) > 50})


@dataclass
class Worse:
    """Ends a training whose validation loss after `step` trees is above `most`."""

    step: int
    most: float
    losses: list[float] = field(default_factory=list)

    def observe(self, event: object) -> None:
        if isinstance(event, tw.Validated):
            self.losses.append(event.values["val_binary_logloss"])

    def reason(self, progress: tw.Progress) -> tw.StopReason | None:
        if progress.step >= self.step and self.losses[-1] > self.most:
            return tw.StopReason("early", f"the loss is above {self.most}")
        return None


data = tw.prepare(
    {
        "data": {"path": "frame://people", "target": "bought"},
        "model": {"kind": "boosting", "max_trees": 60},
    },
    frames={"people": people},
)
rule = Worse(step=10, most=0.1)
fitted = tw.fit(data, stop_rules=[rule], observers=[rule], progress=False)
print(f"{fitted.kind}: {fitted.reason}")
