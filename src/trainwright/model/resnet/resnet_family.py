"""Family `resnet`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.resnet import ResNet
from trainwright.core.errors import Problem
from trainwright.data.encoders.encoding import Encoding
from trainwright.model.family import MemoryFormat, NetworkFamily
from trainwright.model.input_shape import ImageShape, Shape, shape_from_json

if TYPE_CHECKING:
    from torch import nn


@final
class ResNetFamily(NetworkFamily[ResNet]):
    """Residual convolutional networks for images."""

    def encoding_problems(self, section: ResNet, encoding: Encoding) -> Iterator[Problem]:
        """The grid of the means fits into the last stage."""
        _, height, width = _of_images(shape_from_json(encoding.shape_json(outputs=1))).size
        yield from section.size_problems(height, width)

    def build(self, section: ResNet, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        from trainwright.model.resnet.resnet_network import build_resnet

        return build_resnet(section, _of_images(shape))

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Residual and downsampling blocks."""
        from trainwright.model.resnet.resnet_network import ImageNetwork

        assert isinstance(network, ImageNetwork)
        return network.blocks

    def head(self, network: nn.Module) -> nn.Linear:
        """The layer that reads the means over places."""
        from trainwright.model.resnet.resnet_network import ImageNetwork

        assert isinstance(network, ImageNetwork)
        return network.head

    def lay_out(self, network: nn.Module, memory_format: MemoryFormat) -> None:
        """Set the layout of images and convolutions."""
        import torch

        from trainwright.model.resnet.resnet_network import ImageNetwork

        assert isinstance(network, ImageNetwork)
        is_last = memory_format == "channels_last"
        network.lay_out(torch.channels_last if is_last else torch.contiguous_format)

    def count_layers(self, section: ResNet) -> int:
        """Residual blocks."""
        return sum(section.blocks)

    def count_parameters(self, section: ResNet, shape: Shape) -> int:
        """See `NetworkFamily`."""
        widths: list[int] = [section.width * 2**stage for stage in range(len(section.blocks))]
        total = _of_images(shape).size[0] * section.width * _stem(section)[0]
        for width, count in zip(widths, section.blocks, strict=True):
            total += count * (2 * 9 * width * width + 2 * 2 * width)
        for inner, outer in pairwise(widths):
            total += 2 * inner + 9 * inner * outer + 2 * outer + 9 * outer * outer + inner * outer
        return total + 2 * widths[-1] + (_features(section) + 1) * shape.outputs

    def count_largest(self, section: ResNet, shape: Shape) -> int:
        """See `NetworkFamily`."""
        widest: int = section.width * 2 ** (len(section.blocks) - 1)
        stem = _of_images(shape).size[0] * section.width * _stem(section)[0]
        return max(9 * widest * widest, shape.outputs * _features(section), stem)

    def count_products(self, section: ResNet, shape: Shape) -> int:
        """See `NetworkFamily`."""
        widths: list[int] = [section.width * 2**stage for stage in range(len(section.blocks))]
        channels, height, width = _of_images(shape).size
        kernel, stride = _stem(section)
        height, width = height // stride, width // stride
        total = height * width * channels * widths[0] * kernel
        for stage, count in enumerate(section.blocks):
            outer = widths[stage]
            if stage:
                inner, height, width = widths[stage - 1], -(-height // 2), -(-width // 2)
                total += height * width * (9 * inner * outer + 9 * outer * outer + inner * outer)
            total += height * width * count * 2 * 9 * outer * outer
        return total + _features(section) * shape.outputs

    def count_activations(self, section: ResNet, shape: Shape) -> int:
        """See `NetworkFamily`."""
        channels, height, width = _of_images(shape).size
        numbers = channels * height * width
        stride = _stem(section)[1]
        height, width = height // stride, width // stride
        features = section.width
        for stage, count in enumerate(section.blocks):
            if stage:
                # Norm and ReLU before it, then a convolution, a norm and a ReLU of the new width.
                numbers += 2 * features * height * width
                features, height, width = 2 * features, -(-height // 2), -(-width // 2)
                numbers += 2 * features * height * width
            numbers += 4 * count * features * height * width
        return numbers + 2 * features * height * width


def _features(section: ResNet) -> int:
    """Inputs of the last layer."""
    features: int = section.width * 2 ** (len(section.blocks) - 1) * section.pool_grid**2
    return features


def _stem(section: ResNet) -> tuple[int, int]:
    """Places of its kernel, and its stride."""
    return (16, 2) if section.stem == "half" else (9, 1)


def _of_images(shape: Shape) -> ImageShape:
    assert isinstance(shape, ImageShape)
    return shape
