"""XLNet's permutations, query stream and memory, compared with the reference's."""

from __future__ import annotations

from itertools import pairwise

import pytest
import reference
import torch
from cases import TOLERANCE, Name

import glassformer as gf
from glassformer.core import Permutation
from glassformer.errors import GlassformerError
from glassformer.families import find_preset, spec_from_config
from glassformer.weights.mapping import build_transformer
from glassformer.weights.quantization import count_parameters


def asks(name: Name) -> bool:
    return name.architecture == "XLNetLMHeadModel"


pytestmark = pytest.mark.over(which=asks)


def texts(count: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(6, 99, (count, length), generator=torch.Generator().manual_seed(seed))


def an_order(count: int, length: int, given: int) -> torch.Tensor:
    """A random order of reading in which the first tokens are given."""
    generator = torch.Generator().manual_seed(5)
    ranks = [torch.randperm(length - given, generator=generator) for _ in range(count)]
    return torch.stack([torch.cat((torch.full((given,), -1), rank)) for rank in ranks])


def one_hot(targets: torch.Tensor, length: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(targets, length).float()


@torch.no_grad()
def largest(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert ours.shape == theirs.shape
    return float((ours - theirs).abs().max())


@pytest.mark.parametrize("length", [11, 140])
@pytest.mark.parametrize("segmented", [False, True], ids=["", "segments"])
def test_targets_in_any_order_as_the_reference_tells_them(case, length, segmented):
    tokens = texts(2, length)
    order = an_order(2, length, given=3)
    targets = order.topk(4, -1).indices
    segments = (torch.arange(length) // 4 % 2).expand(2, -1) if segmented else None
    asked = Permutation.from_order(order, targets)
    inputs = {
        "input_ids": tokens,
        "perm_mask": asked.hidden.float(),
        "target_mapping": one_hot(targets, length),
        "token_type_ids": segments,
    }
    theirs = []
    for i in range(2):  # its causal mask is one for the whole batch
        row = {k: None if v is None else v[i : i + 1] for k, v in inputs.items()}
        theirs.append(reference.run(case.reference, row)["logits"])
    for eager in (False, True):
        with torch.no_grad():
            out = case.model(
                tokens,
                token_type_ids=segments,
                permutation=asked,
                attn_implementation="eager" if eager else None,
            )
        assert out.last_hidden_state.shape[:2] == (2, 4)
        assert largest(out.logits, torch.cat(theirs)) <= TOLERANCE


def test_a_mask_of_any_shape_without_targets(case):
    tokens = texts(1, 9)
    hidden = torch.rand(1, 9, 9, generator=torch.Generator().manual_seed(1)) < 0.5
    inputs = {"input_ids": tokens, "perm_mask": hidden.float()}
    theirs = reference.run(case.reference, inputs)["logits"]
    with torch.no_grad():
        ours = case.model(tokens, permutation=Permutation(hidden)).logits
    assert largest(ours, theirs) <= TOLERANCE


def test_a_target_knows_only_what_comes_before_it_in_the_order(case):
    """The law of training by permutation: other words later in the order, or in the target's own
    place, change nothing; an earlier one does (and in a causal model, one that is before it)."""
    length = 10
    tokens, order = texts(1, length), an_order(1, length, given=2)
    target = int((order[0] == 4).nonzero())
    asked = Permutation.from_order(order, torch.tensor([[target]]))
    causal = case.spec.decoder is not None

    def answer(changed: int | None) -> torch.Tensor:
        text = tokens.clone()
        if changed is not None:
            text[0, changed] = 6 + (text[0, changed] - 5) % 90
        with torch.no_grad():
            return case.model(text, permutation=asked).logits

    for slot in range(length):
        earlier = order[0, slot] < 4 and (not causal or slot < target)
        assert torch.equal(answer(slot), answer(None)) == (not earlier), slot


def test_targets_in_a_padded_batch(case):
    lengths, longest = (10, 6), 10
    tokens, order = texts(2, longest), an_order(2, longest, given=2)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    targets = torch.tensor([[3, 7], [2, 5]])
    with torch.no_grad():
        together = case.model(
            tokens, mask, permutation=Permutation.from_order(order, targets)
        ).logits
        for i, n in enumerate(lengths):
            alone = Permutation.from_order(order[i : i + 1, :n], targets[i : i + 1])
            ours = case.model(tokens[i : i + 1, :n], permutation=alone).logits
            assert largest(together[i : i + 1], ours) <= TOLERANCE


def test_memory_over_segments_as_the_reference_keeps_it(case):
    """Parts of different lengths, the last of them asked for targets."""
    tokens, edges = texts(2, 27), (0, 8, 11, 20, 27)
    memory, mems = case.model.new_cache(), None
    parts = [tokens[:, a:b] for a, b in pairwise(edges)]
    for part in parts:
        with torch.no_grad():
            out = case.reference(part, mems=mems, use_mems=True)
            ours = case.model(part, past_key_values=memory).logits
        mems = out.mems
        assert memory.length == len(mems[0])
        assert largest(ours, out.logits) <= TOLERANCE
    order, targets = an_order(1, 7, given=1), torch.tensor([[2, 5]])
    asked = Permutation.from_order(order, targets)
    both = Permutation(asked.hidden.expand(2, -1, -1), targets.expand(2, -1))
    theirs = []
    for i in range(2):
        with torch.no_grad():
            out = case.reference(
                parts[0][i : i + 1, :7],
                mems=[kept[:, i : i + 1] for kept in mems],
                perm_mask=asked.hidden.float(),
                target_mapping=one_hot(targets, 7),
                token_type_ids=torch.ones(1, 7, dtype=torch.long),
            )
        theirs.append(out.logits)
    with torch.no_grad():
        ours = case.model(
            parts[0][:, :7],
            token_type_ids=torch.ones(2, 7, dtype=torch.long),
            past_key_values=memory,
            permutation=both,
        ).logits
    assert largest(ours, torch.cat(theirs)) <= TOLERANCE


def test_a_model_without_queries_says_so():
    model = gf.create("gpt2", n_embd=8, n_layer=1, n_head=2, vocab_size=20, n_positions=9)
    asked = Permutation.from_order(torch.arange(4)[None], torch.tensor([[1]]))
    with pytest.raises(GlassformerError, match="no query stream"):
        model(torch.tensor([[1, 2, 3, 4]]), permutation=asked)


@pytest.mark.parametrize(
    ("preset", "count"), [("xlnet-base", 116_718_336), ("xlnet-large", 360_268_800)]
)
def test_the_published_sizes(preset, count):
    """Parameters of the bodies of xlnet-base-cased and xlnet-large-cased."""
    model = build_transformer(spec_from_config(find_preset(preset), "XLNetModel"))
    assert count_parameters(model) == count
