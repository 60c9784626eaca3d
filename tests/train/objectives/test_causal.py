"""Causal language modeling, compared with explicit sums."""

from __future__ import annotations

import material
import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.train.losses import adaptive_loss
from glassformer.train.objectives import make_objective

SIZE = material.SIZE
GPT2 = {"n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 64, "vocab_size": SIZE}
LLAMA = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64,
         "vocab_size": SIZE}  # fmt: skip
XL = {"vocab_size": SIZE, "cutoffs": [10, 25], "d_model": 32, "d_embed": 32, "n_head": 4,
      "d_head": 8, "d_inner": 48, "n_layer": 2, "div_val": 2, "mem_len": 6, "clamp_len": -1,
      "same_length": False}  # fmt: skip
CHARS = {"vocab_size": SIZE, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
         "num_attention_heads": 4, "max_position_embeddings": 64}  # fmt: skip
MODELS = {
    "gpt2": ("gpt2", GPT2),
    "llama": ("llama-7b", LLAMA),
    "transfo-xl": ("transfo-xl-base", XL),
    "char-transformer": ("char-transformer-t12", CHARS),
}


def model(name: str):
    preset, settings = MODELS[name]
    return material.model(preset, material.letters(), **settings)


def rows(objective, *lengths: int, documents: bool = False):
    (whole,) = objective.prepare({"text": material.TEXT})
    found, start = [], 20
    for length in lengths:
        example = {"tokens": whole["tokens"][start : start + length]}
        if documents:
            example["documents"] = np.repeat([0, 1, 2], [4, 5, length - 9]).astype(np.int32)
        found.append(example)
        start += length
    return found


def by_hand(objective, memory: bool = False):
    def reference(model, example):
        parts = {}
        tokens, documents = example["tokens"], example.get("documents", np.zeros(999))
        cache = None
        if memory and len(example["before"]):
            cache = model.new_cache()
            with torch.no_grad():
                model(material.ids(example["before"]), past_key_values=cache)
        whole = "documents" not in example
        auxiliary = any(head.auxiliary for head in objective.heads.values())
        if whole:
            said = model(
                material.ids(tokens[:-1]), past_key_values=cache, auxiliary_heads=auxiliary
            ).head_outputs
        for name, head in objective.heads.items():
            for place in range(len(tokens) - head.prediction_offset):
                target = place + head.prediction_offset
                if documents[place] != documents[target]:
                    continue
                if whole:
                    logits = said[name][0, place]
                else:  # the document alone, up to the place
                    first = int(np.argmax(documents == documents[place]))
                    alone = material.ids(tokens[first : place + 1])
                    logits = model(alone, auxiliary_heads=auxiliary).head_outputs[name][0, -1]
                parts.setdefault(name, []).append(material.surprise(logits, int(tokens[target])))
        return parts

    return reference


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_of_rows_of_different_length(name):
    transformer = model(name)
    objective = make_objective("causal-lm", transformer, {})
    material.check_gradients(objective, transformer, rows(objective, 17, 9, 13), by_hand(objective))


@pytest.mark.parametrize("name", ["gpt2", "llama", "char-transformer"])
def test_the_gradient_of_packed_documents_is_that_of_each_alone(name):
    transformer = model(name)
    objective = make_objective("causal-lm", transformer, {})
    stored = rows(objective, 17, 14, documents=True)
    material.check_gradients(objective, transformer, stored, by_hand(objective))


@pytest.mark.parametrize("name", ["transfo-xl", "llama", "gpt2"])
def test_the_gradient_with_what_stands_before_in_memory(name):
    """The first row of a text has nothing before it, the next ones more and more."""
    transformer = model(name)
    objective = make_objective("causal-lm", transformer, {"memory_length": 8})
    assert objective.before == 8
    (whole,) = objective.prepare({"text": material.TEXT})
    stored = [
        {"tokens": whole["tokens"][s : s + 11], "before": whole["tokens"][max(0, s - 8) : s]}
        for s in (0, 5, 10, 20)
    ]
    reference = by_hand(objective, memory=True)
    material.check_gradients(objective, transformer, stored, reference)
    material.check_gradients(objective, transformer, stored[:1], reference)
    without = [{**example, "before": example["before"][:0]} for example in stored[2:]]
    sums = [objective(transformer, objective.collate(some))["lm"] for some in (stored[2:], without)]
    assert abs(float(sums[0] - sums[1])) > 1e-4


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_gradient_with_a_memory_of_the_first_document_alone(name):
    transformer = model(name)
    objective = make_objective("causal-lm", transformer, {"memory_length": 8})
    stored = rows(objective, 16, 14, documents=True)
    for example, size in zip(stored, (6, 3), strict=True):
        example["before"] = np.arange(5, 5 + size, dtype=np.int32)

    def reference(transformer, example):
        """Every document by itself: the first behind its beginning, of which nothing is learned."""
        losses = []
        for number in np.unique(example["documents"]):
            tokens = example["tokens"][example["documents"] == number]
            cache = transformer.new_cache()
            if number == 0:
                with torch.no_grad():
                    transformer(material.ids(example["before"]), past_key_values=cache)
            logits = transformer(material.ids(tokens[:-1]), past_key_values=cache).logits[0]
            losses += map(material.surprise, logits, tokens[1:].tolist())
        return {"lm": losses}

    material.check_gradients(objective, transformer, stored, reference)


def test_the_gradient_with_more_before_than_is_kept():
    """Six tokens are remembered, and of those before them what they know."""
    transformer = model("transfo-xl")
    objective = make_objective("causal-lm", transformer, {"memory_length": 15})
    (whole,) = objective.prepare({"text": material.TEXT})
    stored = [
        {"tokens": whole["tokens"][s : s + 9], "before": whole["tokens"][max(0, s - 15) : s]}
        for s in (0, 4, 11, 30)
    ]

    def reference(transformer, example):
        cache, before = transformer.new_cache(), material.ids(example["before"])
        with torch.no_grad():
            for first, last in ((-18, -12), (-12, -6), (-6, None)):
                if before[:, first:last].numel():
                    transformer(before[:, first:last], past_key_values=cache)
        logits = transformer(material.ids(example["tokens"][:-1]), past_key_values=cache).logits[0]
        return {"lm": list(map(material.surprise, logits, example["tokens"][1:].tolist()))}

    material.check_gradients(objective, transformer, stored, reference)
    longer = objective(transformer, objective.collate(stored[-1:]))["lm"]
    shorter = [{**stored[-1], "before": stored[-1]["before"][-6:]}]
    assert abs(float(longer - objective(transformer, objective.collate(shorter))["lm"])) > 1e-6


def test_in_bfloat16_the_pass_without_gradients_takes_none_from_the_weights():
    transformer = model("transfo-xl")
    transformer.float()
    objective = make_objective("causal-lm", transformer, {"memory_length": 8})
    (whole,) = objective.prepare({"text": material.TEXT})
    stored = [{"tokens": whole["tokens"][20:31], "before": whole["tokens"][12:20]}]
    with torch.autocast("cpu", torch.bfloat16):
        objective(transformer, objective.collate(stored))["lm"].backward()
    assert all(block.ffn.up.weight.grad is not None for block in transformer.decoder.blocks)


@pytest.mark.parametrize("layer", [1, 2])
def test_a_layers_share_is_gone_after_l_of_2n(layer):
    transformer = model("char-transformer")
    objective = make_objective("causal-lm", transformer, {})
    batch = objective.collate(rows(objective, 12))
    end = layer / (2 * CHARS["num_hidden_layers"])
    for progress, there in ((0.0, True), (end - 1e-6, True), (end, False), (1.0, False)):
        objective.advance(progress)
        said = set(objective(transformer, batch))
        assert (f"layer{layer - 1}" in said) == (f"layer{layer - 1}_ahead2" in said) == there
        assert {"lm", "lm_ahead2"} <= said


def test_every_head_learns_from_its_own_loss_by_its_weight():
    transformer = model("char-transformer")
    objective = make_objective("causal-lm", transformer, {})
    batch = objective.collate(rows(objective, 12, 12))
    assert objective.weights["lm"] == 1.0 and objective.weights["lm_ahead2"] == 0.5
    assert batch.counts["lm"] == 22 and batch.counts["lm_ahead2"] == 20
    for name, total in objective(transformer, batch).items():
        transformer.zero_grad()
        total.backward(retain_graph=True)
        learned = {n for n, head in transformer.heads.items() if head.out.weight.grad is not None}
        learned = {n for n in learned if transformer.heads[n].out.weight.grad.any()}
        assert learned == {name}


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_falls(name):
    transformer = model(name)
    objective = make_objective("causal-lm", transformer, {})
    first, last = material.falls(objective, transformer, rows(objective, 30, 30))
    assert last < 0.85 * first


def test_a_document_ends_where_its_last_piece_does():
    tokenizer = material.bytelevel()
    model = material.model("gpt2", tokenizer, **GPT2)
    objective = make_objective("causal-lm", model, {})
    start, end = tokenizer.id("<s>"), tokenizer.id("</s>")
    whole, first, middle, last = (
        next(iter(objective.prepare({"text": "A heron stood.", **piece})))["tokens"].tolist()
        for piece in ({}, {"ends": False}, {"begins": False, "ends": False}, {"begins": False})
    )
    assert whole == [start, *middle, end] and first == [start, *middle] and last == [*middle, end]
    assert start not in middle and end not in middle


def test_tokens_are_learned_as_they_are():
    tokenizer = material.bytelevel()
    objective = make_objective("causal-lm", material.model("gpt2", tokenizer, **GPT2), {})
    ids = np.array([tokenizer.size - 1, 0, 5], np.uint16)
    (example,) = objective.prepare({"tokens": ids, "begins": True, "ends": True})
    assert example["tokens"].tolist() == ids.tolist() and example["tokens"].dtype == np.int32
    for wrong in ([1, tokenizer.size], [-1, 2]):
        with pytest.raises(
            GlassformerError, match=f"no tokens of a vocabulary of {tokenizer.size}"
        ):
            list(objective.prepare({"tokens": wrong}))


@pytest.mark.parametrize("shrink", [1, 2])
def test_clusters_of_words_are_judged_where_they_are(shrink):
    """The same sum and gradients as with all log-probabilities, also of clusters nobody asked."""
    made = material.model("transfo-xl-base", material.letters(), **{**XL, "div_val": shrink})
    softmax = made.heads["lm"].out
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(40, 32, generator=draw, dtype=torch.float64, requires_grad=True)
    for top in (SIZE, 10):
        targets = torch.randint(top, (40,), generator=draw)
        targets[::7] = -100
        results = []
        for loss in (
            adaptive_loss(softmax, x, targets, -100),
            -sum(softmax(x)[i, t] for i, t in enumerate(targets) if t >= 0),
        ):
            parameters = [x, *softmax.parameters()]
            grads = torch.autograd.grad(loss, parameters, materialize_grads=True)
            results.append((loss, *grads))
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_a_model_that_predicts_no_next_token_is_told_so():
    for preset, settings in (("bert-base", {"num_hidden_layers": 1}), ("t5-small", {})):
        made = gf.create(preset, tokenizer=material.letters(), **settings)
        with pytest.raises(GlassformerError, match="causal-lm"):
            make_objective("causal-lm", made, {})


LSTM = {"vocab_size": SIZE, "emb_sz": 12, "n_hid": 20, "n_layers": 2}


@pytest.mark.parametrize("lengths", [(14, 14), (17, 9, 13)])
def test_regularizers_of_recurrent_layers(lengths):
    """As in the AWD-LSTM authors' program: alpha * dropped.pow(2).mean() + beta * (raw[1:] -
    raw[:-1]).pow(2).mean(), here over the real tokens of all rows."""
    model = material.model("awd-lstm", material.letters(), **LSTM)
    objective = make_objective(
        "causal-lm", model, {"activation_regularization": 2.0, "temporal_regularization": 1.0}
    )
    assert objective.weights == {"lm": 1.0, "activation": 2.0, "temporal": 1.0}
    batch = objective.collate(rows(objective, *lengths))
    model.train()
    objective.train()
    torch.manual_seed(1)
    sums = objective(model, batch)
    loss = material.loss_of(objective, sums, batch.counts)
    loss.backward()
    ours = material.gradients(objective, model)
    torch.manual_seed(1)
    seen = gf.core.ActivationCapture("*.recurrent_out")
    mask = batch.inputs.get("attention_mask")
    said = model(batch.inputs["input_ids"], mask, tap=seen)
    raw = seen["decoder.blocks.1.recurrent_out"]
    real = [min(length, max(lengths) - 1) for length in lengths]  # read, if not all predict
    dropped = torch.cat([row[:n] for row, n in zip(said.last_hidden_state, real, strict=True)])
    steps = torch.cat([row[1:n] - row[: n - 1] for row, n in zip(raw, real, strict=True)])
    words = torch.nn.functional.cross_entropy(
        said.logits.flatten(0, 1), batch.targets["1"].flatten()
    )
    plain = words + 2 * dropped.pow(2).mean() + steps.pow(2).mean()
    assert float(loss) == pytest.approx(float(plain), rel=1e-6)
    plain.backward()
    for name, gradient in material.gradients(objective, model).items():
        assert torch.allclose(ours[name], gradient, atol=1e-6), name
    objective.eval()
    assert set(objective(model.eval(), batch)) == {"lm"}
