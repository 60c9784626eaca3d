"""The character-level Transformer (Al-Rfou et al., 2018), one head and one layer at a time, with
all of its classifiers: `auxiliary` has their logits by name."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from plain import Plain
from plain.tensor2tensor import weighted


class Layer(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self.self_attn, name, nn.Linear(width, width))
        self.mlp.up_proj, self.mlp.down_proj = nn.Linear(width, inner), nn.Linear(inner, width)
        self.self_attn_layer_norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp_layer_norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor, seen: Tensor, heads: int, act) -> Tensor:
        attn = self.self_attn
        dim = x.shape[-1] // heads
        q, k, v = attn.q_proj(x), attn.k_proj(x), attn.v_proj(x)
        z = []
        for start in range(0, heads * dim, dim):
            part = slice(start, start + dim)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(dim)
            z.append(weighted(scores, seen, v[..., part]))
        x = self.self_attn_layer_norm(x + attn.o_proj(torch.cat(z, -1)))
        return self.mlp_layer_norm(x + self.mlp.down_proj(act(self.mlp.up_proj(x))))


class CharTransformerModel(Plain):
    model_type = "char-transformer"

    def __init__(self, config) -> None:
        super().__init__(config)
        c = self.config
        body, self.writes = nn.Module(), type(self).__name__.endswith("ForCausalLM")
        if not self.writes:
            body = self
        body.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        tables = [
            nn.Embedding(c.max_position_embeddings, c.hidden_size)
            for _ in range(c.num_hidden_layers)
        ]
        body.position_embedding = tables[0]
        body.layer_position_embeddings = nn.ModuleList(tables[1:])
        body.layers = nn.ModuleList(
            Layer(c.hidden_size, c.intermediate_size) for _ in range(c.num_hidden_layers)
        )
        if not self.writes:
            return
        self.model = body
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size)
        names = [f"layer{depth}" for depth in range(c.num_hidden_layers - 1)]
        names = names if getattr(c, "intermediate_predictions", True) else []
        self.auxiliary_heads = nn.ModuleDict()
        for name in ("lm", *names):
            for ahead in range(1, getattr(c, "num_targets", 2) + 1):
                if (name, ahead) != ("lm", 1):
                    full = name if ahead == 1 else f"{name}_ahead{ahead}"
                    self.auxiliary_heads[full] = nn.Linear(c.hidden_size, c.vocab_size)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        c, body = self.config, self.model if self.writes else self
        slots = torch.arange(input_ids.shape[1])
        seen = (slots[:, None] >= slots) & attention_mask.bool()[:, None]
        act = {"relu": torch.relu, "gelu": nn.functional.gelu}[getattr(c, "hidden_act", "relu")]
        x, states = body.embed_tokens(input_ids), {}
        for depth, layer in enumerate(body.layers):
            tables = [body.position_embedding, *body.layer_position_embeddings]
            x = layer(x + tables[depth](slots), seen, c.num_attention_heads, act)
            states[f"layer{depth}"] = x
        if not self.writes:
            return {"last_hidden_state": x}
        states["lm"] = x
        more = {n: head(states[n.split("_")[0]]) for n, head in self.auxiliary_heads.items()}
        return {"logits": self.lm_head(x), "auxiliary": more}


class CharTransformerForCausalLM(CharTransformerModel):
    pass
