"""Sequence to sequence, compared with explicit sums; decoder start tokens."""

from __future__ import annotations

import json
import math

import material
import pytest
import readers
import torch

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer, train
from glassformer.train.losses import smoothed_entropy
from glassformer.train.objectives import make_objective

RECORDS = [
    {"source": a, "target": b, "where": "p:1"}
    for a, b in zip(material.SENTENCES[:4], material.SENTENCES[4:8], strict=True)
]
KIND = "ForConditionalGeneration"


def prepared(objective, records=RECORDS):
    return [example for record in records for example in objective.prepare(record)]


@pytest.mark.parametrize("family", ["bart", "t5"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("loss", ["cross-entropy", "kl"])
def test_gradients(family, smoothing, loss):
    model = readers.make(family, KIND)
    objective = make_objective(
        "sequence-to-sequence", model, {"label_smoothing": smoothing, "loss": loss}
    )
    start = model.spec.tokens.start

    def reference(transformer, example):
        source, target = (material.ids(example[key]) for key in ("source", "tokens"))
        logits = transformer(
            decoder_input_ids=torch.tensor([[start, *target[0, :-1]]]), input_ids=source
        ).logits[0]
        words, losses = logits.shape[-1], []
        for row, right in zip(logits, target[0].tolist(), strict=True):
            shares = torch.full((words,), smoothing / words, dtype=logits.dtype)
            shares[right] += 1 - smoothing
            each = row.exp().sum().log() - row
            least = -(shares * shares.log()).nan_to_num().sum() if loss == "kl" else 0.0
            losses.append((shares * each).sum() - least)
        return {"lm": losses}

    material.check_gradients(objective, model, prepared(objective), reference)


def test_what_is_foreseen_is_read_alike():
    model = readers.make("bart", KIND)
    objective = make_objective(
        "sequence-to-sequence", model, {"max_source_length": 12, "source_prefix": "Go: "}
    )
    alone = prepared(objective)
    objective.lookahead_tokenize(
        [*RECORDS, {"source": 3, "target": "what prepare complains about"}]
    )
    assert objective.ahead
    together = prepared(objective)
    for one, other in zip(alone, together, strict=True):
        assert {k: v.tolist() for k, v in one.items()} == {k: v.tolist() for k, v in other.items()}


def test_a_batch_of_a_given_shape_says_the_same():
    model = readers.make("bart", KIND)
    objective = make_objective("sequence-to-sequence", model, {"max_target_length": 60})
    examples = prepared(objective)
    plain = objective.collate(examples)
    even = objective.collate_to(examples, {"source": 56, "tokens": 64, "start": 8})
    assert even.inputs["input_ids"].shape == even.inputs["attention_mask"].shape == (4, 56)
    assert even.inputs["decoder_input_ids"].shape == (4, 60)
    assert even.targets["tokens"].shape == even.targets["at"].shape == (192,)
    assert (plain.counts, plain.tokens) == (even.counts, even.tokens)
    losses = [float(objective(model, batch)["lm"]) for batch in (plain, even)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    alone = objective.collate_to(examples[:1], {"source": len(examples[0]["source"]), "tokens": 60})
    assert "attention_mask" in alone.inputs, "whether or not something is padding"


def test_the_least_that_smoothed_labels_allow():
    shares = [0.9 + 0.1 / 7] + [0.1 / 7] * 6
    assert smoothed_entropy(7, 0.1) == pytest.approx(-sum(s * math.log(s) for s in shares))
    assert smoothed_entropy(7, 0.0) == 0.0


def test_a_target_has_its_end_and_a_length():
    model = readers.make("bart", KIND)
    objective = make_objective("sequence-to-sequence", model, {"max_target_length": 9})
    end = model.tokenizer.special["eos"]
    assert all(len(row["tokens"]) == 9 and row["tokens"][-1] == end for row in prepared(objective))


def test_a_prefix_stands_before_every_source():
    model = readers.make("t5", KIND)
    objective = make_objective("sequence-to-sequence", model, {"source_prefix": "say: "})
    expected = model.tokenizer.encode("say: " + RECORDS[0]["source"]).ids
    assert prepared(objective)[0]["source"].tolist() == expected


def test_a_list_of_sentences_is_one_source_and_of_several_targets_each_is_an_example():
    model = readers.make("bart", KIND)
    objective = make_objective("sequence-to-sequence", model, {"source_prefix": "in short: "})
    first, second = RECORDS[0], RECORDS[1]
    sentences = [first["source"], second["source"]]
    both = {"source": sentences, "target": [first["target"], second["target"]]}
    joined = " ".join(sentences)
    apart = [{"source": joined, "target": one["target"]} for one in (first, second)]
    for found, wanted in zip(prepared(objective, [both]), prepared(objective, apart), strict=True):
        assert [found[k].tolist() for k in wanted] == [wanted[k].tolist() for k in wanted]
    kept = model.config["task_specific_params"]["text2text"]
    assert kept == {"prefix": "in short: ", "length": objective.source_length}
    with pytest.raises(GlassformerError, match="p:1: the target is 3, and not a text"):
        prepared(objective, [{**first, "target": 3}])


def test_languages(tmp_path):
    """mBART ends both texts with their language and starts from the target's; M2M's way is the
    start token and the language before the text."""
    roles = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
    plain = train("unigram", texts=material.SENTENCES * 3, vocab_size=150, special_tokens=roles)
    plain._backend.vocabulary.add_special_tokens(["de_DE", "en_XX"])
    plain.save(tmp_path)
    for kind, first in (("MBartTokenizer", False), ("MBart50Tokenizer", True)):
        config = tmp_path / "tokenizer_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "tokenizer_class": kind}))
        (tmp_path / "config.json").write_text(
            json.dumps({"model_type": "mbart", "vocab_size": readers.SIZE})
        )
        tokenizer = Tokenizer.load(tmp_path)
        model = material.model(
            "mbart-large-cc25",
            tokenizer,
            "MBartForConditionalGeneration",
            **readers.BART,
            pad_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=2,
        )
        objective = make_objective(
            "sequence-to-sequence",
            model,
            {"source_language": "de_DE", "target_language": "en_XX"},
        )
        (row,) = objective.prepare(RECORDS[0])
        german, english, end = (tokenizer.id(t) for t in ("de_DE", "en_XX", "</s>"))
        read = objective.collate([row]).inputs["decoder_input_ids"][0].tolist()
        if first:
            assert row["source"][0] == german and row["source"][-1] == end
            assert row["tokens"][0] == english and row["tokens"][-1] == end
            assert read[:2] == [2, english]
        else:
            assert row["source"][-2:].tolist() == [end, german]
            assert row["tokens"][-2:].tolist() == [end, english]
            assert read[0] == english and read[-1] == end
        (other,) = objective.prepare({**RECORDS[0], "target_language": "de_DE"})
        assert german in other["tokens"] and english not in other["tokens"]


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_it_learns(family):
    model = readers.make(family, KIND)
    objective = make_objective("sequence-to-sequence", model, {"label_smoothing": 0.0})
    before, after = readers.learns(objective, model, prepared(objective), "perplexity")
    assert after < 0.5 * before


def test_what_it_cannot_train():
    with pytest.raises(GlassformerError, match="choose the objective continuation"):
        make_objective("sequence-to-sequence", readers.make("gpt2", "LMHeadModel"), {})
    with pytest.raises(GlassformerError, match='"cross-entropy" or "kl"'):
        make_objective("sequence-to-sequence", readers.make("t5", KIND), {"loss": "mse"})
    objective = make_objective("sequence-to-sequence", readers.make("t5", KIND), {})
    with pytest.raises(GlassformerError, match="no column 'target'"):
        list(objective.prepare({"source": "a", "where": "p:1"}))
    with pytest.raises(GlassformerError, match="does not distinguish languages"):
        list(objective.prepare({**RECORDS[0], "source_language": "de"}))


def test_targets_beyond_the_decoders_vocabulary_are_refused():
    objective = make_objective("sequence-to-sequence", gf.load("zoo:six"), {})
    known = {"source": "merci", "target": "thanks", "where": "p:1"}
    assert len(prepared(objective, [known])) == 1
    with pytest.raises(GlassformerError, match="'merci' is not in the decoder's vocabulary"):
        prepared(objective, [known | {"target": "merci"}])
