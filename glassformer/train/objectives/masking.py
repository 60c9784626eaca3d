"""Train room, objectives: hiding tokens that are then asked for (Devlin et al., 2018)."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer
from glassformer.train.objectives.tokens import IGNORED, Ids
from glassformer.train.objectives.words import Vocabulary


class Masking:
    """Of all tokens but special ones a share of `probability` is asked for, at least one and at
    the most `most`. Of those a share of `masked` is shown as the mask token, one of `random` as any
    other, and the rest as they are.

    With `static` a text has so many masks that never change, of which one is drawn: its own
    tokens are the seed. `whole_words` hides all tokens of a word, or none.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        probability: float,
        masked: float,
        random: float,
        whole_words: bool,
        static: int,
        most: int | None,
    ) -> None:
        if "mask" not in tokenizer.special:
            raise GlassformerError(
                "The tokenizer has no mask token; give it one, or choose another objective."
            )
        if not 0 < probability < 1 or min(masked, random) < 0 or masked + random > 1:
            raise GlassformerError(
                f"probability = {probability} must lie between 0 and 1, and masked = {masked} and "
                f"random = {random} be shares that are at most 1 together."
            )
        self.mask = tokenizer.special["mask"]
        self.vocabulary = Vocabulary(tokenizer)
        self.probability, self.masked, self.random = probability, masked, random
        self.whole_words, self.static, self.most = whole_words, static, most

    def __call__(
        self, tokens: Ids, rng: np.random.Generator, documents: Ids | None = None
    ) -> tuple[Ids, Ids]:
        """What is shown, and what is asked for (IGNORED where nothing is)."""
        tokens = tokens.astype(np.int64)
        if self.static:
            rng = np.random.default_rng([crc32(tokens.tobytes()), int(rng.integers(self.static))])
        asked = self.choose(tokens, rng, documents)
        targets = np.full_like(tokens, IGNORED)
        targets[asked] = tokens[asked]
        fate = rng.random(len(asked))
        any_token = rng.choice(self.vocabulary.ordinary, len(asked))
        shown = tokens.copy()
        shown[asked] = np.where(
            fate < self.masked,
            self.mask,
            np.where(fate < self.masked + self.random, any_token, tokens[asked]),
        )
        return shown, targets

    def choose(self, tokens: Ids, rng: np.random.Generator, documents: Ids | None) -> Ids:
        """The places that are asked for. What is left of a whole number is drawn, so that the share
        is kept on average."""
        places = np.flatnonzero(~self.vocabulary.special[tokens])
        count = max(1, int(self.probability * len(places) + rng.random()))
        count = min(count, len(places), self.most or len(places))
        if not self.whole_words:
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
