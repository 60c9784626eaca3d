"""Position encodings, compared with the papers' formulas and the reference's functions."""

from __future__ import annotations

import cmath
import math
from dataclasses import replace

import pytest
import tiny
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer import spec
from glassformer.core import ActivationCapture
from glassformer.core.embedding import sinusoids
from glassformer.core.pass_context import PassContext
from glassformer.core.positions.alibi import alibi_slopes
from glassformer.core.positions.rotary import RotaryPosition, rotary_frequencies
from glassformer.core.positions.shaw import ShawPosition, skew
from glassformer.core.positions.t5_bias import T5Bias


@pytest.mark.parametrize("width", [8, 9])
@pytest.mark.parametrize("layout", ["interleaved", "halves", "inclusive"])
def test_sinusoids(layout, width):
    table = sinusoids(spec.PositionTableSpec(length=20, layout=layout), 20, width)
    half = width // 2
    for position in range(20):
        for j in range(half):
            slowest = half - 1 if layout == "inclusive" else width / 2
            angle = position / 10_000 ** (j / slowest)
            if layout == "interleaved":
                sine, cosine = 2 * j, 2 * j + 1
            else:
                sine, cosine = j, j + (width - half if layout == "halves" else half)
            assert table[position, sine] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, cosine] == pytest.approx(math.cos(angle), abs=1e-6)


def test_fairseq_leaves_the_row_of_padding_zero():
    table = sinusoids(
        spec.PositionTableSpec(length=9, layout="inclusive", offset=2, padding_idx=1), 11, 8
    )
    assert torch.all(table[1] == 0) and not torch.any(torch.all(table[2:] == 0, -1))


@pytest.mark.parametrize("pairing", ["halves", "pairs"])
@pytest.mark.parametrize("dim", [8, 4])
def test_rotary_is_a_complex_rotation(pairing, dim):
    rotary = spec.RotarySpec(dim=dim, theta=100.0, pairing=pairing)
    module = RotaryPosition(rotary, tiny.ATTENTION, 32)
    x = torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    turned = module.rotate(x, *module.angles(torch.arange(5)[None], torch.float32))
    for position in range(5):
        for j in range(dim // 2):
            a, b = (j, j + dim // 2) if pairing == "halves" else (2 * j, 2 * j + 1)
            spin = cmath.exp(1j * position * 100.0 ** (-2 * j / dim))
            for head in range(2):
                expected = complex(*x[0, head, position, [a, b]].tolist()) * spin
                assert complex(*turned[0, head, position, [a, b]].tolist()) == pytest.approx(
                    expected, abs=1e-5
                )
    assert torch.equal(turned[..., dim:], x[..., dim:])


@pytest.mark.parametrize("scaling", [None, "linear", "llama3", "yarn"])
def test_rotary_frequencies_as_the_reference(scaling):
    import transformers
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {"rope_type": scaling or "default", "rope_theta": 10_000.0}
    details = {
        None: {},
        "linear": {"factor": 3.0},
        "llama3": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 256,
        },
        "yarn": {"factor": 4.0, "original_max_position_embeddings": 256},
    }[scaling]
    config = transformers.LlamaConfig(
        hidden_size=256,
        num_attention_heads=4,
        max_position_embeddings=1024,
        rope_parameters={**parameters, **details},
    )
    from glassformer.families._shared.config_reader import ConfigReader
    from glassformer.families._shared.rotary import rotary

    ours = rotary(ConfigReader({"rope_parameters": {**parameters, **details}}, "Llama"), 64, 1024)
    frequencies = rotary_frequencies(ours, torch.device("cpu"))
    if scaling is None:
        expected, magnitude = 1.0 / 10_000.0 ** (torch.arange(0, 64, 2) / 64), 1.0
    else:
        expected, magnitude = ROPE_INIT_FUNCTIONS[scaling](config)
    assert torch.allclose(frequencies, expected, rtol=1e-6)
    assert (ours.scaling.magnitude if ours.scaling else 1.0) == pytest.approx(magnitude)


def test_rotary_scores_depend_on_the_distance_alone():
    model = tiny.transformer(tiny.decoder(1, position=spec.RotarySpec(dim=8)))
    tokens = tiny.tokens(1, 6)
    with torch.no_grad():
        here = model(tokens).logits
        there = model(tokens, position_ids=torch.arange(100, 106)[None]).logits
    assert torch.allclose(here, there, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_as_the_reference(bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    module = T5Bias(
        spec.T5BiasSpec(num_buckets=16, max_distance=40, bidirectional=bidirectional),
        tiny.ATTENTION,
        32,
    )
    distance = torch.arange(-100, 101)
    expected = T5Attention._relative_position_bucket(distance, bidirectional, 16, 40)
    assert torch.equal(module.bucket(distance), expected)


def test_alibi_slopes_are_the_papers():
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(12)[:8] == alibi_slopes(8)
    assert alibi_slopes(12)[8:] == [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]


def test_alibi_lowers_the_score_with_the_distance():
    model = tiny.transformer(tiny.decoder(1, position=spec.AlibiSpec()))
    plain = tiny.transformer(tiny.decoder(1))
    plain.load_state_dict(model.state_dict())
    seen, without = ActivationCapture("*.scores"), ActivationCapture("*.scores")
    with torch.no_grad():
        model(tiny.tokens(1, 5), tap=seen)
        plain(tiny.tokens(1, 5), tap=without)
    for head, slope in enumerate(alibi_slopes(4)):
        for q in range(5):
            for k in range(q + 1):
                change = seen["decoder.blocks.0.scores"] - without["decoder.blocks.0.scores"]
                assert float(change[0, head, q, k]) == pytest.approx(-slope * (q - k), abs=1e-5)


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_shaw_adds_a_vector_per_clipped_distance(values, per_head, backward):
    position = spec.ShawSpec(max_distance=2, values=values, per_head=per_head, backward=backward)
    model = tiny.transformer((tiny.decoder if backward else tiny.encoder)(2, position=position))
    seen = ActivationCapture("*.q", "*.k", "*.v", "*.z", "*.pattern")
    with torch.no_grad():
        model(tiny.tokens(1, 6), tap=seen)
    stack = "decoder" if backward else "encoder"
    for layer in range(2):
        module = getattr(model, stack).positions[layer]
        assert module.keys.shape[-2] == (3 if backward else 5)
        q, k, v, z = (seen[f"{stack}.blocks.{layer}.{part}"][0] for part in "qkvz")
        for head in range(4):
            a, b = (
                table[head] if per_head and table is not None else table
                for table in (module.keys, module.values)
            )
            for i in range(6):
                rows = [min(max(j - i, -2), 2) + 2 for j in range(i + 1 if backward else 6)]
                scores = torch.stack(
                    [q[head, i] @ (k[head, j] + a[r]) for j, r in enumerate(rows)]
                ) / math.sqrt(8)
                weights = scores.softmax(-1)
                expected = sum(
                    w * (v[head, j] + (b[r] if values else 0))
                    for (j, r), w in zip(enumerate(rows), weights, strict=True)
                )
                assert torch.allclose(z[head, i], expected, atol=1e-5)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("queries", [1, 2, 5])
def test_skew_moves_every_distance_to_its_key(queries, past, ahead):
    """[query, distance] holds the distance itself; afterwards [query, key] holds key - query."""
    keys = past + queries
    distances = torch.arange(1 - keys, queries if ahead else 1).float()
    moved = skew(distances.expand(2, 3, queries, -1), keys)
    assert moved.shape == (2, 3, queries, keys)
    for query in range(queries):
        for key in range(keys if ahead else past + query + 1):
            assert torch.all(moved[:, :, query, key] == key - (past + query))


def test_a_prefix_that_lies_ahead_shares_the_nearest_vector():
    """Only backward distances have vectors; a prefix lets a query see ahead all the same."""
    position = spec.ShawSpec(max_distance=3, backward=True, values=False)
    model, tokens = tiny.transformer(tiny.decoder(1, position=position)), tiny.tokens(1, 6)
    seen = ActivationCapture("*.q", "*.k", "*.scores")
    with torch.no_grad():
        model(tokens, prefix_length=torch.tensor([4]), tap=seen)
    q, k, scores = (seen[f"decoder.blocks.0.{part}"][0] for part in ("q", "k", "scores"))
    nearest = model.decoder.positions[0].keys[3]
    for query, key in ((0, 0), (0, 1), (1, 3)):
        expected = torch.einsum("hd,hd->h", q[:, query], k[:, key] + nearest) / math.sqrt(8)
        assert torch.allclose(scores[:, query, key], expected, atol=1e-5)


def test_skewing_repeats_no_vector_for_a_pair():
    """The largest tensor on the way is as large as the scores, not times a head's width."""
    length, largest = 200, 0
    module = ShawPosition(spec.ShawSpec(max_distance=50, per_head=True), tiny.ATTENTION, 32)
    q = torch.randn(1, 4, length, 8)
    slots = torch.arange(length)
    ctx = PassContext(stack="decoder", q_slot=slots, k_slot=slots, q_pos=slots[None])

    class Largest(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            largest = max(largest, out.numel() if isinstance(out, torch.Tensor) else 0)
            return out

    with Largest(), torch.no_grad():
        module(q, q, ctx, module)
    assert largest <= 4 * length * 2 * length


def test_layers_share_a_position_module_only_where_it_may_be_shared():
    shared = tiny.transformer(tiny.encoder(3, position=spec.T5BiasSpec()))
    own = tiny.transformer(tiny.encoder(3, position=spec.ShawSpec(max_distance=2)))
    assert len(shared.encoder.positions) == 1 and len(own.encoder.positions) == 3
    mixed = replace(
        tiny.encoder(2),
        encoder=replace(
            tiny.stack(2),
            blocks=tuple(
                replace(tiny.BLOCK, position=spec.RotarySpec(dim=8, theta=theta))
                for theta in (100.0, 1000.0)
            ),
        ),
    )
    assert len(tiny.transformer(mixed).encoder.positions) == 2


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("terms", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("max_distance", [None, 40])
def test_disentangled_scores_by_hand(shared, terms, max_distance):
    """score = (q.k + q.key(distance) + k.query(distance)) * scale, one pair at a time."""
    position = spec.DisentangledSpec(
        span=4,
        max_distance=max_distance,
        content_to_position=terms[0],
        position_to_content=terms[1],
        shared_projections=shared,
        norm=spec.NormSpec(),
    )
    model = tiny.transformer(tiny.encoder(1, position=position))
    seen = ActivationCapture("*.q", "*.k", "*.scores")
    with torch.no_grad():
        model(tiny.tokens(1, 9), tap=seen)
        attention = model.encoder.blocks[0].attention
        module = model.encoder.positions[0]
        table = module.norm(module.weight)
        if shared:
            query_table, key_table, _ = attention.qkv(table).split(32, -1)
        else:
            key_table = attention.position_key(table) if terms[0] else None
            query_table = attention.position_query(table) if terms[1] else None
    q, k, scores = (seen[f"encoder.blocks.0.{part}"][0] for part in ("q", "k", "scores"))
    for head in range(4):
        mine = slice(head * 8, head * 8 + 8)
        for i in range(9):
            for j in range(9):
                row = min(max(bucket(i - j, 4, max_distance) + 4, 0), 7)
                expected = q[head, i] @ k[head, j]
                if terms[0]:
                    expected = expected + q[head, i] @ key_table[row, mine]
                if terms[1]:
                    expected = expected + k[head, j] @ query_table[row, mine]
                assert float(scores[head, i, j]) == pytest.approx(
                    float(expected) / math.sqrt(8), abs=1e-5
                )


def bucket(distance: int, span: int, max_distance: int | None) -> int:
    middle = span // 2
    if max_distance is None or abs(distance) <= middle:
        return distance
    steps = math.log(abs(distance) / middle) / math.log((max_distance - 1) / middle) * (middle - 1)
    return int(math.copysign(math.ceil(steps) + middle, distance))
