"""Denoising: the effect of each corruption, and the loss."""

from __future__ import annotations

from collections import Counter

import material
import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.bart_denoising import placed_spans
from glassformer.train.objectives.rows import RaggedColumn
from glassformer.train.objectives.seq2seq_inputs import Start, seq2seq_batch

BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "vocab_size": 300, "max_position_embeddings": 600}  # fmt: skip
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 300}
NONE = {
    "sentence_permutation": 0.0,
    "document_rotation": 0.0,
    "token_deletion": 0.0,
    "text_infilling": 0.0,
    "token_masking": 0.0,
}


def bart():
    return material.model("bart-base", material.bytelevel(), "BartForConditionalGeneration", **BART)


def objective_of(model=None, **ways):
    return make_objective("denoising", model or bart(), {**NONE, **ways})


def texts(objective, *sentences):
    return [e for s in sentences or material.SENTENCES for e in objective.prepare({"text": s})]


def by_hand(model, example):
    target = example["tokens"]
    shifted = material.ids([model.spec.tokens.start, *target[:-1]])
    logits = model(decoder_input_ids=shifted, input_ids=material.ids(example["source"])).logits[0]
    return {"lm": [material.surprise(logits[i], t) for i, t in enumerate(target)]}


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_the_gradient_and_that_the_loss_falls(family):
    model = bart() if family == "bart" else material.model("t5-small", material.bytelevel(), **T5)
    objective = make_objective(
        "denoising", model, {"max_length": 40, "token_deletion": 0.1, "document_rotation": 0.5}
    )
    stored = texts(objective)[:5]
    material.check_gradients(objective, model, stored, by_hand)
    first, last = material.falls(objective, model, stored)
    assert last < 0.9 * first


def row_of(tokens):
    return RaggedColumn(np.array(tokens), np.array([len(tokens)]))


def corrupted_texts(objective, stored, times: int = 40):
    """What was made of the text between its frame."""
    for number, example in enumerate(stored):
        for seed in range(times):
            row = material.vary(objective, example, seed, number)
            source, target = row["source"], row["tokens"]
            assert (target == example["tokens"]).all()
            assert source[0] == target[0] and source[-1] == target[-1]
            yield source[1:-1].tolist(), target[1:-1].tolist()


def is_subsequence(part, whole) -> bool:
    rest = iter(whole)
    return all(token in rest for token in part)


def test_deletion_leaves_a_subsequence():
    objective = objective_of(token_deletion=0.3)
    lengths = []
    for source, target in corrupted_texts(objective, texts(objective)):
        assert is_subsequence(source, target)
        lengths.append(len(source) / len(target))
    assert np.mean(lengths) == pytest.approx(0.7, abs=0.02)


def test_masking_leaves_everything_in_its_place():
    objective = objective_of(token_masking=0.3)
    mask, hidden = objective.mask_token, []
    for source, target in corrupted_texts(objective, texts(objective)):
        assert all(s in (t, mask) for s, t in zip(source, target, strict=True))
        hidden.append(np.mean(np.array(source) == mask))
    assert np.mean(hidden) == pytest.approx(0.3, abs=0.02)


def test_rotation():
    objective = objective_of(document_rotation=1.0)
    firsts = set()
    for source, target in corrupted_texts(objective, texts(objective, material.SENTENCES[0])):
        turns = [n for n in range(len(target)) if target[n:] + target[:n] == source]
        assert turns
        firsts.add(turns[0])
    assert len(firsts) > 15
    half = objective_of(document_rotation=0.5)
    turned = [a != b for a, b in corrupted_texts(half, texts(half), times=60)]
    assert np.mean(turned) == pytest.approx(0.5, abs=0.07)


def test_sentences_change_places_whole():
    objective = objective_of(sentence_permutation=1.0)
    decode = objective.frame.tokenizer.decode
    (example,) = texts(objective, material.TEXT)
    orders = set()
    for source, _ in corrupted_texts(objective, [example]):
        text = decode(source)
        places = [text.find(sentence) for sentence in material.SENTENCES]
        assert min(places) >= 0 and len(text.strip()) >= len(material.TEXT) - 1
        orders.add(tuple(np.argsort(places)))
    assert len(orders) == 40
    (same,) = objective.prepare({"sentences": material.SENTENCES})
    assert (same["tokens"] == example["tokens"]).all()


@pytest.mark.parametrize("whole_words", [False, True])
def test_infilling(whole_words):
    """Masks hide 30% in all, in spans of a Poisson's length; nothing else changes."""
    objective = objective_of(text_infilling=0.3, whole_word_mask=whole_words)
    mask = objective.mask_token
    stored = texts(objective, material.TEXT)
    hidden = []
    for source, target in corrupted_texts(objective, stored, times=150):
        kept = [token for token in source if token != mask]
        assert is_subsequence(kept, target)
        hidden.append(1 - len(kept) / len(target))
        if whole_words:
            starts = objective.vocabulary.starts(row_of(target))
            words = Counter(tuple(word) for word in np.split(target, np.flatnonzero(starts)[1:]))
            after = np.split(
                source, np.flatnonzero(objective.vocabulary.starts(row_of(source)))[1:]
            )
            assert not Counter(tuple(w) for w in after if mask not in w) - words
    assert np.mean(hidden) == pytest.approx(0.3, abs=0.03)


def test_spans_of_a_poisson_laid_out_anyhow():
    drawn = [placed_spans(np.array([300]), 0.3, 3.0, material.draws(s))[:2] for s in range(300)]
    sizes = np.concatenate([sizes[:-1] for _, sizes in drawn])  # the last is cut
    assert sizes.mean() == pytest.approx(3.0, abs=0.1)
    assert sizes.var() == pytest.approx(3.0, abs=0.25)
    assert (sizes == 0).mean() == pytest.approx(np.exp(-3), abs=0.01)
    covered = np.zeros(300)
    for first, sizes in drawn:
        assert (first[1:] >= first[:-1] + sizes[:-1]).all() and first[-1] + sizes[-1] <= 300
        for start, size in zip(first, sizes, strict=True):
            covered[start : start + size] += 1
    assert covered.sum() / 300 == pytest.approx(90, abs=1)
    assert covered[:50].mean() == pytest.approx(covered[125:175].mean(), rel=0.25)


def test_nothing_at_all_and_the_same_draw():
    objective = objective_of()
    assert all(
        source == target for source, target in corrupted_texts(objective, texts(objective), 2)
    )
    noisy = make_objective(
        "denoising", bart(), {"document_rotation": 0.5, "token_deletion": 0.1, "token_masking": 0.1}
    )
    (example,) = texts(noisy, material.TEXT)
    one, two, other = (material.vary(noisy, example, s)["source"] for s in (3, 3, 4))
    assert (one == two).all() and (len(one) != len(other) or (one != other).any())


def test_a_text_that_ends_with_its_language_starts_from_it():
    """mBART's: the end, the language; the decoder starts from the latter."""
    start = Start(bart())
    assert start.of(np.array([7, 8, 2]), 9).tolist() == [start.default]
    target = np.array([7, 8, 2, 9])
    batch = seq2seq_batch([{"source": target, "tokens": target, "start": start.of(target, 9)}])
    assert batch.inputs["decoder_input_ids"].tolist() == [[9, 7, 8, 2]]
    assert batch.targets["tokens"].tolist() == [[7, 8, 2, 9]]


def test_what_is_wrong_is_named():
    with pytest.raises(GlassformerError, match=r"token_deletion = 1\.5"):
        objective_of(token_deletion=1.5)
    letters = material.model(
        "bart-base", material.letters(), "BartForConditionalGeneration", **BART
    )
    with pytest.raises(GlassformerError, match="no mask token"):
        objective_of(letters, text_infilling=0.3)
    assert objective_of(letters, token_deletion=0.3).delete == 0.3
    with pytest.raises(GlassformerError, match="needs the head 'lm'"):
        objective_of(material.model("bart-base", material.bytelevel(), "BartModel", **BART))
