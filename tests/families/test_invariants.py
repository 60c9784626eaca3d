"""The invariants of docs/architecture.md hold for every family."""

from __future__ import annotations

import copy
import shutil
from itertools import pairwise

import pytest
import reference
import torch
from cases import TOLERANCE, Batch, difference, is_decoder, is_sparse, pads, writes

import glassformer as gf
from glassformer.core import ActivationCapture, Cache
from glassformer.weights.tensor_files import TensorFiles

pytestmark = pytest.mark.over(once_per="body")

LENGTHS = (9, 12, 5, 12, 7, 1)
LONG = (140, 31, 9, 133)  # so long that sparse patterns are computed without what they leave out


def rows(batch: Batch, part: slice) -> Batch:
    return Batch(**{key: None if v is None else v[part] for key, v in vars(batch).items()})


# --- 2. one result, however it is computed -----------------------------------------------------


@pytest.mark.over(once_per="class")
def test_in_a_batch_as_alone(case):
    batch = case.batch(LENGTHS, "right")
    together = case.ours(batch)
    alone = [case.ours(rows(batch, slice(i, i + 1))) for i in range(len(batch.tokens))]
    joined = {key: [row for one in alone for row in one[key]] for key in together}
    assert difference(joined, together) <= TOLERANCE


@pytest.mark.over(which=pads)
def test_padding_on_either_side_makes_no_difference(case):
    right, left = (case.ours(case.batch(LENGTHS, side)) for side in ("right", "left"))
    assert difference(left, right) <= TOLERANCE


def test_fused_as_eager(case):
    for side in ("right", "left"):
        batch = case.batch(LENGTHS, side)
        assert (
            difference(case.ours(batch), case.ours(batch, attn_implementation="eager")) <= TOLERANCE
        )


def test_packed_as_plain(case):
    batch = case.batch(LENGTHS, "right")
    plain = case.ours(batch)
    packed = copy.deepcopy(case.model).pack()
    assert difference(case.ours(batch, model=packed), plain) <= TOLERANCE


@pytest.mark.over(which=is_sparse)
def test_a_long_text_in_every_way(case):
    right, left = (case.batch(LONG, side) for side in ("right", "left"))
    together = case.ours(right)
    alone = [case.ours(rows(right, slice(i, i + 1))) for i in range(len(right.tokens))]
    joined = {key: [row for one in alone for row in one[key]] for key in together}
    for other in (joined, case.ours(left), case.ours(left, attn_implementation="eager")):
        assert difference(other, together) <= TOLERANCE
    assert difference(case.ours(left, tap=ActivationCapture("*.pattern")), case.ours(left)) == 0.0


@pytest.mark.over(which=is_decoder)
@pytest.mark.parametrize("side", ["right", "left"])
def test_with_the_cache_as_without(case, side):
    """The first slots at once, then some more, then one by one."""
    if case.choices:
        batch = rows(case.batch(LENGTHS, side), slice(0, 1))
        flat = {k: None if v is None else v.flatten(0, 1) for k, v in vars(batch).items()}
        batch = Batch(**flat)
    else:
        batch = case.batch(LENGTHS, side)
    with torch.no_grad():
        whole = case.model(**case.inputs(batch)).last_hidden_state
    cache, pieces = Cache(), []
    length = batch.tokens.shape[1]
    edges = [0, 4, 6, *range(7, length + 1)]
    for start, stop in pairwise(edges):
        part = Batch(
            tokens=batch.tokens[:, start:stop],
            mask=batch.mask[:, start:stop],
            segments=None if batch.segments is None else batch.segments[:, start:stop],
            source=batch.source if start == 0 else None,
            source_mask=batch.source_mask if start == 0 else None,
            languages=None if batch.languages is None else batch.languages[:, start:stop],
        )
        with torch.no_grad():
            out = case.model(**case.inputs(part), past_key_values=cache)
        pieces.append(out.last_hidden_state)
    stepwise = torch.cat(pieces, 1)
    real = batch.mask
    assert float((stepwise[real] - whole[real]).abs().max()) <= TOLERANCE


@pytest.mark.over(which=writes, once_per="type")
def test_greedy_and_beam_write_the_same_tokens_with_and_without_the_cache(case):
    batch = case.batch((4, 6, 5), "left")
    for write in (greedy, beam):
        cached, uncached = (write(case.model, batch, 8, keep=keep) for keep in (True, False))
        assert torch.equal(cached, uncached)


def encoded(model, batch: Batch) -> torch.Tensor | None:
    return None if batch.source is None else model.encode(batch.source, batch.source_mask)


@torch.no_grad()
def greedy(model, batch: Batch, steps: int, keep: bool) -> torch.Tensor:
    tokens, mask = batch.tokens, batch.mask
    cache = Cache() if keep else None
    new, new_mask = tokens, mask
    for step in range(steps):
        memory = encoded(model, batch) if step == 0 or not keep else None
        out = model.decode(
            new,
            new_mask,
            encoder_hidden_states=memory,
            encoder_attention_mask=batch.source_mask,
            cache=cache,
        ).logits
        new = out[:, -1].argmax(-1, keepdim=True)
        new_mask = torch.ones_like(new, dtype=torch.bool)
        tokens, mask = torch.cat((tokens, new), -1), torch.cat((mask, new_mask), -1)
        if not keep:
            new, new_mask = tokens, mask
    return tokens[:, batch.tokens.shape[1] :]


@torch.no_grad()
def beam(model, batch: Batch, steps: int, keep: bool, width: int = 3) -> torch.Tensor:
    count = len(batch.tokens)
    batch = Batch(
        **{k: None if v is None else v.repeat_interleave(width, 0) for k, v in vars(batch).items()}
    )
    tokens, mask = batch.tokens, batch.mask
    scores = torch.tensor([0.0] + [-1e9] * (width - 1)).repeat(count)
    cache = Cache() if keep else None
    new, new_mask = tokens, mask
    for step in range(steps):
        memory = encoded(model, batch) if step == 0 or not keep else None
        out = model.decode(
            new,
            new_mask,
            encoder_hidden_states=memory,
            encoder_attention_mask=batch.source_mask,
            cache=cache,
        ).logits
        every = scores[:, None] + out[:, -1].log_softmax(-1)
        scores, best = every.view(count, -1).topk(width)
        vocabulary = every.shape[-1]
        parents = (best // vocabulary + torch.arange(count)[:, None] * width).flatten()
        scores, new = scores.flatten(), (best % vocabulary).view(-1, 1)
        if cache is not None:
            cache.select(parents)
        new_mask = torch.ones_like(new, dtype=torch.bool)
        tokens = torch.cat((tokens[parents], new), -1)
        mask = torch.cat((mask[parents], new_mask), -1)
        if not keep:
            new, new_mask = tokens, mask
    return tokens[::width, batch.tokens.shape[1] :]


# --- 3. save, load, save -----------------------------------------------------------------------


def tensors_of(folder) -> dict[str, torch.Tensor]:
    files = TensorFiles(folder)
    return {name: files.read(name, mapped=False) for name in files}


@pytest.fixture(scope="module")
def saved(case, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "once"
    case.model.save(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.over(once_per="class")
def test_save_load_save_gives_the_same_bytes(case, saved, tmp_path):
    gf.load(saved).save(tmp_path / "twice")
    first, second = (
        (folder / "model.safetensors").read_bytes() for folder in (saved, tmp_path / "twice")
    )
    assert first == second
    kept, report = tensors_of(saved), case.model.load_report
    for name, tensor in tensors_of(case.folder).items():
        if name not in report.dropped:
            same = [other for other in kept.values() if torch.equal(other, tensor)]
            assert torch.equal(kept.get(name, same[0]), tensor), name


@pytest.mark.over(once_per="class")
def test_the_reference_loads_what_we_save(case, saved):
    loaded, info = reference.load(saved, case.name.architecture)
    missing = set(info["missing_keys"]) - set(case.model.load_report.dropped)
    assert not missing and not info["unexpected_keys"] and not info["mismatched_keys"]
    batch = case.batch(LENGTHS, "right")
    before = case.theirs(batch)
    original, case.reference = case.reference, loaded
    try:
        assert difference(case.theirs(batch), before) <= 1e-6
    finally:
        case.reference = original


# --- 4. taps -----------------------------------------------------------------------------------


def test_a_tap_that_changes_nothing_changes_nothing_to_the_bit(case):
    batch = case.batch(LENGTHS, "left")
    for options in ({}, {"attn_implementation": "eager"}):
        plain = case.ours(batch, **options)
        seen = ActivationCapture()
        tapped = case.ours(batch, tap=seen, **options)
        assert difference(tapped, plain) == 0.0
        stack = "decoder" if case.spec.decoder is not None else "encoder"
        names = {f"{stack}.embed", f"{stack}.blocks.0.resid_post", f"{stack}.final"}
        if case.spec.last_stack.attention_blocks or case.hops:
            names.add(f"{stack}.blocks.0.pattern")
        assert names <= seen.tensors.keys()


def test_captured_patterns_are_weights_over_what_may_be_seen(case):
    batch = case.batch(LENGTHS, "right")
    seen = ActivationCapture("*.pattern")
    case.ours(batch, tap=seen)
    for name, pattern in seen.tensors.items():
        sums = pattern.sum(-1)  # one, or nothing at all for a row that sees nothing
        assert torch.all(((sums - 1).abs() < 1e-5) | (sums == 0)), name
        assert torch.any(sums > 0) and pattern.min() >= 0, name


# --- 5. nothing changes by looking -------------------------------------------------------------


def test_forward_changes_neither_model_nor_config(case):
    before = {name: tensor.clone() for name, tensor in case.model.state_dict().items()}
    spec, config = case.spec, copy.deepcopy(case.model.config)
    case.ours(case.batch(LENGTHS, "right"))
    after = case.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert case.model.spec is spec and case.model.config == config
