from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch

from glassformer import GlassformerError, spec
from glassformer.core import ActivationCapture


def embedded(embed: dict, **given) -> tuple:
    model = tiny.encoder(1)
    model = replace(model, encoder=tiny.stack(1, embed=embed))
    transformer = tiny.transformer(model)
    seen = ActivationCapture("*.embed")
    with torch.no_grad():
        transformer(tiny.tokens(2, 5), tap=seen, **given)
    return transformer.encoder.embed, seen["encoder.embed"]


def test_the_sum_of_all_tables_scaled_and_normed():
    segments, languages = tiny.tokens(2, 5, seed=1) % 2, tiny.tokens(2, 5, seed=2) % 3
    embed, x = embedded(
        {
            "position": spec.PositionTableSpec(length=8),
            "segments": 2,
            "languages": 3,
            "scale": 4.0,
            "norm": spec.NormSpec(),
        },
        token_type_ids=segments,
        language_ids=languages,
    )
    expected = (
        embed.token.weight[tiny.tokens(2, 5)] * 4.0
        + embed.position.weight[:5]
        + embed.segment.weight[segments]
        + embed.language.weight[languages]
    )
    assert torch.allclose(x, embed.norm(expected), atol=1e-6)


def test_factorized_tables_are_projected_to_the_models_width():
    embed, x = embedded({"embedding_size": 6, "position": spec.PositionTableSpec(length=8)})
    assert embed.token.weight.shape == (50, 6)
    inner = embed.token.weight[tiny.tokens(2, 5)] + embed.position.weight[:5]
    assert torch.allclose(x, inner @ embed.project.weight.T + embed.project.bias, atol=1e-6)


def test_a_narrow_token_is_projected_before_the_position_is_added():
    embed, x = embedded(
        {"embedding_size": 6, "project": "token", "position": spec.PositionTableSpec(length=8)}
    )
    assert embed.position.weight.shape == (8, 32) and embed.project.bias is None
    wide = embed.token.weight[tiny.tokens(2, 5)] @ embed.project.weight.T
    assert torch.allclose(x, wide + embed.position.weight[:5], atol=1e-6)


def test_segments_that_are_tokens_are_scaled_as_tokens():
    segments = tiny.tokens(2, 5, seed=1) % 2
    embed, x = embedded({"segments_are_tokens": True, "scale": 4.0}, token_type_ids=segments)
    both = embed.token.weight[tiny.tokens(2, 5)] + embed.token.weight[segments]
    assert torch.allclose(x, both * 4.0, atol=1e-6)


def test_segments_of_a_model_without_them_are_refused():
    with pytest.raises(GlassformerError, match="no segment embeddings"):
        embedded({}, token_type_ids=tiny.tokens(2, 5) % 2)
    with pytest.raises(GlassformerError, match="no language embeddings"):
        embedded({}, language_ids=tiny.tokens(2, 5) % 2)


def test_a_text_longer_than_the_positions_is_refused_by_number():
    with pytest.raises(GlassformerError, match="5 tokens and the model's positions end at 4"):
        embedded({"position": spec.PositionTableSpec(length=4)})


def test_whole_words_are_dropped_in_training_alone():
    model = replace(tiny.encoder(1), encoder=tiny.stack(1, embed={"word_dropout": 0.4}))
    transformer, tokens = tiny.transformer(model), torch.arange(50).repeat(2, 3)
    torch.manual_seed(0)
    shares = []
    for _ in range(40):
        seen = ActivationCapture("*.embed")
        with torch.no_grad():
            transformer.train()(tokens, tap=seen)
        x, table = seen["encoder.embed"], transformer.encoder.embed.token.weight[tokens]
        gone = (x == 0).all(-1)
        assert torch.equal(gone, gone[:1, :50].repeat(2, 3))  # wherever a word stands
        assert torch.allclose(x[~gone], table[~gone] / 0.6, atol=1e-6)
        shares.append(float(gone.float().mean()))
    assert abs(sum(shares) / 40 - 0.4) < 0.05
    seen = ActivationCapture("*.embed")
    with torch.no_grad():
        transformer.eval()(tokens, tap=seen)
    assert torch.equal(seen["encoder.embed"], table)


def test_a_table_of_its_own_before_every_layer():
    table = spec.PositionTableSpec(length=20, every_layer=True)
    model = tiny.transformer(
        replace(tiny.decoder(3), decoder=tiny.stack(3, embed={"position": table}))
    )
    tables = [model.decoder.embed.position, *model.decoder.tables]
    assert len(tables) == 3 and len({t.weight.data_ptr() for t in tables}) == 3
    seen = ActivationCapture("*.resid_pre", "*.resid_post")
    with torch.no_grad():
        model(tiny.tokens(1, 5), tap=seen, position_ids=torch.tensor([[3, 4, 5, 6, 7]]))
    for depth in (1, 2):
        before = seen[f"decoder.blocks.{depth - 1}.resid_post"]
        read = seen[f"decoder.blocks.{depth}.resid_pre"]
        assert torch.equal(read, before + tables[depth].weight[3:8])
