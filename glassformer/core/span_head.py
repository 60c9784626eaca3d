"""A head that finds answer spans: first the start, then the end given the start."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.core.heads import Head, Transform
from glassformer.core.linear import Linear
from glassformer.spec import HeadSpec, ModelSpec, SpanBeamSpec, TransformSpec


class SpanHead(Head):
    """Returns logits of answer starts, [batch, position]; `search` finds the ends."""

    def __init__(self, width: int, spec: HeadSpec, beam: SpanBeamSpec) -> None:
        super().__init__(width, spec)
        self.beam = beam
        dense = TransformSpec(width=width, activation="tanh")
        normed = TransformSpec(width=width, activation="tanh", norm=beam.norm)
        self.end = Transform(2 * width, normed)
        self.end_out = Linear(width, 1)
        self.possible = Transform(2 * width, dense)
        self.possible_out = Linear(width, 1, bias=False)

    def search(self, hidden: Tensor, starts: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        """Finds the most likely starts and, for each, the most likely ends.

        Returns:
            Probabilities of starts, [batch, start], and of ends, [batch, end * start]; their
            positions in real tokens (-1 if there are fewer), as "start_at" and "end_at"; and the
            logit of "there is an answer", [batch], as "possible".
        """
        batch, length, _ = hidden.shape
        real = starts.new_ones(batch, length, dtype=torch.bool) if mask is None else mask
        at = torch.where(real, real.cumsum(-1) - 1, -1)
        share = starts.masked_fill(~real, float("-inf")).softmax(-1)
        start, slot = share.topk(min(self.beam.starts, length), -1)
        begins = hidden.gather(1, slot[..., None].expand(-1, -1, hidden.shape[-1]))
        shape = (-1, length, slot.shape[1], -1)
        pairs = torch.cat((hidden[:, :, None].expand(shape), begins[:, None].expand(shape)), -1)
        ends = self.end_out(self.end(pairs))[..., 0]  # [batch, position, start]
        ends = ends.masked_fill(~real[..., None], float("-inf")).softmax(1)
        end, end_slot = ends.topk(min(self.beam.ends, length), 1)  # [batch, end, start]
        expected = (share[:, None] @ hidden)[:, 0]
        last = hidden[torch.arange(batch, device=hidden.device), at.argmax(-1)]
        possible = self.possible_out(self.possible(torch.cat((expected, last), -1)))
        return {
            "start": start,
            "start_at": at.gather(1, slot),
            "end": end.flatten(1),
            "end_at": at.gather(1, end_slot.flatten(1)),
            "possible": possible[:, 0],
        }


def make_heads(spec: ModelSpec) -> nn.ModuleDict:
    """Returns the heads of a model by name; each reads the output of its stack."""
    last = spec.last_stack
    widths = {"last": last.out_width, "encoder": (spec.encoder or last).out_width}
    return nn.ModuleDict({head.name: make_head(widths[head.stack], head) for head in spec.heads})


def make_head(width: int, spec: HeadSpec) -> Head:
    return Head(width, spec) if spec.beam is None else SpanHead(width, spec, spec.beam)
