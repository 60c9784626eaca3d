"""The displayed values and sentences agree with separate forward passes and generations."""

from __future__ import annotations

import math
import re
from typing import Any

import page_models
import pytest
import torch
from bare import Reference, addressed, number, settle, visible, visit
from playwright.sync_api import expect
from serving import serve

import glassformer as gf

TEXT = "time flies like an arrow"


def bars(page: Any, label: str) -> list[tuple[str, float]]:
    found = page.get_by_role("list", name=label).locator("li").all()
    texts = [[one.locator(f".{part}").inner_text() for part in ("name", "number")] for one in found]
    return [(name, number(value)) for name, value in texts]


def test_what_mattered_is_measured_by_swaps(decoder, folders, page):
    """Each bar is the mean fall over single passes, and names the position of its token."""
    visit(page, decoder, panel="lens", lens_view="mattered", text=TEXT, token=6)
    model = Reference(folders["decoder"], TEXT)
    logits = model.run()
    best = int(logits[6].argmax())
    special = list(model.model.tokenizer.special_ids)
    falls = {}
    for at in range(1, 7):
        scores = logits[at - 1].clone()
        scores[[model.ids[at], *special]] = -math.inf
        after = []
        for id in scores.topk(3).indices.tolist():
            row = torch.tensor([[*model.ids[:at], id, *model.ids[at + 1 :]]])
            with torch.no_grad():
                after.append(float(model.model(row).logits[0, 6, best]))
        falls[f"{model.word(model.ids[at])} {at}"] = float(logits[6, best]) - sum(after) / 3
    found = dict(bars(page, "Largest effects"))
    assert found == pytest.approx(falls, abs=6e-3, rel=1e-2)
    estimates = page.locator("[data-estimate]")
    assert estimates.count() == 3
    effects = gf.inside.look(model.model, TEXT).swap(position=6, count=3)
    estimate = gf.inside.look(model.model, TEXT).gradient_x_input(position=6)
    agrees = estimates.first.locator(".agreement").inner_text()
    assert number(agrees.split()[-1]) == pytest.approx(effects.agreement(estimate), abs=1e-2)


def test_what_mattered_for_an_encoder_decoder(encoder_decoder, page):
    visit(page, encoder_decoder, panel="lens", lens_view="mattered", text=TEXT, target="a fruit")
    chosen = page.get_by_role("radio", name="leaving tokens out")
    assert chosen.get_attribute("aria-checked") == "true"
    assert page.locator("[data-estimate]").count() == 3
    assert page.get_by_role("alert").count() == 0


def test_a_translation_is_written_from_its_start(encoder_decoder, folders, page):
    visit(
        page,
        encoder_decoder,
        panel="next",
        next_view="beams",
        next_length=3,
        text=TEXT,
        target="fruit",
    )
    model = gf.load(folders["encoder_decoder"])
    start = visible(model.tokenizer.decode([model.spec.tokens.start], special=True))
    assert page.locator("svg .root").text_content() == start
    results = page.locator("ol li .written").all_inner_texts()
    written = model.generate(TEXT, num_beams=3, max_new_tokens=3)
    assert results[0].replace("↵ ", "\n") == written.text
    where = {"panel": "next", "next_view": "steps", "text": TEXT, "target": "fruit", "token": 1}
    visit(page, encoder_decoder, **where)
    expect(page.get_by_text("The first step computes the only token")).to_be_visible()
    page.get_by_role("radio", name="“").click()  # from the selected token
    expect(page.get_by_text("The first step computes all 2 tokens")).to_be_visible()


def test_the_beam_tree_tells_sums_and_limits(decoder, page):
    visit(page, decoder, panel="next", next_view="beams", next_length=3, text=TEXT)
    model = decoder.ask("models")["models"][0]["id"]
    answer = decoder.ask("beams", model=model, text=TEXT, beams=3, length=3)
    for index, node in enumerate(answer["nodes"]):
        drawn = page.locator(f"g[data-node='{index}']")
        assert number(drawn.locator(".sum").text_content()) == pytest.approx(
            node["score"], abs=6e-3
        )
        assert node["state"] in drawn.get_attribute("class").split()
        limit = "reached the length limit" in drawn.locator("desc").text_content()
        assert limit == (node["state"] == "length")
    assert {one["state"] for one in answer["nodes"] if one["step"] == 2} >= {"length"}
    assert page.get_by_text("reached the length limit").count() > 1
    page.locator("g[data-node='0']").click()
    taken = page.locator(".picked .written").inner_text()
    assert taken.replace("↵ ", "\n") == answer["nodes"][0]["text"]
    lefts = page.locator("ol li .written").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().left)"
    )
    assert len(lefts) == 3 and max(lefts) - min(lefts) < 1
    page.get_by_role("radio", name="4").click()  # what was picked was of another tree
    settle(page)
    assert page.locator(".picked").count() == 0
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_text(re.compile("· 达到长度上限")).first).to_be_visible()
    assert not page.get_by_text(re.compile(r"· (length|eos)$")).count()


def test_a_stack_without_a_final_norm_says_so(encoder, page):
    visit(page, encoder, panel="walk", text=TEXT)
    captions = page.locator(".stack .end span").all_inner_texts()
    assert captions[1] == "Last vectors"


# Of each picture of a part, what a reader takes for the names of its rows: the nearest text on the
# left at the same height, with no picture of other rows between.
ROW_NAMES = """part => {
    const opaque = { opacityProperty: true, visibilityProperty: true };
    const names = [...part.querySelectorAll("span")]
        .filter((one) => !one.closest(".column") && one.checkVisibility(opaque))
        .map((one) => ({ text: one.innerText, at: one.getBoundingClientRect() }));
    const pictures = [...part.querySelectorAll(".column > button")].map((one) => ({
        name: one.ariaLabel,
        at: one.getBoundingClientRect(),
        rows: Number.parseInt(one.parentElement.querySelector(".number").innerText),
    }));
    return pictures.map(({ name, at, rows }) => {
        const others = pictures.filter((one) => one.rows !== rows && one.at.right <= at.left);
        const from = Math.max(0, ...others.map((one) => one.at.right));
        const named = Array.from({ length: rows }, (_, row) => {
            const y = at.top + ((row + 0.5) * at.height) / rows;
            const beside = names.filter((one) => from <= one.at.left && one.at.right <= at.left
                && one.at.top < y && y < one.at.bottom);
            return beside.sort((a, b) => b.at.right - a.at.right)[0]?.text;
        });
        return [name, named];
    });
}"""


def test_rows_of_cross_attention_have_names(encoder_decoder, folders, page):
    where = {"panel": "walk", "walk_at": "block", "stack": "cross"}
    visit(page, encoder_decoder, **where, text=TEXT, target="a fruit")
    tokenizer = gf.load(folders["encoder_decoder"]).tokenizer
    pieces = [tokenizer.token(token) for token in tokenizer.encode(TEXT).ids]
    tokens = [visible(piece.replace("▁", " ")) for piece in pieces]
    named = page.get_by_role("region", name="Cross-attention").evaluate(ROW_NAMES)
    for picture in ("Encoder output", "Keys", "Values"):
        assert dict(named)[picture] == tokens, picture
    start = visible(tokenizer.decode([tokenizer.special["pad"]], special=True))
    assert named[0] == ["Residual sum", [start, "·a", "·fruit"]]


def test_rows_of_dense_matrices_have_names(decoder, page):
    visit(page, decoder, panel="walk", walk_at="dot", text=" ".join([TEXT] * 5), token=9)
    model = decoder.ask("models")["models"][0]["id"]
    tokens = decoder.ask("read", model=model, text=" ".join([TEXT] * 5))["decoder"]
    names = [visible(one["text"]) for one in tokens]
    matrix = page.locator("figure.result")
    assert matrix.locator(".name.row").all_inner_texts() == [names[9]]
    matrix.get_by_role("application").focus()
    page.keyboard.press("ArrowDown")
    said = page.locator("figure.result [aria-live]").inner_text()
    assert said.startswith(f"{names[10]} → ")


def test_a_decoder_s_block_has_a_part_more(encoder_decoder, decoder, page):
    where = {"panel": "walk", "walk_at": "block", "stack": "decoder", "text": TEXT}
    for served, parts in ((encoder_decoder, "three parts"), (decoder, "two parts")):
        visit(page, served, **where)
        expect(page.locator(".words p").first).to_contain_text(parts)


def test_a_cell_has_a_bias_only_where_the_model_has_one(folders, tmp_path, page):
    page_models.gated().save(tmp_path / "bare")
    biased = gf.load(folders["decoder"])
    for block in biased.decoder.blocks:
        torch.nn.init.constant_(block.attention.qkv.bias, 0.5)
    biased.save(tmp_path / "biased")
    for served in serve(tmp_path / "bare", tmp_path / "biased", text=TEXT):
        steps = [("biased", "q"), ("biased", "dot"), ("bare", "q"), ("bare", "dot")]
        for model, at in [*steps, ("bare", "ffn_up")]:
            visit(page, served, model=model, panel="walk", walk_at=at, walk_column=1, token=3)
            page.locator(".cell .value").wait_for()
            parts = page.locator(".cell dt").all_inner_texts()
            assert ("bias" in parts) == ((model, at) == ("biased", "q")), (model, at, parts)
        for model, told in (("bare", "root mean square"), ("biased", "standard deviation")):
            visit(page, served, model=model, panel="walk", walk_at="norm", walk_column=1)
            page.locator(".cell .value").wait_for()
            assert page.locator(".cell dt", has_text=told).count() == 1
            rms = page.get_by_text("divided by the root of").count()
            assert rms == (2 if model == "bare" else 0)  # of the step, and of the number


def test_a_sweep_tells_its_progress_and_aligns_texts(decoder, page):
    page.route("**/api/sweep", lambda route: held.append(route))
    held: list[Any] = []
    visit(page, decoder, panel="edit", text=TEXT)
    page.get_by_label("Second text").fill("fruit flies like a large banana tree")
    page.keyboard.press("Enter")
    page.get_by_text("Patching one activation after the other").wait_for()
    page.get_by_role("progressbar").wait_for()
    assert held[0].request.headers["accept"] == "text/event-stream"
    held[0].continue_()
    page.unroute("**/api/sweep")
    page.get_by_text("The texts have different lengths").wait_for()
    assert page.get_by_role("alert").count() == 0


def test_bytes_of_one_character_stand_together(decoder, page):
    """Each can still be selected, and a text that goes on after them keeps the character."""
    text = "a 😀 student é"
    visit(page, decoder, panel="walk", walk_at="tokens", text=text, token=0)
    model = decoder.ask("models")["models"][0]["id"]
    tokens = decoder.ask("read", model=model, text=text)["decoder"]
    parts = [one["character"] for one in tokens]
    several = [one for one in parts if one]
    assert {one["text"] for one in several} >= {"é"}
    assert any("😀" in one["text"] for one in several)
    for row in (page.locator("form [role=listbox]"), page.locator("#panel [role=listbox]")):
        groups = row.get_by_role("group")
        assert groups.count() == sum(one["part"] == 0 for one in several)
        for group in groups.all():
            name = group.get_attribute("aria-label")
            one = next(one for one in several if visible(one["text"]) == name)
            assert group.get_by_role("option").count() == one["parts"]
        assert row.get_by_role("option").count() == len(tokens)
    emoji = next(at for at, one in enumerate(parts) if one and "😀" in one["text"])
    page.locator("form [role=option]").nth(emoji + 1).click()
    assert addressed(page, f"token={emoji + 1}")
    last = emoji + parts[emoji]["parts"] - 1
    visit(page, decoder, panel="next", text=text, token=last)
    page.locator("ol[aria-label='The most probable tokens'] button").first.click()
    settle(page)
    assert page.get_by_label("Text", exact=True).input_value().startswith("a 😀")


def test_a_cell_stays_open_for_a_shorter_text(decoder, page):
    visit(page, decoder, panel="walk", walk_at="dot", walk_column=6, text=TEXT)
    page.locator(".cell .value").wait_for()
    page.get_by_label("Text", exact=True).fill("time")
    page.keyboard.press("Enter")
    settle(page)
    assert page.locator(".cell .value").count() == 1  # and no refusal on the console


def test_an_empty_text_is_the_start_token_or_a_word(decoder, encoder, page):
    visit(page, decoder, panel="next", text="")
    assert page.get_by_text("starts from its start token alone").count() == 1
    assert page.locator("ol[aria-label='The most probable tokens'] li").count() == 10
    page.goto(f"{encoder.address}?panel=attention&text=")
    expect(page.locator("#panel")).to_contain_text("There is no text. Type one above")
    visit(page, decoder, panel="lens", lens_view="mattered", text="")
    assert page.get_by_text("No token of this text can be changed").count() == 1


def test_one_model_on_two_texts(decoder, folders, page):
    other = "fruit flies like a banana"
    visit(page, decoder, panel="compare", text=TEXT, compare_text=other)
    for label, text in (("This text", TEXT), ("Another text", other)):
        side = page.get_by_role("region", name=label, exact=True)
        model = Reference(folders["decoder"], text)
        best = model.run()[-1].argmax().item()
        assert model.same([side.locator("ol .name").first.inner_text()], [best])
    assert page.get_by_role("alert").count() == 0
    visit(page, decoder, panel="compare", text=" ".join([TEXT] * 4), compare_text="flies")
    first, second = page.locator("#panel [role=listbox]").all()
    assert first.bounding_box()["y"] == second.bounding_box()["y"]  # of different heights
    first.get_by_role("option").nth(2).click()
    assert addressed(page, "token=2")
    page.locator("form [role=option]").nth(1).click()
    second_token = first.get_by_role("option").nth(1)
    expect(second_token).to_have_attribute("aria-selected", "true")


PANELS = ["walk", "attention", "next", "lens", "positions", "edit", "compare", "parameters"]


@pytest.mark.parametrize("panel", PANELS)
def test_the_first_sentence_is_of_this_text(decoder, page, panel):
    visit(page, decoder, panel=panel, text=TEXT, token=4)
    model = decoder.ask("models")["models"][0]["id"]
    token = visible(decoder.ask("read", model=model, text=TEXT)["decoder"][4]["text"])
    for language in ("EN", "中文"):
        page.get_by_role("button", name=language, exact=True).click()
        settle(page)
        said = page.locator("[data-finding]").inner_text()
        assert token in said and re.search(r"\d", said)


def test_the_list_of_models_loads_none(folders):
    from glassformer.page import Session
    from glassformer.page.handlers import ROUTES
    from glassformer.page.request_args import RequestArgs

    session = Session([str(folders[name]) for name in ("decoder", "encoder")])
    assert len(ROUTES["models"](session, RequestArgs({}))["models"]) == 2
    assert session._models.get("decoder") is None and session._models.get("encoder") is None
    same = ROUTES["comparable"](session, RequestArgs({"model": "decoder"}))
    assert same == {"models": ["decoder"]}
    assert session._models.get("encoder") is None
    session.close()


def test_there_is_a_skeleton_before_the_first_answer(decoder, page):
    held: list[Any] = []
    page.route("**/api/*", lambda route: held.append(route))
    page.goto(decoder.address)
    page.locator("#panel .skeleton").wait_for()
    assert "skeleton" in decoder.get("")[2].decode()
    page.unroute("**/api/*")
    page.locator(".stack").first.wait_for()
