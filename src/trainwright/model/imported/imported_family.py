"""Family `imported`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

from trainwright.contract.sections.model.imported import Imported
from trainwright.contract.sections.section import settled
from trainwright.model.family import NetworkFamily
from trainwright.model.input_shape import Shape

if TYPE_CHECKING:
    from torch import nn

    from trainwright.model.count_network import NetworkCounts


@final
class ImportedFamily(NetworkFamily[Imported]):
    """Networks of the user's own code. It is run where `core.code_permission` says so."""

    def read_files(self, section: Imported, folder: Path, form: str = "table") -> Imported:  # noqa: ARG002
        """The hashes of the code, which is not run yet."""
        from trainwright.model.imported.load_target import hash_code

        return section.model_copy(update={"source": hash_code(section, folder)})

    def build(self, section: Imported, shape: Shape) -> nn.Module:
        """What the function returns.

        Raises:
            Mistake: without the permission, the code has changed, or it fails.
        """
        from trainwright.model.imported.own_network import build_own

        return build_own(section, shape)

    def own_objective(self, section: Imported) -> Literal["usual"] | Callable[[Any, Any], Any]:
        """The function of `objective`."""
        if section.objective == "usual":
            return "usual"
        from trainwright.model.imported.load_target import load_function

        return load_function(section.objective, section.targets, settled(section.source))

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:  # noqa: ARG002
        """Not known."""
        return ()

    def count_layers(self, section: Imported) -> int:  # noqa: ARG002
        """Not known: 1."""
        return 1

    def _counts(self, section: Imported, shape: Shape) -> NetworkCounts:
        from trainwright.model.imported.own_network import count_own

        return count_own(self, section, shape)
