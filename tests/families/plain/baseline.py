"""The LSTM and the CNN baseline: gates and filters written out, one text at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from plain import Plain


class Baseline(Plain):
    """A body that turns one text of [position] into [position, width], and a head on it."""

    body: type[nn.Module]
    head: str | None = None

    def __init__(self, config) -> None:
        super().__init__(config)
        c = self.config
        both = getattr(c, "bidirectional", True) and self.head != "lm_head"
        if self.head is None:
            self.inside = self.adopt(self.body(c, both))
            return
        self.model = self.body(c, both)
        if self.head == "lm_head":
            self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
            if getattr(c, "tie_word_embeddings", False):
                self.tied = {"lm_head.weight": "model.embedding.weight"}
        else:
            self.classifier = nn.Linear(c.hidden_size, getattr(c, "num_labels", 2))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        body = self.inside[0] if self.head is None else self.model
        rows = []
        for ids, mask in zip(input_ids, attention_mask.bool(), strict=True):
            text = body(ids[mask])
            if self.head == "classify":
                rows.append(self.classifier(text.max(0).values))
                continue
            row = torch.zeros(len(ids), text.shape[1])
            row[mask] = text
            rows.append(row)
        x = torch.stack(rows)
        if self.head is None:
            return {"last_hidden_state": x}
        if self.head == "classify":
            return {"logits": x}
        return {"logits": (self.lm_head if self.head == "lm_head" else self.classifier)(x)}


class LstmBody(nn.Module):
    def __init__(self, c, both: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(c.vocab_size, c.embedding_size)
        state = c.hidden_size // 2 if both else c.hidden_size
        self.lstm = nn.LSTM(c.embedding_size, state, c.num_hidden_layers, bidirectional=both)

    def forward(self, ids: Tensor) -> Tensor:
        x = list(self.embedding(ids))
        for layer in range(self.lstm.num_layers):
            ahead = self.walk(x, f"l{layer}")
            if self.lstm.bidirectional:
                back = self.walk(x[::-1], f"l{layer}_reverse")[::-1]
                ahead = [torch.cat(pair) for pair in zip(ahead, back, strict=True)]
            x = ahead
        return torch.stack(x)

    def walk(self, steps: list[Tensor], layer: str) -> list[Tensor]:
        parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w, u, b, d = (getattr(self.lstm, f"{part}_{layer}") for part in parts)
        hidden = cell = torch.zeros(u.shape[1])
        out = []
        for step in steps:
            enter, forget, new, leave = (w @ step + b + u @ hidden + d).chunk(4)
            cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = leave.sigmoid() * cell.tanh()
            out.append(hidden)
        return out


class CnnBody(nn.Module):
    def __init__(self, c, both: bool) -> None:
        super().__init__()
        self.both, self.gated = both, getattr(c, "hidden_act", "glu") == "glu"
        self.growth, self.kernel = getattr(c, "dilation_growth", 1), getattr(c, "kernel_size", 3)
        self.embedding = nn.Embedding(c.vocab_size, c.hidden_size)
        self.positions = nn.Embedding(c.max_position_embeddings, c.hidden_size)
        outputs = c.hidden_size * (2 if self.gated else 1)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(c.hidden_size, outputs, self.kernel) for _ in range(c.num_hidden_layers)
        )

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.positions.weight[: len(ids)]
        for depth, filters in enumerate(self.convolutions):
            step = self.growth**depth
            reach = step * (self.kernel - 1)
            first = reach // 2 if self.both else reach
            rows = []
            for at in range(len(x)):
                total = filters.bias
                for tap in range(self.kernel):
                    near = at - first + tap * step
                    if 0 <= near < len(x):
                        total = total + filters.weight[:, :, tap] @ x[near]
                rows.append(total)
            y = torch.stack(rows)
            if self.gated:
                gate, y = y.chunk(2, -1)
                y = gate.sigmoid() * y
            else:
                y = y.relu()
            x = (x + y) * math.sqrt(0.5)
        return x


class LstmModel(Baseline):
    model_type, body = "lstm", LstmBody


class LstmForCausalLM(LstmModel):
    head = "lm_head"


class LstmForSequenceClassification(LstmModel):
    head = "classify"


class LstmForTokenClassification(LstmModel):
    head = "tag"


class CnnModel(Baseline):
    model_type, body = "cnn", CnnBody


class CnnForCausalLM(CnnModel):
    head = "lm_head"


class CnnForSequenceClassification(CnnModel):
    head = "classify"


class CnnForTokenClassification(CnnModel):
    head = "tag"
