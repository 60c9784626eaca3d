"""The decoder of tensor2tensor, one head at a time; a subclass says how a head attends."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from plain import Plain


class Layer(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self.self_attn, name, nn.Linear(width, width, bias=False))
        self.mlp.up_proj, self.mlp.down_proj = nn.Linear(width, inner), nn.Linear(inner, width)
        self.self_attn_layer_norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp_layer_norm = nn.LayerNorm(width, eps=1e-6)


class Decoder(Plain):
    def __init__(self, config, norm_first: bool, tied: bool) -> None:
        super().__init__(config)
        c, self.norm_first = self.config, norm_first
        self.writes = type(self).__name__.endswith("ForCausalLM")
        body = nn.Module() if self.writes else self
        body.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        body.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        if norm_first:
            body.norm = nn.LayerNorm(c.hidden_size, eps=1e-6)
        if self.writes:
            self.model = body
            self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
            self.tied = {"lm_head.weight": "model.embed_tokens.weight"} if tied else {}

    @property
    def body(self) -> nn.Module:
        return self.model if self.writes else self

    def attend(self, depth: int, head: int, q: Tensor, k: Tensor, v: Tensor, real: Tensor):
        """One head's result, [batch, query, dim]."""
        raise NotImplementedError

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        c, body, real = self.config, self.body, attention_mask.bool()
        half = c.hidden_size // 2
        places = torch.arange(input_ids.shape[1], dtype=torch.float32)[:, None]
        angles = places * torch.exp(torch.arange(half) * -(math.log(10_000) / (half - 1)))
        x = body.embed_tokens(input_ids) * math.sqrt(c.hidden_size)
        x = x + torch.cat((angles.sin(), angles.cos()), -1)
        act = {"relu": torch.relu, "gelu": nn.functional.gelu}[getattr(c, "hidden_act", "relu")]
        dim = c.hidden_size // c.num_attention_heads
        for depth, layer in enumerate(body.layers):
            weights = layer.self_attn
            h = layer.self_attn_layer_norm(x) if self.norm_first else x
            q, k, v = (getattr(weights, f"{name}_proj")(h) for name in "qkv")
            k, v = self.shorten(depth, k, v)
            parts = [slice(i * dim, (i + 1) * dim) for i in range(c.num_attention_heads)]
            z = [
                self.attend(depth, i, q[..., part], k[..., part], v[..., part], real)
                for i, part in enumerate(parts)
            ]
            x = x + weights.o_proj(torch.cat(z, -1))
            x = x if self.norm_first else layer.self_attn_layer_norm(x)
            h = layer.mlp_layer_norm(x) if self.norm_first else x
            x = x + layer.mlp.down_proj(act(layer.mlp.up_proj(h)))
            x = x if self.norm_first else layer.mlp_layer_norm(x)
        if self.norm_first:
            x = body.norm(x)
        return {"logits": self.lm_head(x)} if self.writes else {"last_hidden_state": x}

    def shorten(self, depth: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return k, v


def weighted(scores: Tensor, seen: Tensor, v: Tensor) -> Tensor:
    """softmax over what is seen; nothing seen gives zeros."""
    return scores.masked_fill(~seen, float("-inf")).softmax(-1).nan_to_num() @ v
