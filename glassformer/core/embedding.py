"""Token and position embeddings."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.adaptive_softmax import AdaptiveLookup
from glassformer.core.linear import EmbeddingTable, Linear
from glassformer.core.norm import make_norm
from glassformer.core.pass_context import PassContext
from glassformer.errors import ConfigError, InputError
from glassformer.spec import PositionTableSpec, TokenEmbeddingSpec


class PositionTable(nn.Module):
    """One vector per position, learned or sinusoidal."""

    def __init__(self, spec: PositionTableSpec, width: int) -> None:
        super().__init__()
        self.spec = spec
        rows = spec.length + spec.offset
        if spec.layout == "learned":
            self.weight = nn.Parameter(torch.zeros(rows, width))
        else:
            self.register_buffer("weight", sinusoids(spec, rows, width))

    def forward(self, positions: Tensor) -> Tensor:
        return F.embedding((positions + self.spec.offset).clamp(min=0), self.weight)


def sinusoids(spec: PositionTableSpec, rows: int, width: int) -> Tensor:
    """Returns sin and cos of position / 10,000^(2j/width) in the layout of `PositionTableSpec`."""
    inclusive = spec.layout == "inclusive"
    exact = torch.float32 if inclusive else torch.float64  # as the published tables were computed
    position = torch.arange(rows, dtype=exact)[:, None]
    pair = torch.arange((width + 1) // 2, dtype=exact)
    last = width // 2 - 1 if inclusive else width / 2
    if last <= 0:
        raise ConfigError(f"Sinusoids up to the longest period need a width of 4, not {width}.")
    angle = position * torch.exp(pair * -(math.log(10_000) / last))
    sin, cos = angle.sin(), angle[:, : width // 2].cos()
    if spec.layout == "interleaved":
        table = torch.zeros(rows, width, dtype=torch.float64)
        table[:, 0::2], table[:, 1::2] = sin, cos
    elif spec.layout == "halves":
        table = torch.cat((sin, cos), -1)
    else:  # an odd width leaves the last column zero
        table = F.pad(torch.cat((sin[:, : width // 2], cos), -1), (0, width % 2))
    if spec.padding_idx is not None:
        table[spec.padding_idx] = 0
    return table.float()


class Embedding(nn.Module):
    """token * scale + position + segment + language, then norm, dropout and projection.

    The projection to the model's width exists if the tables are narrower; it applies to the sum, or
    to the token's vector alone. A bag reads sentences, [batch, sentence, word], or a text as one
    sentence, and returns one vector for each.
    """

    axes: ClassVar[int] = 1  # of one text, excluding the batch axis

    def __init__(self, width: int, spec: TokenEmbeddingSpec) -> None:
        super().__init__()
        self.spec = spec
        inner = spec.embedding_size or width
        self.token = (
            EmbeddingTable(spec.vocabulary, inner)
            if spec.adaptive is None
            else AdaptiveLookup(spec.vocabulary, width, spec.adaptive)
        )
        narrow, inner = inner, inner if spec.project == "sum" else width
        if spec.position is not None:
            self.position = PositionTable(spec.position, inner)
        if spec.segments:
            self.segment = EmbeddingTable(spec.segments, inner)
        if spec.languages:
            self.language = EmbeddingTable(spec.languages, inner)
        if spec.has_query_stream:
            self.ask = nn.Parameter(torch.zeros(width))
        if spec.norm is not None:
            self.norm = make_norm(inner, spec.norm)
        if spec.embedding_size is not None:
            self.project = Linear(narrow, width, bias=spec.project == "sum")

    def length(self, tokens: Tensor) -> int:
        return tokens.shape[1]

    def forward(
        self,
        tokens: Tensor,
        ctx: PassContext,
        segments: Tensor | None = None,
        languages: Tensor | None = None,
    ) -> Tensor:
        x = self.token(tokens) if ctx.inputs_embeds is None else ctx.inputs_embeds
        if ctx.virtual_tokens is not None:
            virtual = ctx.virtual_tokens.to(x.dtype).expand(len(x), -1, -1)
            x = torch.cat((virtual, x[:, virtual.shape[1] :]), 1)
        if self.training and self.spec.word_dropout and ctx.inputs_embeds is None:
            kept = F.dropout(x.new_ones(self.spec.vocabulary, 1), self.spec.word_dropout)
            x = x * F.embedding(tokens, kept)
        if self.spec.bag is not None:
            x = bag(x, ctx.key_mask, self.spec.bag == "ordered")
            x = x if tokens.ndim == 3 else x[:, None]
        if segments is not None and not self.spec.segments:
            if not self.spec.segments_are_tokens:
                raise InputError("This model has no segment embeddings; leave token_type_ids out.")
            x = x + self.token(segments)
        if self.spec.scale != 1.0:
            x = x * self.spec.scale
        if self.spec.embedding_size is not None and self.spec.project == "token":
            x = self.project(x)
        if self.spec.segments:
            x = x + (self.segment.weight[0] if segments is None else self.segment(segments))
        if languages is not None:
            if not self.spec.languages:
                raise InputError("This model has no language embeddings; leave language_ids out.")
            x = x + self.language(languages)
        if self.spec.position is not None:
            x = x + self.position(ctx.q_pos)
        if self.spec.norm is not None:
            x = self.norm(x)
        if self.spec.zero_padding and ctx.key_mask is not None:
            x = x * ctx.key_mask[..., None]
        x = F.dropout(x, self.spec.dropout, self.training)
        if self.spec.embedding_size is not None and self.spec.project == "sum":
            x = self.project(x)
        return ctx.hook_point("embed", x)

    def query_stream(self, asked: Tensor) -> Tensor:
        """Returns the initial vectors of the query stream (XLNet)."""
        if not self.spec.has_query_stream:
            raise InputError("This model has no query stream; leave permutation out.")
        return F.dropout(self.ask.expand(*asked.shape, -1), self.spec.dropout, self.training)


def bag(x: Tensor, real: Tensor | None, ordered: bool) -> Tensor:
    """Sums the word vectors of each sentence: [..., word, width] to [..., width].

    If `ordered`, dimension k of d of word j of J is weighted by (1 - j/J) - (k/d)(1 - 2j/J), both
    counted from 1.
    """
    if real is None:
        real = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
    if ordered:
        word = real.cumsum(-1) / real.sum(-1, keepdim=True).clamp(min=1)
        dimension = torch.arange(1, x.shape[-1] + 1, device=x.device) / x.shape[-1]
        weight = (1 - word)[..., None] - dimension * (1 - 2 * word)[..., None]
        x = x * weight.to(x.dtype)
    return (x * real[..., None]).sum(-2)
