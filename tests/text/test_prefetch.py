"""Prefetched texts are encoded like others."""

import pytest

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer, train
from glassformer.text.backend import Text
from glassformer.text.prefetch import PrefetchEncoder

TEXTS: list[Text] = ["the old miller", "a river, and the mill", ("who?", "the old miller"), ""]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train(
        "wordpiece", texts=["who asked the old miller of a river and the mill"] * 9, vocab_size=60
    )


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("length", [None, 5])
def test_what_was_read_ahead_is_the_same(
    tokenizer: Tokenizer, special: bool, length: int | None
) -> None:
    ahead = PrefetchEncoder(tokenizer)
    ahead.read(TEXTS[1:], special=special)
    for text in TEXTS:
        both = text if isinstance(text, tuple) else (text,)
        options = {"special": special, "max_length": length}
        assert ahead.encode(*both, **options) == tokenizer.encode(*both, **options)
        assert ahead.encode(*both) == tokenizer.encode(*both)  # also of the other kind


def test_what_is_no_text_is_named_where_it_is_asked_for(tokenizer: Tokenizer) -> None:
    ahead = PrefetchEncoder(tokenizer)
    ahead.read(["the mill", "ab\ud83d", None, 3, ["a"]])  # type: ignore[list-item]
    assert ahead.encode("the mill") == tokenizer.encode("the mill")
    for text, said in (("ab\ud83d", "lone surrogate"), (["a"], "must be a str")):
        with pytest.raises(GlassformerError, match=said):
            ahead.encode(text)  # type: ignore[arg-type]
