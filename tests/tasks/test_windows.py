"""Windows of long texts, compared with tokenizing at once and with their definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import longtexts
import pytest

from glassformer.errors import GlassformerError
from glassformer.tasks.windows import (
    BLOCK,
    MANY,
    WindowFrame,
    encode_long,
    encode_many_words,
    encode_words,
    windows,
)
from glassformer.tasks.words import find_words
from glassformer.text import TextEncoding


@pytest.mark.parametrize("kind", longtexts.KINDS)
@pytest.mark.parametrize("extra", [-1, 0, 1, 700, 2 * BLOCK + 13])
def test_blocks_of_a_long_text_are_its_tokens(kind, extra):
    tokenizer = longtexts.tokenizer(kind)
    text = longtexts.text(BLOCK + extra, seed=extra)
    whole = tokenizer.encode(text, special=False)
    blocks = list(encode_long(tokenizer, text))
    together = TextEncoding.concatenate(blocks)
    assert len(blocks) == -(-len(text) // BLOCK)
    assert together.ids == whole.ids
    assert together.offsets == whole.offsets


@pytest.mark.parametrize("kind", longtexts.KINDS)
def test_many_words_as_few(kind):
    tokenizer = longtexts.tokenizer(kind)
    text = longtexts.text(12_000, seed=5)
    words = [text[start:stop] for start, stop in find_words(text)]
    assert len(words) > 2 * MANY
    blocks = list(encode_many_words(tokenizer, words))
    together, whole = TextEncoding.concatenate(blocks), encode_words(tokenizer, words)
    assert len(blocks) > 2
    assert together.ids == whole.ids
    assert together.words == whole.words
    assert {*whole.words} - {None} == {*range(len(words))}


def numbered(count: int) -> TextEncoding:
    """Tokens whose ids say their place."""
    nothing = TextEncoding.concatenate([])
    return replace(
        nothing,
        ids=[*range(count)],
        **{
            name: [0] * count
            for name in ("tokens", "segments", "offsets", "sequence", "special_mask", "words")
        },
    )


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 13, 14, 15, 40, 101])
@pytest.mark.parametrize("stride", [1, 3, 5, 7, 10])
@pytest.mark.parametrize("block", [1, 4, 200])
def test_each_token_is_read_where_it_has_most_around_it(count, stride, block):
    capacity, whole = 10, numbered(count)
    blocks = [whole.take(range(i, min(i + block, count))) for i in range(0, count, block)]
    found = list(windows(blocks, capacity, stride))
    for window in found:
        assert window.text.ids == [*range(window.start, window.start + len(window.text))]
        assert len(window.text) == min(capacity, count)
    assert all(a.start < b.start <= a.start + stride for a, b in pairwise(found))

    def around(window, token):
        """How far the nearer edge is that is not an end of the text."""
        left = token - window.start if window.start else count
        end = window.start + len(window.text)
        return min(left, end - 1 - token if end < count else count)

    best = [(token, window) for window in found for token in window.best]
    assert [token for token, _ in best] == [*range(count)]
    for token, window in best:
        assert [window.text.ids[i] for i in window.own_tokens] == [*window.best]
        rivals = [w for w in found if w.start <= token < w.start + len(w.text)]
        # of two that are equally far, either; halves are rounded
        assert around(window, token) >= max(around(w, token) for w in rivals) - 1


def test_windows_do_not_leave_gaps():
    with pytest.raises(GlassformerError, match="windows of 10 tokens is 1 to 10, not 11"):
        next(windows([numbered(20)], 10, 11))


@pytest.mark.parametrize("kind", longtexts.KINDS)
def test_a_frame_is_what_the_tokenizer_puts_around(kind):
    tokenizer = longtexts.tokenizer(kind)
    text, question = "Nebel river", "Was there anything left?"
    alone = tokenizer.encode(text, special=False)
    assert WindowFrame.of(tokenizer).add_frame(alone).ids == tokenizer.encode(text).ids
    assert WindowFrame.of(tokenizer).add_frame(alone).segments == tokenizer.encode(text).segments
    pair = tokenizer.encode(question, text)
    frame = WindowFrame.of(tokenizer, question, 64)
    assert frame.add_frame(alone).ids == pair.ids
    assert frame.add_frame(alone).segments == pair.segments
    short = WindowFrame.of(tokenizer, question, 3)
    assert len(frame) - len(short) == len(tokenizer.encode(question, special=False)) - 3
    assert frame.capacity(len(frame) + 1) == 1
    with pytest.raises(GlassformerError, match="leaves no space for the text"):
        frame.capacity(len(frame))
