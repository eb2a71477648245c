"""Image decoding rule: the settings that determine the pixels."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal, final

from trainwright.contract.sections.data.images import Decoding
from trainwright.core.files import Json


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """The part of the contract's section that decides the pixels, as fitted features keep it.
    `size` is height and width, (0, 0) for images that are of one size already."""

    size: tuple[int, int]
    channels: Literal["rgb", "grey"]
    fit: Literal["stretch", "crop", "pad"]
    filter: Literal["box", "bilinear", "bicubic", "lanczos", "nearest"]
    most_pixels: int

    @staticmethod
    def of(section: Decoding) -> Rule:
        """The rule that a contract writes."""
        size = (0, 0) if isinstance(section.size, str) else section.size
        return Rule(size, section.channels, section.fit, section.filter, section.most_pixels)

    def sized(self, height: int, width: int) -> Rule:
        """The same for a size that is known."""
        return replace(self, size=(height, width))

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {**asdict(self), "size": list(self.size)}

    @staticmethod
    def from_json(json: Json) -> Rule:
        """The inverse of `to_json`."""
        height, width = json["size"]
        section = Decoding.model_validate(
            {
                "channels": json["channels"],
                "fit": json["fit"],
                "filter": json["filter"],
                "most_pixels": json["most_pixels"],
            }
        )
        return Rule.of(section).sized(int(height), int(width))
