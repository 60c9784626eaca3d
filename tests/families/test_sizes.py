"""`gf.create` takes the sizes of recipes for every family, beside the keys of its config.json."""

from __future__ import annotations

import pytest

import glassformer as gf


@pytest.mark.parametrize(
    ("preset", "keys"),
    [
        ("gpt2", {"n_layer": 2, "n_head": 2, "n_embd": 8, "n_inner": 32, "n_positions": 16}),
        (
            "bert-base",
            {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8}
            | {"intermediate_size": 32, "max_position_embeddings": 16},
        ),
    ],
)
def test_sizes_by_their_common_names(preset, keys):
    sizes = {"num_layers": 2, "num_heads": 2, "hidden_size": 8, "intermediate_size": 32}
    ours = gf.create(preset, context_length=16, vocab_size=20, **sizes)
    assert ours.spec == gf.create(preset, vocab_size=20, **keys).spec


def test_inner_sizes_follow_the_hidden_size():
    block = gf.create("llama-7b", num_layers=1, num_heads=2, hidden_size=16).spec.decoder.blocks[0]
    assert (block.attention.heads, block.attention.head_dim, block.ffn.width) == (2, 8, 43)


def test_a_key_of_the_config_is_that_key():
    spec = gf.create("t5-small", num_layers=1, num_decoder_layers=2, d_model=8, vocab_size=20).spec
    assert (len(spec.encoder.blocks), len(spec.decoder.blocks)) == (1, 2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_heads": 5}, "hidden size 768 cannot have 5 heads"),
        ({"num_layers": 0}, "num_layers must be a whole number of at least 1, not 0"),
        ({"num_layer": 2}, "has no setting num_layer"),
    ],
)
def test_wrong_sizes(sizes, message):
    with pytest.raises(gf.ConfigError, match=message):
        gf.create("gpt2", **sizes)
