"""Denoising (Lewis et al., 2019): restores a text that was corrupted in one or several ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from glassformer.data.record import Record
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import Model
from glassformer.train.fused_cross_entropy import token_loss
from glassformer.train.objectives.objective import Example, Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.seq2seq_inputs import Start, rewriting
from glassformer.train.objectives.text_inputs import (
    Ids,
    TextFrame,
    length_of,
    require_head,
    text_of,
    tokenizer_of,
)
from glassformer.train.objectives.usage_example import GENERATE
from glassformer.train.objectives.whole_words import Vocabulary


@objective("denoising")
class Denoising(Objective):
    """BART's denoising; the corruptions are applied in this order, and 0 disables one.

    - `sentence_permutation`: the probability that a text's sentences are shuffled.
    - `document_rotation`: the probability that it is rotated to begin with a random token.
    - `token_deletion`: the fraction of tokens that are deleted.
    - `text_infilling`: the fraction that is masked in spans, each replaced by one mask. Span
      lengths are Poisson distributed with the mean `mean_span_length`; an empty span is a mask that
      hides nothing. With `whole_word_mask` they are counted in words.
    - `token_masking`: the fraction that is masked token by token.

    The defaults are those of the published model. Texts are split into pieces of `max_length`
    tokens, and sentences end at a period, a question mark or an exclamation mark.
    """

    pipeline_tag = "text2text-generation"
    usage = GENERATE

    columns = ("text", "sentences")
    fields: ClassVar[Mapping[str, type[np.generic]]] = {"tokens": np.int32}

    def __init__(
        self,
        model: Model,
        *,
        max_length: int | None = None,
        sentence_permutation: float = 1.0,
        document_rotation: float = 0.0,
        token_deletion: float = 0.0,
        text_infilling: float = 0.3,
        mean_span_length: float = 3.0,
        whole_word_mask: bool = True,
        token_masking: float = 0.0,
    ) -> None:
        super().__init__()
        require_head(model, "lm", "denoising", "a class such as BartForConditionalGeneration")
        self.start = Start(model)
        self.frame = TextFrame(tokenizer_of(model))
        self.length = length_of(model, max_length)
        shares = {
            "sentence_permutation": sentence_permutation,
            "document_rotation": document_rotation,
            "token_deletion": token_deletion,
            "text_infilling": text_infilling,
        }
        for name, share in {**shares, "token_masking": token_masking}.items():
            if not 0 <= share <= 1:
                raise ConfigError(f"{name} = {share} must lie between 0 and 1.")
        special = self.frame.tokenizer.special
        if (token_masking or text_infilling) and "mask" not in special:
            raise UnsupportedError(
                "The tokenizer has no mask token; give it one, or set infill and mask to 0."
            )
        self.mask_token = special.get("mask", 0)
        self.permute, self.rotate = sentence_permutation, document_rotation
        self.delete, self.mask = token_deletion, token_masking
        self.infill, self.span, self.whole_words = text_infilling, mean_span_length, whole_word_mask
        self.vocabulary = Vocabulary(self.frame.tokenizer)
        self.weights = {"lm": 1.0}

    def prepare(self, record: Record) -> Iterable[Example]:
        text = " ".join(record["sentences"]) if "sentences" in record else text_of(record)
        return self.frame.pieces(text, self.length)

    def vary(self, example: Example, rng: np.random.Generator) -> Example:
        target = example["tokens"].astype(np.int64)
        first, last = len(self.frame.before), len(target) - len(self.frame.behind)
        text = self.spoiled(target[first:last], rng)
        source = np.concatenate((target[:first], text, target[last:]))
        start = self.start.of(target, self.frame.tokenizer.language)
        return {"source": source, "tokens": target, "start": start}

    def spoiled(self, text: Ids, rng: np.random.Generator) -> Ids:
        if self.permute and rng.random() < self.permute:
            text = self.permuted(text, rng)
        if self.rotate and rng.random() < self.rotate:
            text = np.roll(text, -int(rng.integers(len(text))))
        if self.delete:
            text = text[rng.random(len(text)) >= self.delete]
        if self.infill:
            text = self.infilled(text, rng)
        if self.mask:
            text = np.where(rng.random(len(text)) < self.mask, self.mask_token, text)
        return text

    def permuted(self, text: Ids, rng: np.random.Generator) -> Ids:
        stops = self.vocabulary.stops[text]
        begins = np.append(False, stops[:-1] & ~stops[1:])  # "?!" and "..." end one sentence
        sentence = begins.cumsum()
        order = rng.permutation(sentence[-1] + 1)
        return text[np.argsort(order[sentence], kind="stable")]

    def infilled(self, text: Ids, rng: np.random.Generator) -> Ids:
        starts = np.arange(len(text))
        if self.whole_words:
            starts = np.flatnonzero(self.vocabulary.starts(text))
        first, sizes = placed_spans(len(starts), self.infill, self.span, rng)
        bounds = np.append(starts, len(text))
        begin, end = bounds[first], bounds[first + sizes]
        slots = len(text) + 1
        covered = np.bincount(begin, minlength=slots) - np.bincount(end, minlength=slots)
        kept = covered.cumsum()[:-1] == 0
        before = np.concatenate(([0], kept.cumsum()))[begin]  # number kept before each span
        return np.insert(text[kept], before, self.mask_token)

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        return rewriting(examples)

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        return {"lm": token_loss(model, batch.inputs, batch.targets["tokens"])}


def placed_spans(
    items: int, share: float, mean: float, rng: np.random.Generator
) -> tuple[Ids, Ids]:
    """Returns the first items and the sizes of spans that cover a share of all items.

    Spans do not overlap; every placement is equally likely. The last span is cut to fit.
    """
    goal = int(items * share + rng.random())
    if goal == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    sizes = np.zeros(0, dtype=np.int64)
    while sizes.sum() < goal:
        sizes = np.append(sizes, rng.poisson(mean, max(8, int(2 * goal / max(mean, 1)))))
    total = sizes.cumsum()
    sizes = sizes[: int(np.searchsorted(total, goal)) + 1]
    sizes[-1] -= sizes.sum() - goal
    gaps = items - goal  # items between spans; a span's position is the number of gaps before it
    before = np.sort(rng.permutation(gaps + len(sizes))[: len(sizes)]) - np.arange(len(sizes))
    return before + np.concatenate(([0], sizes[:-1].cumsum())), sizes
