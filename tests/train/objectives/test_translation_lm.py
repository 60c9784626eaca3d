"""Translation language modeling, compared with explicit sums."""

from __future__ import annotations

import material
import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective

XLM = {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 300, "n_langs": 3,
       "max_position_embeddings": 90, "lang2id": {"de": 0, "en": 1, "fr": 2}}  # fmt: skip
BERT = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 300,
        "intermediate_size": 48, "max_position_embeddings": 82, "pad_token_id": 1}  # fmt: skip
PAIRS = [
    {"source": a, "target": b, "source_language": "en", "target_language": c}
    for a, b, c in zip(material.SENTENCES, material.SENTENCES[::-1], ["de", "fr"] * 5, strict=True)
]


def models():
    yield material.model("xlm-ende-1024", material.wordpiece(), **XLM)
    yield material.model("xlm-roberta-base", material.bytelevel(), "XLMRobertaForMaskedLM", **BERT)


def stored(objective):
    return [example for record in PAIRS[:6] for example in objective.prepare(record)]


@pytest.mark.parametrize("which", [0, 1], ids=["xlm", "xlm-roberta"])
def test_the_gradient_and_that_the_loss_falls(which):
    model = list(models())[which]
    objective = make_objective("translation-lm", model, {})

    def by_hand(transformer, example):
        more = {"position_ids": material.ids(example["positions"])}
        if model.spec.last_stack.embed.languages:
            more["language_ids"] = material.ids(example["languages"])
        logits = transformer(material.ids(example["tokens"]), **more).logits[0]
        targets = enumerate(example["targets"])
        return {"lm": [material.surprise(logits[i], t) for i, t in targets if t >= 0]}

    material.check_gradients(objective, model, stored(objective), by_hand)
    first, last = material.falls(objective, model, stored(objective))
    assert last < 0.9 * first


def test_two_framed_texts_with_places_and_languages_of_their_own():
    model = next(models())
    objective = make_objective("translation-lm", model, {})
    tokenizer = model.tokenizer
    for record, example in zip(PAIRS, stored(objective), strict=False):
        rows = [tokenizer.encode(record[side]).ids for side in ("source", "target")]
        assert example["tokens"].tolist() == rows[0] + rows[1]
        assert example["positions"].tolist() == [*range(len(rows[0])), *range(len(rows[1]))]
        languages = [XLM["lang2id"][record[f"{side}_language"]] for side in ("source", "target")]
        assert example["languages"].tolist() == np.repeat(languages, list(map(len, rows))).tolist()
    rows = material.varied(objective, stored(objective))
    asked = np.concatenate([(row["targets"] >= 0)[row["positions"] > 0] for row in rows])
    assert 0.08 < asked.mean() < 0.25


def test_both_sides_are_cut_and_languages_may_be_said_once_for_all():
    model = next(models())
    options = {"max_length": 20, "source_language": "en", "target_language": "de"}
    objective = make_objective("translation-lm", model, options)
    record = {"source": material.TEXT, "target": material.TEXT}
    (example,) = objective.prepare(record)
    assert len(example["tokens"]) == 20 and example["languages"].tolist() == [1] * 10 + [0] * 10
    with pytest.raises(GlassformerError, match="the source is empty"):
        list(objective.prepare({"source": "", "target": "a"}))
    with pytest.raises(GlassformerError, match="'nl'; the model knows de, en, fr"):
        list(objective.prepare({**record, "source_language": "nl"}))
    nameless = material.model("xlm-ende-1024", material.wordpiece(), **{**XLM, "lang2id": {}})
    with pytest.raises(GlassformerError, match="lang2id"):
        make_objective("translation-lm", nameless, {})
