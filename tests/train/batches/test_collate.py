"""Padding of arrays of different lengths."""

import numpy as np
import pytest
import torch

from glassformer.train.batches.collate import column, pad, pad_rows, runs_of
from glassformer.train.objectives.row_lengths import even


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.int64])
def test_rows_are_filled_on_the_side_that_is_asked_for(kind):
    arrays = [np.array([5, 6, 60000], kind), np.array([], kind), np.array([8], kind)]
    rows, mask = pad_rows(arrays, fill=-100)
    assert rows.dtype == torch.long and mask.dtype == torch.bool
    assert rows.tolist() == [[5, 6, 60000], [-100, -100, -100], [8, -100, -100]]
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    rows, mask = pad_rows(arrays, fill=0, side="left", length=4)
    assert rows.tolist() == [[0, 5, 6, 60000], [0, 0, 0, 0], [0, 0, 0, 8]]
    assert mask.sum().item() == 4 and mask[2].tolist() == [False, False, False, True]


def test_fields_of_examples():
    examples = [{"a": np.array([1.5], np.float32)}, {"a": np.array([2.5, 3.5], np.float32)}]
    rows, _ = pad(examples, "a", fill=0.5, dtype=torch.float32)
    assert rows.tolist() == [[1.5, 0.5], [2.5, 3.5]]
    labels = [{"label": np.array([3], np.uint16)}, {"label": np.array([0], np.uint16)}]
    assert column(labels, "label").tolist() == [3, 0]
    flags = [{"seen": np.array([True])}, {"seen": np.array([False])}]
    assert column(flags, "seen", torch.bool).tolist() == [True, False]


def test_nothing_at_all_is_an_empty_table():
    rows, mask = pad_rows([np.array([], np.uint16)] * 2)
    assert rows.shape == mask.shape == (2, 0)


def test_few_lengths_are_at_most_a_quarter_too_long():
    for length in range(1, 600):
        assert length <= even(length) < max(length + 8, length * 5 / 4)
        assert length <= even(length, 512) <= max(512, length)
    assert len({even(length) for length in range(1, 513)}) == 20


def test_runs_begin_where_rows_texts_and_padding_do():
    tokens = torch.zeros(3, 4, dtype=torch.long)
    mask = torch.tensor([[True] * 4, [True, False, False, False], [False, False, True, True]])
    documents = torch.tensor([[0, 0, 1, 1], [0, -1, -1, -1], [-1, -1, 0, 1]])

    def found(length: int, **given: torch.Tensor) -> list[int]:
        runs = runs_of({"input_ids": tokens, **given})["cu_seqlens"]
        assert runs.dtype == torch.int32 and len(runs) == length
        return runs.unique().tolist()

    assert found(7, attention_mask=mask) == [0, 4, 5, 8, 10, 12]
    assert found(7, attention_mask=torch.ones_like(mask)) == [0, 4, 8, 12]
    assert found(13, document_ids=documents) == [0, 2, 4, 5, 8, 10, 11, 12]
    assert found(13, attention_mask=mask, document_ids=documents) == [0, 2, 4, 5, 8, 10, 11, 12]
    assert runs_of({"input_ids": tokens}) == {}
    assert (
        runs_of({"input_ids": tokens[0], "attention_mask": mask}) == {}
    )  # a mask of something else
    parts = {
        "a/input_ids": tokens,
        "a/attention_mask": mask,
        "b/input_ids": tokens,
        "noinput_ids": tokens,
    }
    (own,) = runs_of(parts).items()  # the other part has no padding to be told of
    assert own[0] == "a/cu_seqlens" and torch.equal(
        own[1], runs_of({"input_ids": tokens, "attention_mask": mask})["cu_seqlens"]
    )


def test_offsets_of_an_encoder_decoder_are_those_of_its_decoder():
    source, target = torch.zeros(2, 5, dtype=torch.long), torch.zeros(2, 4, dtype=torch.long)
    source_mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    target_mask = torch.tensor([[True] * 4, [True, True, True, False]])
    inputs = {"input_ids": source, "attention_mask": source_mask, "decoder_input_ids": target}
    assert runs_of(inputs) == {}  # the decoder has no padding that it could see
    (found,) = runs_of({**inputs, "decoder_attention_mask": target_mask}).items()
    assert found[0] == "cu_seqlens" and found[1].unique().tolist() == [0, 4, 7, 8]
    parts = {f"a/{name}": tensor for name, tensor in inputs.items()}
    assert runs_of({**parts, "b/input_ids": source, "b/attention_mask": source_mask}).keys() == {
        "b/cu_seqlens"
    }
