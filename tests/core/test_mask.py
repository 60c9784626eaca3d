"""Masks, compared slot by slot with their definition."""

from __future__ import annotations

import pytest
import tiny
import torch

from glassformer.core import ActivationCapture
from glassformer.spec import CAUSAL, FULL, AttentionPattern, BlockSparsePattern

PATTERNS = {
    "full": (FULL, lambda q, k: True),
    "causal": (CAUSAL, lambda q, k: k <= q),
    "causal window": (AttentionPattern(left=3, right=0), lambda q, k: q - 3 <= k <= q),
    "window": (AttentionPattern(left=2, right=2), lambda q, k: abs(q - k) <= 2),
    "dilated": (AttentionPattern(right=0, dilation=3), lambda q, k: k <= q and (q - k) % 3 == 0),
    "dilated window": (
        AttentionPattern(left=4, right=4, dilation=2),
        lambda q, k: abs(q - k) <= 4 and (q - k) % 2 == 0,
    ),
}
BLOCKS = {
    "causal blocks": (AttentionPattern(right=0, block=4), lambda q, k: k <= q and q // 4 == k // 4),
    "blocks": (AttentionPattern(block=3), lambda q, k: q // 3 == k // 3),
}


def seen_by(model, length: int, **given) -> torch.Tensor:
    """Which keys get weight, [batch, query, key]."""
    rows = next((len(v) for v in given.values()), 1)
    capture = ActivationCapture("*.blocks.0.pattern")
    with torch.no_grad():
        model(tiny.tokens(rows, length), tap=capture, **given)
    (pattern,) = capture.tensors.values()
    return (pattern > 0).all(1)


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("padded", [False, True])
def test_pattern(name, padded):
    pattern, rule = PATTERNS[name]
    model = tiny.transformer(tiny.encoder(1, pattern=pattern))
    length = 9
    mask = torch.ones(2, length, dtype=torch.bool)
    given = {}
    if padded:
        mask[0, :3] = False
        mask[1, 7:] = False
        given = {"attention_mask": mask}
    seen = seen_by(model, length, **given)
    for row in range(len(seen)):
        for q in range(length):
            for k in range(length):
                assert bool(seen[row, q, k]) == (rule(q, k) and bool(mask[row, k])), (row, q, k)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("padded", [False, True])
def test_blocks_are_counted_in_the_texts_own_tokens(name, padded):
    pattern, rule = BLOCKS[name]
    model = tiny.transformer(tiny.encoder(1, pattern=pattern))
    length, before = 11, 0
    given = {}
    if padded:
        before = 2
        given = {"attention_mask": (torch.arange(length) >= before)[None]}
    seen = seen_by(model, length, **given)
    for q in range(before, length):
        for k in range(length):
            expected = k >= before and rule(q - before, k - before)
            assert bool(seen[0, q, k]) == expected, (q, k)


@pytest.mark.parametrize("length", [3, 8, 10])
def test_blocks_side_by_side_as_one_with_a_mask(length):
    """Without padding every block is computed as a text of its own."""
    model = tiny.transformer(tiny.decoder(2, pattern=AttentionPattern(right=0, block=4)))
    tokens = tiny.tokens(2, length)
    with torch.no_grad():
        folded, masked = model(tokens), model(tokens, attention_mask=torch.ones_like(tokens))
        plain = model(tokens, attn_implementation="eager")
    assert torch.allclose(folded.logits, masked.logits, atol=1e-6)
    assert torch.allclose(folded.logits, plain.logits, atol=1e-6)


def test_blocks_of_packed_documents_start_with_the_document():
    model = tiny.transformer(tiny.decoder(2, pattern=AttentionPattern(right=0, block=3)))
    long = tiny.tokens(1, 12)
    documents = torch.tensor([[0] * 5 + [1] * 3 + [2] * 4])
    with torch.no_grad():
        packed = model(long, document_ids=documents).logits
        alone = torch.cat([model(part).logits for part in long.split([5, 3, 4], -1)], 1)
    assert torch.allclose(packed, alone, atol=1e-6)


def test_prefix_is_seen_by_all_and_the_rest_is_causal():
    model = tiny.transformer(tiny.decoder(1))
    seen = seen_by(model, 7, prefix_length=torch.tensor([3, 0]))
    for row, prefix in enumerate((3, 0)):
        for q in range(7):
            for k in range(7):
                assert bool(seen[row, q, k]) == (k <= q or k < prefix)


def test_packed_documents_are_read_as_if_alone():
    model = tiny.transformer(tiny.decoder(2, position=None))
    long = tiny.tokens(1, 12)
    documents = torch.tensor([[0] * 5 + [1] * 3 + [2] * 4])
    with torch.no_grad():
        packed = model(long, document_ids=documents).logits
        alone = torch.cat([model(part).logits for part in long.split([5, 3, 4], -1)], 1)
    assert torch.allclose(packed, alone, atol=1e-6)


def test_positions_start_anew_in_every_packed_document():
    from glassformer import spec

    model = tiny.decoder(2, position=spec.RotarySpec(dim=8))
    transformer = tiny.transformer(model)
    long = tiny.tokens(1, 12)
    documents = torch.tensor([[7] * 5 + [3] * 3 + [9] * 4])
    with torch.no_grad():
        packed = transformer(long, document_ids=documents).logits
        alone = torch.cat([transformer(part).logits for part in long.split([5, 3, 4], -1)], 1)
    assert torch.allclose(packed, alone, atol=1e-5)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("position", ["none", "alibi"])
def test_a_row_with_nothing_to_see_gives_zeros_and_finite_gradients(eager, position):
    from glassformer import spec

    model = tiny.transformer(
        tiny.encoder(1, position=spec.AlibiSpec() if position == "alibi" else None)
    )
    mask = torch.tensor([[True] * 5, [False] * 5])
    capture = ActivationCapture("*.z")
    out = model(
        tiny.tokens(2, 5),
        attention_mask=mask,
        tap=capture,
        attn_implementation="eager" if eager else None,
    )
    assert torch.all(capture["encoder.blocks.0.z"][1] == 0)
    assert torch.isfinite(out.logits).all()
    out.logits[0].sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_the_score_of_a_masked_key_is_very_negative_not_zero():
    model = tiny.transformer(tiny.decoder(1))
    capture = ActivationCapture("*.scores")
    with torch.no_grad():
        model(tiny.tokens(1, 4), tap=capture)
    scores = capture["decoder.blocks.0.scores"][0, 0]
    assert torch.all(scores.triu(1)[torch.ones(4, 4).triu(1).bool()] < -1e30)


def counted(text: int, size: int, random: int) -> list[list[int]]:
    """How often every key counts, by the sentences of the paper and of its published code."""
    rows = []
    last = (text - 1) // size
    for query in range(text):
        block = query // size
        blocks = [0] * random + list({0, block - 1, block, block + 1, last})
        if block in (0, last) or text <= (5 + 2 * random) * size:
            blocks = list(range(last + 1))
        rows.append([blocks.count(key // size) for key in range(text)])
    return rows


@pytest.mark.parametrize(("size", "random"), [(2, 1), (3, 0), (1, 2)])
def test_blocks_count_from_each_texts_first_token(size, random):
    """Uniform scores show how often a key counts; padding, and which document, change nothing."""
    model = tiny.transformer(
        tiny.encoder(1, pattern=BlockSparsePattern(block_size=size, num_random_blocks=random))
    )
    model.encoder.blocks[0].attention.qkv.weight.data[:64] = 0
    model.encoder.blocks[0].attention.qkv.bias.data[:64] = 0
    mask = torch.zeros(3, 40, dtype=torch.bool)
    mask[0, :33], mask[1, 4:38], mask[2, 11:] = True, True, True
    documents = torch.zeros(3, 40, dtype=torch.long)
    for given, texts in (({}, [33, 34, 29]), ({"document_ids": documents}, [33, 34, 29])):
        seen = ActivationCapture("*.pattern")
        with torch.no_grad():
            model(tiny.tokens(3, 40), attention_mask=mask, tap=seen, **given)
        for row, text in enumerate(texts):
            pattern = seen["encoder.blocks.0.pattern"][row, 0][mask[row]][:, mask[row]]
            expected = torch.tensor(counted(text, size, random)).float()
            assert torch.allclose(pattern, expected / expected.sum(-1, keepdim=True), atol=1e-6)


def test_blocks_in_packed_documents_are_those_of_each_text_alone():
    model = tiny.transformer(
        tiny.encoder(2, pattern=BlockSparsePattern(block_size=2, num_random_blocks=1), embed={})
    )
    tokens, documents = tiny.tokens(1, 50), torch.tensor([[0] * 21 + [1] * 5 + [2] * 24])
    with torch.no_grad():
        packed = model(tokens, document_ids=documents).logits
        alone = [model(part).logits for part in tokens.split((21, 5, 24), 1)]
    assert torch.allclose(packed, torch.cat(alone, 1), atol=1e-5)


def test_global_tokens_see_all_and_are_seen_by_all():
    model = tiny.transformer(tiny.encoder(1, pattern=AttentionPattern(left=1, right=1)))
    flags = torch.zeros(1, 9, dtype=torch.bool)
    flags[0, 4] = True
    seen = seen_by(model, 9, global_attention_mask=flags)[0]
    for q in range(9):
        for k in range(9):
            assert bool(seen[q, k]) == (abs(q - k) <= 1 or q == 4 or k == 4)


def test_global_tokens_and_a_cache_do_not_go_together():
    from glassformer import GlassformerError
    from glassformer.core import Cache

    model = tiny.transformer(tiny.decoder(1))
    with pytest.raises(GlassformerError, match="leave one of the two out"):
        model(
            tiny.tokens(1, 3),
            global_attention_mask=torch.tensor([[True, False, False]]),
            past_key_values=Cache(),
        )
    with pytest.raises(GlassformerError, match="Blocks of 0 tokens"):
        BlockSparsePattern(block_size=0)
