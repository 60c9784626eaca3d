"""Texts are split into parts that fit, and joined again."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from glassformer.tasks.segmenting import Together, as_line, parts_of, rejoined

TEXT = """A title

One two three. Four five six seven. Eight!
  Nine ten, eleven.

这是第一句。这是第二句！
"""


def words(text: str) -> int:
    return len(text.split()) if text.isascii() else len(text)


def cut(text: str, capacity: int, together: Together = "paragraph") -> list[str]:
    return [text[a:b] for a, b in parts_of(text, words, capacity, together)]


def test_sentences_of_a_paragraph_are_grouped_up_to_the_room():
    assert cut(TEXT, 7) == [
        "A title",
        "One two three. Four five six seven.",
        "Eight!",
        "Nine ten, eleven.",
        "这是第一句。",
        "这是第二句！",
    ]
    assert cut(TEXT, 12)[1] == "One two three. Four five six seven. Eight!"
    assert cut(TEXT, 12)[-1] == "这是第一句。这是第二句！"


def test_or_of_the_whole_text():
    text = "One two.\n\nThree four. Five six.\n\nSeven."
    assert cut(text, 4, "text") == ["One two.\n\nThree four.", "Five six.\n\nSeven."]


def test_or_stand_alone():
    assert cut(TEXT, 99, "sentence")[1:4] == ["One two three.", "Four five six seven.", "Eight!"]


def test_a_sentence_that_is_too_long_is_cut_between_clauses_or_words():
    assert cut("one two three, four five six seven eight nine", 5) == [
        "one two three,",
        "four five six seven eight",
        "nine",
    ]
    assert cut("一二三四五六七，八九十", 9) == ["一二三四五六七，", "八九十"]
    assert cut("零" * 10, 4) == ["零" * 4, "零" * 4, "零" * 2]


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 50])
def test_parts_fit_and_nothing_is_lost(capacity):
    draw = random.Random(capacity)
    for _ in range(300):
        text = "".join(
            draw.choices(["word ", "a, ", "end. ", "\n", "\n\n", "Next ", "中。", "国"], k=20)
        )
        spans = parts_of(text, words, capacity)
        assert "".join(text[a:b] for a, b in spans).split() != [] or not text.strip()
        for a, b in spans:
            assert words(text[a:b]) <= capacity or b - a == 1
        places = [(0, 0), *spans, (len(text), 0)]
        outside = "".join(text[a:b] for (_, a), (b, _) in pairwise(places))
        assert not outside.strip()


def test_paragraphs_stay_and_sentences_are_joined_as_the_language_wants():
    spans = parts_of(TEXT, words, 99, "sentence")
    english = rejoined(TEXT, spans, [f"S{i}." for i in range(len(spans))])
    assert english == "S0.\n\nS1. S2. S3.\n  S4.\n\nS5. S6.\n"
    chinese = rejoined(TEXT, spans, [f"第{i}句。" for i in range(len(spans))])
    assert chinese == "第0句。\n\n第1句。第2句。第3句。\n  第4句。\n\n第5句。第6句。\n"
    assert rejoined(TEXT, parts_of(TEXT, words, 99), cut(TEXT, 99)) == TEXT


def test_wrapped_lines_become_one():
    assert as_line("one \n two\nthree") == "one two three"
    assert as_line("一二\n三") == "一二三"
