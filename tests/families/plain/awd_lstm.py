"""AWD-LSTM and ULMFiT's classifier in fastai's tensor names, cell by cell, one text at a time."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from plain import Plain


class Layer(nn.Module):
    """fastai keeps the matrix that is dropped from beside the module that uses it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        cell = nn.LSTMCell(inputs, outputs)
        self.weight_hh_l0_raw = nn.Parameter(cell.weight_hh.data)
        self.module = nn.Module()
        self.module.weight_ih_l0 = nn.Parameter(cell.weight_ih.data)
        self.module.bias_ih_l0 = nn.Parameter(cell.bias_ih.data)
        self.module.bias_hh_l0 = nn.Parameter(cell.bias_hh.data)

    def forward(self, steps: list[Tensor]) -> list[Tensor]:
        cell = nn.LSTMCell(self.module.weight_ih_l0.shape[1], self.weight_hh_l0_raw.shape[1])
        cell.weight_ih, cell.weight_hh = self.module.weight_ih_l0, self.weight_hh_l0_raw
        cell.bias_ih, cell.bias_hh = self.module.bias_ih_l0, self.module.bias_hh_l0
        state, out = None, []
        for step in steps:
            state = cell(step, state)
            out.append(state[0])
        return out


class Body(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        self.encoder = nn.Embedding(config.vocab_size, config.emb_sz)
        sizes = [config.emb_sz] + [config.n_hid] * (config.n_layers - 1) + [config.emb_sz]
        self.rnns = nn.ModuleList(Layer(*pair) for pair in pairwise(sizes))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden = ids.new_zeros(*ids.shape, self.encoder.weight.shape[1], dtype=torch.float32)
        for row, real in enumerate(mask.bool()):
            steps = list(self.encoder(ids[row][real]))
            for layer in self.rnns:
                steps = layer(steps)
            hidden[row, real] = torch.stack(steps)
        return hidden


class AwdLstmModel(Plain):
    model_type = "awd-lstm"

    def __init__(self, config) -> None:
        super().__init__(config)
        self.body = self.adopt(Body(self.config))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        return {"last_hidden_state": self.body[0](input_ids, attention_mask)}


class Decoder(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        bias = getattr(config, "out_bias", True)
        self.decoder = nn.Linear(config.emb_sz, config.vocab_size, bias=bias)


class AwdLstmForCausalLM(Plain):
    model_type = "awd-lstm"

    def __init__(self, config) -> None:
        super().__init__(config)
        self.add_module("0", Body(self.config))
        self.add_module("1", Decoder(self.config))
        if getattr(self.config, "tie_word_embeddings", True):
            self.tied = {"1.decoder.weight": "0.encoder.weight"}

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        hidden = self.get_submodule("0")(input_ids, attention_mask)
        return {"logits": self.get_submodule("1").decoder(hidden)}


class Pool(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        inputs, inner = 3 * config.emb_sz, getattr(config, "lin_ftrs", 50)
        outputs = getattr(config, "num_labels", 2)
        first = (nn.BatchNorm1d(inputs), nn.Dropout(), nn.Linear(inputs, inner, bias=False))
        last = (nn.BatchNorm1d(inner), nn.Dropout(), nn.Linear(inner, outputs, bias=False))
        self.layers = nn.Sequential(nn.Sequential(*first, nn.ReLU()), nn.Sequential(*last))

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        rows = []
        for row, real in zip(hidden, mask.bool(), strict=True):
            steps = row[real]
            rows.append(torch.cat((steps[-1], steps.max(0).values, steps.mean(0))))
        return self.layers(torch.stack(rows))


class AwdLstmForSequenceClassification(Plain):
    model_type = "awd-lstm"

    def __init__(self, config) -> None:
        super().__init__(config)
        whole = nn.Module()
        whole.module = Body(self.config)
        self.add_module("0", whole)
        self.add_module("1", Pool(self.config))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        hidden = self.get_submodule("0").module(input_ids, attention_mask)
        return {"logits": self.get_submodule("1")(hidden, attention_mask)}
