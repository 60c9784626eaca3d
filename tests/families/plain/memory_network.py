"""End-to-end memory network (Sukhbaatar et al., 2015), word by word and sentence by sentence."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plain import Plain


class Hop(nn.Module):
    def __init__(self, c, layer_wise: bool) -> None:
        super().__init__()
        self.key_words = nn.Embedding(c.vocab_size, c.hidden_size)
        self.value_words = nn.Embedding(c.vocab_size, c.hidden_size)
        if c.memory_size is not None:
            self.key_times = nn.Embedding(c.memory_size, c.hidden_size)
            self.value_times = nn.Embedding(c.memory_size, c.hidden_size)
        if layer_wise:
            self.state = nn.Linear(c.hidden_size, c.hidden_size, bias=False)


class Body(nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        self.settings = c
        self.layer_wise = getattr(c, "weight_tying", "adjacent") == "layer-wise"
        self.question = nn.Embedding(c.vocab_size, c.hidden_size)
        self.hops = nn.ModuleList(Hop(c, self.layer_wise) for _ in range(c.num_hops))

    def ties(self) -> dict[str, str]:
        tables = ["words"] if self.settings.memory_size is None else ["words", "times"]
        found = {}
        for hop in range(1, len(self.hops)):
            for table in tables:
                if self.layer_wise:
                    for side in ("key", "value"):
                        found[f"hops.{hop}.{side}_{table}"] = f"hops.0.{side}_{table}"
                else:
                    found[f"hops.{hop}.key_{table}"] = f"hops.{hop - 1}.value_{table}"
            if self.layer_wise:
                found[f"hops.{hop}.state"] = "hops.0.state"
        if not self.layer_wise:
            found["hops.0.key_words"] = "question"
        return {f"{follower}.weight": f"{kept}.weight" for follower, kept in found.items()}

    def sentence(self, words: list[int], table: nn.Embedding) -> Tensor:
        total, width = torch.zeros(table.weight.shape[1]), table.weight.shape[1]
        for j, word in enumerate(words, 1):
            weight = torch.ones(width)
            if getattr(self.settings, "position_encoding", True):
                part = j / len(words)
                for k in range(1, width + 1):
                    weight[k - 1] = (1 - part) - k / width * (1 - 2 * part)
            total = total + weight * table.weight[word]
        return total

    def answer(self, question: list[int], story: list[list[int]]) -> Tensor:
        u = self.sentence(question, self.question)
        for hop in self.hops:
            keys = [self.sentence(words, hop.key_words) for words in story]
            values = [self.sentence(words, hop.value_words) for words in story]
            if self.settings.memory_size is not None:
                for i in range(len(story)):
                    age = len(story) - 1 - i
                    keys[i] = keys[i] + hop.key_times.weight[age]
                    values[i] = values[i] + hop.value_times.weight[age]
            p = torch.stack([u @ key for key in keys]).softmax(0)
            o = sum(weight * value for weight, value in zip(p, values, strict=True))
            u = (hop.state(u) if self.layer_wise else u) + o
        return u

    def run(self, ids: Tensor, mask: Tensor, story: Tensor, story_mask: Tensor) -> Tensor:
        rows = []
        for row in range(len(ids)):
            sentences = [
                words[real].tolist()
                for words, real in zip(story[row], story_mask[row].bool(), strict=True)
                if real.any()
            ]
            rows.append(self.answer(ids[row][mask[row].bool()].tolist(), sentences))
        return torch.stack(rows)


class MemoryNetworkModel(Plain):
    model_type = "memory-network"

    def __init__(self, config) -> None:
        super().__init__(config)
        self.body = self.adopt(Body(self.config))
        self.tied = self.body[0].ties()

    def forward(self, input_ids, attention_mask, story, story_mask) -> dict[str, Tensor]:
        out = self.body[0].run(input_ids, attention_mask, story, story_mask)
        return {"last_hidden_state": out[:, None]}


class MemoryNetworkForQuestionAnswering(Plain):
    model_type = "memory-network"

    def __init__(self, config) -> None:
        super().__init__(config)
        c = self.config
        self.model = Body(c)
        self.answer = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.tied = {f"model.{k}": f"model.{v}" for k, v in self.model.ties().items()}
        if not self.model.layer_wise:
            self.tied["answer.weight"] = f"model.hops.{c.num_hops - 1}.value_words.weight"

    def forward(self, input_ids, attention_mask, story, story_mask) -> dict[str, Tensor]:
        return {"logits": self.answer(self.model.run(input_ids, attention_mask, story, story_mask))}
