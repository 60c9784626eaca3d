"""Texts, tokenizers and small models to try objectives on, and a second way to a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch

import glassformer as gf
from glassformer.model import Model
from glassformer.text import Tokenizer, train
from glassformer.train.objectives import Example, Objective, TrainingBatch
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Rows

SENTENCES = [
    "The old miller walked slowly to the river, and nobody followed him.",
    "Was there anything left of the bread?",
    "A grey heron stood in the shallow water and looked at its own reflection.",
    "She laughed!",
    "In the evening the wind turned, as it always did in autumn.",
    "Nine carpenters rebuilt the burnt bridge within a fortnight.",
    "He didn't answer; the letters had been unanswerable from the beginning.",
    "Children remember the strangest things about their grandmothers.",
    "Somewhere behind the orchard a dog barked twice.",
    "Whoever keeps the key keeps the house.",
]
TEXT = " ".join(SENTENCES)
BERT_ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA_ROLES = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
XLNET_ROLES = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "cls": "<cls>", "sep": "<sep>",
               "pad": "<pad>", "mask": "<mask>"}  # fmt: skip
SIZE = 300  # of the vocabularies of models; tokenizers may have fewer


@cache
def wordpiece() -> Tokenizer:
    return train("wordpiece", texts=SENTENCES, vocab_size=180, special_tokens=BERT_ROLES)


@cache
def bytelevel() -> Tokenizer:
    roles = {**ROBERTA_ROLES, "bos": "<s>", "eos": "</s>"}
    return train("byte-bpe", texts=SENTENCES * 3, vocab_size=SIZE, special_tokens=roles)


@cache
def pieces() -> Tokenizer:
    return train("unigram", texts=SENTENCES * 3, vocab_size=150, special_tokens=XLNET_ROLES)


@cache
def sentinels() -> Tokenizer:
    roles = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
    tokenizer = train(
        "unigram", texts=SENTENCES * 3, vocab_size=150, special_tokens=roles, add_eos=True
    )
    names = [f"<extra_id_{number}>" for number in range(40)]
    tokenizer._backend.vocabulary.add_special_tokens(names)
    return tokenizer


@cache
def letters() -> Tokenizer:
    return train("char", texts=SENTENCES, vocab_size=80)


def model(preset: str, tokenizer: Tokenizer, architecture: str | None = None, **settings) -> Model:
    """Small, in float64 and without dropout."""
    from glassformer.families import find_preset

    config = {**find_preset(preset), **settings}
    if architecture is not None:
        config["architectures"] = [architecture]
    made = gf.create(preset, tokenizer=tokenizer, **{k: config[k] for k in config})
    made.double().eval()
    return made


def varied(objective: Objective, stored: Sequence[Example], step: int = 0) -> list[Example]:
    own = RowRandom.of(7, step, rows=np.arange(len(stored)))
    return list(objective.vary(Rows.of(stored), own))


def draws(*seed: int) -> RowRandom:
    """Of one row."""
    return RowRandom.of(*seed, rows=np.array([0]))


def vary(objective: Objective, example: Example, *seed: int) -> Example:
    """One example as a batch of its own."""
    return objective.vary(Rows.of([example]), draws(*seed))[0]


def loss_of(objective: Objective, sums: dict[str, torch.Tensor], counts: dict[str, float]):
    return sum(objective.weights[part] * total / counts[part] for part, total in sums.items())


def gradients(objective: Objective, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """By name; a parameter that nothing was learned about has none."""
    both = torch.nn.ModuleDict({"net": model, "objective": objective})
    found = {n: p.grad.clone() for n, p in both.named_parameters() if p.grad is not None}
    both.zero_grad(set_to_none=True)
    return found


Reference = Callable[[torch.nn.Module, Example], dict[str, list[torch.Tensor]]]
"""A text by itself, after `vary`: by part the losses of all that it is asked for, one by one."""


def check_gradients(
    objective: Objective, model: Model, stored: Sequence[Example], reference: Reference
) -> None:
    examples, transformer = varied(objective, stored), model
    objective.double().eval()
    batch: TrainingBatch = objective.collate(examples)
    sums = objective(transformer, batch)
    loss_of(objective, sums, batch.counts).backward()
    ours = gradients(objective, transformer)
    losses: dict[str, list[torch.Tensor]] = {}
    for example in examples:
        for part, found in reference(transformer, example).items():
            losses.setdefault(part, []).extend(found)
    assert {part: float(len(found)) for part, found in losses.items()} == {
        part: count for part, count in batch.counts.items() if part in sums
    }
    for part, found in losses.items():
        assert len(found) > 0
        torch.testing.assert_close(sums[part], torch.stack(found).sum(), rtol=1e-8, atol=1e-8)
    total = sum(objective.weights[p] * torch.stack(f).mean() for p, f in losses.items())
    total.backward()
    theirs = gradients(objective, transformer)
    assert sum(bool(gradient.any()) for gradient in ours.values()) > 10
    nothing = torch.zeros(())
    for name in ours.keys() | theirs.keys():
        a, b = ours.get(name, nothing), theirs.get(name, nothing)
        # some norms and tables are computed in float32, whatever the dtype
        assert float((a - b).abs().max()) <= 1e-6 * max(1.0, float(b.abs().max())), name


def surprise(logits: torch.Tensor, target: int) -> torch.Tensor:
    """-log p of one token, of logits of [word]."""
    return logits.exp().sum().log() - logits[target]


def ids(array) -> torch.Tensor:
    return torch.from_numpy(np.asarray(array).astype(np.int64))[None]


def falls(
    objective: Objective, model: Model, stored: Sequence[Example], steps: int = 12
) -> tuple[float, float]:
    """The loss before and after a few steps over always the same batch."""
    both = torch.nn.ModuleDict({"net": model, "objective": objective}).float().train()
    optimizer = torch.optim.Adam(both.parameters(), 3e-3)
    torch.manual_seed(0)  # for dropout
    batch = objective.collate(varied(objective, stored))
    losses = []
    for _ in range(steps):
        loss = loss_of(objective, objective(model, batch), batch.counts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses[0], losses[-1]
