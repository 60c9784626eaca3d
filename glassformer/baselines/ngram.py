"""An n-gram language model with modified Kneser-Ney smoothing (Chen and Goodman, 1999).

The probability of a token w after a context h of k - 1 tokens, of which h' lacks the first, is

    p_k(w | h) = max(c(h w) - D, 0) / c(h) + g(h) p_k-1(w | h')

with a discount D that depends on whether the count is 1, 2 or more, and with g(h) such that the
probabilities sum to 1. In the highest order c counts occurrences; below, it counts how many
different tokens precede the n-gram. p_1 has no context, and p_0 is uniform.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.core.score import Score
from glassformer.errors import ConfigError, DataError, InputError
from glassformer.text import Tokenizer

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
UNSEEN = -1
FALLBACK = (0.5, 1.0, 1.5)
"""Discounts for an order in which no n-gram has one of the counts 1 to 4."""


@dataclass(frozen=True)
class NGramOrder:
    """The n-grams of one length as children of their contexts, the n-grams of length n - 1.

    Attributes:
        size: The number of tokens of the vocabulary.
        keys: context * size + token of each n-gram, in ascending order; its index is its number.
        counts: The count of each n-gram.
        totals: The sum of the counts after each context.
        left: What the discounts leave for the shorter context, as a sum of counts.
        discounts: The discounts of counts of 0, 1, 2, and 3 or more.
    """

    size: int
    keys: Ints
    counts: Ints
    totals: Ints
    left: Floats
    discounts: Floats

    @classmethod
    def of(cls, size: int, keys: Ints, counts: Ints, contexts: int) -> NGramOrder:
        """Computes the sums of the contexts."""
        discounts = kneser_ney_discounts(counts)
        parents = keys // size
        kept = discounts[np.minimum(counts, 3)]
        return cls(
            size,
            keys,
            counts,
            np.bincount(parents, counts, contexts).astype(np.int64),
            np.bincount(parents, kept, contexts).astype(np.float64),
            discounts,
        )

    def find(self, contexts: Ints, tokens: Ints) -> Ints:
        """Returns the numbers of n-grams, or UNSEEN."""
        wanted = contexts * self.size + tokens
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        known = (self.keys[places] == wanted) & (contexts != UNSEEN)
        return np.where(known, places, UNSEEN)

    def probabilities(self, contexts: Ints, tokens: Ints, shorter: Floats) -> Floats:
        """Interpolates with the probabilities after the shorter contexts."""
        found = self.find(contexts, tokens)
        counts = np.where(found == UNSEEN, 0, self.counts[found])
        totals = np.where(contexts == UNSEEN, 0, self.totals[contexts])
        own = counts - self.discounts[np.minimum(counts, 3)] + self.left[contexts] * shorter
        return np.where(totals > 0, own / np.maximum(totals, 1), shorter)


class NGram:
    """An n-gram language model over the tokens of a tokenizer.

    Attributes:
        tokenizer: The tokenizer.
        orders: The n-grams of length 1, 2, ..., n.

    >>> model = NGram.train(text, gf.Tokenizer.load("zoo/stories"), order=3)
    """

    def __init__(self, tokenizer: Tokenizer, orders: Sequence[NGramOrder]) -> None:
        self.tokenizer = tokenizer
        self.orders = tuple(orders)

    @classmethod
    def train(cls, texts: str | Iterable[str], tokenizer: Tokenizer, *, order: int = 5) -> NGram:
        """Counts the n-grams of texts.

        Args:
            texts: A text, or several; no n-gram spans two of them.
            tokenizer: The tokenizer. Special tokens are not added.
            order: The length of the longest n-grams: the context has one token less.

        Returns:
            The model.
        """
        if order < 1:
            raise ConfigError(f"order must be 1 or more, not {order}.")
        rows = [tokenizer.ids(text) for text in ([texts] if isinstance(texts, str) else texts)]
        tokens = np.array([id for row in rows for id in row], np.int64)
        if not len(tokens):
            raise DataError("There is no text to count n-grams in.")
        after = np.concatenate([np.arange(len(row), 0, -1) for row in rows])  # tokens to the end
        size = tokenizer.size
        starts = np.zeros(len(tokens), np.int64)  # the number of the n-gram that starts here
        levels: list[tuple[Ints, Ints, Ints]] = []  # keys, occurrences, starts
        for length in range(1, order + 1):
            whole = after >= length
            last = np.where(whole, np.roll(tokens, 1 - length), 0)
            keys, numbers, counts = np.unique(
                starts[whole] * size + last[whole], return_inverse=True, return_counts=True
            )
            starts = np.full(len(tokens), UNSEEN)
            starts[whole] = numbers
            levels.append((keys, counts, starts))
            if not len(keys):
                raise DataError(f"No text has {order} tokens; lower order, or give more text.")
        return cls(tokenizer, list(_orders(levels, size)))

    @property
    def context_length(self) -> int:
        """The number of tokens that the next one depends on."""
        return len(self.orders) - 1

    @property
    def num_ngrams(self) -> int:
        """The number of stored n-grams of all lengths."""
        return sum(len(order.keys) for order in self.orders)

    def score(self, text: str | Sequence[int]) -> Score:
        """Computes the log-probability of each token of a text, and the perplexity.

        Args:
            text: The text, or its token ids.

        Returns:
            The log-probabilities of all tokens but the first, as of `Model.score`.
        """
        ids = self._ids(text)
        if len(ids) < 2:
            raise InputError("A text of one token has nothing to predict; give a longer one.")
        contexts = [numbers[1:-1] for numbers in self._contexts(ids)]
        found = self._probabilities(contexts, ids[1:])
        unknown = self.tokenizer.unknown_ratio(text) if isinstance(text, str) else 0.0
        return Score(ids[1:].tolist(), np.log(found).tolist(), unknown)

    def next_probabilities(self, context: str | Sequence[int] = ()) -> Floats:
        """Returns the probability of each token of the vocabulary after a context.

        Args:
            context: A text, or token ids; only the last `context_length` matter.
        """
        every = np.arange(self.tokenizer.size)
        last = [numbers[-1:].repeat(len(every)) for numbers in self._contexts(self._ids(context))]
        return self._probabilities(last, every)

    def generate(self, prompt: str = "", *, max_new_tokens: int = 128, seed: int = 0) -> str:
        """Samples a continuation of a prompt, without special tokens.

        Args:
            prompt: The text to continue.
            max_new_tokens: The number of new tokens.
            seed: The random seed.

        Returns:
            The new text.
        """
        draws, ids = np.random.default_rng(seed), self._ids(prompt).tolist()
        begin, special = len(ids), sorted(self.tokenizer.special_ids)
        for _ in range(max_new_tokens):
            probabilities = self.next_probabilities(ids[max(0, len(ids) - self.context_length) :])
            probabilities[special] = 0
            ids.append(int(draws.choice(len(probabilities), p=probabilities / probabilities.sum())))
        return self.tokenizer.decode(ids[begin:], after=ids[:begin])

    def _ids(self, text: str | Sequence[int]) -> Ints:
        ids = self.tokenizer.ids(text) if isinstance(text, str) else text
        found = np.array(ids, np.int64)
        if len(found) and not (found.min() >= 0 and found.max() < self.tokenizer.size):
            raise InputError(f"A token id is not below the vocabulary's {self.tokenizer.size}.")
        return found

    def _contexts(self, ids: Ints) -> list[Ints]:  # [context length][position]
        """Returns the numbers of the contexts of 0, 1, ... tokens before and after each token."""
        found = [np.zeros(len(ids) + 1, np.int64)]
        for order in self.orders[:-1]:
            found.append(np.append(UNSEEN, order.find(found[-1][:-1], ids)))
        return found

    def _probabilities(self, contexts: Sequence[Ints], tokens: Ints) -> Floats:
        probabilities: Floats = np.full(len(tokens), 1 / self.tokenizer.size)
        for order, context in zip(self.orders, contexts, strict=True):
            probabilities = order.probabilities(context, tokens, probabilities)
        return probabilities


def kneser_ney_discounts(counts: Ints) -> Floats:
    """Returns the discounts of counts of 0, 1, 2, and 3 or more.

    Args:
        counts: The counts of all n-grams of one length.
    """
    n1, n2, n3, n4 = (int((counts == count).sum()) for count in (1, 2, 3, 4))
    if not all((n1, n2, n3, n4)):
        return np.array((0.0, *FALLBACK))
    y = n1 / (n1 + 2 * n2)
    found = np.array((0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3))
    inside = (found >= 0) & (found <= np.arange(4))
    return found if inside.all() else np.array((0.0, *FALLBACK))


def _orders(levels: Sequence[tuple[Ints, Ints, Ints]], size: int) -> Iterable[NGramOrder]:
    contexts = 1
    for length, (keys, counts, starts) in enumerate(levels, 1):
        if length < len(levels):  # count the different tokens before each n-gram
            longer = levels[length][2]
            _, first = np.unique(longer, return_index=True)
            first = first[longer[first] != UNSEEN]
            counts = np.bincount(starts[first + 1], minlength=len(keys))
        yield NGramOrder.of(size, keys, counts, contexts)
        contexts = len(keys)
