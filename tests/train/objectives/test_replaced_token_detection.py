"""Replaced-token detection, compared with explicit sums."""

from __future__ import annotations

from dataclasses import replace

import material
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.replaced_token_detection import drawn, fill_masks

SIZES = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 300,
         "intermediate_size": 64, "max_position_embeddings": 80}  # fmt: skip


def electra():
    return material.model("electra-small", material.wordpiece(), **SIZES, embedding_size=16)


def roberta():
    """RoBERTa's body with ELECTRA's head: of no published family."""
    body = material.model("roberta-base", material.bytelevel(), **SIZES, pad_token_id=1).spec
    head = electra().spec.heads[0]
    made = gf.create(replace(body, heads=(head,), tied_weights=()), tokenizer=material.bytelevel())
    made.double().eval()
    return made


MODELS = {"electra": electra, "roberta": roberta}


def stored(objective):
    return [e for s in material.SENTENCES for e in objective.prepare({"text": s})]


def by_hand(objective):
    def reference(model, example):
        logits = objective.generator(material.ids(example["tokens"])).logits[0]
        lm, read = [], example["text"].astype(np.int64)
        for place, target in enumerate(example["targets"]):
            if target < 0:
                continue
            lm.append(material.surprise(logits[place], target))
            token, reached = -1, 0.0
            while reached <= example["noise"][place]:  # the first token at which it is passed
                token += 1
                reached += float(logits[place].softmax(-1)[token].detach())
            read[place] = token
        said = model(material.ids(read)).logits[0].sigmoid()
        replaced = [
            -(p.log() if new else (1 - p).log())
            for p, new in zip(said, read != example["text"], strict=True)
        ]
        return {"lm": lm, "replaced": replaced}

    return reference


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient(name):
    model = MODELS[name]()
    objective = make_objective(
        "replaced-token", model, {"generator_size": 0.5, "mlm_probability": 0.3}
    )
    assert objective.weights == {"lm": 1.0, "replaced": 50.0}
    with torch.no_grad():  # or else the generator finds all tokens alike
        for parameter in objective.generator.parameters():
            parameter.mul_(6.0)
    material.check_gradients(objective, model, stored(objective)[:5], by_hand(objective))


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_falls(name):
    model = MODELS[name]()
    objective = make_objective("replaced-token", model, {"discriminator_weight": 1.0})
    first, last = material.falls(objective, model, stored(objective), steps=20)
    assert last < 0.9 * first


def test_the_generator_is_narrower_and_reads_the_models_embeddings():
    model = electra()
    objective = make_objective("replaced-token", model, {"generator_size": 0.25})
    small = objective.generator.spec.encoder
    assert small.width == 8 and small.attention_blocks[0].attention.heads == 1
    assert small.attention_blocks[0].ffn.width == 16 and len(small.blocks) == 2
    ours, theirs = objective.generator.encoder.embed, model.encoder.embed
    assert ours.token.weight is theirs.token.weight and ours.norm.weight is theirs.norm.weight
    assert ours.position.weight is theirs.position.weight
    assert ours.project.weight is not theirs.project.weight
    assert objective.generator.heads["lm"].out.weight is theirs.token.weight
    both = torch.nn.ModuleDict({"net": model, "objective": objective})
    names = [name for name, _ in both.named_parameters()]
    assert sum("embed.token" in name for name in names) == 1
    both.half()
    assert objective.generator.encoder.embed.token.weight is model.encoder.embed.token.weight


@pytest.mark.parametrize("name", MODELS)
def test_the_generator_is_saved_beside(name, tmp_path):
    """ELECTRA's as the published class, and read by the reference."""
    model = MODELS[name]()
    objective = make_objective("replaced-token", model, {"generator_size": 0.5})
    companion = objective.companions()["generator"]
    companion.save(tmp_path / "generator")
    again = gf.load(tmp_path / "generator")
    tokens = torch.arange(6, 30)[None]
    with torch.no_grad():
        expected = objective.generator(tokens).logits
        torch.testing.assert_close(again(tokens).logits, expected)
    if name == "electra":
        import transformers

        theirs = transformers.ElectraForMaskedLM.from_pretrained(
            tmp_path / "generator", dtype=torch.float64
        )
        torch.testing.assert_close(theirs(tokens).logits, expected, rtol=1e-5, atol=1e-6)


def test_guesses_are_drawn_from_the_generators_distribution():
    model = electra()
    objective = make_objective("replaced-token", model, {})
    head = objective.generator.double().heads["lm"]
    with torch.no_grad():
        head.out.bias.copy_(torch.randn(300, generator=torch.Generator().manual_seed(1)) * 2)
        hidden = torch.zeros(1, 16, dtype=torch.float64)
        shares = head.out(hidden).softmax(-1)[0]
        noise = torch.from_numpy(np.random.default_rng(0).random(20000, dtype=np.float32))
        guesses = drawn(head, hidden.expand(20000, -1), noise)
    found = guesses.bincount(minlength=300) / 20000
    assert float((found - shares).abs().max()) < 0.01
    edges = drawn(head, hidden.expand(2, -1), torch.tensor([0.0, 1.0]))
    assert edges.tolist() == [0, 299]


def test_what_is_replaced_depends_on_the_row_alone():
    """In a batch, in another order, and by itself."""
    model = electra()
    objective = make_objective("replaced-token", model, {"mlm_probability": 0.3}).double()
    examples = material.varied(objective, stored(objective)[:4])
    together = objective(model, objective.collate(examples[::-1]))
    alone = [objective(model, objective.collate([example])) for example in examples]
    for part in ("lm", "replaced"):
        torch.testing.assert_close(together[part], sum(one[part] for one in alone))


def test_guesses_go_where_they_were_asked_for():
    text = torch.tensor([[5, 6, 7], [8, 9, 0]])
    at, guesses = torch.tensor([0, 4, 0, 0]), torch.tensor([11, 12, 13, 14])
    read = fill_masks(text, at, guesses, torch.tensor([True, True, False, False]))
    assert read.tolist() == [[11, 6, 7], [8, 12, 0]] and text[0, 0] == 5


def test_padding_is_not_judged():
    model = electra()
    objective = make_objective("replaced-token", model, {}).double()
    batch = objective.collate(material.varied(objective, stored(objective)[:4]))
    assert batch.counts["replaced"] == batch.tokens == int(batch.inputs["attention_mask"].sum())
    total = objective(model, batch)["replaced"]
    assert float(total) / batch.tokens == pytest.approx(float(F.softplus(torch.zeros(()))), rel=0.1)


def test_a_model_without_the_head_is_told_so():
    bert = material.model("bert-base", material.wordpiece(), "BertForMaskedLM", **SIZES)
    with pytest.raises(GlassformerError, match="needs the head 'replaced'"):
        make_objective("replaced-token", bert, {})
