"""An objective over characters, for tests of what is around objectives. Workers import it."""

from __future__ import annotations

import os
from typing import ClassVar

import numpy as np
import torch

from glassformer.errors import GlassformerError
from glassformer.train.batches.collate import pad
from glassformer.train.batches.packing import document_numbers
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.rows import RaggedColumn

END = 1


class Letters(Objective):
    """A token a character, and one at the end of a document; `noise` is what is drawn."""

    fields: ClassVar = {"tokens": np.uint16, "places": np.uint32}
    weights: ClassVar = {"all": 1.0}

    def __init__(self, batching="concatenate", beyond=0, before=0, others=0, fails_at=None):
        super().__init__()
        self.batching, self.beyond, self.before, self.others = batching, beyond, before, others
        self.fails_at = fails_at  # the number of a row that cannot be collated
        self.own = torch.nn.Linear(3, 3)  # weights, which workers must do without

    def prepare(self, record):
        if "!" in record["text"]:
            raise GlassformerError("nobody shouts here.")
        ids = [ord(character) for character in record["text"]]
        ids += [END] if record.get("ends", True) else []
        yield {"tokens": np.array(ids, np.int64), "places": np.arange(len(ids))}

        if "%" in record["text"]:
            os._exit(9)  # as the kernel ends a process that takes too much memory

    def vary(self, rows, draws):
        lengths = rows.columns["tokens"].lengths
        return rows | {"noise": RaggedColumn(draws.below("noise", 1000, lengths), lengths)}

    def collate(self, examples):
        return self.collate_to(examples, {"tokens": None})

    def collate_to(self, examples, slots):
        tokens, mask = pad(examples, "tokens", length=slots["tokens"])
        if self.fails_at is not None and any(
            f"{chr(END)}{self.fails_at} " in "".join(map(chr, [END, *example["tokens"]]))
            for example in examples
        ):
            raise GlassformerError(f"the row {self.fails_at} is odd.")
        noise, _ = pad(examples, "noise", length=slots["tokens"])
        inputs = {"input_ids": tokens, "attention_mask": mask, "noise": noise}
        return TrainingBatch(inputs, {}, {"all": float(mask.sum())}, int(mask.sum()))

    def forward(self, model, batch):
        raise NotImplementedError


def stream(store, start, end):
    """A slice of the stream of all examples."""
    return store.slices(np.array([start]), np.array([end - start]))[0]


def numbers(store, start, end):
    """The document number of each of its tokens."""
    window = np.array([start]), np.array([end - start])
    return document_numbers(store.document_starts, *window, store.size)
