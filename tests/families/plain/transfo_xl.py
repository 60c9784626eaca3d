"""Transformer-XL (Dai et al., 2019) in its published tensor names, one word and one head at a
time. `tests/families/test_transfo_xl.py` shows that it says what the last release of transformers
said that had the model: also that a memory starts as zeros, which are attended to."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from plain import Plain


def sinusoids(distances: Tensor, width: int) -> Tensor:
    angles = distances[:, None].float() / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.cat((angles.sin(), angles.cos()), -1)


class Layer(nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        inner = c.n_head * c.d_head
        self.c = c
        self.dec_attn, self.pos_ff = nn.Module(), nn.Module()
        self.dec_attn.qkv_net = nn.Linear(c.d_model, 3 * inner, bias=False)
        self.dec_attn.o_net = nn.Linear(inner, c.d_model, bias=False)
        self.dec_attn.r_net = nn.Linear(c.d_model, inner, bias=False)
        self.dec_attn.r_w_bias = nn.Parameter(torch.zeros(c.n_head, c.d_head))
        self.dec_attn.r_r_bias = nn.Parameter(torch.zeros(c.n_head, c.d_head))
        self.pos_ff.CoreNet = nn.Sequential(
            nn.Linear(c.d_model, c.d_inner),
            nn.ReLU(),
            nn.Identity(),
            nn.Linear(c.d_inner, c.d_model),
        )
        for part in (self.dec_attn, self.pos_ff):
            part.layer_norm = nn.LayerNorm(c.d_model, eps=c.layer_norm_epsilon)

    def forward(self, x: Tensor, past: Tensor) -> Tensor:
        change = self.attend(torch.cat((past, x), 1), x.shape[1])
        x = self.add(self.dec_attn.layer_norm, x, change)
        inner = self.pos_ff.layer_norm(x) if self.c.pre_lnorm else x
        return self.add(self.pos_ff.layer_norm, x, self.pos_ff.CoreNet(inner))

    def add(self, norm: nn.Module, x: Tensor, change: Tensor) -> Tensor:
        return x + change if self.c.pre_lnorm else norm(x + change)

    def attend(self, x: Tensor, new: int) -> Tensor:
        c, part = self.c, self.dec_attn
        if c.pre_lnorm:
            x = part.layer_norm(x)
        q, k, v = part.qkv_net(x).chunk(3, -1)
        keys = torch.arange(x.shape[1])
        distance = keys[-new:, None] - keys  # [query, key]
        seen = distance >= 0
        if c.same_length:
            seen = seen & (distance < c.mem_len)
        near = distance.clamp(min=0)
        if c.clamp_len > 0:
            near = near.clamp(max=c.clamp_len)
        r = part.r_net(sinusoids(torch.arange(int(near.max()) + 1), c.d_model))
        heads = []
        for h in range(c.n_head):
            own = slice(h * c.d_head, (h + 1) * c.d_head)
            content = (q[:, -new:, own] + part.r_w_bias[h]) @ k[..., own].transpose(1, 2)
            place = ((q[:, -new:, None, own] + part.r_r_bias[h]) * r[near][..., own]).sum(-1)
            scores = (content + place) / math.sqrt(c.d_head)
            heads.append(scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v[..., own])
        return part.o_net(torch.cat(heads, -1))


class Parts:
    """The body: a module of its own under a head, or the whole of the bare model."""

    def build(self, c) -> None:
        self.c = c
        ends = [0, *c.cutoffs, c.vocab_size]
        sizes = [b - a for a, b in pairwise(ends)]
        widths = [c.d_embed // c.div_val**i for i in range(len(sizes))]
        self.word_emb = nn.Module()
        self.word_emb.emb_projs = nn.ParameterList()
        if c.div_val == 1:
            sizes, widths = [c.vocab_size], [c.d_embed]
        self.word_emb.emb_layers = nn.ModuleList(map(nn.Embedding, sizes, widths))
        if c.div_val > 1 or c.d_embed != c.d_model:
            self.word_emb.emb_projs.extend(nn.Parameter(torch.zeros(c.d_model, w)) for w in widths)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.n_layer))
        if not c.untie_r:
            for name in ("r_w_bias", "r_r_bias"):
                self.register_parameter(name, nn.Parameter(torch.zeros(c.n_head, c.d_head)))

    def embed(self, token: int) -> Tensor:
        part = self.word_emb
        for i, table in enumerate(part.emb_layers):
            if token < len(table.weight):
                vector = table.weight[token]
                return part.emb_projs[i] @ vector if len(part.emb_projs) else vector
            token -= len(table.weight)
        raise IndexError(token)

    def read(self, tokens: Tensor, mems: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        c = self.c
        x = torch.stack([torch.stack([self.embed(int(t)) for t in row]) for row in tokens])
        x = x * math.sqrt(c.d_model)
        if mems is None:
            mems = [torch.zeros(len(tokens), c.mem_len, c.d_model)] * c.n_layer
        kept = []
        for layer, past in zip(self.layers, mems, strict=True):
            kept.append(torch.cat((past, x), 1)[:, past.shape[1] + x.shape[1] - c.mem_len :])
            x = layer(x, past)
        return x, kept


class Body(Parts, nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        self.build(c)


class Softmax(nn.Module):
    """The first cluster's words and the other clusters are chosen among; then a word in one."""

    def __init__(self, c) -> None:
        super().__init__()
        self.ends = [0, *c.cutoffs, c.vocab_size]
        self.one_table = c.div_val == 1
        count = len(c.cutoffs) + 1
        widths = [c.d_embed // c.div_val**i for i in range(count)]
        sizes = [b - a for a, b in pairwise(self.ends)]
        if self.one_table:
            self.out_layers = nn.ModuleList([nn.Linear(c.d_embed, c.vocab_size)])
        else:
            self.out_layers = nn.ModuleList(map(nn.Linear, widths, sizes))
        self.out_projs = nn.ParameterList()
        if c.div_val > 1 or c.d_embed != c.d_model:
            self.out_projs.extend(nn.Parameter(torch.zeros(c.d_model, w)) for w in widths)
        if c.cutoffs:
            self.cluster_weight = nn.Parameter(torch.zeros(len(c.cutoffs), c.d_embed))
            self.cluster_bias = nn.Parameter(torch.zeros(len(c.cutoffs)))

    def forward(self, x: Tensor) -> Tensor:
        parts: list[Tensor] = []
        for i, (start, stop) in enumerate(pairwise(self.ends)):
            inner = x @ self.out_projs[i] if len(self.out_projs) else x
            if self.one_table:
                table = self.out_layers[0]
                logits = inner @ table.weight[start:stop].T + table.bias[start:stop]
            else:
                logits = self.out_layers[i](inner)
            if i == 0 and len(self.ends) > 2:
                choice = inner @ self.cluster_weight.T + self.cluster_bias
                first = torch.cat((logits, choice), -1).log_softmax(-1)
                parts.append(first[..., : stop - start])
                chosen = first[..., stop - start :]
            elif i == 0:
                parts.append(logits.log_softmax(-1))
            else:
                parts.append(chosen[..., i - 1, None] + logits.log_softmax(-1))
        return torch.cat(parts, -1)


DEFAULTS = {
    "pre_lnorm": False,
    "untie_r": True,
    "same_length": True,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
    "proj_share_all_but_first": True,
    "num_labels": 2,
}


class TransfoXL(Plain):
    base = "transformer."

    def __init__(self, config) -> None:
        super().__init__({**DEFAULTS, **config})
        self.raw, c = config, self.config
        c.num_labels = len(config.get("id2label", range(c.num_labels)))
        self.tied = {}
        if not c.untie_r:
            self.tied |= {
                f"{self.base}layers.{i}.dec_attn.{name}": f"{self.base}{name}"
                for i in range(c.n_layer)
                for name in ("r_w_bias", "r_r_bias")
            }


class TransfoXLModel(Parts, TransfoXL):
    model_type = "transfo-xl"
    base = ""

    def __init__(self, config) -> None:
        super().__init__(config)
        self.build(self.config)

    def forward(self, input_ids: Tensor, mems=None) -> dict:
        hidden, mems = self.read(input_ids, mems)
        return {"last_hidden_state": hidden, "mems": mems}


class TransfoXLLMHeadModel(TransfoXL):
    model_type = "transfo-xl"

    def __init__(self, config) -> None:
        super().__init__(config)
        c = self.config
        self.transformer, self.crit = Body(c), Softmax(c)
        words = "transformer.word_emb.emb"
        if c.tie_word_embeddings:
            self.tied |= {
                f"crit.out_layers.{i}.weight": f"{words}_layers.{i}.weight"
                for i in range(len(self.crit.out_layers))
            }
        default = [False, *[c.proj_share_all_but_first] * len(c.cutoffs)]
        for i in range(len(self.crit.out_projs)):
            if getattr(c, "tie_projs", default)[i]:
                source = 0 if c.div_val == 1 else i
                self.tied[f"crit.out_projs.{i}"] = f"{words}_projs.{source}"

    def forward(self, input_ids: Tensor, mems=None) -> dict:
        hidden, mems = self.transformer.read(input_ids, mems)
        return {"logits": self.crit(hidden), "mems": mems}


class TransfoXLForSequenceClassification(TransfoXL):
    model_type = "transfo-xl"

    def __init__(self, config) -> None:
        super().__init__(config)
        self.transformer = Body(self.config)
        # The release says d_embed here, and can run it only where that is the same.
        self.score = nn.Linear(self.config.d_model, self.config.num_labels, bias=False)

    def forward(self, input_ids: Tensor, mems=None) -> dict:
        hidden, mems = self.transformer.read(input_ids, mems)
        return {"logits": self.score(hidden[:, -1]), "mems": mems}
