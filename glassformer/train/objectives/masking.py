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

    A fraction `probability` of all tokens except special ones is predicted, at least one and at
    most `most`. Of these, a fraction `masked` is replaced by the mask token and a fraction `random`
    by a random token; the rest is unchanged.

    With `static`, a text has that many fixed masks, seeded by its own tokens, of which one is drawn
    each time. `whole_words` masks all tokens of a word, or none.
    """

    probability: float = 0.15
    masked: float = 0.8
    random: float = 0.1
    whole_words: bool = False
    static: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        shares = (self.masked, self.random)
        if not 0 < self.probability < 1 or min(shares) < 0 or sum(shares) > 1:
            raise ConfigError(
                f"probability = {self.probability} must lie between 0 and 1, and masked = "
                f"{self.masked} and random = {self.random} be shares that are at most 1 together."
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
        if masks.static:
            rng = np.random.default_rng([crc32(tokens.tobytes()), int(rng.integers(masks.static))])
        chosen = self.choose(tokens, rng, documents)
        targets = np.full_like(tokens, IGNORED)
        targets[chosen] = tokens[chosen]
        fate = rng.random(len(chosen))
        any_token = rng.choice(self.vocabulary.ordinary, len(chosen))
        shown = tokens.copy()
        shown[chosen] = np.where(
            fate < masks.masked,
            self.mask,
            np.where(fate < masks.masked + masks.random, any_token, tokens[chosen]),
        )
        return shown, targets

    def choose(self, tokens: Ids, rng: np.random.Generator, documents: Ids | None) -> Ids:
        """Returns the positions to predict.

        The fractional part of their number is rounded at random, so that the rate holds on average.
        """
        places = np.flatnonzero(~self.vocabulary.special[tokens])
        count = max(1, int(self.masks.probability * len(places) + rng.random()))
        count = min(count, len(places), self.masks.most or len(places))
        if not self.masks.whole_words:
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
