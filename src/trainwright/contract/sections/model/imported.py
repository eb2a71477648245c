"""`model` of kind `imported`: a module of the user's own code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import ANY_NUMBER, ModelSection, Traits
from trainwright.contract.sections.section import Auto, Count, Section
from trainwright.core.files import Json

Target = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")]
"""`module:function`."""


class SourceCode(Section):
    """The files that the code was read from. The plan fills it in, and a run goes on with the same
    files only."""

    files: Mapping[str, str]
    """SHA-256 of each file by its module: the one that is named, and those beside it that it
    imports."""

    folder: str = Field(default="", exclude=True)
    """Where the files lie on this machine; not part of the plan."""


class Imported(ModelSection):
    """A network of one's own: the `nn.Module` that a function returns. Its code is run only where
    the command has `--allow-code`."""

    traits: ClassVar[Traits] = Traits(
        reads=("table", "images", "tokens"),
        files=("source",),
        needs_files=True,
        runs_code=True,
        weighs_rows=False,
        predicts=ANY_NUMBER | {"labels"},
    )

    kind: Literal["imported"]

    target: Target
    """`module:function`, looked for in the contract's folder and then on the path of Python. The
    function is called with the shape of the inputs and the `options`, and returns the network."""

    options: Mapping[str, Json] = Field(default_factory=dict)
    """Keyword arguments of the function."""

    objective: Literal["usual"] | Target = "usual"
    """`module:function` of (model, batch) that returns the summed loss of a batch and the number of
    its targets. `usual`: the loss of `training.loss` between outputs and targets."""

    context: Count = 256
    """Tokens of a training row, for data of tokens."""

    source: Auto | SourceCode = "auto"
    """The files of the code; the plan fills it in."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @property
    def context_length(self) -> int:
        """`context`."""
        return self.context

    @property
    def targets(self) -> tuple[str, ...]:
        """The functions that are called."""
        return (self.target,) if self.objective == "usual" else (self.target, self.objective)
