"""GPT-3 (Brown et al., 2020) in GPT-2's tensor names, one head and one layer at a time."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from plain import Plain


class Affine(nn.Module):
    """GPT-2 keeps its matrices as [in, out]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Layer(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        width, inner = config.n_embd, config.n_head * config.head_dim
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = Affine(width, 3 * inner), Affine(inner, width)
        self.mlp.c_fc, self.mlp.c_proj = Affine(width, 4 * width), Affine(4 * width, width)

    def forward(self, x: Tensor, seen: Tensor, dim: int) -> Tensor:
        heads = []
        q, k, v = self.attn.c_attn(self.ln_1(x)).chunk(3, -1)
        for start in range(0, q.shape[-1], dim):
            part = slice(start, start + dim)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(dim)
            scores = scores.masked_fill(~seen, float("-inf"))
            heads.append(scores.softmax(-1).nan_to_num() @ v[..., part])
        x = x + self.attn.c_proj(torch.cat(heads, -1))
        h = self.mlp.c_fc(self.ln_2(x))
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        return x + self.mlp.c_proj(h)


class GPT3LMHeadModel(Plain):
    model_type = "gpt3"
    tied: ClassVar[dict[str, str]] = {"lm_head.weight": "transformer.wte.weight"}

    def __init__(self, config) -> None:
        super().__init__(config)
        c = self.config
        self.transformer = nn.Module()
        self.transformer.wte = nn.Embedding(c.vocab_size, c.n_embd)
        self.transformer.wpe = nn.Embedding(c.n_positions, c.n_embd)
        self.transformer.h = nn.ModuleList(Layer(c) for _ in range(c.n_layer))
        self.transformer.ln_f = nn.LayerNorm(c.n_embd)
        self.lm_head = nn.Linear(c.n_embd, c.vocab_size, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        body, slots = self.transformer, torch.arange(input_ids.shape[1])
        x = body.wte(input_ids) + body.wpe(slots)
        back = slots[:, None] - slots
        real = attention_mask.bool()[:, None]
        for depth, layer in enumerate(body.h):
            band = self.config.window if depth % 2 else len(slots)
            x = layer(x, (back >= 0) & (back < band) & real, self.config.head_dim)
        return {"logits": self.lm_head(body.ln_f(x))}
