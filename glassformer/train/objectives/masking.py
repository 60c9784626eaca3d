"""Masking of tokens for masked language modeling (Devlin et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.text import Tokenizer
from glassformer.train.objectives.text_inputs import IGNORED, Ids
from glassformer.train.objectives.whole_words import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Masks:
    """Options of masking.

    A fraction `mlm_probability` of all tokens except special ones is predicted, at least one and at
    most `max_predictions`. Of these, a fraction `mask_replace_prob` is replaced by the mask token
    and a fraction `random_replace_prob` by a random token; the rest is unchanged.

    With `num_static_masks`, a text has that many fixed masks, seeded by its own tokens, of which
    one is drawn each time. `whole_word_mask` masks all tokens of a word, or none.
    """

    mlm_probability: float = 0.15
    mask_replace_prob: float = 0.8
    random_replace_prob: float = 0.1
    whole_word_mask: bool = False
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


MASKS = Masks()  # BERT's


class Masking:
    """Masks token ids of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer, masks: Masks) -> None:
        if "mask" not in tokenizer.special:
            raise UnsupportedError(
                "The tokenizer has no mask token; give it one, or choose another objective."
            )
        self.mask = tokenizer.special["mask"]
        self.vocabulary = Vocabulary(tokenizer)
        self.masks = masks

    def __call__(
        self, tokens: Ids, rng: np.random.Generator, documents: Ids | None = None
    ) -> tuple[Ids, Ids]:
        """Returns the masked tokens, and the targets (IGNORED where there is none)."""
        tokens, masks = tokens.astype(np.int64), self.masks
        if masks.num_static_masks:
            rng = np.random.default_rng(
                [crc32(tokens.tobytes()), int(rng.integers(masks.num_static_masks))]
            )
        chosen = self.choose(tokens, rng, documents)
        targets = np.full_like(tokens, IGNORED)
        targets[chosen] = tokens[chosen]
        fate = rng.random(len(chosen))
        any_token = rng.choice(self.vocabulary.ordinary, len(chosen))
        shown = tokens.copy()
        shown[chosen] = np.where(
            fate < masks.mask_replace_prob,
            self.mask,
            np.where(
                fate < masks.mask_replace_prob + masks.random_replace_prob,
                any_token,
                tokens[chosen],
            ),
        )
        return shown, targets

    def choose(self, tokens: Ids, rng: np.random.Generator, documents: Ids | None) -> Ids:
        """Returns the positions to predict.

        The fractional part of their number is rounded at random, so that the rate holds on average.
        """
        places = np.flatnonzero(~self.vocabulary.special[tokens])
        count = max(1, int(self.masks.mlm_probability * len(places) + rng.random()))
        count = min(count, len(places), self.masks.max_predictions or len(places))
        if not self.masks.whole_word_mask:
            return rng.permutation(places)[:count]
        word = np.cumsum(self.vocabulary.starts(tokens, documents))[places]
        _, first, sizes = np.unique(word, return_index=True, return_counts=True)
        chosen: list[Ids] = []
        for i in rng.permutation(len(first)):
            if sizes[i] <= count:
                chosen.append(places[first[i] : first[i] + sizes[i]])
                count -= sizes[i]
            if count == 0:
                break
        return np.concatenate(chosen) if chosen else places[:0]
