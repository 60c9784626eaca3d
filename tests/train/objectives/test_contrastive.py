"""The contrastive loss, compared with explicit sums: pairs, negatives and weights."""

from __future__ import annotations

import material
import numpy as np
import pytest
import readers
import torch

from glassformer.errors import GlassformerError
from glassformer.tasks.pooling import Pooling
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.contrastive import ranks_of

TEXTS = material.SENTENCES
RECORDS = [
    {"text": TEXTS[0], "positive": TEXTS[1]},
    {"text": TEXTS[2], "positive": TEXTS[3], "negative": TEXTS[4]},
    {"text": TEXTS[5], "positive": TEXTS[6], "negative": [TEXTS[7], TEXTS[8]]},
    {"text": TEXTS[9], "positive": TEXTS[1]},  # the first one's positive once more
    {"text": TEXTS[9], "positive": TEXTS[0]},  # the text before it, and the first text
]
ASKED = [record["text"] for record in RECORDS]
FOUND = [*(record["positive"] for record in RECORDS), TEXTS[4], TEXTS[7], TEXTS[8]]
KINDS = {"bert": "Model", "gpt2": "Model", "t5": "Model", "xlnet": "Model"}


def prepared(objective, records):
    return [example for record in records for example in objective.prepare(record)]


def pooled(model, text: str, mode: str) -> torch.Tensor:
    """A text by itself, without padding or mask; of length 1."""
    read = model.tokenizer.encode(text)
    tokens = torch.tensor([read.ids])
    if model.spec.encoder is not None and model.spec.decoder is not None:
        states = model.encode(tokens)[0]
    else:
        inputs = {}
        if readers.knows_segments(model):
            inputs["token_type_ids"] = torch.tensor([read.segments])
        states = model(tokens, **inputs).last_hidden_state[0]
    vector = {"mean": states.mean(0), "first": states[0], "last": states[-1]}[mode]
    return vector / vector.square().sum().sqrt()


def entropy(model, mode, asked, wanted, found, temperature) -> list[torch.Tensor]:
    """-log of the share of its own, over all that are neither the text nor its own once more."""
    losses = []
    for number, text in enumerate(asked):
        mine = pooled(model, text, mode)
        scores = {}
        for other, candidate in enumerate(found):
            if other == number or candidate not in (text, wanted[number]):
                scores[other] = mine @ pooled(model, candidate, mode) / temperature
        total = sum(score.exp() for score in scores.values())
        losses.append(total.log() - scores[number])
    return losses


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize(("mode", "symmetric"), [("mean", False), ("last", True), ("first", True)])
def test_gradients(family, mode, symmetric):
    model = readers.make(family, KINDS[family])
    options = {"pooling": mode, "symmetric": symmetric, "temperature": 0.3}
    objective = make_objective("contrastive", model, options)
    objective.double().eval()
    batch = objective.collate(prepared(objective, RECORDS))
    sums = objective(model, batch)
    assert batch.counts == {"contrast": 5.0}
    (sums["contrast"] / 5).backward()
    ours = material.gradients(objective, model)
    positives = FOUND[: len(RECORDS)]
    losses = entropy(model, mode, ASKED, positives, FOUND, 0.3)
    if symmetric:
        back = entropy(model, mode, positives, ASKED, ASKED, 0.3)
        losses = [(one + other) / 2 for one, other in zip(losses, back, strict=True)]
    torch.testing.assert_close(sums["contrast"], torch.stack(losses).sum(), rtol=1e-7, atol=1e-7)
    torch.stack(losses).mean().backward()
    theirs = material.gradients(objective, model)
    assert sum(bool(gradient.any()) for gradient in ours.values()) > 10
    nothing = torch.zeros(())
    for name in ours.keys() | theirs.keys():
        a, b = ours.get(name, nothing), theirs.get(name, nothing)
        assert float((a - b).abs().max()) <= 1e-6 * max(1.0, float(b.abs().max())), name


def test_a_text_with_itself_is_a_pair():
    """What dropout makes of it twice differs (Gao et al., 2021)."""
    model = readers.make("bert", "Model", hidden_dropout_prob=0.1)
    objective = make_objective("contrastive", model, {})
    batch = objective.collate(prepared(objective, [{"text": t, "positive": t} for t in TEXTS]))
    assert not batch.targets["same"].any()
    model.train()
    torch.manual_seed(0)
    asked, found = objective.vectors(model, batch)
    assert float((asked * found).sum(-1).max()) < 0.9999
    model.eval()
    assert float(objective(model, batch)["contrast"]) > 0


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_it_learns(family):
    model = readers.make(family, "Model")
    objective = make_objective("contrastive", model, {"pooling": "last"})
    pairs = [{"text": a, "positive": b} for a, b in zip(TEXTS[::2], TEXTS[1::2], strict=True)]
    before, after = readers.learns(objective, model, prepared(objective, pairs), "accuracy")
    assert before < after == 1.0


def test_the_model_carries_the_pooling():
    model = readers.make("bert", "Model")
    make_objective("contrastive", model, {"pooling": "first", "max_length": 20})
    assert model.pooling == Pooling(modes=("first",), normalize=True, length=20)


def test_ranks():
    rng = np.random.default_rng(0)
    asked, found = rng.normal(size=(2, 50, 4))
    found[7] = found[9]  # equal ones share a rank
    cosines = asked @ found.T
    by_hand = [1 + sum(c > row[i] + 1e-6 for c in row) for i, row in enumerate(cosines)]
    for block in (1, 7, 1024):
        assert ranks_of(asked, found, block).tolist() == by_hand
    objective = make_objective("contrastive", readers.make("bert", "Model"), {})
    scores = objective.score(list(zip(asked, found, strict=True)))
    assert scores["accuracy"] == np.mean([rank == 1 for rank in by_hand])
    assert scores["mrr"] == pytest.approx(np.mean([1 / rank for rank in by_hand]))


def test_what_does_not_fit_is_named():
    model = readers.make("bert", "Model")
    for options, said in (
        ({"pooling": "middle"}, "no pooling 'middle'"),
        ({"temperature": 0.0}, "temperature must be above 0"),
    ):
        with pytest.raises(GlassformerError, match=said):
            make_objective("contrastive", model, options)
    objective = make_objective("contrastive", model, {})
    with pytest.raises(GlassformerError, match="f:3 has no column 'positive'"):
        list(objective.prepare({"text": "a", "where": "f:3"}))
    with pytest.raises(GlassformerError, match="f:4: the text is 5, and not a text"):
        list(objective.prepare({"text": "a", "positive": "b", "negative": [5], "where": "f:4"}))
