"""Translation language modeling (Lample and Conneau, 2019).

A sentence and its translation share a row, so that masked tokens of one can be predicted from the
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np

from glassformer.data.record import Record, invalid
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.train.objectives.masked import MaskedLM
from glassformer.train.objectives.masking import MASKS, Masks
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.rows import Example
from glassformer.train.objectives.text_inputs import (
    text_of,
)


@objective("translation-lm")
class TranslationLM(MaskedLM):
    """Masked language modeling on a sentence and its translation.

    Both sentences have special tokens, positions restart with the second, and if the model has
    language embeddings every token has its language. Languages are named as in the config's
    lang2id, by the record (`source_language`, `target_language`) or for all records here. Longer
    sentences are truncated to half of `max_length` each; for the other options see `Masks`.
    """

    pipeline_tag = "fill-mask"
    usage = None

    columns = ("source", "target", "source_language", "target_language")
    fields: ClassVar[Mapping[str, type[np.generic]]] = {
        "tokens": np.int32,
        "positions": np.int32,
        "languages": np.int32,
    }
    batching = "pad"

    def __init__(
        self,
        model: Model,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        max_length: int | None = None,
        masks: Masks = MASKS,
    ) -> None:
        super().__init__(model, max_length=max_length, masks=masks)
        self.languages: Mapping[str, int] = model.config.get("lang2id") or {}
        self.named = bool(model.spec.last_stack.embed.languages)
        self.inputs = ("positions", "languages") if self.named else ("positions",)
        self.given = {"source": source_language, "target": target_language}
        if self.named and not self.languages:
            raise ConfigError(
                f"{model.architecture} has language embeddings, but its config has no lang2id "
                "that names them; add it."
            )

    def prepare(self, record: Record) -> Iterable[Example]:
        capacity = self.frame.capacity(self.length // 2)
        sides = {side: self.frame.ids(text_of(record, side)) for side in ("source", "target")}
        for ids in sides.values():
            self.tally.count_text(min(len(ids), capacity), max(0, len(ids) - capacity))
        rows = [self.frame.add_frame(ids[:capacity]) for ids in sides.values()]
        languages = [self.language(record, side) for side in sides]
        if all(sides.values()):
            yield {
                "tokens": np.concatenate(rows).astype(np.int32),
                "positions": np.concatenate([np.arange(len(row)) for row in rows]).astype(np.int32),
                "languages": np.repeat(languages, [len(row) for row in rows]).astype(np.int32),
            }

    def language(self, record: Record, side: str) -> int:
        if not self.named:
            return 0
        name = record.get(f"{side}_language", self.given[side])
        if name not in self.languages:
            raise invalid(
                record,
                f"the {side} language is {name!r}; the model knows {', '.join(self.languages)}",
            )
        return self.languages[name]
