"""Normalization of transcripts, compared with that of transformers (OpenAI's)."""

from __future__ import annotations

import random

import pytest
from transformers.models.whisper.english_normalizer import (
    BasicTextNormalizer,
    EnglishTextNormalizer,
)

import glassformer as gf
from glassformer.metrics.english_numbers import WORDS
from glassformer.metrics.text_normalizers import _spellings, english, normalizer_of

OTHERS = (
    *("cat", "the", "dogs'", "he'd been", "can't", "Mr.", "uh", "[noise]", "(laughs)", "1,000"),
    *("3.5", "$20", "20%", "4th", "1960s", "a", "and a half", "don't", "it's", "colour", "é"),
    *("Œuvre", "ß", "x.", "7", "00", "1", "£5", "¢7", "cent", "-", "B52", "你好", "हिन्दी", "<b>"),
)


def test_normalizers_equal_those_of_transformers():
    reference, plain = EnglishTextNormalizer(_spellings()), BasicTextNormalizer()
    draw, words = random.Random(0), (*sorted(WORDS), *OTHERS)
    for _ in range(1500):
        text = " ".join(draw.choices(words, k=draw.randint(1, 8)))
        assert normalizer_of("whisper-english")(text) == " ".join(reference(text).split())
        assert normalizer_of("basic")(text) == " ".join(plain(text).split())
        assert normalizer_of("none")(text) == text


def test_numbers_and_contractions():
    assert english("Two hundred and five dollars, uh, in nineteen eighty four.") == "$205 in 1984"
    assert english("He'd been to the theatre; it's three point two per cent") == (
        "he had been to the theater it is 3.2%"
    )


def test_an_unknown_normalizer_names_those_there_are():
    with pytest.raises(gf.GlassformerError, match="basic, whisper-english, none"):
        normalizer_of("strict")
