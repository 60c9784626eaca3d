"""Relative positions, compared with their formula pair by pair."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import tiny
import torch

from glassformer import spec
from glassformer.core import ActivationCapture, Cache, Permutation
from glassformer.core.positions.transformer_xl import BLOCK, shift_rows
from glassformer.errors import GlassformerError

SOME = ("*.resid_pre", "*.scores")


def test_every_row_is_moved_one_place_further():
    scores = torch.arange(12).view(3, 4)
    assert shift_rows(scores, 2).tolist() == [[2, 3], [5, 6], [8, 9]]
    assert shift_rows(scores[:1], 4).tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("past", [0, 7])
@pytest.mark.parametrize(
    ("position", "pattern"),
    [
        (spec.RelativePositionSpec(), spec.CAUSAL),
        (
            spec.RelativePositionSpec(clamp_length=3, shared_biases=True),
            spec.AttentionPattern(left=4, right=0),
        ),
        (spec.RelativePositionSpec(bidirectional=True, segments=True), spec.FULL),
        (
            spec.RelativePositionSpec(bidirectional=True, clamp_length=2),
            spec.AttentionPattern(left=5, right=3),
        ),
    ],
    ids=str,
)
def test_scores_pair_by_pair(position, pattern, past):
    model = tiny.transformer(tiny.encoder(1, position=position, pattern=pattern, placement="post"))
    tokens = tiny.tokens(1, past + 6)
    segments = torch.arange(past + 6)[None] // 4 if position.segments else None
    cache, seen = Cache(), ActivationCapture(*SOME)
    with torch.no_grad():
        if past:
            known = None if segments is None else segments[:, :past]
            model(tokens[:, :past], token_type_ids=known, past_key_values=cache)
        new = None if segments is None else segments[:, past:]
        model(tokens[:, past:], token_type_ids=new, past_key_values=cache, tap=seen)
        everything = ActivationCapture(*SOME)
        model(tokens, token_type_ids=segments, tap=everything)
    part, block = model.encoder.positions[0], model.encoder.blocks[0].attention
    x = everything["encoder.blocks.0.resid_pre"][0]
    q, k, _ = (h[0] for h in block.project(x[None], None))
    for query in range(past, past + 6):
        for key in range(past + 6):
            distance = query - key
            inside = (pattern.left is None or distance <= pattern.left) and (
                pattern.right is None or -distance <= pattern.right
            )
            if not inside:
                continue
            far = distance
            if position.clamp_length is not None:
                far = max(-position.clamp_length, min(position.clamp_length, distance))
            angles = [far / 10_000 ** (2 * j / 32) for j in range(16)]
            wave = torch.tensor([*map(math.sin, angles), *map(math.cos, angles)])
            r = (block.position_key.weight @ wave).view(4, 8)
            for h in range(4):
                score = (q[h, query] + part.content[h]) @ k[h, key]
                score = score + (q[h, query] + part.position[h]) @ r[h]
                if segments is not None:
                    other = int(segments[0, query] != segments[0, key])
                    score = score + (q[h, query] + part.segment[h]) @ part.segments[other, h]
                for found, row in ((seen, query - past), (everything, query)):
                    shown = found["encoder.blocks.0.scores"][0, h, row, key]
                    assert float(shown) == pytest.approx(float(score) / math.sqrt(8), abs=1e-5)


@pytest.mark.parametrize(
    ("position", "pattern"),
    [
        (spec.RelativePositionSpec(), spec.CAUSAL),
        (spec.RelativePositionSpec(clamp_length=100), spec.AttentionPattern(left=50, right=0)),
        (spec.RelativePositionSpec(bidirectional=True), spec.FULL),
        (spec.RelativePositionSpec(bidirectional=True), spec.AttentionPattern(left=30, right=40)),
    ],
    ids=str,
)
def test_blocks_of_queries_as_all_at_once(position, pattern):
    length = 2 * BLOCK + 9
    model = tiny.transformer(tiny.encoder(1, position=position, pattern=pattern))
    tokens = tiny.tokens(2, length)
    mask = torch.arange(length) >= torch.tensor([[0], [BLOCK + 3]])
    with torch.no_grad():
        for real in (None, mask):
            fused, eager = (
                model(tokens, real, attn_implementation="eager" if e else None).logits
                for e in (False, True)
            )
            assert torch.allclose(fused, eager, atol=1e-5)


def test_gradients_are_those_of_the_plain_computation():
    position = spec.RelativePositionSpec(bidirectional=True, segments=True)
    model = tiny.transformer(tiny.encoder(2, embed={"has_query_stream": True}, position=position))
    tokens, segments = tiny.tokens(2, 9), torch.arange(9)[None].expand(2, -1) // 5
    asked = Permutation.from_order(torch.randperm(9).expand(2, -1), torch.tensor([[1, 4], [0, 8]]))
    found = []
    for eager in (False, True):
        model.zero_grad()
        out = model(
            tokens,
            token_type_ids=segments,
            permutation=asked,
            attn_implementation="eager" if eager else None,
        )
        out.logits.square().sum().backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters()})
    for name, value in found[0].items():
        assert torch.any(value != 0), name
        assert torch.allclose(value, found[1][name], rtol=1e-4, atol=1e-4), name


def test_what_cannot_be_is_said():
    with pytest.raises(GlassformerError, match="bidirectional"):
        tiny.encoder(1, position=spec.RelativePositionSpec())
    with pytest.raises(GlassformerError, match="empty memory"):
        replace(tiny.stack(1), memory=spec.MemorySpec(length=3, zero_initialized=True))
    with pytest.raises(GlassformerError, match="query stream"):
        tiny.stack(1, embed={"has_query_stream": True})
    model = tiny.transformer(tiny.decoder(1, position=spec.RelativePositionSpec()))
    with pytest.raises(GlassformerError, match="prefix"):
        model(tiny.tokens(1, 4), prefix_length=torch.tensor([2]))
    order = Permutation.from_order(torch.arange(4)[None])
    for other in (
        {"document_ids": torch.tensor([[0, 0, 1, 1]])},
        {"prefix_length": torch.tensor([2])},
    ):
        with pytest.raises(GlassformerError, match="a permutation cannot be combined"):
            model(tiny.tokens(1, 4), permutation=order, **other)


@pytest.mark.parametrize("residual", ["serial", "parallel"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_blank_memory_stands_before_padding_too(residual, side):
    """Where the norm comes first, zeros are read as its bias: blank, and not nothing."""
    model = tiny.decoder(2, position=spec.RelativePositionSpec(), residual=residual)
    stack = replace(model.decoder, memory=spec.MemorySpec(length=5, zero_initialized=True))
    transformer = tiny.transformer(replace(model, decoder=stack))
    with torch.no_grad():
        for block in transformer.decoder.blocks:
            block.attention_norm.bias.fill_(0.3)
        text, padding = tiny.tokens(1, 4), torch.zeros(1, 7, dtype=torch.long)
        parts = (padding, text) if side == "left" else (text, padding)
        mask = torch.cat([torch.full_like(p, int(p is text)).bool() for p in parts], -1)
        padded = transformer(torch.cat(parts, -1), mask).logits[mask]
        assert torch.allclose(padded, transformer(text).logits[0], atol=1e-5)


def test_a_blank_memory_is_seen_and_weighs_nothing():
    """Zeros before a text: they take their share of the attention, and give nothing."""
    model = tiny.decoder(1, position=spec.RelativePositionSpec(), placement="post")
    block = replace(model.decoder.blocks[0], attention=replace(tiny.ATTENTION, bias=False))
    stack = replace(
        model.decoder, blocks=(block,), memory=spec.MemorySpec(length=5, zero_initialized=True)
    )
    transformer = tiny.transformer(replace(model, decoder=stack))
    tokens, seen = tiny.tokens(1, 3), ActivationCapture("*.pattern", "*.v", "*.z")
    with torch.no_grad():
        transformer(tokens, tap=seen)
    pattern, v = seen["decoder.blocks.0.pattern"], seen["decoder.blocks.0.v"]
    assert pattern.shape[-1] == 8 and torch.all(pattern[..., :5] > 0)
    assert torch.all(v[:, :, :5] == 0)
    assert torch.allclose(seen["decoder.blocks.0.z"], pattern[..., 5:] @ v[:, :, 5:], atol=1e-6)
