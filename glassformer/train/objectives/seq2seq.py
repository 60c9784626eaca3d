"""Sequence to sequence: a decoder writes the target of a source that an encoder reads.

Examples are translation, summarization and question answering.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.metrics.regression import perplexity
from glassformer.model import Model
from glassformer.tasks.rewrite import keep_layout
from glassformer.text import Tokenizer
from glassformer.text.prefetch import PrefetchEncoder
from glassformer.train.losses import smoothed_entropy
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.rows import Example
from glassformer.train.objectives.seq2seq_inputs import Start, seq2seq_batch
from glassformer.train.objectives.sequence_level import (
    Answer,
    SequenceLevelObjective,
    sequence_loss,
)
from glassformer.train.objectives.text_inputs import (
    IGNORED,
    USUAL_LENGTH,
    count,
    length_of,
    require_head,
    source_of,
    target_positions,
    targets_of,
    tokenizer_of,
)
from glassformer.train.objectives.usage_example import GENERATE


@objective("sequence-to-sequence")
class SequenceToSequence(SequenceLevelObjective):
    """Sequence to sequence with columns `source` and `target`.

    A source is a text, or a list of its sentences; a target is a text, or a list of several correct
    ones, each an example. The decoder reads the target shifted by one, after the family's start
    token (or the target's language, if the tokenizer ends a text with that, as mBART's does), and
    predicts it up to its end.

    Labels are smoothed as in Vaswani et al. (2017); with "kl" instead of "cross-entropy", the loss
    is the excess over the lowest value that smoothed labels allow, with the same gradient.
    `source_prefix` is put before every source (T5's tasks). Languages are given here or in the
    columns `source_language` and `target_language`, in the tokenizer's codes. The text before a
    source is saved with the model, for `translate` and `summarize`.
    """

    pipeline_tag = "text2text-generation"
    usage = GENERATE

    columns = ("source", "target", "source_language", "target_language")
    fields: ClassVar = {"source": np.int32, "tokens": np.int32, "start": np.int32}

    def __init__(
        self,
        model: Model,
        *,
        label_smoothing: float = 0.1,
        loss: Literal["cross-entropy", "kl"] = "cross-entropy",
        max_source_length: int | None = None,
        max_target_length: int | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        source_prefix: str = "",
        head: str = "lm",
    ) -> None:
        super().__init__()
        spec = model.spec
        such = "a class such as BartForConditionalGeneration"
        require_head(model, head, "sequence-to-sequence", such)
        if spec.encoder is None or spec.decoder is None:
            raise UnsupportedError(
                f"sequence-to-sequence needs an encoder and a decoder, and {model.architecture} "
                "has one stack; choose the objective continuation."
            )
        if loss not in ("cross-entropy", "kl"):
            raise ConfigError(f'objective.loss is "cross-entropy" or "kl", not {loss!r}.')
        self.tokenizer = tokenizer_of(model)
        self.tokenizers: dict[tuple[str | None, str | None], tuple[Tokenizer, str]] = {}
        self.ahead: dict[Tokenizer, PrefetchEncoder] = {}
        self.languages = source_language, target_language
        self.source_length = length_of(model, max_source_length)
        longest = spec.decoder.context_length or USUAL_LENGTH
        self.target_length = min(max_target_length or longest, longest)
        self.start = Start(model)
        self.words = next(one.num_outputs or 0 for one in spec.heads if one.name == head)
        self.smoothing, self.kl, self.prefix, self.head = (
            label_smoothing,
            loss == "kl",
            source_prefix,
            head,
        )
        self.weights = {head: 1.0}
        keep_layout(
            model,
            prefix=source_prefix,
            length=self.source_length,
            source_language=source_language,
            target_language=target_language,
        )

    def tokenizer_for(self, record: Record) -> tuple[Tokenizer, str]:
        """Returns the tokenizer for a record's languages, and the prefix that names them."""
        languages = (
            record.get("source_language", self.languages[0]),
            record.get("target_language", self.languages[1]),
        )
        if languages not in self.tokenizers:
            self.tokenizers[languages] = self.tokenizer.for_translation(*languages)
        return self.tokenizers[languages]

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        read: defaultdict[Tokenizer, list[str]] = defaultdict(list)
        for record in records:
            with suppress(GlassformerError):  # `prepare` reports the error
                tokenizer, address = self.tokenizer_for(record)
                read[tokenizer].append(address + self.prefix + source_of(record))
                read[tokenizer.target_tokenizer] += targets_of(record)
        for tokenizer, texts in read.items():
            self.ahead_of(tokenizer).read(texts)

    def ahead_of(self, tokenizer: Tokenizer) -> PrefetchEncoder:
        return self.ahead.setdefault(tokenizer, PrefetchEncoder(tokenizer))

    def prepare(self, record: Record) -> Iterable[Example]:
        tokenizer, address = self.tokenizer_for(record)
        text = address + self.prefix + source_of(record)
        source = self.ahead_of(tokenizer).encode(text, max_length=self.source_length)
        self.tally.count_text(len(source), source.cut)
        for text in targets_of(record):
            target, cut = ended(self.ahead_of(tokenizer.target_tokenizer), text, self.target_length)
            self.tally.count_text(len(target), cut)
            if not source.ids or not target:
                raise invalid(record, "a side has no tokens")
            if max(target) >= self.words:
                word = tokenizer.target_tokenizer.token(max(target))
                raise invalid(record, f"{word!r} is not in the decoder's vocabulary")
            tokens = np.array(target)
            yield {
                "source": np.array(source.ids, dtype=np.int32),
                "tokens": tokens.astype(np.int32),
                "start": self.start.of(tokens, tokenizer.target_tokenizer.language).astype(
                    np.int32
                ),
            }

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        if not self.few_shapes:
            return self._asking(seq2seq_batch(examples, self.head))
        limits = {"source": self.source_length, "tokens": self.target_length}
        return self.collate_to(examples, self.padded_lengths(examples, limits))

    def collate_to(self, examples: Sequence[Example], slots: Mapping[str, int]) -> TrainingBatch:
        longest = {"source": self.source_length, "tokens": self.target_length}
        sides = {name: min(slots[name], most) for name, most in longest.items()}
        return self._asking(seq2seq_batch(examples, self.head, sides), few=True)

    def _asking(self, batch: TrainingBatch, few: bool = False) -> TrainingBatch:
        """Restricts the targets to real ones.

        Targets differ in length, so most positions of a batch may be padding.
        """
        targets = batch.targets["tokens"]
        usual = int(len(targets) * self.mean_lengths.get("tokens", 0))
        fits = few and batch.counts[self.head] <= usual
        found = target_positions(targets, few, most=usual if fits else None)
        return replace(batch, targets=found)

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        loss = sequence_loss(model, batch, self.smoothing, self.head)
        if self.kl:
            num_targets = (
                batch.targets["tokens"].ne(IGNORED).sum()
            )  # not a number: no synchronization
            loss = loss - num_targets * smoothed_entropy(self.words, self.smoothing)
        return {self.head: loss}

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        """Returns the cross-entropy without smoothing, and the number of its tokens."""
        loss = sequence_loss(model, batch, 0.0, self.head)
        return [(float(loss), int(count(batch.targets)))]

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        totals = (sum(side) for side in zip(*answers, strict=True))
        return {"perplexity": perplexity(*totals)}


def ended(reader: PrefetchEncoder, text: str, length: int) -> tuple[list[int], int]:
    """Returns a text's tokens with the end token, which a language code may follow.

    Also returns the number of tokens that were cut off.
    """
    end = _missing_end(reader.tokenizer)
    encoded = reader.encode(text, max_length=length - len(end))
    return [*encoded.ids, *end], encoded.cut


@lru_cache(maxsize=64)
def _missing_end(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Returns the end token if the tokenizer has one and does not add it itself."""
    end = tokenizer.special.get("eos", tokenizer.special.get("sep"))
    return () if end is None or end in tokenizer.encode("a").ids[-2:] else (end,)
