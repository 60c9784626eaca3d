"""Evaluation of masked language models by predicting hidden words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.record import Record
from glassformer.errors import DataError, GlassformerError, UnsupportedError
from glassformer.evaluate.evaluator import Evaluator, field
from glassformer.metrics.bootstrap import MetricWithCI, OfSums, Resamples, bootstrap_sums
from glassformer.model import Model
from glassformer.tasks.batching import batched
from glassformer.tasks.heads import purpose, require_head
from glassformer.tasks.model_protocol import require_tokenizer
from glassformer.train.objectives.masking import Masking, Masks
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import RaggedColumn
from glassformer.train.objectives.text_inputs import IGNORED, Ids, TextFrame, length_of, read_inputs

HIDDEN = Masks(
    mlm_probability=0.15,
    mask_replace_prob=1.0,
    random_replace_prob=0.0,
    whole_word_mask=True,
    num_static_masks=1,
)
SIDE_BY_SIDE = 32  # pieces per batch; the pieces of a pool are first sorted by length


class MaskedPiece(NamedTuple):
    """Piece of a text with masked tokens."""

    shown: Ids
    wanted: Ids  # IGNORED where nothing is masked
    word: Ids  # index of each token's word within the piece


class Hits(NamedTuple):
    """Statistics of a piece's masked tokens, and of the words they form."""

    logprob: float
    tokens: int
    right: int
    words: int
    whole: int


class MaskedLMEvaluator(Evaluator[MaskedPiece, Hits]):
    """Evaluates a masked language model.

    Column: `text`, or a plain text file, line by line, in pieces that fit in the context. 15% of
    the tokens are masked, always whole words; the choice depends only on the tokens themselves, so
    that it is the same each time.
    """

    form = "text"

    def __init__(self, model: Model) -> None:
        require_head(model, "lm", "evaluate by masked-lm", objective="masked-lm")
        tokenizer = require_tokenizer(model)
        if model.spec.decoder is not None or "mask" not in tokenizer.special:
            raise UnsupportedError(
                f"masked-lm needs a masked language model; {model.architecture} is "
                f"{purpose(model)}."
            )
        self.model, self.frame, self.length = model, TextFrame(tokenizer), length_of(model, None)
        self.masking = Masking(tokenizer, HIDDEN)
        self.draws = RowRandom.of(0, rows=np.array([0]))  # a static mask depends on the text alone

    def records(self, record: Record) -> Iterable[Record]:
        text = record.get("text")
        if not isinstance(text, str):
            yield record  # `ask` will reject it
            return
        for line in filter(str.strip, text.split("\n")):
            for piece in self.frame.pieces(line, self.length):
                yield {**record, "tokens": piece["tokens"].astype(np.int64)}

    def ask(self, record: Record) -> MaskedPiece:
        if not isinstance(field(record, "text"), str):
            raise DataError("the text must be a text")
        tokens: Ids = record["tokens"]
        row = RaggedColumn(tokens, np.array([len(tokens)]))
        shown, wanted = self.masking(row, self.draws)
        return MaskedPiece(shown, wanted, np.cumsum(self.masking.vocabulary.starts(row)))

    def answers(self, inputs: Iterable[MaskedPiece]) -> Iterator[Hits | GlassformerError]:
        for pool in batched(inputs):
            order = sorted(range(len(pool)), key=lambda i: -len(pool[i].shown))
            found: dict[int, Hits] = {}
            for start in range(0, len(order), SIDE_BY_SIDE):
                rows = order[start : start + SIDE_BY_SIDE]
                found |= zip(rows, self._hits([pool[i] for i in rows]), strict=True)
            yield from (found[i] for i in range(len(pool)))

    @torch.inference_mode()
    def _hits(self, pieces: Sequence[MaskedPiece]) -> list[Hits]:
        inputs = read_inputs([{"tokens": piece.shown} for piece in pieces])
        device = self.model.device
        result = self.model(**{name: value.to(device) for name, value in inputs.items()})
        found: list[Hits] = []
        for piece, logits in zip(pieces, result.logits, strict=True):
            at = np.flatnonzero(piece.wanted != IGNORED)
            wanted = torch.from_numpy(piece.wanted[at]).to(device)
            scores = logits[torch.from_numpy(at).to(device)].float().log_softmax(-1)
            right = scores.argmax(-1).eq(wanted).cpu().numpy()
            _, word = np.unique(piece.word[at], return_inverse=True)
            missed = np.bincount(word, ~right)
            logprob = float(scores.gather(1, wanted[:, None]).sum())
            found.append(
                Hits(logprob, len(at), int(right.sum()), len(missed), int((missed == 0).sum()))
            )
        return found

    def compute_metrics(
        self, inputs: Sequence[MaskedPiece], answers: Sequence[Hits], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        """Computes the metrics.

        Token perplexities depend on the vocabulary; word perplexities can be compared between
        models.
        """
        metrics: dict[str, OfSums] = {
            "perplexity": lambda sums: np.exp(-ratio(sums, 0, 1)),
            "accuracy": lambda sums: ratio(sums, 2, 1),
            "word_perplexity": lambda sums: np.exp(-ratio(sums, 0, 3)),
            "word_accuracy": lambda sums: ratio(sums, 4, 3),
        }
        return bootstrap_sums(answers, metrics, draws)


def ratio(sums: NDArray[np.float64], part: int, whole: int) -> NDArray[np.float64]:
    """Returns the ratio of two sums, [draw]; NaN where nothing was masked."""
    return sums[:, part] / np.where(sums[:, whole] > 0, sums[:, whole], np.nan)
