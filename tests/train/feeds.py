"""Rows in memory, for tests of the loop alone."""

from __future__ import annotations

import numpy as np

from glassformer.train.objectives import Objective
from glassformer.train.objectives import rows as batches
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.recipe import TrainSettings


class Rows:
    """A `DataModule` of examples, drawn anew in every epoch."""

    def __init__(self, objective: Objective, train, valid, settings: TrainSettings) -> None:
        self.objective, self.settings = objective, settings
        self.train, self.held_out = train, valid
        self.held_out_splits = {"valid"} if valid else set()
        self.tokens_per_epoch = sum(len(next(iter(example.values()))) for example in train)
        self.steps_per_epoch = len(train) / (
            settings.batch_size * settings.gradient_accumulation_steps
        )

    def relative_length(self, tokens):
        return 1.0

    def batches(self, step):
        size, parts = self.settings.batch_size, self.settings.gradient_accumulation_steps
        numbers = [step * size * parts + i for i in range(size * parts)]
        rows = [self._row(number, step) for number in numbers]
        return [self.objective.collate(rows[i : i + size]) for i in range(0, len(rows), size)]

    def held_out_batches(self, split):
        for number, example in enumerate(self.held_out):
            draws = RowRandom.of(self.settings.seed, 2**32, rows=np.array([number]))
            yield self.objective.collate(self.objective.vary(batches.Rows.of([example]), draws))

    def _row(self, number, step):
        seed, count = self.settings.seed, len(self.train)
        order = np.random.default_rng([seed, number // count]).permutation(count)
        example = self.train[order[number % count]]
        draws = RowRandom.of(seed, step, rows=np.array([number]))
        return self.objective.vary(batches.Rows.of([example]), draws)[0]
