"""The positions panel: a picture and a sentence for every kind of position encoding."""

from __future__ import annotations

import page_models
import pytest
from bare import addressed, number, settle, visit
from serving import serve

import glassformer as gf


def titles(page) -> list[str]:
    return page.locator("article h3").all_inner_texts()


def test_a_learned_table_and_what_may_be_seen(decoder, folders, page):
    visit(page, decoder, panel="positions", positions_length=16)
    assert titles(page) == ["Learned positions", "Mask: causal"]
    table = gf.load(folders["decoder"]).decoder.embed.position.weight
    matrix = page.get_by_role("application", name="table")
    matrix.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    told = page.locator(".matrix [aria-live=polite]").first.inner_text()
    assert number(told.rsplit(" ", 1)[1]) == pytest.approx(table[1, 1].item(), rel=1e-2, abs=1e-4)


def test_buckets_of_distances(encoder_decoder, folders, page):
    visit(page, encoder_decoder, panel="positions", positions_length=16)
    assert titles(page).count("Distance buckets") == 2
    bias = gf.load(folders["encoder_decoder"]).encoder.positions[0].weight
    matrix = page.get_by_role("application", name="added to the score").first
    matrix.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    told = page.locator(".matrix [aria-live=polite]").first.inner_text()
    assert number(told.rsplit(" ", 1)[1]) == pytest.approx(bias[0, 0].item(), rel=1e-2, abs=1e-3)


def test_what_both_stacks_have_is_shown_once(tmp_path, page):
    """Sinusoids are computed, so those of the decoder are the encoder's; what is seen is not."""
    tokenizer = page_models.encoder().tokenizer
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "vocab_size": tokenizer.size}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    gf.create("transformer-base", tokenizer=tokenizer, **sizes, **heads).save(tmp_path / "it")
    for served in serve(tmp_path / "it", text="time flies like an arrow"):
        visit(page, served, panel="positions", positions_length=16)
        assert page.locator("article header").all_inner_texts() == [
            "Sinusoids\nEncoder and Decoder · before the first layer",
            "Mask: full attention\nEncoder · layers 0–1",
            "Mask: causal\nDecoder · layer 0",
        ]


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
OTHERS = {
    "llama-7b": (SIZES | {"num_key_value_heads": 4, "intermediate_size": 64}, "Rotary positions"),
    "deberta-v3-small": (SIZES | {"intermediate_size": 64}, "Disentangled positions"),
    "longformer-base": (
        SIZES | {"intermediate_size": 64, "attention_window": [4, 4]},
        "Mask: window",
    ),
}


@pytest.mark.parametrize("preset", OTHERS)
def test_other_ways(preset, tmp_path, page):
    sizes, title = OTHERS[preset]
    tokenizer = page_models.encoder().tokenizer
    gf.create(preset, tokenizer=tokenizer, vocab_size=tokenizer.size, **sizes).save(tmp_path / "it")
    for served in serve(tmp_path / "it", text="time flies like an arrow"):
        visit(page, served, panel="positions", positions_length=16)
        assert title in titles(page)
        assert ("Terms of the score" in titles(page)) == (title == "Disentangled positions")


def test_more_positions_are_asked_for_and_kept_in_the_address(decoder, page):
    visit(page, decoder, panel="positions")
    page.get_by_role("radio", name="64", exact=True).click()
    settle(page)
    assert addressed(page, "positions.length=64")
    assert page.get_by_role("application", name="visible, 64 × 64").count() == 1


def test_labels_and_contrast(shown, page, axe):
    visit(page, shown, panel="positions")
    assert axe(page) == []
