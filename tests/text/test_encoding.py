"""Truncation and padding."""

from dataclasses import FrozenInstanceError
from itertools import product
from pathlib import Path

import pytest
import torch

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer
from glassformer.text.encoding import split_capacity


def test_shares_fill_the_room_and_spare_the_shorter_text() -> None:
    for first, second, capacity in product(range(9), range(9), range(12)):
        a, b = split_capacity(first, second, capacity)
        assert 0 <= a <= first and 0 <= b <= second
        assert a + b == min(first + second, capacity)
        if a < first and b < second:
            assert abs(a - b) <= 1


def test_special_tokens_survive_truncation(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["bert-uncased"])
    full = tokenizer.encode("the quick brown fox", "the lazy dog")
    for length in range(3, len(full) + 2):
        short = tokenizer.encode("the quick brown fox", "the lazy dog", max_length=length)
        assert len(short) == min(length, len(full))
        assert [t for t, s in zip(short.tokens, short.special_mask, strict=True) if s] == [
            "[CLS]",
            "[SEP]",
            "[SEP]",
        ]


def test_no_room_for_special_tokens(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["bert-uncased"])
    assert tokenizer.encode("the dog", max_length=2).tokens == ["[CLS]", "[SEP]"]
    with pytest.raises(GlassformerError, match="max_length=1 cannot hold the 2 special tokens"):
        tokenizer.encode("the dog", max_length=1)
    assert len(tokenizer.encode("the dog", max_length=1, special=False)) == 1
    with pytest.raises(GlassformerError, match="max_length must be 0 or more, not -1"):
        tokenizer.encode("the dog", max_length=-1, special=False)


def test_a_special_token_in_the_text_is_cut_like_any_other(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["bert-uncased"])
    encoded = tokenizer.encode("the [MASK] dog", max_length=3)
    assert encoded.tokens == ["[CLS]", "the", "[SEP]"]
    assert encoded.special_mask == [True, False, True]


def test_encoded_is_frozen(folders: dict[str, Path]) -> None:
    encoded = Tokenizer.load(folders["bert-uncased"]).encode("the dog")
    with pytest.raises(FrozenInstanceError):
        encoded.ids = []  # type: ignore[misc]


def test_pad_to(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["bert-uncased"])
    batch = tokenizer.batch(["the dog", ("the fox", "a dog")], pad_to=12)
    assert batch.tokens.shape == batch.mask.shape == (2, 12)
    assert batch.tokens.dtype == torch.long and batch.mask.dtype == torch.bool
    assert batch.mask.sum(1).tolist() == [len(row) for row in batch.encoded]
    assert batch.tokens[~batch.mask].eq(tokenizer.special["pad"]).all()
    assert batch.segments is not None
    assert batch.segments[1].tolist()[: len(batch.encoded[1])] == batch.encoded[1].segments
    with pytest.raises(GlassformerError, match="does not fit pad_to=3; give max_length=3"):
        tokenizer.batch(["the quick brown fox"], pad_to=3)


def test_a_vocabulary_without_padding_pads_with_its_end_token(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["gpt2"])
    batch = tokenizer.batch(["the dog", "a"], side="left")
    assert batch.tokens[~batch.mask].eq(tokenizer.special["eos"]).all()
    assert batch.mask[1].tolist() == sorted(batch.mask[1].tolist())
