"""The choice of the attention kernel, and how often it is made."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch

from glassformer import spec
from glassformer.core import ActivationCapture
from glassformer.core.attention import dispatch
from glassformer.core.pass_context import TreeMask


@pytest.fixture
def chosen(monkeypatch):
    """The names of the kernels that were chosen, one for every choice."""
    names = []
    first = dispatch._first_kernel

    def choose(call):
        kernel = first(call)
        names.append("eager" if kernel is None else kernel.name)
        return kernel

    monkeypatch.setattr(dispatch, "_first_kernel", choose)
    return names


def run(model, length=6, **given):
    with torch.no_grad():
        return tiny.transformer(model)(tiny.tokens(2, length), **given).logits


def test_the_layers_of_a_pass_share_one_choice(chosen):
    run(tiny.decoder(4))
    assert chosen == ["sdpa"]


def test_every_pattern_has_a_choice_of_its_own(chosen):
    model = tiny.decoder(4)
    near = replace(model.decoder.blocks[0], pattern=spec.AttentionPattern(left=2, right=0))
    blocks = (*model.decoder.blocks[:2], near, near)
    run(replace(model, decoder=replace(model.decoder, blocks=blocks)))
    assert chosen == ["sdpa", "sdpa"]


def test_with_a_tap_every_layer_chooses(chosen):
    run(tiny.decoder(3), tap=ActivationCapture("*.resid_post"))
    assert chosen == ["sdpa"] * 3


@pytest.mark.parametrize(
    ("model", "given", "name"),
    [
        (tiny.decoder(1), {"attn_implementation": "eager"}, "eager"),
        (tiny.decoder(1, attention=replace(tiny.ATTENTION, softcap=5.0)), {}, "eager"),
        (tiny.decoder(1, attention=replace(tiny.ATTENTION, score="additive")), {}, "eager"),
        (tiny.decoder(1, position=spec.ShawSpec(max_distance=3)), {}, "eager"),
        (tiny.decoder(1, position=spec.ShawSpec(max_distance=3, values=False)), {}, "sdpa"),
        (tiny.decoder(1, position=spec.RelativePositionSpec()), {}, "blockwise"),
        (tiny.decoder(1, pattern=spec.AttentionPattern(right=0, block=4)), {}, "block_local"),
        (
            tiny.encoder(1, pattern=spec.AttentionPattern(left=8, right=8)),
            {"length": 400},
            "sparse",
        ),
        (
            tiny.encoder(1, attention=spec.AttentionSpec(heads=2, head_dim=16)),
            {"length": 400},
            "native",
        ),
    ],
    ids=[
        "eager",
        "softcap",
        "additive",
        "shaw",
        "shaw_keys",
        "relative",
        "local",
        "window",
        "long",
    ],
)
def test_a_kernel_computes_what_it_supports(chosen, model, given, name):
    found = run(model, **given)
    assert chosen == [name]
    plain = run(model, **{**given, "attn_implementation": "eager"})
    assert torch.allclose(found, plain, atol=1e-5)


def test_a_tree_of_few_queries_is_two_products_unless_keys_count_several_times(chosen):
    own = torch.eye(6, dtype=torch.bool).expand(2, 6, 6)
    tree = TreeMask(own, torch.zeros(6, dtype=torch.long))
    run(tiny.decoder(1), tree_mask=tree)
    sparse = tiny.encoder(1, pattern=spec.BlockSparsePattern(block_size=1, num_random_blocks=0))
    found = run(sparse, tree_mask=tree)
    assert chosen == ["matmul", "sdpa"]
    assert torch.allclose(
        found, run(sparse, tree_mask=tree, attn_implementation="eager"), atol=1e-5
    )


def test_the_last_kernel_takes_every_call_and_the_others_have_names_of_their_own():
    names = [kernel.name for kernel in dispatch.KERNELS]
    assert names[-1] == "sdpa" and len(set(names)) == len(names)
