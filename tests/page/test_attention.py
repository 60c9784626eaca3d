"""The attention panel shows the model's weights, by pointer, by keyboard and by link."""

from __future__ import annotations

import pytest
from bare import Reference, addressed, number, settle, shares, visit

TEXT = "time flies like an arrow"


def bars(page) -> list[tuple[str, float]]:
    """Names and shares of the list beside the picture."""
    rows = page.locator("aside ol li").all()
    return [(row.locator(".name").inner_text(), shares(row.inner_text())[0]) for row in rows]


def test_what_a_token_looks_at_is_the_pattern(decoder, folders, page):
    visit(page, decoder, panel="attention", text=TEXT, token=3, layer=1, head=2)
    model = Reference(folders["decoder"], TEXT)
    pattern = model.seen("decoder.blocks.1.pattern")[2, 3]
    words = model.words()
    found = bars(page)
    best = pattern.argsort(descending=True)[: len(found)].tolist()
    assert [name for name, _ in found][:4] == [f"{words[key]} {key}" for key in best][:4]
    assert [share for _, share in found] == pytest.approx(
        [pattern[key].item() for key in best], abs=6e-3
    )


def test_another_head_and_token_by_keyboard_alone(decoder, folders, page):
    visit(page, decoder, panel="attention", text=TEXT, token=1, layer=0, head=0)
    page.get_by_role("radiogroup", name="Head").get_by_role("radio", checked=True).focus()
    page.keyboard.press("ArrowRight")
    sheet = page.get_by_role("application")
    sheet.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    settle(page)
    assert addressed(page, "head=1", "token=3")
    pattern = Reference(folders["decoder"], TEXT).seen("decoder.blocks.0.pattern")[1, 3]
    assert bars(page)[0][1] == pytest.approx(pattern.max().item(), abs=6e-3)
    said = page.locator("[aria-live=polite]").first.inner_text()
    assert shares(said)[0] == pytest.approx(pattern.max().item(), abs=6e-3)


def test_a_cell_of_the_matrix(decoder, folders, page):
    visit(
        page,
        decoder,
        panel="attention",
        text=TEXT,
        token=0,
        layer=2,
        head=3,
        attention_view="matrix",
    )
    page.get_by_role("application").focus()
    for key in ["ArrowDown"] * 4 + ["ArrowRight"] * 2:
        page.keyboard.press(key)
    shown = page.locator("output strong").inner_text()
    pattern = Reference(folders["decoder"], TEXT).seen("decoder.blocks.2.pattern")
    assert number(shown) == pytest.approx(pattern[3, 4, 2].item(), abs=1e-3)
    page.keyboard.press("Enter")
    settle(page)
    assert addressed(page, "token=4")


def test_the_model_view_selects_and_opens(decoder, page):
    visit(page, decoder, panel="attention", text=TEXT, attention_view="model")
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert addressed(page, "layer=1", "head=1")
    page.keyboard.press("Enter")
    settle(page)
    assert addressed(page, "attention.view=head")
    assert (
        page.get_by_role("radio", name="Head", exact=True).get_attribute("aria-checked") == "true"
    )


def test_heads_at_work(decoder, folders, page):
    """The mean weight on the token before, of all heads, as a matrix that is told cell by cell."""
    visit(
        page,
        decoder,
        panel="attention",
        text=TEXT,
        attention_view="model",
        attention_measure="previous",
    )
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    told = page.locator(".matrix [aria-live=polite]").inner_text()
    pattern = Reference(folders["decoder"], TEXT).seen("decoder.blocks.0.pattern")[1]
    mean = pattern.diagonal(-1).mean().item()
    assert number(told.rsplit(" ", 1)[1]) == pytest.approx(mean, abs=2e-3)


def test_query_times_key(decoder, folders, page):
    visit(
        page,
        decoder,
        panel="attention",
        text=TEXT,
        token=3,
        layer=1,
        head=1,
        attention_view="neuron",
    )
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowDown")
    told = page.locator("[aria-live=polite]").first.inner_text()
    model = Reference(folders["decoder"], TEXT)
    q, k = (model.seen(f"decoder.blocks.1.{name}")[1] for name in "qk")
    weight = model.seen("decoder.blocks.1.pattern")[1, 3, 1].item()
    dot = number(told.split("q · k ")[1].split(",")[0] if "," in told else "nan")
    assert dot == pytest.approx((q[3] @ k[1]).item(), rel=1e-2, abs=6e-4)
    assert shares(told)[0] == pytest.approx(weight, abs=6e-3)


def test_several_heads_at_once_and_the_link(decoder, browser, page):
    visit(page, decoder, panel="attention", text=TEXT, token=2)
    page.get_by_role("button", name="Show head 2").click()
    page.get_by_role("button", name="Show head 3").click()
    settle(page)
    link = page.url
    assert "attention.heads=0.2.3" in link
    other = browser.new_page()
    other.goto(link)
    pressed = other.locator("[aria-pressed=true][aria-label^='Show head']")
    pressed.first.wait_for()
    assert pressed.all_inner_texts() == ["0", "2", "3"]
    other.close()


def test_a_pair_of_sentences_is_filtered(encoder, page):
    visit(
        page,
        encoder,
        panel="attention",
        text=TEXT,
        pair="fruit flies like a banana",
        attention_view="matrix",
    )
    page.get_by_role("radio", name="A → B").click()
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowDown")
    told = page.locator("output").inner_text()
    read = encoder.ask(
        "read",
        model=encoder.ask("models")["models"][0]["id"],
        text=TEXT,
        pair="fruit flies like a banana",
    )
    tokens = read["encoder"]
    second = next(at for at, token in enumerate(tokens) if token["sentence"] == 1)
    assert told.startswith(f"{tokens[1]['text'].strip()} → {tokens[second]['text'].strip()}")


def test_thumbnails_are_of_the_sentences_that_are_asked_for(encoder, page):
    """As in BertViz's model view."""
    where = {"panel": "attention", "text": TEXT, "pair": "fruit flies", "attention_view": "model"}
    visit(page, encoder, **where)
    with page.expect_request("**/api/attention") as asked:
        page.get_by_role("radio", name="B → A").click()
    given = asked.value.post_data_json
    metadata = {key: given[key] for key in ("model", "text", "pair")}
    tokens = encoder.ask("read", **metadata)["encoder"]
    second = next(at for at, token in enumerate(tokens) if token["sentence"] == 1)
    assert (given["queries"], given["keys"]) == ([second, len(tokens)], [0, second])


def test_cross_attention(encoder_decoder, page):
    visit(
        page,
        encoder_decoder,
        panel="attention",
        text="i am a student",
        target="je suis étudiant",
        stack="cross",
        token=1,
        layer=1,
        head=2,
    )
    model = encoder_decoder.ask("models")["models"][0]["id"]
    _, arrays = encoder_decoder.ask(
        "attention",
        model=model,
        text="i am a student",
        target="je suis étudiant",
        attention_type="cross",
        view="head",
        layer=1,
        head=2,
    )
    assert bars(page)[0][1] == pytest.approx(arrays["pattern"][1].max(), abs=6e-3)


@pytest.mark.parametrize("view", ["head", "model", "neuron", "matrix"])
def test_labels_and_contrast(shown, page, axe, view):
    visit(page, shown, panel="attention", attention_view=view)
    assert axe(page) == []
