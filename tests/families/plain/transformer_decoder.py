"""The Transformer-Decoder (Liu et al., 2018): full, local and memory-compressed attention, with
every group of keys convolved by itself and every query told one by one what it sees."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from plain.tensor2tensor import Decoder, weighted


class TransformerDecoderModel(Decoder):
    model_type = "transformer-decoder"

    def __init__(self, config) -> None:
        first, tied = config.get("norm_first", False), config.get("tie_word_embeddings", True)
        super().__init__(config, norm_first=first, tied=tied)
        c = self.config
        self.kinds = getattr(c, "layer_types", ["full_attention"] * c.num_hidden_layers)
        self.factor = getattr(c, "compression_factor", 3)
        for kind, layer in zip(self.kinds, self.body.layers, strict=True):
            if kind == "compressed_attention":
                for name in ("k_compress", "v_compress"):
                    conv = nn.Conv1d(c.hidden_size, c.hidden_size, self.factor, self.factor)
                    setattr(layer.self_attn, name, conv)

    def shorten(self, depth: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.kinds[depth] != "compressed_attention":
            return k, v
        weights = self.body.layers[depth].self_attn
        return self.joined(k, weights.k_compress), self.joined(v, weights.v_compress)

    def joined(self, x: Tensor, conv: nn.Conv1d) -> Tensor:
        """The first token, and what the convolution makes of every whole group."""
        groups = [x[:, :1]]
        for start in range(0, x.shape[1] - self.factor + 1, self.factor):
            group = x[:, start : start + self.factor].transpose(1, 2)
            groups.append(conv(group).transpose(1, 2))
        return torch.cat(groups, 1)

    def attend(self, depth: int, head: int, q: Tensor, k: Tensor, v: Tensor, real: Tensor):
        kind, queries, keys = self.kinds[depth], q.shape[1], k.shape[1]
        seen = torch.zeros(len(q), queries, keys, dtype=torch.bool)
        for query in range(queries):
            for key in range(keys):
                if kind == "compressed_attention":  # key 1 is made of tokens 0, ..., factor - 1
                    seen[:, query, key] = key * self.factor <= query
                elif kind == "local_attention":
                    size = self.config.local_block_length
                    same = query // size == key // size
                    seen[:, query, key] = real[:, key] & (same and key <= query)
                else:
                    seen[:, query, key] = real[:, key] & (key <= query)
        return weighted(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), seen, v)


class TransformerDecoderForCausalLM(TransformerDecoderModel):
    pass
