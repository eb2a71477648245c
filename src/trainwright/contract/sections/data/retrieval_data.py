"""Traits of pairs of which one side is found by the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from trainwright.contract.sections.data.data_traits import Feeding


class RetrievalData(Feeding):
    """Pairs in a table, or in one for each part."""

    tasks: ClassVar[tuple[str, ...]] = ("retrieval",)
    samplings: ClassVar[tuple[str, ...]] = ("uniform",)
    sampling_limits: ClassVar[str] = "the other pairs of a batch are what each is held against"
    is_slow_to_improve: ClassVar[bool] = True
    samples_test: ClassVar[bool] = False

    if TYPE_CHECKING:  # Fields of each kind, with their own words.
        path: str
        val_path: str
        test_path: str
        validation: float
        test: float

    @property
    def source(self) -> str:
        """`path`."""
        return self.path

    @property
    def part_shares(self) -> tuple[str, dict[str, float]]:
        """`validation` and `test`, of the parts that do not stand apart."""
        apart = {"validation": self.val_path, "test": self.test_path}
        shares = {"validation": self.validation, "test": self.test}
        return "data", {part: share for part, share in shares.items() if not apart[part]}

    @property
    def has_own_validation(self) -> bool:
        """Have the validation pairs a file of their own?"""
        return bool(self.val_path)
