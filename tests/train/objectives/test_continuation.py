"""Decoder-only sequence to sequence, compared with explicit sums."""

from __future__ import annotations

import material
import pytest
import readers
import torch
import torch.nn.functional as F

from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.text_inputs import IGNORED

RECORDS = [{"source": s, "target": t} for s, t in (("The old", "dog barked"), ("She", "laughed!"))]
KIND = {"gpt2": "LMHeadModel", "llama": "ForCausalLM"}


def prepared(objective, records=RECORDS):
    return [example for record in records for example in objective.prepare(record)]


@pytest.mark.parametrize("family", KIND)
@pytest.mark.parametrize("prefix_lm", [False, True])
def test_gradients(family, prefix_lm):
    model = readers.make(family, KIND[family])
    options = {"prefix_lm": prefix_lm, "separator": " ", "label_smoothing": 0.1}
    objective = make_objective("continuation", model, options)

    def reference(transformer, example):
        tokens, before = material.ids(example["tokens"]), int(example["prefix"][0])
        prefix = {"prefix_length": torch.tensor([before])} if prefix_lm else {}
        logits = transformer(tokens[:, :-1], **prefix).logits[0]
        losses = []
        for place in range(before - 1, len(logits)):
            each = logits[place].exp().sum().log() - logits[place]
            losses.append(0.9 * each[tokens[0, place + 1]] + 0.1 * each.mean())
        return {"lm": losses}

    material.check_gradients(objective, model, prepared(objective), reference)


def test_what_is_foreseen_is_read_alike():
    model = readers.make("gpt2", KIND["gpt2"])
    objective = make_objective("continuation", model, {})
    alone = prepared(objective)
    objective.lookahead_tokenize(
        [*RECORDS, {"source": 3, "target": "what prepare complains about"}]
    )
    assert objective.ahead
    together = prepared(objective)
    for one, other in zip(alone, together, strict=True):
        assert {k: v.tolist() for k, v in one.items()} == {k: v.tolist() for k, v in other.items()}


def test_a_batch_of_a_given_shape_says_the_same():
    model = readers.make("llama", KIND["llama"])
    objective = make_objective("continuation", model, {"separator": " ", "max_length": 30})
    examples = prepared(objective)
    plain = objective.collate(examples)
    even = objective.collate_to(examples, {"tokens": 32, "prefix": 8})
    assert even.inputs["input_ids"].shape == (2, 30)
    assert even.targets["tokens"].shape == even.targets["at"].shape == (60,)
    assert (plain.counts, plain.tokens) == (even.counts, even.tokens)
    losses = [float(objective(model, batch)["lm"]) for batch in (plain, even)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_text_is_cut_to_the_context_of_rotary_positions():
    model = readers.make("llama", KIND["llama"])  # with 64 positions
    objective = make_objective("continuation", model, {"separator": " "})
    (example,) = objective.prepare({"source": "The old dog barked " * 30, "target": "at night"})
    assert len(example["tokens"]) == 65  # of which the last is not read
    with pytest.raises(GlassformerError, match="65 is more than the 64 positions"):
        make_objective("continuation", model, {"separator": " ", "max_length": 65})


def test_the_vocabulary_is_scored_where_a_target_is_and_nowhere_else():
    model = readers.make("llama", KIND["llama"], max_position_embeddings=1024)
    objective = make_objective("continuation", model, {"separator": " "})
    long = {"source": "The old dog barked " * 30, "target": "at night"}
    examples = [*objective.prepare(long), *prepared(objective)]
    for slots in (None, {"tokens": 600}):
        batch = objective.collate_to(examples, slots) if slots else objective.collate(examples)
        rows, length = batch.inputs["input_ids"].shape
        at, tokens = batch.targets["at"], batch.targets["tokens"]
        real = tokens.ne(IGNORED)
        assert len(at) == len(tokens) == 64 < rows * length / 10
        expected = [
            (row, place)
            for row, one in enumerate(examples)
            for place in range(int(one["prefix"][0]) - 1, len(one["tokens"]) - 1)
        ]
        assert [divmod(int(place), length) for place in at[real]] == expected
        wanted = [examples[row]["tokens"][place + 1] for row, place in expected]
        assert tokens[real].tolist() == wanted
        logits = model(**batch.inputs).logits
        plain = sum(
            F.cross_entropy(logits[row, place], torch.tensor(int(word)))
            for (row, place), word in zip(expected, wanted, strict=True)
        )
        loss = objective(model, batch)["lm"]
        assert float(loss) == pytest.approx(float(plain), rel=1e-5)


def test_one_stream_with_a_separator():
    model = readers.make("llama", KIND["llama"])
    text, end = model.tokenizer, model.tokenizer.special["eos"]
    objective = make_objective("continuation", model, {"separator": "?"})
    row = prepared(objective)[0]
    assert text.decode(row["tokens"]) == "The old?dog barked" and row["tokens"][-1] == end
    assert row["prefix"].tolist() == [len("The old?")]
    batch = objective.collate([row])
    assert batch.counts == {"lm": len("dog barked") + 1}
    framed = readers.make("gpt2", KIND["gpt2"])  # whose tokenizer has a separator of its own
    row = prepared(make_objective("continuation", framed, {}))[0]
    assert row["tokens"][row["prefix"][0] - 1] == framed.tokenizer.special["sep"]


def test_what_is_too_long_loses_the_beginning_of_its_source():
    model = readers.make("llama", KIND["llama"])
    objective = make_objective("continuation", model, {"separator": " ", "max_length": 12})
    row = prepared(objective, [{"source": "abcdefgh" * 3, "target": "the key"}])[0]
    assert len(row["tokens"]) == 13 and model.tokenizer.decode(row["tokens"]).endswith("h the key")
    row = prepared(objective, [{"source": "a", "target": "the key" * 9}])[0]
    assert len(row["tokens"]) == 13 and row["prefix"][0] == 1


@pytest.mark.parametrize("family", KIND)
def test_it_learns(family):
    model = readers.make(family, KIND[family])
    objective = make_objective("continuation", model, {"separator": " "})
    before, after = readers.learns(objective, model, prepared(objective), "perplexity")
    assert after < 0.5 * before


def test_what_it_cannot_train():
    with pytest.raises(GlassformerError, match="sequence-to-sequence"):
        make_objective("continuation", readers.make("t5", "ForConditionalGeneration"), {})
    with pytest.raises(GlassformerError, match=r"objective\.separator"):
        make_objective("continuation", readers.make("llama", KIND["llama"]), {"separator": "§"})
