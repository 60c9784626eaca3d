"""Music Transformer (Huang et al., 2018): the score of each distance by itself, no skewing."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from plain.tensor2tensor import Decoder, weighted


class MusicTransformerModel(Decoder):
    model_type = "music-transformer"

    def __init__(self, config) -> None:
        super().__init__(config, norm_first=True, tied=config.get("tie_word_embeddings", False))
        c = self.config
        self.shared = getattr(c, "heads_share_relative_embedding", False)
        shape = (c.max_relative_positions, c.hidden_size // c.num_attention_heads)
        shape = shape if self.shared else (c.num_attention_heads, *shape)
        for layer in self.body.layers:
            layer.self_attn.relative_embedding = nn.Parameter(torch.zeros(shape))

    def attend(self, depth: int, head: int, q: Tensor, k: Tensor, v: Tensor, real: Tensor):
        table = self.body.layers[depth].self_attn.relative_embedding
        table = table if self.shared else table[head]
        length = q.shape[1]
        scores = q @ k.transpose(1, 2)
        for back in range(length):  # row 0 of the table is the farthest, the last the token itself
            vector = table[max(len(table) - 1 - back, 0)]
            for query in range(back, length):
                scores[:, query, query - back] += q[:, query] @ vector
        seen = torch.ones(length, length, dtype=torch.bool).tril() & real[:, None]
        return weighted(scores / math.sqrt(q.shape[-1]), seen, v)


class MusicTransformerForCausalLM(MusicTransformerModel):
    pass
