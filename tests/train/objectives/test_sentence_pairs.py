"""Next sentence and sentence order prediction, compared with explicit sums."""

from __future__ import annotations

import material
import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.rows import RaggedColumn
from glassformer.train.objectives.sentence_pairs import Segments, around_pair, shortened

BERT = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 300,
        "intermediate_size": 48, "max_position_embeddings": 80}  # fmt: skip
MODELS = {
    "bert": ("bert-base", "BertForPreTraining", {}),
    "bert-alone": ("bert-base", "BertForNextSentencePrediction", {}),
    "bigbird": ("bigbird-base", "BigBirdForPreTraining", {"attention_type": "original_full"}),
    "albert": ("albert-base", "AlbertForPreTraining", {"embedding_size": 16}),
}
DOCUMENTS = [material.SENTENCES[:5], material.SENTENCES[5:], material.SENTENCES[2:8]]


def model(name: str):
    preset, architecture, more = MODELS[name]
    return material.model(preset, material.wordpiece(), architecture, **BERT, **more)


def stored(objective):
    """As the loader hands them over: with another example beside each."""
    examples = [e for d in DOCUMENTS for e in objective.prepare({"sentences": d})]
    if not objective.others:
        return examples
    shifted = examples[2:] + examples[:2]
    return [
        {**example, **{f"other.0.{field}": value for field, value in other.items()}}
        for example, other in zip(examples, shifted, strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "model_name"),
    [
        ("next-sentence", "bert"),
        ("next-sentence", "bert-alone"),
        ("next-sentence", "bigbird"),
        ("sentence-order", "albert"),
        ("sentence-order", "bert"),
    ],
)
def test_the_gradient_and_that_the_loss_falls(name, model_name):
    made = model(model_name)
    objective = make_objective(name, made, {"max_length": 50, "mlm_probability": 0.2})

    def by_hand(transformer, example):
        said = transformer(
            material.ids(example["tokens"]), token_type_ids=material.ids(example["segments"])
        )
        turned = int(example["turned"][0])
        parts = {objective.head: [material.surprise(said.head_outputs[objective.head][0], turned)]}
        if "lm" in said.head_outputs:
            parts["lm"] = [
                material.surprise(said.head_outputs["lm"][0, place], target)
                for place, target in enumerate(example["targets"])
                if target >= 0
            ]
        return parts

    assert len(stored(objective)) > 5
    material.check_gradients(objective, made, stored(objective), by_hand)
    first, last = material.falls(objective, made, stored(objective))
    assert last < 0.9 * first


@pytest.mark.parametrize("name", ["next-sentence", "sentence-order"])
def test_segments_are_the_texts_own_and_half_of_them_are_turned(name):
    made = model("bert")
    objective = make_objective(
        name, made, {"max_length": 60, "mask_replace_prob": 0.0, "random_replace_prob": 0.0}
    )
    special = made.tokenizer.special
    whole = [
        np.concatenate([made.tokenizer.encode(s, special=False).ids for s in document]).tolist()
        for document in DOCUMENTS
    ]

    def place(part: list[int], document: list[int]) -> int | None:
        starts = range(len(document) - len(part) + 1)
        return next((i for i in starts if document[i : i + len(part)] == part), None)

    turned, lengths, total = 0, [], 0
    for number, example in enumerate(stored(objective)):
        for seed in range(60):
            row = material.vary(objective, example, seed, number)
            tokens, segments = row["tokens"].tolist(), row["segments"]
            assert len(tokens) <= 60
            middle = int(segments.sum())
            first, second = tokens[: len(tokens) - middle], tokens[len(tokens) - middle :]
            assert first[0] == special["cls"] and first[-1] == second[-1] == special["sep"]
            first, second = first[1:-1], second[:-1]
            assert first and second
            found = [(place(first, d), place(second, d)) for d in whole]
            if name == "next-sentence" and row["turned"][0]:
                assert any(a is not None for a, _ in found) and any(b is not None for _, b in found)
            else:
                before = (lambda a, b: a > b) if row["turned"][0] else (lambda a, b: a < b)
                assert any(a is not None and b is not None and before(a, b) for a, b in found)
            turned += row["turned"][0]
            total += 1
            lengths.append(len(tokens))
    assert turned / total == pytest.approx(0.5, abs=0.06)
    assert min(lengths) < 30 and np.median(lengths) > 40


def test_another_row_of_the_same_document_is_no_other_document():
    made = model("bert")
    objective = make_objective("next-sentence", made, {"max_length": 40})
    first, second, *_ = objective.prepare({"sentences": DOCUMENTS[0]})
    pair = {**first, **{f"other.0.{field}": value for field, value in second.items()}}
    assert not any(material.vary(objective, pair, s)["turned"][0] for s in range(20))


def test_what_is_too_long_gives_way_on_both_sides():
    text = np.append(np.arange(30), np.arange(100, 110))
    a, b = (Segments(text, np.array([s]), np.array([n])) for s, n in ((0, 30), (30, 10)))
    fronts = set()
    for seed in range(30):
        sides = shortened(a, b, np.array([20]), material.draws(seed))
        first, second = (side.values for side in sides)
        assert len(first) + len(second) == 20 and len(first) == len(second) == 10
        assert (np.diff(first) == 1).all() and (second == text[30:]).all()
        fronts.add(int(first[0]))
    assert len(fronts) > 5


def test_pairs_are_framed_as_the_tokenizer_does():
    tokenizer = material.wordpiece()
    a, b = material.SENTENCES[:2]
    before, between, behind = around_pair(tokenizer)
    ids = [tokenizer.encode(text, special=False).ids for text in (a, b)]
    assert [*before, *ids[0], *between, *ids[1], *behind] == tokenizer.encode(a, b).ids
    objective = make_objective("sentence-order", model("bert"), {})
    sides = [RaggedColumn(np.array(side), np.array([len(side)])) for side in ids]
    tokens, segments = objective.framed(*sides)
    assert tokens.values.tolist() == tokenizer.encode(a, b).ids
    assert segments.tolist() == tokenizer.encode(a, b).segments


def test_a_document_of_one_sentence_has_no_pairs_and_models_must_have_the_head():
    objective = make_objective("sentence-order", model("albert"), {})
    assert list(objective.prepare({"sentences": ["Alone."]})) == []
    with pytest.raises(GlassformerError, match="no column 'sentences'"):
        list(objective.prepare({"text": "Alone."}))
    bare = material.model("bert-base", material.wordpiece(), "BertForMaskedLM", **BERT)
    with pytest.raises(GlassformerError, match="judges pairs"):
        make_objective("next-sentence", bare, {})
