"""Residual network for images."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from trainwright.contract.sections.model.resnet import ResNet
from trainwright.model.input_shape import ImageShape
from trainwright.model.residual import Residual, skip_chances

_CHANNELS_OF_A_GROUP = 8
_FEWEST_CHANNELS = 16

_HEAD_LAYERS = 3
"""Mean over the places, dropout and the linear layer."""


def build_resnet(section: ResNet, shape: ImageShape) -> ImageNetwork:
    """Network of a contract. Its weights are channels-last, usually the fastest for convolutions on
    a CPU and on a GPU; `ImageNetwork.lay_out` changes that."""
    widths = [section.width * 2**stage for stage in range(len(section.blocks))]
    skipped = skip_chances(sum(section.blocks), section.stochastic_depth)
    layers: list[nn.Module] = [_stem(section, shape.size[0])]
    done = 0
    for stage, (width, count) in enumerate(zip(widths, section.blocks, strict=True)):
        if stage:
            layers.append(_Shrink(widths[stage - 1], width, section.norm))
        for block in range(done, done + count):
            layers.append(Residual(_block(width, section.norm), skipped[block]))
        done += count
    head = [
        _norm(widths[-1], section.norm),
        nn.ReLU(inplace=True),
        _MeanOverPlaces(section.pool_grid),
        nn.Dropout(section.dropout),
        nn.Linear(widths[-1] * section.pool_grid**2, shape.outputs),
    ]
    body = nn.Sequential(*layers, *head)
    _start(body)
    network = ImageNetwork(shape, body)
    network.lay_out(torch.channels_last)
    return network


def build_resnet_states(section: ResNet, shape: ImageShape) -> ImageNetwork:
    """The same network without its head: from pixels [B, C, H, W] to states [B, F, h, w]."""
    network = build_resnet(section, shape)
    network.body = nn.Sequential(*list(network.body.children())[:-_HEAD_LAYERS])
    return network


@final
class ImageNetwork(nn.Module):
    """Raw pixels [B, C, H, W], 0 to 255, to logits: pixels are standardised with the mean and
    standard deviation of the training images, which are saved with the weights."""

    def __init__(self, shape: ImageShape, body: nn.Module) -> None:
        super().__init__()
        self.mean: Tensor
        self.factor: Tensor
        mean, deviation = torch.tensor(shape.mean), torch.tensor(shape.deviation)
        self.register_buffer("mean", mean.view(1, -1, 1, 1).float())
        self.register_buffer("factor", (1 / deviation).view(1, -1, 1, 1).float())
        self.body = body
        self._memory_format = torch.contiguous_format

    def lay_out(self, memory_format: torch.memory_format) -> None:
        """Set the memory layout of images and convolutions."""
        self._memory_format = memory_format
        self.to(memory_format=memory_format)  # type: ignore[call-overload]

    @property
    def blocks(self) -> list[nn.Module]:
        """Residual and downsampling blocks, from first to last."""
        return [module for module in self.body.children() if isinstance(module, Residual | _Shrink)]

    @property
    def head(self) -> nn.Linear:
        """The last layer."""
        *_, last = self.body.children()
        assert isinstance(last, nn.Linear)
        return last

    def forward(
        self, pixels: UInt8[Tensor, "B C H W"] | Float[Tensor, "B C H W"]
    ) -> Float[Tensor, "B outputs"]:
        """Logits."""
        scaled = (pixels.to(self.mean.dtype) - self.mean) * self.factor
        out: Tensor = self.body(scaled.contiguous(memory_format=self._memory_format))
        return out


@final
class _MeanOverPlaces(nn.Module):
    """Average pooling over a grid of G x G cells, [B, C, H, W] to [B, G G C]: means of sums, whose
    backward pass is deterministic, unlike that of adaptive pooling on a GPU."""

    def __init__(self, grid: int) -> None:
        super().__init__()
        self._grid = grid

    def forward(self, x: Tensor) -> Tensor:
        if self._grid == 1:
            return x.mean(dim=(2, 3))
        rows = [row.mean(dim=2) for row in x.tensor_split(self._grid, dim=2)]
        cells = [cell.mean(dim=2) for row in rows for cell in row.tensor_split(self._grid, dim=2)]
        return torch.cat(cells, dim=1)


@final
class _Shrink(nn.Module):
    """Downsampling block: halves the size and adds channels by a strided block next to a strided
    1x1 convolution."""

    def __init__(self, inner: int, outer: int, norm: str) -> None:
        super().__init__()
        self.before = nn.Sequential(_norm(inner, norm), nn.ReLU(inplace=True))
        self.body = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride=2, padding=1, bias=False),
            _norm(outer, norm),
            nn.ReLU(inplace=True),
            nn.Conv2d(outer, outer, 3, padding=1, bias=False),
        )
        # oneDNN's channels-last backward pass of a strided 1x1 convolution writes out of bounds
        # where the channels are fewer than the floats of a register, 8 with AVX2 and 16 with
        # AVX-512: the pixels are subsampled beforehand.
        self._takes_out = inner < _FEWEST_CHANNELS
        stride = 1 if self._takes_out else 2
        self.beside = nn.Conv2d(inner, outer, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        before = self.before(x)
        places = before[:, :, ::2, ::2] if self._takes_out else before
        out: Tensor = self.body(before) + self.beside(places)
        return out


def _stem(section: ResNet, channels: int) -> nn.Module:
    if section.stem == "half":
        return nn.Conv2d(channels, section.width, 4, stride=2, padding=1, bias=False)
    return nn.Conv2d(channels, section.width, 3, padding=1, bias=False)


def _block(width: int, norm: str) -> nn.Module:
    """Norm, ReLU, 3x3, norm, ReLU, 3x3 (He et al. 2016, arXiv:1603.05027, figure 4e)."""
    return nn.Sequential(
        _norm(width, norm),
        # In place it would modify the input, which the residual connection still needs.
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1, bias=False),
        _norm(width, norm),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, 3, padding=1, bias=False),
    )


def _norm(width: int, norm: str) -> nn.Module:
    if norm == "batch":
        return nn.BatchNorm2d(width)
    groups = max(1, width // _CHANNELS_OF_A_GROUP)
    while width % groups:
        groups -= 1
    return nn.GroupNorm(groups, width)


def _start(body: nn.Module) -> None:
    """He initialisation; the last convolution of each residual branch is zero, so that the network
    starts as a shallow one (Goyal et al. 2017, arXiv:1706.02677, section 5.1)."""
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    for module in body.modules():
        if isinstance(module, Residual):
            last = list(module.body.modules())[-1]
            assert isinstance(last, nn.Conv2d)
            nn.init.zeros_(last.weight)
