"""FT-Transformer: a feature tokenizer and a transformer over its tokens (Gorishniy et al. 2021,
arXiv:2106.11959, section 3.3)."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.sections.model.table_networks import FtTransformer
from trainwright.model.input_shape import TableShape


@final
class FtTransformerNetwork(nn.Module):
    """(numeric [B, F], categories [B, G]) -> [B, outputs]: logits, or standardised values.

    Linear(ReLU(LayerNorm(T[CLS]))) over the last tokens T (equation 1). Pre-norm, without the norm
    before the first attention (section 3.3). Of the last block only [CLS] is computed, since
    nothing reads its other tokens.
    """

    def __init__(self, section: FtTransformer, shape: TableShape) -> None:
        super().__init__()
        self.tokenizer = FeatureTokenizer(shape, section.width)
        last = section.layers - 1
        self.blocks = nn.ModuleList(
            _Block(section, is_first=number == 0, is_last=number == last)
            for number in range(section.layers)
        )
        self.norm = nn.LayerNorm(section.width)
        self.head = nn.Linear(section.width, shape.outputs)

    def forward(
        self, numeric: Float[Tensor, "B F"], categories: Int[Tensor, "B G"]
    ) -> Float[Tensor, "B outputs"]:
        """Logits or standardised values."""
        x: Tensor = self.tokenizer(numeric, categories)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(torch.relu(self.norm(x[:, 0])))
        return out


@final
class FeatureTokenizer(nn.Module):
    """[CLS] and a token for each column: b_j + x_j W_j of a number x_j, b_j + W_j[e] of category e.

    All initial values are drawn from U(-1/sqrt(d), 1/sqrt(d)), d the width of a token, as in the
    authors' code. None is decayed (appendix E.2): the vectors W stand in embeddings and [CLS] has
    one dimension, which `optim.parameter_groups` leaves out, as it does whatever is named `bias`.
    """

    def __init__(self, shape: TableShape, width: int) -> None:
        super().__init__()
        self.cls = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(shape.numeric + len(shape.cardinalities), width))
        sizes = (shape.numeric,) if shape.numeric else ()
        self.numbers = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.categories = nn.ModuleList(nn.Embedding(size, width) for size in shape.cardinalities)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)

    def forward(
        self, numeric: Float[Tensor, "B F"], categories: Int[Tensor, "B G"]
    ) -> Float[Tensor, "B L d"]:
        """Tokens: [CLS], numbers, categories."""
        numbers = [embedding.get_parameter("weight") for embedding in self.numbers]
        tokens = [numeric.unsqueeze(2) * weight for weight in numbers]
        codes = categories.unbind(1)
        for embedding, column in zip(self.categories, codes, strict=True):
            tokens.append(embedding(column).unsqueeze(1))
        columns = torch.cat(tokens, dim=1) + self.bias
        first = self.cls.to(columns.dtype).expand(len(columns), 1, -1)
        return torch.cat([first, columns], dim=1)


@final
class _Block(nn.Module):
    """x + Attention(Norm(x)), then x + FFN(Norm(x))."""

    def __init__(self, section: FtTransformer, *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        width = section.width
        self.is_last = is_last
        self.is_gated = section.activation == "reglu"
        self.heads = section.heads
        self.before_attention = nn.Identity() if is_first else nn.LayerNorm(width)
        self.queries = nn.Linear(width, width)
        self.keys_values = nn.Linear(width, 2 * width)
        self.attended = nn.Linear(width, width)
        self.before_forward = nn.LayerNorm(width)
        self.wide = nn.Linear(width, section.wide_units)
        self.narrow = nn.Linear(section.hidden_units, width)
        self.attention_dropout = nn.Dropout(section.attention_dropout)
        self.hidden_dropout = nn.Dropout(section.hidden_dropout)
        self.residual_dropout = nn.Dropout(section.residual_dropout)
        for projection in (self.queries, self.keys_values, self.attended):
            nn.init.zeros_(projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.before_attention(x)
        kept, asking = (x[:, :1], normed[:, :1]) if self.is_last else (x, normed)
        x = kept + self.residual_dropout(self.attended(self._attend(asking, normed)))
        inner = self._activate(self.wide(self.before_forward(x)))
        out: Tensor = x + self.residual_dropout(self.narrow(self.hidden_dropout(inner)))
        return out

    def _attend(self, asking: Tensor, normed: Tensor) -> Tensor:
        keys, values = self.keys_values(normed).chunk(2, dim=2)
        mixed = functional.scaled_dot_product_attention(
            self._split(self.queries(asking)),
            self._split(keys),
            self._split(values),
            dropout_p=self.attention_dropout.p if self.training else 0.0,
        )
        return mixed.transpose(1, 2).reshape(asking.shape)

    def _split(self, x: Tensor) -> Tensor:
        """[B, L, d] -> [B, heads, L, d / heads]."""
        rows, length, width = x.shape
        return x.view(rows, length, self.heads, width // self.heads).transpose(1, 2)

    def _activate(self, wide: Tensor) -> Tensor:
        if not self.is_gated:
            return functional.gelu(wide)
        values, gates = wide.chunk(2, dim=2)
        return values * torch.relu(gates)
