"""Passages: no text is lost, none is too long, and offsets are exact."""

from __future__ import annotations

import re

import pytest

from glassformer.tasks.search.passages import passages
from glassformer.text import train

TEXT = """\ufeffA heading

The old miller walked to the river. Nobody followed him! Was there bread left?
He sat down, and the wind turned.

\tIt rained.  \r
\r
磨坊主走到河边。没有人跟着他！还有面包吗？风向变了，孩子们笑了。
Emoji 👩‍👩‍👧 and a combining e\u0301 mark."""
WORDS = train("word", texts=[TEXT, "a b c d e f"], vocab_size=500, special_tokens={"unk": "[UNK]"})
LETTERS = train("char", texts=[TEXT, "abcdefghij "], vocab_size=500)


def size(tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, special=False))


@pytest.mark.parametrize("tokenizer", [WORDS, LETTERS], ids=["words", "letters"])
@pytest.mark.parametrize("length", [1, 2, 5, 13, 40, 1000])
def test_all_of_a_text_in_pieces_that_fit(tokenizer, length):
    found = list(passages(TEXT, tokenizer, length))
    at = 0
    for passage in found:
        assert passage.text == TEXT[passage.start : passage.end]
        assert not TEXT[at : passage.start].strip()
        assert size(tokenizer, passage.text) <= length
        at = passage.end
    assert not TEXT[at:].strip()
    assert all(passage.text == passage.text.strip() or length < 3 for passage in found)


def test_paragraphs_are_joined_and_sentences_kept():
    text = "One two.\n\nThree four five.\n\nSix. Seven eight nine ten eleven. Twelve thirteen."
    found = [p.text for p in passages(text, LETTERS, 30)]
    assert found == [
        "One two.\n\nThree four five.",
        "Six.",
        "Seven eight nine ten eleven.",
        "Twelve thirteen.",
    ]


def test_a_text_without_a_place_to_cut():
    text = "a" * 25
    assert [len(p.text) for p in passages(text, LETTERS, 10)] == [10, 10, 5]
    assert list(passages(" \n\n \n", LETTERS, 10)) == []


def test_a_long_text_is_cut_in_time():
    """Every paragraph is counted about once."""
    text = "\n\n".join(f"abc def. {'ghi ' * (i % 40)}" for i in range(3000))
    found = list(passages(text, LETTERS, 60))
    assert re.sub(r"\s", "", "".join(p.text for p in found)) == re.sub(r"\s", "", text)
