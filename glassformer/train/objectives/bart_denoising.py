"""Denoising (Lewis et al., 2019): restores a text that was corrupted in one or several ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.record import Record
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import Model
from glassformer.train.fused_cross_entropy import token_loss
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.row_lengths import even
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import (
    Example,
    Lengths,
    RaggedColumn,
    Rows,
    column_of,
    concatenate,
    framed,
    sliced,
    sums,
)
from glassformer.train.objectives.seq2seq_inputs import Start, seq2seq_batch
from glassformer.train.objectives.text_inputs import (
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
                "The tokenizer has no mask token; add one, or set text_infilling and "
                "token_masking to 0."
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

    def vary(self, rows: Rows, draws: RowRandom) -> Rows:
        values, lengths = rows.columns["tokens"]
        target = RaggedColumn(values.astype(np.int64), lengths)
        before, behind = self.frame.before, self.frame.behind
        places, left = target.places, len(behind)
        inside = (places >= len(before)) & (places < np.repeat(lengths - left, lengths))
        source = framed(self.corrupted(target.where(inside), draws), before, behind)
        start = self.start.column(target, self.frame.tokenizer.language)
        return Rows({"source": source, "tokens": target, "start": start})

    def corrupted(self, text: RaggedColumn, draws: RowRandom) -> RaggedColumn:
        if self.permute:
            text = self.permuted(text, draws)
        if self.rotate:
            turned = draws.uniform("rotate") < self.rotate
            shift = np.where(turned, draws.below("first", text.lengths), 0)
            places = text.places + np.repeat(shift, text.lengths)
            places = places % np.repeat(text.lengths, text.lengths)
            text = RaggedColumn(
                text.values[np.repeat(text.starts, text.lengths) + places], text.lengths
            )
        if self.delete:
            text = text.where(draws.uniform("delete", text.lengths) >= self.delete)
        if self.infill:
            text = self.infilled(text, draws)
        if self.mask:
            masked = draws.uniform("mask", text.lengths) < self.mask
            text = RaggedColumn(np.where(masked, self.mask_token, text.values), text.lengths)
        return text

    def permuted(self, text: RaggedColumn, draws: RowRandom) -> RaggedColumn:
        """Shuffles the sentences of some texts."""
        stops = self.vocabulary.stops[text.values]
        begins = np.ones(len(stops), dtype=bool)
        begins[1:] = stops[:-1] & ~stops[1:]  # "?!" and "..." end one sentence
        begins[text.starts[text.lengths > 0]] = True
        counts = sums(begins, text.lengths)
        first = np.flatnonzero(begins)
        sizes = np.diff(np.append(first, len(stops)))
        sentences = RaggedColumn(np.arange(len(first)), counts)
        shuffled = draws.uniform("permute") < self.permute
        scores = np.where(
            np.repeat(shuffled, counts),
            draws.uniform("sentences", counts),
            sentences.places / np.repeat(np.maximum(counts, 1), counts),
        )
        order = np.argsort(sentences.rows + scores, kind="stable")
        return RaggedColumn(sliced(text.values, first[order], sizes[order]).values, text.lengths)

    def infilled(self, text: RaggedColumn, draws: RowRandom) -> RaggedColumn:
        """Replaces spans of words, or of tokens, by one mask each."""
        starts = np.ones(len(text.values), dtype=bool)
        if self.whole_words:
            starts = self.vocabulary.starts(text)
        items = sums(starts, text.lengths)  # words per row
        first, sizes, counts = placed_spans(items, self.infill, self.span, draws)
        # where words begin in the joined texts, and for each row its end
        bounds = concatenate(
            [
                RaggedColumn(np.flatnonzero(starts), items),
                RaggedColumn(np.cumsum(text.lengths), np.ones_like(items)),
            ]
        )
        row = np.repeat(bounds.starts, counts)
        begin, end = bounds.values[row + first], bounds.values[row + first + sizes]
        slots = len(text.values) + 1
        covered = np.bincount(begin, minlength=slots) - np.bincount(end, minlength=slots)
        kept = covered.cumsum()[:-1] == 0
        before = np.concatenate(([0], kept.cumsum()))[begin]  # number kept before each span
        values = np.insert(text.values[kept], before, self.mask_token)
        return RaggedColumn(values, sums(kept, text.lengths) + counts)

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        if not self.few_shapes:
            return seq2seq_batch(examples)
        longest = {n: int(column_of(examples, n).lengths.max()) for n in ("source", "tokens")}
        target = self.padded_length(longest["tokens"], self.length)
        source = target if longest["source"] <= target else even(longest["source"])
        return seq2seq_batch(examples, slots={"source": source, "tokens": target})

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        return {"lm": token_loss(model, batch.inputs, batch.targets["tokens"])}


def placed_spans(
    items: Lengths, share: float, mean: float, draws: RowRandom
) -> tuple[Lengths, Lengths, Lengths]:
    """Returns the first items and the sizes of the spans of all rows, and their number per row.

    The spans of a row cover a share of its items. They do not overlap; every placement is equally
    likely. The last span is cut to fit.
    """
    goals = (items * share + draws.uniform("goal")).astype(np.int64)
    most = int(goals.max(initial=0))
    reached = _poisson(mean)
    draw = max(8, int(2 * most / max(mean, 1)))
    while True:
        sizes = np.searchsorted(reached, draws.grid("sizes", draw), side="right")
        total = sizes.cumsum(1)
        if (total[:, -1:] >= goals[:, None]).all():
            break
        draw *= 2  # the first numbers stay the same
    earlier = total - sizes
    used = (earlier < goals[:, None]) & (goals > 0)[:, None]
    sizes = np.minimum(sizes, np.maximum(goals[:, None] - earlier, 0))
    counts = used.sum(1)
    # Items between spans and spans are placed in a random order.
    slots = (items - goals + counts)[:, None]
    placed = draws.chosen("places", np.arange(int(slots.max(initial=0))) < slots, counts)
    before = np.nonzero(placed)[1] - RaggedColumn(np.zeros(int(counts.sum())), counts).places
    return before + earlier[used], sizes[used], counts


@lru_cache(maxsize=16)
def _poisson(mean: float) -> NDArray[np.float64]:
    """Returns the probabilities that a Poisson distributed number is at most 0, 1, 2, ..."""
    numbers = np.arange(1, int(mean + 12 * mean**0.5) + 24)
    probabilities = np.exp(-mean) * np.concatenate(([1.0], np.cumprod(mean / numbers)))
    return np.cumsum(probabilities)
