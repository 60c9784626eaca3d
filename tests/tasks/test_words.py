"""Words of texts in many scripts; boundaries are never inside a character."""

from __future__ import annotations

import unicodedata

import longtexts
import pytest

from glassformer.errors import GlassformerError
from glassformer.tasks.words import SPLITS, find_words, whole_characters


def words(text: str, split="words") -> list[str]:
    return [text[start:stop] for start, stop in find_words(text, split)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada Hussein's men, in Paris.", ["Ada", "Hussein", "'s", "men", ",", "in", "Paris", "."]),
        ("the U.S. pays $1,000.50, 3:15", ["the", "U.S.", "pays", "$", "1,000.50", ",", "3:15"]),
        ("(Jean-Pierre) 'said' so", ["(", "Jean-Pierre", ")", "'", "said", "'", "so"]),
        ("@paul #tag https://t.co/x?y=1).", ["@paul", "#tag", "https://t.co/x?y=1", ")", "."]),
        ("我在2008年，北京。", ["我", "在", "2008", "年", "，", "北", "京", "。"]),
        ("Paris🎉👍🏽🇫🇷🇩🇪", ["Paris", "🎉", "👍🏽", "🇫🇷", "🇩🇪"]),
        ("👩\u200d👩\u200d👧🏳️\u200d🌈", ["👩\u200d👩\u200d👧", "🏳️\u200d🌈"]),
        ("Cafe\u0301's co\u00adop", ["Cafe\u0301", "'s", "co\u00adop"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("a\u200bb \ufeff\u0301", ["a", "b"]),
        (" \n\t", []),
    ],
)  # fmt: skip
def test_words(text, expected):
    assert words(text) == expected


def test_other_ways_to_split():
    assert words("Ze\u0301 2008年👍🏽.", "characters") == [
        "Z", "e\u0301", "2", "0", "0", "8", "年", "👍🏽", ".",
    ]  # fmt: skip
    assert words("Ze\u0301, 2008年.", "spaces") == ["Ze\u0301,", "2008年."]
    with pytest.raises(GlassformerError, match="words, characters, spaces, not 'letters'"):
        find_words("a", "letters")  # type: ignore[arg-type]


@pytest.mark.parametrize("split", SPLITS)
def test_words_are_all_of_a_text_in_order_and_whole(split):
    text = longtexts.text(20_000, seed=3)
    end = 0
    for start, stop in find_words(text, split):
        assert end <= start < stop
        assert not text[end:start].strip()  # nothing is lost but spaces
        assert whole_characters(text, start, stop) == (start, stop)
        end = stop
    assert not text[end:].strip()


def test_whole_letters():
    text = " Cafe\u0301 👩\u200d👧 ok "
    for start in range(len(text)):
        for stop in range(start, len(text) + 1):
            first, last = whole_characters(text, start, stop)
            span = text[first:last]
            assert span == span.strip()
            if span:
                assert text[start:stop].strip() in span
                assert not unicodedata.combining(span[0]) and span[0] != "\u200d" != span[-1]
                assert last == len(text) or not unicodedata.combining(text[last])
