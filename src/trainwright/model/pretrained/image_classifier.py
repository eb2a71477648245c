"""Models of transformers with a head for images. Needs torch and transformers."""

from __future__ import annotations

import json
from typing import Any, cast, final

import torch
from torch import Tensor, nn

from trainwright.contract.sections.model.pretrained import Base
from trainwright.core.files import Json
from trainwright.model.input_shape import ImageShape
from trainwright.model.pretrained.hub_files import PREPROCESSOR, known_config, unusable
from trainwright.model.pretrained.sequence_classifier import build_classifier

_LARGEST = 255


def build_image_classifier(base: Base, shape: ImageShape, *, is_new: bool) -> nn.Module:
    """As `build_classifier`; it takes raw pixels [B, C, H, W], 0 to 255.

    They are standardised by what the base names, else by the statistics of the training images; one
    channel stands for each of several that the base reads.

    Raises:
        Mistake: as `build_classifier`, or the base reads fewer channels.
    """
    network = build_classifier(base, shape.outputs, is_new=is_new)
    _standardise(network, base, shape)
    return network


def build_image_states(base: Base, shape: ImageShape, *, is_new: bool) -> nn.Module:
    """The encoder of `build_image_classifier` without its head: from raw pixels [B, C, H, W] to
    states of its places [B, F, h, w], those of patches without other tokens.

    Raises:
        Mistake: as `build_image_classifier`, or the encoder has no states of patches.
    """
    network = build_classifier(base, shape.outputs, is_new=is_new)
    # The head is beside the encoder, and smaller.
    encoder = max(network.children(), key=lambda one: sum(p.numel() for p in one.parameters()))
    _standardise(encoder, base, shape)
    return ImageStates(encoder, base)


@final
class ImageStates(nn.Module):
    """States [B, F, h, w] of the places of images [B, C, H, W] in an encoder of transformers."""

    def __init__(self, encoder: nn.Module, base: Base) -> None:
        super().__init__()
        self.encoder = encoder
        config = known_config(json.loads(base.config), "images")
        size = getattr(getattr(config, "vision_config", config), "patch_size", 0)
        self._patch = (size, size) if isinstance(size, int) else tuple(size)
        self._kind = config.model_type

    def forward(self, pixels: Tensor) -> Tensor:
        """States, in the order of the places."""
        states: Tensor = self.encoder(pixels).last_hidden_state
        if states.ndim == 4:
            return states
        height, width = (
            side // (of or side) for side, of in zip(pixels.shape[2:], self._patch, strict=True)
        )
        others = states.shape[1] - height * width
        if others < 0 or not all(self._patch):
            raise unusable(
                "the base has no states of patches",
                f"{self._kind}: {states.shape[1]} states of an image",
                "an encoder such as vit, dinov2, clip, siglip, convnext or resnet",
                "name another base",
            )
        # A class token and registers stand before the patches.
        patches = states[:, others:].transpose(1, 2)
        return patches.reshape(*patches.shape[:2], height, width)


def _standardise(network: nn.Module, base: Base, shape: ImageShape) -> None:
    """Make a network of a base take raw pixels.

    Raises:
        Mistake: the base reads fewer channels.
    """
    channels = image_channels(base)
    if shape.size[0] not in (1, channels):
        raise unusable(
            "the images have other channels than the base reads",
            f"{shape.size[0]}",
            f"{channels}",
            "write data.decoding.channels: grey" if channels == 1 else "name another base",
        )
    mean, deviation = base.image_mean or shape.mean, base.image_std or shape.deviation
    for name, values in (("pixel_mean", mean), ("pixel_std", deviation)):
        spread = torch.tensor(values).float().view(1, -1, 1, 1)
        # Not among the weights, whose names are the published ones.
        network.register_buffer(name, spread, persistent=False)
    network.register_forward_pre_hook(_Standardisation(channels))


class _Standardisation:
    """Pixels of a call as the base reads them."""

    def __init__(self, channels: int) -> None:
        self._channels = channels

    def __call__(self, network: nn.Module, given: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """[B, C, H, W], 0 to 255, to numbers of mean 0 and deviation 1, with every channel."""
        (pixels,) = given
        mean, deviation = cast(Tensor, network.pixel_mean), cast(Tensor, network.pixel_std)
        scaled = (pixels.to(mean.dtype) - mean) / deviation
        return (scaled.expand(-1, self._channels, -1, -1),)


def image_channels(base: Base) -> int:
    """Channels that the configuration of a base names, 3 where it names none."""
    config = known_config(json.loads(base.config), "images")
    config = getattr(config, "vision_config", config)
    return int(getattr(config, "num_channels", 3))


def image_settings(base: Base, settings: Json) -> Json:
    """Size, mean and standard deviation of `preprocessor_config.json` as fields of a base; the size
    is that of `config.json` where these settings are missing.

    Raises:
        Mistake: they cannot be used.
    """
    config = known_config(json.loads(base.config), "images")
    config = getattr(config, "vision_config", config)
    size = getattr(config, "image_size", None)
    if settings.get("do_resize", True):
        size = settings.get("crop_size") or settings.get("size") or size
    found: dict[str, Json] = {"image_size": _height_and_width(size)}
    if not settings:
        return found
    factor = settings.get("rescale_factor", 1 / _LARGEST)
    unit = 1 / factor if settings.get("do_rescale", True) and factor else 1.0
    mean, deviation = settings.get("image_mean"), settings.get("image_std")
    if not settings.get("do_normalize", True):
        mean, deviation = [0.0], [1.0]
    if mean is None and deviation is None:
        return found
    try:
        means, deviations = (tuple(float(one) * unit for one in all_) for all_ in (mean, deviation))
        is_whole = len(means) == len(deviations) in (1, image_channels(base))
        if not is_whole or min(deviations) <= 0:
            raise ValueError(f"image_mean {mean}, image_std {deviation}")
    except (TypeError, ValueError) as error:
        raise unusable(
            f"the {PREPROCESSOR} of the base standardises no image",
            str(error),
            "image_mean and image_std, each a number above 0 of each channel",
        ) from error
    return {**found, "image_mean": means, "image_std": deviations}


def _height_and_width(size: Any) -> tuple[int, ...]:
    """Of a size however transformers writes it: a side, two, or by name; () where it says none."""
    if isinstance(size, dict):
        side = size.get("shortest_edge")
        size = (size.get("height", side), size.get("width", side))
    elif not isinstance(size, list | tuple):
        size = (size, size)
    whole = tuple(one for one in size if type(one) is int and one > 0)
    return whole if len(whole) == 2 else ()


def describe_pixels(network: nn.Module, shape: ImageShape) -> dict[str, Json]:
    """`preprocessor_config.json` of a network for images of this shape: what it does itself."""
    mean, deviation = cast(Tensor, network.pixel_mean), cast(Tensor, network.pixel_std)
    _, height, width = shape.size
    return {
        # The processor that changes an image to a size, whatever its proportions.
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": height, "width": width},
        "do_rescale": True,
        "rescale_factor": 1 / _LARGEST,
        "do_normalize": True,
        "image_mean": [one / _LARGEST for one in mean.flatten().tolist()],
        "image_std": [one / _LARGEST for one in deviation.flatten().tolist()],
    }
