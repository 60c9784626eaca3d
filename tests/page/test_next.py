"""The next-token panel: probabilities, options, beams and steps are those of the model."""

from __future__ import annotations

import math
import re

import pytest
import torch
from bare import Reference, addressed, number, settle, shares, visible, visit

TEXT = "time flies like an arrow"


def rows(page) -> list[tuple[str, str, float]]:
    """Token, share as written, and logit of the ten candidates."""
    found = page.locator("ol[aria-label='The most probable tokens'] li").all()
    return [
        (
            row.locator(".token").inner_text(),
            row.locator(".share").inner_text(),
            number(row.locator(".logit").inner_text()),
        )
        for row in found
    ]


def turn(page, option: str, value: float) -> None:
    slider = page.get_by_role("slider", name=option)
    slider.fill(str(value))
    settle(page)


def test_the_ten_most_probable(decoder, folders, page):
    visit(page, decoder, panel="next", text=TEXT, token=2)
    model = Reference(folders["decoder"], TEXT)
    logits = model.run()[2]
    best = logits.topk(10)
    found = rows(page)
    assert len(found) == 10
    assert model.same([name for name, _, _ in found], best.indices.tolist())
    assert [logit for _, _, logit in found] == pytest.approx(
        best.values.tolist(), abs=6e-3, rel=6e-3
    )
    expected = logits.softmax(-1)[best.indices].tolist()
    assert [shares(share)[0] for _, share, _ in found] == pytest.approx(expected, abs=6e-3)


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_selected_position_comes_into_sight(decoder, page, motion):
    page.emulate_media(reduced_motion=motion)
    visit(page, decoder, panel="next", text=" ".join([TEXT] * 6))
    left, width, whole = page.get_by_role("application").evaluate(
        "table => [table.scrollLeft, table.clientWidth, table.scrollWidth]"
    )
    assert whole > width and left == pytest.approx(whole - width, abs=1)  # it is the last one


def test_sampling_options_change_the_distribution(decoder, folders, page):
    visit(page, decoder, panel="next", text=TEXT, token=4)
    logits = Reference(folders["decoder"], TEXT).run()[4]
    turn(page, "Temperature", 0.5)
    cold = (logits / 0.5).softmax(-1).topk(10).values.tolist()
    assert [shares(share)[0] for _, share, _ in rows(page)] == pytest.approx(cold, abs=6e-3)
    turn(page, "Top-k", 3)
    kept = (logits / 0.5).topk(3).values.softmax(-1).tolist()
    found = [share for _, share, _ in rows(page)]
    assert [shares(share)[0] for share in found[:3]] == pytest.approx(kept, abs=6e-3)
    assert found[3:] == ["excluded"] * 7
    assert page.get_by_text("3 tokens remain after filtering").count() == 1
    page.get_by_role("button", name="Reset").click()
    settle(page)
    plain = logits.softmax(-1).topk(10).values.tolist()
    assert [shares(share)[0] for _, share, _ in rows(page)] == pytest.approx(plain, abs=6e-3)


def test_top_p_keeps_the_fewest_that_reach_it(decoder, folders, page):
    visit(page, decoder, panel="next", text=TEXT, token=1)
    turn(page, "Temperature", 0.2)
    turn(page, "Top-p", 0.5)
    ordered = (
        (Reference(folders["decoder"], TEXT).run()[1] / 0.2)
        .softmax(-1)
        .sort(descending=True)
        .values
    )
    kept = int((ordered.cumsum(0) < 0.5).sum()) + 1
    text = page.get_by_text("after filtering").inner_text()
    assert text.startswith("One token" if kept == 1 else f"{kept} tokens")


def test_a_click_goes_on_with_a_token(decoder, folders, page):
    visit(page, decoder, panel="next", text=TEXT, token=5)
    before = Reference(folders["decoder"], TEXT)
    visit(page, decoder, panel="next", text=TEXT, token=len(before.ids) - 1)
    second = before.run()[-1].topk(2).indices[1].item()
    page.locator("ol[aria-label='The most probable tokens'] button").nth(1).click()
    settle(page)
    expected = before.model.tokenizer.decode([*before.ids, second])
    assert page.get_by_label("Text", exact=True).input_value() == expected
    page.go_back()
    settle(page)
    assert page.get_by_label("Text", exact=True).input_value() == TEXT


def test_going_on_in_the_middle_forgets_what_came_then(decoder, folders, page):
    visit(page, decoder, panel="next", text=TEXT, token=1)
    before = Reference(folders["decoder"], TEXT)
    best = before.run()[1].argmax().item()
    page.locator("ol[aria-label='The most probable tokens'] button").first.click()
    settle(page)
    expected = before.model.tokenizer.decode([*before.ids[:2], best])
    assert page.get_by_label("Text", exact=True).input_value() == expected


def test_every_position_by_keyboard(decoder, folders, page):
    visit(page, decoder, panel="next", text=TEXT, token=0)
    page.get_by_role("application").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    settle(page)
    model = Reference(folders["decoder"], TEXT)
    probabilities, tokens = model.run()[2].softmax(-1).topk(2)
    said = page.locator(".unseen[aria-live=polite]").first.inner_text()
    assert said.rsplit(" ", 1)[0] == model.word(tokens[1].item())
    assert shares(said)[0] == pytest.approx(probabilities[1].item(), abs=6e-3)
    assert addressed(page, "token=2")


def test_the_beam_tree_ends_in_what_beam_search_writes(decoder, folders, page):
    visit(page, decoder, panel="next", text=TEXT, next_view="beams", next_beams=3, next_length=3)
    tree = page.get_by_role("tree")
    tree.wait_for()
    states = page.locator("g.node")
    kept = states.evaluate_all("nodes => nodes.map(node => node.classList.contains('pruned'))")
    assert any(kept) and not all(kept)
    results = page.locator("ol li .written").all_inner_texts()
    model = Reference(folders["decoder"], TEXT).model
    written = model.generate(TEXT, num_beams=3, max_new_tokens=3)
    assert results[0].replace("↵ ", "\n") == written.text
    page.get_by_label("show pruned sequences").uncheck()
    assert page.locator("g.node.pruned:not(.best)").count() == 0


def test_the_beam_tree_by_keyboard(decoder, page):
    visit(page, decoder, panel="next", text=TEXT, next_view="beams", next_length=3)
    page.locator("g.node[tabindex='0']").focus()
    first = page.evaluate("document.activeElement.dataset.node")
    page.keyboard.press("ArrowRight")
    child = page.evaluate("document.activeElement.dataset.node")
    assert child != first
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.node") == first


def test_step_by_step_the_cache_grows_by_one(decoder, folders, page):
    visit(page, decoder, panel="next", text=TEXT, next_view="steps")
    reference = Reference(folders["decoder"], TEXT)
    ids = list(reference.ids)
    for step in range(3):
        with torch.no_grad():
            best = reference.model(torch.tensor([ids])).logits[0, -1].argmax().item()
        told = page.locator("aside h3").nth(1).inner_text()
        assert told == f"Chosen: “{reference.word(best)}”"
        reused = 0 if step == 0 else len(ids) - 1
        fresh = len(ids) - reused
        assert (
            page.get_by_text(
                f"{reused} token{'' if reused == 1 else 's'} reused from the cache"
            ).count()
            == 1
        )
        assert (
            page.get_by_text(f"{fresh} token{'' if fresh == 1 else 's'} computed now").count() == 1
        )
        ids.append(best)
        page.get_by_role("button", name="One step forward").click()
        settle(page)


def test_a_mask_is_filled(encoder, folders, page):
    text = "time flies like an [MASK]"
    reference = Reference(folders["encoder"], text)
    mask = reference.ids.index(reference.model.tokenizer.special["mask"])
    visit(page, encoder, panel="next", text=text, token=mask)
    logits = reference.run()[mask]
    best = logits.topk(10)
    found = rows(page)
    assert [logit for _, _, logit in found] == pytest.approx(
        best.values.tolist(), abs=6e-3, rel=6e-3
    )
    table = page.get_by_role("application", name=re.compile("Enter fills a mask$"))
    table.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")  # not at a mask: nothing is filled
    settle(page)
    assert page.get_by_label("Text", exact=True).input_value() == text
    page.keyboard.press("ArrowRight")
    settle(page)
    page.locator("ol[aria-label='The most probable tokens'] button").first.click()
    settle(page)
    after = page.get_by_label("Text", exact=True).input_value()
    assert "[MASK]" not in after and after.startswith("time flies like an")


def test_what_really_comes_has_its_rank(decoder, folders, page):
    visit(page, decoder, panel="next", text=TEXT, token=0)
    reference = Reference(folders["decoder"], TEXT)
    logits, actual = reference.run()[0], reference.ids[1]
    rank = int((logits > logits[actual]).sum()) + 1
    share = logits.log_softmax(-1)[actual].exp().item()
    told = page.get_by_text("The text has").inner_text()
    assert f"“{visible(reference.model.tokenizer.decode([actual]))}”: rank {rank}," in told
    assert shares(told.replace(".", " ", 0).rstrip("."))[-1] == pytest.approx(share, abs=6e-3)
    assert math.isfinite(share)


@pytest.mark.parametrize("view", ["choice", "beams", "steps"])
def test_labels_and_contrast(shown, page, axe, view):
    visit(page, shown, panel="next", next_view=view)
    assert axe(page) == []
