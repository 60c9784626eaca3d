"""The edit panel: what it shows after an edit is what an independently edited run computes."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlparse

import pytest
import torch
from bare import Reference, settle, shares, visit

TEXT = "time flies like an arrow"


def changes(page) -> dict[str, tuple[float, float]]:
    rows = page.locator("ol[aria-label='Probabilities before and after'] li").all()
    return {
        row.locator(".name").inner_text(): tuple(shares(row.locator(".number").inner_text()))
        for row in rows
    }


def kept(page) -> list[dict]:
    return json.loads(parse_qs(urlparse(page.url).query).get("edit.list", ["[]"])[0])


def off(page, down: int, right: int) -> None:
    """Switches a head off, by keyboard alone."""
    page.get_by_role("application", name="Factors of heads").focus()
    for key in ["ArrowDown"] * down + ["ArrowRight"] * right + ["Enter"]:
        page.keyboard.press(key)
    settle(page)


def compare(page, before: torch.Tensor, after: torch.Tensor, model: Reference) -> None:
    """Both columns of the list are the softmax of these logits."""
    plain, edited = before.softmax(-1), after.softmax(-1)
    words = {model.word(token): token for token in range(len(plain) - 1, -1, -1)}
    found = changes(page)
    assert found
    for name, (first, second) in found.items():
        if name not in words or not name.replace("·", "").isascii():
            continue  # a part of a letter, which is no text
        assert first == pytest.approx(plain[words[name]].item(), abs=6e-3)
        assert second == pytest.approx(edited[words[name]].item(), abs=6e-3)


def test_a_head_that_is_switched_off(decoder, folders, page):
    visit(page, decoder, panel="edit", text=TEXT, token=4)
    off(page, 1, 2)
    assert kept(page) == [{"kind": "scale", "at": "decoder.blocks.1.z", "heads": [2], "factor": 0}]
    model = Reference(folders["decoder"], TEXT)
    compare(page, model.run()[4], model.without_head("decoder.blocks.1.z", 2)[4], model)


def test_a_switch_asks_for_what_it_changes_and_no_more(decoder, page):
    visit(page, decoder, panel="edit", text=TEXT, token=4)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlparse(request.url).path))
    off(page, 2, 1)
    assert asked == ["/api/edit", "/api/edit_lens"]
    page.keyboard.press("Control+z")
    settle(page)
    assert len(asked) == 2  # both are known
    page.get_by_role("application", name="Lens before and after").focus()
    page.keyboard.press("ArrowLeft")  # another token: another prediction, and the same lens
    settle(page)
    assert asked[2:] == ["/api/edit"]


def test_the_lens_follows_what_is_in_sight(decoder, folders, page):
    """Of a long text the columns in sight are asked for, and others when they come into sight."""
    text = " ".join([TEXT] * 6)
    model = Reference(folders["decoder"], text)
    last = len(model.run()) - 1
    asked: list[dict] = []

    def hear(request) -> None:
        if request.url.endswith("/api/edit_lens"):
            asked.append(json.loads(request.post_data))

    page.on("request", hear)
    visit(page, decoder, panel="edit", text=text, token=last, layer=2)
    assert [one["first"] + one["count"] for one in asked] == [last + 1]
    assert asked[0]["count"] < last
    page.get_by_role("application", name="Lens before and after").focus()
    for _ in range(last):
        page.keyboard.press("ArrowLeft")
    settle(page)
    assert asked[-1]["first"] == 0
    said = page.locator(".part:has([aria-label^='Lens before and after']) [aria-live]").inner_text()
    word = model.word(int(model.run()[0].argmax()))
    assert word and f": {word}" in said


def test_undo_and_redo(decoder, folders, page):
    visit(page, decoder, panel="edit", text=TEXT, token=4)
    model = Reference(folders["decoder"], TEXT)
    plain = model.run()[4]
    off(page, 0, 0)
    page.keyboard.press("Control+z")
    settle(page)
    assert kept(page) == []
    compare(page, plain, plain, model)
    page.get_by_role("button", name="Redo").click()
    settle(page)
    compare(page, plain, model.without_head("decoder.blocks.0.z", 0)[4], model)
    page.get_by_role("button", name="Remove: ").click()
    settle(page)
    assert kept(page) == []


def test_a_layer_off_and_the_link(decoder, folders, browser, page):
    """Attention and feed-forward of a layer off: the stream passes it as it came."""
    edits = [
        {"kind": "scale", "at": f"decoder.blocks.1.{part}", "factor": 0}
        for part in ("attn_out", "ffn_out")
    ]
    visit(page, decoder, panel="edit", text=TEXT, token=4, edit_list=json.dumps(edits))
    model = Reference(folders["decoder"], TEXT)
    out = model.run(
        lambda name, value: value * 0 if name in {edit["at"] for edit in edits} else value
    )
    compare(page, model.run()[4], out[4], model)


def test_a_patch_from_a_second_text(decoder, folders, page):
    other = "fruit flies like an arrow"
    visit(page, decoder, panel="edit", text=TEXT, token=0, layer=1)
    model = Reference(folders["decoder"], TEXT)
    source = Reference(folders["decoder"], other)
    page.get_by_label("Second text").fill(other)
    page.get_by_label("Second text").press("Enter")
    settle(page)
    page.get_by_role("button", name="Patch layer 1").click()
    settle(page)
    name = "decoder.blocks.1.resid_pre"
    taken = source.seen(name)

    def tap(at: str, value: torch.Tensor) -> torch.Tensor:
        if at == name:
            value = value.clone()
            value[:, 0] = taken[0]
        return value

    compare(page, model.run()[0], model.run(tap)[0], model)


def test_steering(decoder, folders, page):
    visit(page, decoder, panel="edit", text=TEXT, token=3, layer=1)
    page.get_by_label("Toward").fill("arrow")
    page.get_by_label("Away from").fill("banana")
    page.get_by_role("button", name="Steer after layer 1").click()
    settle(page)
    name = "decoder.blocks.1.resid_post"
    toward, away = (
        Reference(folders["decoder"], text).seen(name).mean(0) for text in ("arrow", "banana")
    )
    model = Reference(folders["decoder"], TEXT)
    out = model.run(lambda at, value: value + 2 * (toward - away) if at == name else value)
    compare(page, model.run()[3], out[3], model)


def test_what_is_written_changes_too(decoder, page):
    visit(page, decoder, panel="edit", text=TEXT, token=4)
    page.get_by_label("also generate 16 tokens").check()
    settle(page)
    before, after = page.locator(".written dd").all_inner_texts()
    assert before == after
    turned = [{"kind": "scale", "at": "decoder.blocks.2.resid_post", "factor": -1}]
    visit(page, decoder, panel="edit", text=TEXT, token=4, edit_list=json.dumps(turned))
    page.get_by_label("also generate 16 tokens").check()
    settle(page)
    plain, after = page.locator(".written dd").all_inner_texts()
    assert plain == before != after


def test_nothing_changed_moves_nothing(served, page):
    visit(page, served, panel="edit")
    assert page.get_by_text("No edits: this is the unchanged model.").count() == 1
    assert all(first == second for first, second in changes(page).values())


def test_labels_and_contrast(shown, page, axe):
    visit(page, shown, panel="edit")
    assert axe(page) == []
