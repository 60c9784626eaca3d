"""Pooling, compared with explicit sums, and the folder layout of sentence-transformers."""

from __future__ import annotations

import json
import math

import pytest
import torch

from glassformer.errors import GlassformerError
from glassformer.tasks.pooling import POOLS, Pooling, read_pooling, write_pooling

STATES = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1)).double()
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]]).bool()


def by_hand(mode: str, row: int) -> list[float]:
    real = [i for i in range(5) if MASK[row, i]]
    tokens = [STATES[row, i].tolist() for i in real]
    if mode in ("first", "last"):
        return tokens[0 if mode == "first" else -1]
    columns = list(zip(*tokens, strict=True))
    if mode == "max":
        return [max(column) for column in columns]
    weights = [i + 1 for i in real] if mode == "weighted" else [1] * len(real)
    over = math.sqrt(len(real)) if mode == "root" else sum(weights)
    return [sum(w * x for w, x in zip(weights, column, strict=True)) / over for column in columns]


@pytest.mark.parametrize("mode", POOLS)
def test_every_way_beside_plain_sums(mode):
    found = Pooling(modes=(mode,))(STATES, MASK)
    expected = torch.tensor([by_hand(mode, row) for row in range(3)], dtype=torch.float64)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(Pooling(modes=(mode,))(STATES[:1]), expected[:1])  # nothing padded


def test_several_side_by_side_of_length_one():
    found = Pooling(modes=("first", "mean"), normalize=True)(STATES, MASK)
    plain = torch.tensor(
        [by_hand("first", row) + by_hand("mean", row) for row in range(3)]
    ).double()
    torch.testing.assert_close(found, plain / plain.square().sum(-1, keepdim=True).sqrt())


def test_half_precision_is_summed_in_float32():
    states = torch.full((1, 4096, 1), 0.1, dtype=torch.bfloat16)
    found = Pooling()(states)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, states[:, 0].float())


@pytest.mark.parametrize(
    "pooling",
    [
        Pooling(),
        Pooling(modes=("last",), normalize=True, length=12),
        Pooling(modes=("first", "mean"), prompts={"query": "q: "}, prompt="query"),
        Pooling(modes=("mean", "first"), skip_prompt=True),  # flags cannot say this order
        *(Pooling(modes=(mode,)) for mode in POOLS),
    ],
)
def test_what_is_written_is_read(pooling, tmp_path):
    write_pooling(pooling, tmp_path, 8)
    assert read_pooling(tmp_path) == pooling
    assert Pooling.of(json.loads(json.dumps(pooling.record()))) == pooling


def layout(folder, modules, **files) -> None:
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    for name, value in files.items():
        path = folder / "1_Pooling/config.json" if name == "pooling" else folder / f"{name}.json"
        path.write_text(json.dumps(value), "utf-8")


def module(kind: str, path: str = "") -> dict[str, str]:
    return {"type": f"sentence_transformers.models.{kind}", "path": path, "name": "x"}


def test_folders_that_are_around(tmp_path):
    assert read_pooling(tmp_path) is None
    steps = [module("Transformer"), module("Pooling", "1_Pooling")]
    older = {"word_embedding_dimension": 8, "pooling_mode_cls_token": True}
    layout(tmp_path, steps, pooling=older, sentence_bert_config={"max_seq_length": 99})
    assert read_pooling(tmp_path) == Pooling(modes=("first",), length=99)
    newer = {
        "embedding_dimension": 8,
        "pooling_mode": ["lasttoken", "max"],
        "include_prompt": False,
    }
    layout(tmp_path, [*steps, module("Normalize", "2_Normalize")], pooling=newer)
    found = read_pooling(tmp_path)
    assert found is not None and found.modes == ("last", "max")
    assert found.normalize and found.skip_prompt


def test_what_is_not_known_is_named(tmp_path):
    with pytest.raises(GlassformerError, match="no pooling 'men'; choose one of mean, first"):
        Pooling(modes=("men",))
    steps = [module("Transformer"), module("Pooling", "1_Pooling")]
    layout(tmp_path, [*steps, module("Dense", "2_Dense")], pooling={"pooling_mode": "mean"})
    with pytest.raises(GlassformerError, match=r"modules\.json has the step 'Dense'"):
        read_pooling(tmp_path)
    layout(tmp_path, steps, pooling={"pooling_mode": "median"})
    with pytest.raises(GlassformerError, match="has the unknown pooling 'median'"):
        read_pooling(tmp_path)
    (tmp_path / "modules.json").write_text("{", "utf-8")
    with pytest.raises(GlassformerError, match=r"modules\.json is not JSON"):
        read_pooling(tmp_path)
