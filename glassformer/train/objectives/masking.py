"""Masking of tokens for masked language modeling (Devlin et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.text import Tokenizer
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import RaggedColumn, matrix, slot_mask, sums
from glassformer.train.objectives.text_inputs import IGNORED, Ids
from glassformer.train.objectives.whole_words import Flags, Vocabulary


@dataclass(frozen=True, kw_only=True)
class Masks:
    """Options of masking.

    A fraction `mlm_probability` of all tokens except special ones is predicted, at least one and at
    most `max_predictions`. Of these, a fraction `mask_replace_prob` is replaced by the mask token
    and a fraction `random_replace_prob` by a random token; the rest is unchanged.

    With `num_static_masks`, a text has that many fixed masks, seeded by its own tokens, of which
    one is drawn each time. `whole_word_mask` masks all tokens of a word, or none; in Chinese text
    the words are those of a `segmenter`, "jieba", and without one each token is a word.
    """

    mlm_probability: float = 0.15
    mask_replace_prob: float = 0.8
    random_replace_prob: float = 0.1
    whole_word_mask: bool = False
    segmenter: str | None = None
    num_static_masks: int = 0
    max_predictions: int | None = None

    def __post_init__(self) -> None:
        shares = (self.mask_replace_prob, self.random_replace_prob)
        if not 0 < self.mlm_probability < 1 or min(shares) < 0 or sum(shares) > 1:
            raise ConfigError(
                f"mlm_probability = {self.mlm_probability} must lie between 0 and 1, and "
                f"mask_replace_prob = {self.mask_replace_prob} and random_replace_prob = "
                f"{self.random_replace_prob} must be at most 1 together."
            )
        if self.segmenter is not None and not self.whole_word_mask:
            raise ConfigError("segmenter is for masks of whole words; set whole_word_mask.")


MASKS = Masks()  # BERT's


class Masking:
    """Masks token ids of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer, masks: Masks) -> None:
        if "mask" not in tokenizer.special:
            raise UnsupportedError(
                "The tokenizer has no mask token; give it one, or choose another objective."
            )
        self.mask = tokenizer.special["mask"]
        self.vocabulary = Vocabulary(tokenizer, masks.segmenter)
        self.masks = masks

    def __call__(
        self, tokens: RaggedColumn, draws: RowRandom, documents: RaggedColumn | None = None
    ) -> tuple[Ids, Ids]:
        """Returns the joined masked tokens, and the targets (IGNORED where there is none)."""
        masks, lengths = self.masks, tokens.lengths
        if masks.num_static_masks:
            draws = fixed(tokens, draws.below("static", masks.num_static_masks))
        values = tokens.values.astype(np.int64)
        chosen = self.choose(RaggedColumn(values, lengths), draws, documents)
        own = sums(chosen, lengths)
        fate = draws.uniform("fate", own)
        among = self.vocabulary.ordinary
        any_token = among[draws.below("token", len(among), own)]
        shown = values.copy()
        shown[chosen] = np.where(
            fate < masks.mask_replace_prob,
            self.mask,
            np.where(
                fate < masks.mask_replace_prob + masks.random_replace_prob,
                any_token,
                values[chosen],
            ),
        )
        return shown, np.where(chosen, values, IGNORED)

    def most(self, length: int) -> int:
        """Returns the largest number of predicted tokens of a row of this length."""
        most = max(1, int(self.masks.mlm_probability * length + 1))
        return min(most, self.masks.max_predictions or most)

    def choose(
        self, tokens: RaggedColumn, draws: RowRandom, documents: RaggedColumn | None
    ) -> Flags:
        """Returns a mask of the tokens to predict.

        The fractional part of their number is rounded at random, so that the rate holds on average.
        """
        free = ~self.vocabulary.special[tokens.values]
        sizes = sums(free, tokens.lengths)
        wanted = (self.masks.mlm_probability * sizes + draws.uniform("count")).astype(np.int64)
        most = self.masks.max_predictions
        limits = sizes if most is None else np.minimum(sizes, most)
        counts = np.minimum(np.maximum(wanted, 1), limits)
        if self.masks.whole_word_mask:
            return self.choose_words(tokens, free, counts, draws, documents)
        chosen = draws.chosen("masks", matrix(RaggedColumn(free, tokens.lengths), False), counts)
        flat: Flags = chosen[slot_mask(tokens.lengths, chosen.shape[1])]
        return flat

    def choose_words(
        self,
        tokens: RaggedColumn,
        free: Flags,
        counts: Ids,
        draws: RowRandom,
        documents: RaggedColumn | None,
    ) -> Flags:
        """Returns a mask of whole words with at most `counts` tokens in a row.

        Words are taken in a random order; one that is too long for what is left is passed over.
        """
        starts = self.vocabulary.starts(tokens, documents)
        word = np.cumsum(starts) - 1  # over all rows
        sizes = np.bincount(word, free, minlength=int(starts.sum())).astype(np.int64)
        words = sums(starts, tokens.lengths)
        scores = matrix(RaggedColumn(draws.uniform("words", words), words), 2.0)
        order = np.argsort(scores, axis=1, kind="stable")
        ordered = np.take_along_axis(matrix(RaggedColumn(sizes, words), 0), order, axis=1)
        taken = np.zeros_like(order, dtype=bool)
        left = counts.copy()
        for turn in range(order.shape[1]):
            fits = (ordered[:, turn] <= left) & (ordered[:, turn] > 0)
            taken[fits, turn] = True
            left[fits] -= ordered[fits, turn]
            if not left.any():
                break
        chosen = np.empty_like(taken)
        np.put_along_axis(chosen, order, taken, axis=1)
        found: Flags = chosen[slot_mask(words, order.shape[1])][word] & free
        return found


def fixed(tokens: RaggedColumn, numbers: Ids) -> RowRandom:
    """Returns draws that depend only on the tokens of each row and a number."""
    data, ends = tokens.values.astype(np.int64), np.cumsum(tokens.lengths)
    hashes = [crc32(row.tobytes()) for row in np.split(data, ends[:-1])]
    return RowRandom.of(0, rows=np.array(hashes, np.int64) * 2**16 + numbers)
