"""Splits a long text, or many words, into overlapping windows of tokens.

Windows are yielded one by one, with the positions of their tokens. Neither all tokens nor all
windows of a text are held at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from glassformer.errors import ConfigError
from glassformer.text import TextEncoding, Tokenizer
from glassformer.text.prefetch import PrefetchEncoder

BLOCK, MARGIN = 16_384, 512  # characters tokenized at once, and the context around them
MANY, FEW = 2_048, 8  # the same in words


@dataclass(frozen=True)
class WindowFrame:
    """The tokens around a text.

    `text` is 0, or 1 if the text is the second of a pair; `segment` is its segment id.
    """

    before: TextEncoding
    behind: TextEncoding
    text: int
    segment: int

    @classmethod
    def of(cls, tokenizer: Tokenizer, question: str | None = None, most: int = 0) -> WindowFrame:
        """Returns the frame of a text, or of one after at most `most` tokens of a question."""
        sample = tokenizer.encode("a") if question is None else tokenizer.encode(question, "a")
        text = 0 if question is None else 1
        before, inside, behind = parts(sample, text, most)
        segment = sample.segments[inside[0]] if inside else 0
        return cls(sample.take(before), sample.take(behind), text, segment)

    def __len__(self) -> int:
        return len(self.before) + len(self.behind)

    def add_frame(self, text: TextEncoding) -> TextEncoding:
        """Returns the text with the frame around it."""
        size = len(text)
        own = replace(text, segments=[self.segment] * size, sequence=[self.text] * size)
        return TextEncoding.concatenate([self.before, own, self.behind])

    def capacity(self, length: int) -> int:
        """Returns the number of tokens for the text in a window of `length` tokens."""
        capacity = length - len(self)
        if capacity < 1:
            raise ConfigError(
                f"A length of {length} tokens leaves no space for the text besides the "
                f"{len(self)} tokens around it; increase the length."
            )
        return capacity


def parts(encoding: TextEncoding, text: int, most: int) -> tuple[list[int], list[int], list[int]]:
    """Returns the positions before a text, of its tokens, and after it.

    Args:
        whole: The encoding of the text, or of a question and the text.
        text: 0 for a single text, 1 for one after a question.
        most: The maximum number of tokens of the question.
    """
    real = [i for i, special in enumerate(encoding.special_mask) if not special]
    inside = [i for i in real if encoding.sequence[i] == text]
    question = [i for i in real if encoding.sequence[i] != text]
    left_out = {*question[most:], *inside}
    remaining = [i for i in range(len(encoding)) if i not in left_out]
    end = inside[0] if inside else len(encoding)
    return [i for i in remaining if i < end], inside, [i for i in remaining if i >= end]


# --- tokens ------------------------------------------------------------------------------------


def encode_long(tokenizer: Tokenizer, text: str) -> Iterator[TextEncoding]:
    """Yields the tokens of a text of any length in blocks, without special tokens.

    Each block is tokenized with the text around it, so that its tokens equal those of the whole
    text.
    """
    for start in range(0, max(1, len(text)), BLOCK):
        first = max(0, start - MARGIN)
        block = tokenizer.encode(text[first : start + BLOCK + MARGIN], special=False)
        last = len(text) + 1 if start + BLOCK >= len(text) else start + BLOCK
        low = start if start else -1
        yield _between(block, first, low, last)


def encode_words(tokenizer: Tokenizer | PrefetchEncoder, words: Sequence[str]) -> TextEncoding:
    """Encodes words as one text joined by spaces.

    `words` of the result maps each token to its word: the first word of which it contains a
    character, since a token may begin with the space before the word.
    """
    encoded = tokenizer.encode(" ".join(words), special=False)
    ends = [*_ends(words)]
    belongs: list[int | None] = []
    for start, stop in encoded.offsets:
        number = bisect_right(ends, start)
        while number < len(words) and not words[number]:
            number += 1
        begins = ends[number] - len(words[number]) if number < len(words) else stop
        belongs.append(number if max(start, begins) < stop else None)
    return replace(encoded, words=belongs)


def encode_many_words(tokenizer: Tokenizer, words: Sequence[str]) -> Iterator[TextEncoding]:
    """Like `encode_words` for any number of words, yielded in blocks."""
    for start in range(0, len(words), MANY):
        first = max(0, start - FEW)
        some = words[first : start + MANY + FEW]
        block = encode_words(tokenizer, some)
        places = [0, *_ends(some)]
        low = places[start - first] if start else -1
        high = places[min(start + MANY, len(words)) - first]
        last = high if start + MANY < len(words) else high + 1
        own = _between(block, 0, low, last)
        yield replace(own, words=[None if n is None else n + first for n in own.words])


def _ends(words: Sequence[str]) -> Iterator[int]:
    """Yields the end of each word in the joined text, where the space after it is."""
    end = -1
    for word in words:
        end += 1 + len(word)
        yield end


def _between(block: TextEncoding, shift: int, low: int, high: int) -> TextEncoding:
    """Shifts the offsets, then keeps the tokens that start between `low` and `high`."""
    offsets = [(start + shift, stop + shift) for start, stop in block.offsets]
    inside = [i for i, (start, _) in enumerate(offsets) if low <= start < high]
    return replace(block, offsets=offsets).take(inside)


# --- windows -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextWindow:
    """Tokens of a text, beginning with its token `start`.

    `best` is the range of the text's tokens for which this window has more context than its
    neighbors.
    """

    text: TextEncoding
    start: int
    best: range

    @property
    def own_tokens(self) -> range:
        """The `best` range, relative to the window."""
        return range(self.best.start - self.start, self.best.stop - self.start)


def windows(blocks: Iterable[TextEncoding], capacity: int, stride: int) -> Iterator[TextWindow]:
    """Yields windows of at most `capacity` tokens, each `stride` tokens after the one before.

    The last one is shifted by less if that makes it full. Every token is in the `best` range of
    exactly one window.
    """
    if not 1 <= stride <= capacity:
        raise ConfigError(
            f"The stride of windows of {capacity} tokens is 1 to {capacity}, not {stride}."
        )
    cuts = _cuts(blocks, capacity, stride)
    cut, found = 0, next(cuts, None)
    while found is not None:
        behind = next(cuts, None)
        start, text = found
        stop = start + len(text)
        end = stop if behind is None else (behind[0] + stop) // 2
        yield TextWindow(text, start, range(cut, end))
        cut, found = end, behind


def _cuts(
    blocks: Iterable[TextEncoding], capacity: int, stride: int
) -> Iterator[tuple[int, TextEncoding]]:
    held, first, start = (
        TextEncoding.concatenate([]),
        0,
        0,
    )  # held tokens, index of the first of them, start of the window
    for block in blocks:
        held = TextEncoding.concatenate([held, block])
        while first + len(held) > start + capacity:
            yield start, held.take(range(start - first, start - first + capacity))
            start += stride
        keep = max(first, start - stride)
        held, first = held.take(range(keep - first, len(held))), keep
    total = first + len(held)
    if total:
        last = min(start, max(0, total - capacity))
        yield last, held.take(range(last - first, len(held)))
