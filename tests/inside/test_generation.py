"""Edits during generation equal a model with changed weights, also on the fast code paths."""

from __future__ import annotations

import pytest
import small
import torch

from glassformer import inside
from glassformer.errors import InputError
from glassformer.generate import prefix, writer
from glassformer.generate.backends.cpp import runner as cpp
from glassformer.generate.backends.cpp.build import library
from glassformer.inside.generation_trace import beam_tree, generation_trace

PROMPT = "time flies like an arrow"
WAYS = {
    "greedy": {},
    "sampling": {"do_sample": True, "seed": 5, "num_return_sequences": 2},
    "beam": {"num_beams": 3},
    "contrastive": {"penalty_alpha": 0.5, "top_k": 3},
    "guessing": {"prompt_lookup_num_tokens": 3},
}


def without_columns(model, layer, head):
    """The same model with a head's columns of the output projection at zero."""
    weight = model.decoder.blocks[layer].attention.out.weight
    with torch.no_grad():
        weight[:, 8 * head : 8 * (head + 1)] = 0
    return model


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [small.decoder, small.both], ids=["decoder", "both"])
def test_a_head_off_writes_what_a_net_without_it_writes(make, way):
    model, changed = make(), without_columns(make(), 1, 2)
    options = {"max_new_tokens": 10, **WAYS[way]}
    prompts = [PROMPT, "a robot must obey orders"]
    with model.edit(inside.ablate_heads(1, [2])):
        edited = model.generate(prompts, **options)
    want, plain = changed.generate(prompts, **options), model.generate(prompts, **options)
    assert [g.tokens for g in edited] == [g.tokens for g in want]
    for one, other in zip(edited, want, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
        assert [a.tokens for a in one.alternatives] == [a.tokens for a in other.alternatives]
    assert any(
        a.logprobs[0] != pytest.approx(b.logprobs[0], abs=1e-3)
        for a, b in zip(plain, edited, strict=True)
    )


def test_a_stream_and_scores_hear_edits_too():
    model, changed = small.decoder(), without_columns(small.decoder(), 0, 0)
    with model.edit(inside.ablate_heads(0, [0])):
        pieces = [piece.token for piece in model.stream(PROMPT, max_new_tokens=6)]
        score = model.score(PROMPT)
    assert pieces == [piece.token for piece in changed.stream(PROMPT, max_new_tokens=6)]
    assert score.logprobs == pytest.approx(changed.score(PROMPT).logprobs, abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"prefill_chunk": 2}], ids=str)
def test_positions_count_through_the_whole_sequence(options):
    """A vector at places of the prompt and of what is written, for rows of different lengths."""
    model = small.decoder()
    prompts = [PROMPT, "fruit flies"]
    edit = inside.steer(0, torch.linspace(-2, 2, 32), positions=[1, 3, 6])
    with model.edit(edit):
        written = model.generate(prompts, max_new_tokens=5, eos_token_id=None, **options)
    for prompt, one in zip(prompts, written, strict=True):
        ids = [*model.tokenizer.encode(prompt).ids, *one.tokens]
        logits = model.look(ids[:-1], edits=[edit]).logits.array.log_softmax(-1)
        rows = range(len(ids) - 1 - len(one.tokens), len(ids) - 1)
        want = [float(logits[row, ids[row + 1]]) for row in rows]
        assert one.logprobs == pytest.approx(want, abs=1e-4)


OTHER = {"kind": "patch", "from": "fruit flies like a banana robot"}
LINE, DIM = torch.linspace(-1, 1, 32).tolist(), torch.linspace(-1, 1, 8).tolist()
EDITS = {
    "heads": {"kind": "scale", "at": "blocks.1.z", "heads": [1, 2], "factor": 0.0},
    "neurons": {"kind": "scale", "at": "blocks.0.ffn_post", "positions": [1, 6], "factor": -1.0},
    "embedding": {"kind": "add", "at": "embed", "vector": LINE, "positions": [0, 5]},
    "between": {"kind": "add", "at": "blocks.1.resid_mid", "vector": LINE},
    "removed": {"kind": "remove", "at": "blocks.0.resid_post", "vector": LINE},
    "replaced": {"kind": "replace", "at": "blocks.0.resid_post", "vector": LINE, "positions": [5]},
    "a number": {"kind": "replace", "at": "blocks.1.ffn_out", "vector": 0.5},
    "queries": {"kind": "add", "at": "blocks.1.q", "vector": DIM, "heads": [2]},
    "keys": {"kind": "scale", "at": "blocks.*.k", "positions": [2, 6], "factor": -1.0},
    "values": {"kind": "add", "at": "blocks.0.v", "vector": DIM, "positions": [1, 5]},
    "pattern": {"kind": "scale", "at": "blocks.1.pattern", "factor": 0.3, "keys": [1, 5]},
    "scores": {
        "kind": "replace",
        "at": "*.scores",
        "keys": [1],
        "positions": [4, 6],
        "vector": -1e30,
    },
    "patch": {**OTHER, "at": "blocks.0.resid_post"},
    "patch of places": {**OTHER, "at": "blocks.0.resid_post", "positions": [[1, 3], [6, 2]]},
    "patch of values": {**OTHER, "at": "blocks.1.v"},
    "patch of patterns": {**OTHER, "at": "blocks.1.pattern", "positions": [[3, 3]], "heads": [0]},
}
CROSSING = {
    "encoder": {"kind": "scale", "at": "encoder.blocks.0.z", "heads": [0], "factor": 0.0},
    "encoder patch": {**OTHER, "at": "encoder.blocks.0.resid_post", "positions": [[1, 1]]},
    "what is read": {"kind": "add", "at": "encoder.final", "vector": LINE, "positions": [2]},
    "cross heads": {"kind": "scale", "at": "blocks.1.cross.z", "heads": [1], "factor": 0.0},
    "cross pattern": {"kind": "scale", "at": "*.cross.pattern", "factor": 0.2, "keys": [1]},
    "cross keys": {"kind": "scale", "at": "*.cross.k", "factor": -1.0, "positions": [1, 2]},
    "cross values": {"kind": "add", "at": "blocks.0.cross.v", "vector": DIM, "positions": [0]},
}
MODELS = {"decoder": small.decoder, "grouped": small.grouped, "both": small.both}
CASES = [(model, name) for model in MODELS for name in EDITS]
CASES += [("both", name) for name in CROSSING]


@pytest.mark.parametrize(("model", "name"), CASES)
def test_with_the_cache_an_edit_is_what_it_is_without(model, name):
    model, edit = MODELS[model](), {**EDITS, **CROSSING}[name]
    both = model.spec.encoder is not None
    if both and edit["kind"] == "patch":
        edit = {**edit, "from_target": "fruit flies like a banana"}
    options = {"max_new_tokens": 6, "eos_token_id": None}
    with model.edit(edit):
        one = model.generate(PROMPT, **options)
        assert [piece.token for piece in model.stream(PROMPT, **options)] == one.tokens
    if both:
        view = model.look(PROMPT, one.tokens[:-1], edits=[edit])
    else:
        view = model.look([*model.tokenizer.encode(PROMPT).ids, *one.tokens[:-1]], edits=[edit])
    said = view.logits.array.log_softmax(-1)[-6:]
    assert one.logprobs == pytest.approx(
        [float(r[t]) for r, t in zip(said, one.tokens, strict=True)], abs=1e-4
    )
    assert one.logprobs != pytest.approx(model.generate(PROMPT, **options).logprobs, abs=1e-4)


def test_fast_paths_are_left_for_the_time_of_the_edit(monkeypatch):
    model = small.decoder()
    long = " ".join([PROMPT] * 8)  # enough for the cache of prefixes
    monkeypatch.setattr(prefix, "READS", 1)  # also by a short call
    made = []

    class Seen(cpp.CppRunner):
        def __init__(self, *given, **more):
            made.append("cpp")
            super().__init__(*given, **more)

    monkeypatch.setattr(writer, "CppRunner", Seen)
    before = model.generate(long, max_new_tokens=3)
    first_made, kept = list(made), set(model._prefix_cache.texts)
    assert kept
    with model.edit(inside.ablate_heads(0, [1])):
        edited = model.generate(long, max_new_tokens=3)
        assert made == first_made and set(model._prefix_cache.texts) == kept
    after = model.generate(long, max_new_tokens=3)
    assert after.tokens == before.tokens
    assert after.logprobs == pytest.approx(before.logprobs, abs=1e-5)
    assert edited.logprobs != pytest.approx(after.logprobs, abs=1e-3)
    assert len(made) == 2 * len(first_made) and set(model._prefix_cache.texts) >= kept
    if library() is not None:
        assert first_made == ["cpp"]


def test_an_encoder_decoder_writes_from_its_start():
    """The text of the decoder is what is to be written, not what is continued."""
    model = small.both()
    view = model.look(PROMPT, "fruit flies like")
    steps, _ = generation_trace(view, 5)
    assert steps[0].fresh == 1
    ids = [model.spec.tokens.start]
    source = view.model_inputs.inputs["input_ids"]
    for step in steps:
        with torch.no_grad():
            logits = model(source, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
        assert step.chosen.token == int(logits.argmax())
        ids.append(step.chosen.token)
    nodes, results = beam_tree(view, 2, 4)
    beams = model.generate(PROMPT, max_new_tokens=4, num_beams=2)
    assert results[0][1].tokens == beams.tokens
    assert nodes[0].parent is None and nodes[0].step == 0
    assert generation_trace(view, 1, position=2)[0][0].fresh == 3


def test_a_decoder_writes_from_a_position():
    model = small.decoder()
    view = model.look(PROMPT)
    (step,), _ = generation_trace(view, 1, position=1)
    with torch.no_grad():
        logits = model(torch.tensor([[token.id for token in view.tokens[:2]]])).logits[0, -1]
    assert step.fresh == 2 and step.chosen.token == int(logits.argmax())
    assert generation_trace(view, 1)[0][0].fresh == len(view.tokens)


def test_what_reaches_the_length_limit_has_not_ended():
    model = small.decoder()
    nodes, results = beam_tree(model.look(PROMPT), 3, 4)
    end = model.spec.tokens.eos
    for node in nodes:
        assert (node.state == "finished") <= (node.token == end)
        assert (node.state == "length") <= (node.step == 3 and node.token != end)
    assert {one.finish_reason for _, one in results} >= {"length"}
    assert any(node.state == "length" for node in nodes)


def test_a_text_as_long_as_the_context_cannot_be_continued():
    model = small.grouped()
    view = model.look([5] * 70)  # rotary positions: a text may be longer than the context
    for write in (lambda: beam_tree(view, 2, 4), lambda: generation_trace(view, 4)):
        with pytest.raises(InputError, match="has 70 tokens, and the model's context length is 64"):
            write()
