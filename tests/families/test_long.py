"""Automatic question masks and global tokens of BigBird and Longformer."""

from __future__ import annotations

import pytest
import reference
import torch
from cases import TOLERANCE

import glassformer as gf
from glassformer import GlassformerError
from glassformer.families import families, spec_from_config

SEPARATOR = {"longformer": 2, "big_bird": 66}


def both(model_type: str, architecture: str, folder):
    config = {"model_type": model_type, **families()[model_type].TINY[0]}
    theirs = reference.make(config, architecture, seed=0)
    reference.save(theirs, folder)
    return theirs, gf.load(folder)


def questions(separator: int, lengths: tuple[int, ...], length: int) -> torch.Tensor:
    """A question, two separators, and a text that ends with the third."""
    tokens = torch.randint(
        5, 60, (len(lengths), length), generator=torch.Generator().manual_seed(0)
    )
    for row, end in enumerate(lengths):
        tokens[row, [end, end + 1, length - 1]] = separator
    return tokens


@pytest.mark.parametrize("length", [30, 151])
@pytest.mark.parametrize(
    "architecture",
    [
        "LongformerForSequenceClassification",
        "LongformerForQuestionAnswering",
        "LongformerForMultipleChoice",
        "BigBirdForQuestionAnswering",
    ],
)
def test_without_being_told(architecture, length, tmp_path):
    """Which tokens are global, where a question ends, and where no answer is looked for."""
    model_type = "longformer" if architecture.startswith("Long") else "big_bird"
    theirs, model = both(model_type, architecture, tmp_path)
    tokens = questions(SEPARATOR[model_type], (4, 9), length)
    if "Choice" in architecture:
        tokens = tokens[None]
    expected = reference.run(theirs, {"input_ids": tokens})
    with torch.no_grad():
        out = model(tokens)
        padded = torch.nn.functional.pad(tokens, (3, 0), value=model.spec.tokens.pad)
        mask = torch.nn.functional.pad(torch.ones_like(tokens), (3, 0)).bool()
        left = model(padded, attention_mask=mask).logits
    if "Question" in architecture:
        left = left[:, 3:]
    for value in expected.values():
        assert float((out.logits - value).abs().max()) <= TOLERANCE
        assert float((left - value).abs().max()) <= TOLERANCE
    if architecture.startswith("BigBird"):
        assert (out.logits[0, 1:5] < -1e5).all() and (out.logits[0, 5:] > -1e5).all()
        assert (out.logits[:, 0] > -1e5).all()


def test_a_question_without_an_end_is_refused(tmp_path):
    _, model = both("longformer", "LongformerForQuestionAnswering", tmp_path)
    with pytest.raises(GlassformerError, match="a text has none"):
        model(torch.tensor([[5, 6, 7, 8]]))


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"model_type": "big_bird", "is_decoder": True}, "sees what comes after"),
        ({"model_type": "big_bird", "attention_type": "dense"}, "attention_type to 'dense'"),
        ({"model_type": "big_bird", "add_cross_attention": True}, "add_cross_attention"),
        ({"model_type": "longformer", "attention_window": 7}, "must be an even number"),
        ({"model_type": "longformer", "attention_window": [4, 4]}, "one for every layer"),
        ({"model_type": "longformer", "is_decoder": True}, "is_decoder"),
    ],
    ids=str,
)
def test_what_cannot_be_computed_is_refused(config, sentence):
    name = {"big_bird": "BigBirdModel", "longformer": "LongformerModel"}[config["model_type"]]
    with pytest.raises(GlassformerError, match=sentence):
        spec_from_config(config, name)
