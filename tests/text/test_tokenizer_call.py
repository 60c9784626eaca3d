"""Calling a tokenizer gives what the reference's tokenizer gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer

TEXTS = ["the fox", "the quick brown fox jumps over the lazy dog", "a"]
CALLS = {
    "lists": {},
    "padded": {"padding": True},
    "longest": {"padding": "longest", "return_tensors": "pt"},
    "tensors": {"padding": True, "truncation": True, "return_tensors": "pt"},
    "truncated": {"truncation": True, "max_length": 5},
    "to a length": {"padding": "max_length", "truncation": True, "max_length": 9},
    "without special tokens": {"add_special_tokens": False, "padding": True},
}


@pytest.fixture(scope="module", params=["bert-cased", "gpt2", "roberta", "t5"])
def both(request, folders):
    theirs = transformers.AutoTokenizer.from_pretrained(folders[request.param])
    ours = Tokenizer.load(folders[request.param])
    if theirs.pad_token is None:
        theirs.pad_token = theirs.eos_token
    if theirs.model_max_length > 10**9:
        theirs.model_max_length = 64
        ours = ours.with_max_length(64)
    return ours, theirs


def same(ours, theirs) -> None:
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(ours[name], value), name
        else:
            assert ours[name] == value, name


@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS)
def test_as_the_reference(both, options):
    ours, theirs = both
    same(ours(TEXTS, **options), theirs(TEXTS, **options))
    same(ours(TEXTS[1], **options), theirs(TEXTS[1], **options))
    pairs = (TEXTS, TEXTS[::-1])
    if options.get("truncation") is None:
        same(ours(*pairs, **options), theirs(*pairs, **options))


def test_length_and_decoding(both):
    ours, theirs = both
    assert len(ours) == len(theirs)
    rows = theirs(TEXTS)["input_ids"]
    assert ours.batch_decode(rows) == theirs.batch_decode(rows, skip_special_tokens=True)
    assert ours.decode(rows[0], skip_special_tokens=True) == ours.decode(rows[0])
    one = ours.decode(rows[0][1:2])
    assert one == ours.decode(rows[0][1]) == ours.decode(torch.tensor(rows[0][1]))
    assert one == ours.decode(torch.tensor(rows[0][1:2])) == ours.decode(np.array(rows[0][1:2]))
    assert ours.decode(rows[0], skip_special_tokens=False) == ours.decode(rows[0], special=True)


def test_attributes_and_devices(both):
    ours, _ = both
    inputs = ours(TEXTS, padding=True, return_tensors="pt")
    assert inputs.input_ids is inputs["input_ids"]
    assert inputs.to("meta").attention_mask.device.type == "meta"
    with pytest.raises(AttributeError, match="has no labels; it has input_ids"):
        _ = inputs.labels
    assert f"{len(ours):,} tokens" in repr(ours)


def test_bad_calls_get_one_sentence(both):
    ours, _ = both
    for wrong, sentence in (
        (lambda: ours(TEXTS, return_tensors="pt"), "pass padding=True"),
        (lambda: ours(TEXTS, padding=True, return_tensors="tf"), 'must be "pt"'),
        (lambda: ours([]), "list of texts is empty"),
        (lambda: ours(TEXTS, ["one"]), "3 texts and 1 in text_pair"),
        (lambda: ours(5), "must be a str, or a list of them, not int"),
        (lambda: ours(TEXTS, padding="no"), "padding must be True, False"),
        (lambda: ours(TEXTS, truncation="no"), "truncation must be True or False"),
        (lambda: ours(TEXTS, max_length=3), "max_length has an effect with truncation=True"),
        (lambda: ours.decode("5"), "Token ids are whole numbers, and '5' is none"),
        (lambda: ours.decode([1.5]), "Token ids are whole numbers"),
        (lambda: ours.decode(torch.ones(1, 2, dtype=torch.long)), "one text, batch_decode"),
    ):
        with pytest.raises(GlassformerError, match=sentence):
            wrong()
