"""Causal bases find planted directions, in order and orthogonal."""

from __future__ import annotations

import pytest
import small
import torch

import glassformer as gf
from glassformer import GlassformerError, inside
from glassformer.inside.attribute.causal_basis import CausalBasisSearch
from glassformer.inside.capture.corpus import batches, captured, pieces
from glassformer.inside.lens.stages import language_head

WORDS = small.WORDS.split()
TEXTS = [" ".join(WORDS[(3 * i + j) % len(WORDS)] for j in range(7)) for i in range(12)]


def planted() -> tuple[gf.Model, torch.Tensor]:
    """A decoder whose head hears three directions alone, each half as loud as the one before, and
    whose last norm does nothing but divide by a size that hardly changes."""
    model = small.decoder(n_layer=1)
    generator = torch.Generator().manual_seed(3)
    drawn = torch.randn(32, 3, generator=generator)
    mean = torch.ones(32, 1)  # which the norm takes away
    directions = torch.linalg.qr(torch.cat((mean, drawn), 1))[0].T[1:]
    with torch.no_grad():
        transformer = model
        transformer.decoder.final_norm.weight.fill_(1.0)
        transformer.decoder.final_norm.bias.zero_()
        said = torch.randn(model.tokenizer.size, 3, generator=generator)
        said = torch.linalg.qr(said)[0] * torch.tensor([4.0, 2.0, 1.0])
        transformer.heads["lm"].out.weight = torch.nn.Parameter(said @ directions)
    return model, directions


def test_planted_directions_are_found_in_their_order():
    """Of streams that differ alike in all directions, those count that the head hears."""
    model, directions = planted()
    drawn = torch.randn(600, 32, generator=torch.Generator().manual_seed(1))
    rows = torch.linalg.qr(drawn - drawn.mean(0))[0] * 600**0.5
    search = CausalBasisSearch(
        model, language_head(model), "decoder.blocks.0.resid_post", rows, None
    )
    found, energies = torch.zeros(0, 32), []
    for _ in range(3):
        vector, energy = search.next(found)
        found, energies = torch.cat((found, vector[None])), [*energies, energy]
    along = (found @ directions.T).abs()
    assert energies[0] > energies[1] > energies[2] > 0
    assert (along.diagonal() > 0.95).all()
    torch.testing.assert_close(found @ found.T, torch.eye(3), atol=1e-4, rtol=0)


def test_the_same_texts_give_the_same_basis():
    model = small.decoder()
    one, again = (inside.causal_basis(model, TEXTS, 1, 3) for _ in range(2))
    assert torch.equal(one.vectors.array, again.vectors.array)
    product = one.vectors.array @ one.vectors.array.T
    torch.testing.assert_close(product, torch.eye(3), atol=1e-4, rtol=0)
    assert one.energies.tolist() == sorted(one.energies.tolist(), reverse=True)


def test_energy_is_what_the_edit_does():
    """The same direction, held at its mean by hand: KL between what the lens says before and
    after."""
    model = small.decoder()
    basis = inside.causal_basis(model, TEXTS[:4], 1, 2)
    streams = torch.cat([model.look(text).residual[1].array for text in TEXTS[:4]])
    for vector, energy in zip(basis.vectors.array, basis.energies.tolist(), strict=True):
        part = (streams @ vector)[:, None]
        changed = streams + (part.mean(0) - part) * vector
        p, q = (model.readout(x[None])[0].log_softmax(-1) for x in (streams, changed))
        assert float((p.exp() * (p - q)).sum(-1).mean()) == pytest.approx(energy, rel=1e-3)


@pytest.mark.parametrize("kind", ["decoder", "encoder", "both"])
def test_no_other_direction_counts_as_much(kind):
    made = {"decoder": small.decoder, "encoder": small.encoder, "both": small.both}[kind]
    model, targets = made(), {"targets": ["fruit flies like"] * 12} if kind == "both" else {}
    basis = inside.causal_basis(model, TEXTS, 0, 2, **targets)
    name = f"{'encoder' if kind == 'encoder' else 'decoder'}.blocks.0.resid_post"
    given = pieces(model, TEXTS, targets.get("targets"))
    (batch,) = batches(given, 2048)
    rows = captured(model, batch, [name])[name]
    search = CausalBasisSearch(model, language_head(model), name, rows, None)
    tries = torch.randn(200, 32, generator=torch.Generator().manual_seed(0))
    tries = torch.nn.functional.normalize(tries, dim=1)
    assert basis.energies.tolist()[0] >= max(search.energy(one) for one in tries)
    assert len(basis.words) == 2 and "toward" in basis._repr_html_()


def test_through_a_tuned_lens():
    model = small.decoder()
    lens = inside.tune_lens(model, TEXTS, max_steps=20, tokens_per_batch=64)
    basis = inside.causal_basis(model, TEXTS[:4], 0, 1, tuned=lens)
    streams = torch.cat([model.look(text).residual[0].array for text in TEXTS[:4]])
    (vector,) = basis.vectors.array
    part = (streams @ vector)[:, None]
    changed = streams + (part.mean(0) - part) * vector
    name = "decoder.blocks.0.resid_post"
    p, q = (model.readout(lens.map(name, x)[None])[0].log_softmax(-1) for x in (streams, changed))
    energy = float((p.exp() * (p - q)).sum(-1).mean())
    assert energy == pytest.approx(float(basis.energies.array[0]), rel=1e-3)


def test_bad_input_is_one_clear_sentence():
    model = small.decoder()
    for wrong, said in (
        (lambda: inside.causal_basis(model, TEXTS, 7), "no stage"),
        (lambda: inside.causal_basis(model, TEXTS, 0, 33), "between 1 and 32"),
        (lambda: inside.causal_basis(model, [], 0, 1), "two tokens"),
    ):
        with pytest.raises(GlassformerError, match=said):
            wrong()
