"""The walkthrough in a browser: from the model to one number, by pointer, keyboard and link."""

from __future__ import annotations

import re

import page_models
import pytest
from bare import addressed, settle
from playwright.sync_api import expect
from quick import quick
from serving import serve

SEEN = "localStorage.setItem('glassformer.tour', 'seen')"


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """One server with both."""
    folder = tmp_path_factory.mktemp("odd")
    for make in (page_models.gated, page_models.parallel):
        make().save(folder / make.__name__)
    yield from serve(folder / "gated", folder / "parallel", text="time flies like an arrow")


def walk(page, served, query: str = ""):
    """Opens the walk with the tour behind it."""
    page.emulate_media(reduced_motion="reduce")
    with page.add_init_script(SEEN):
        page.goto(served.address + query)
    page.get_by_role("navigation", name="Steps", exact=True).wait_for()
    return page


def arrives(page, name: str) -> None:
    """Steps change with a short movement, so that one has to wait for the next."""
    expect(page.locator(".words h2")).to_have_text(name)


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


@pytest.mark.parametrize("at", ["model", "block"])
def test_a_long_sentence_has_its_words_beside_the_lanes(page, decoder, at):
    walk(page, decoder, f"?walk.at={at}&text={'+'.join(['time flies like an arrow'] * 4)}")
    names = page.locator(".names").first.locator("> *")
    page.locator("[role=option]").first.wait_for()
    tokens = page.locator("[role=option]").all_inner_texts()
    assert 34 < len(tokens) < 39  # so many that lanes as tall as of a short text are too low
    expect(names).to_have_text(tokens)
    size, tall = names.first.evaluate(
        "name => [parseFloat(getComputedStyle(name).fontSize), name.clientHeight]"
    )
    assert size <= tall  # none is cut


def test_from_the_model_to_a_number(page, decoder):
    walk(page, decoder)
    arrives(page, "The whole model")
    page.get_by_role("button", name="Open block 1", exact=True).click()
    arrives(page, "Block 1 · 3 blocks")
    assert addressed(page, "layer=1")
    page.get_by_role("button", name="Scores", exact=True).first.press("Enter")  # pictures may move
    arrives(page, "Scores")
    square = page.get_by_role("application", name=re.compile("^Scores"))
    square.focus()
    for key in ("Home", "ArrowUp", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    cell = page.get_by_role("region", name="How this number is computed")
    cell.wait_for()
    page.keyboard.press("Escape")  # the cell's tooltip
    page.locator(".crumb", has_text="Scores").click()
    assert cell.count() == 0
    page.get_by_role("button", name="Guided tour").focus()
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile("walk.at=block"))
    page.keyboard.press("Escape")
    arrives(page, "The whole model")


def test_a_number_is_the_servers(page, decoder):
    """The score that the page spells out is q . k of the server's arrays."""
    walk(page, decoder, "?walk.at=dot&walk.column=1&layer=1&head=2&token=3")
    shown = page.locator(".cell .value")
    shown.wait_for()
    run = {"model": decoder.ask("models")["start"]["model"], "text": "time flies like an arrow"}
    (_, q), (_, k) = (
        decoder.ask("array", **run, name=f"decoder.blocks.1.{name}", dtype="float32")
        for name in "qk"
    )
    expected = float(q["array"][2, 3] @ k["array"][2, 1])
    assert number(shown.inner_text()) == pytest.approx(expected, abs=2e-4)
    products = page.locator(".cell tbody tr td:nth-last-child(2)").all_inner_texts()
    assert sum(map(number, products)) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    "served", quick(["decoder", "encoder", "encoder_decoder"], "encoder_decoder"), indirect=True
)
def test_every_step_of_every_kind_of_model(page, served):
    """Next leads through all steps to the last; each has its picture, and none an error."""
    walk(page, served)
    names = page.locator("nav.steps button").all_inner_texts()
    assert len(names) > 20
    seen = []
    for name in names[1:]:
        page.get_by_role("button", name="Next →").click()
        if name != "One block":
            arrives(page, name)
        seen.append(name)
        expect(page.locator("figure .waiting")).to_have_count(0)
        assert page.get_by_role("alert").count() == 0
        assert page.locator("figure .bad").count() == 0
    assert page.get_by_role("button", name="Next →").is_disabled()
    assert seen[0] == "Tokens"
    assert seen[-1] == "Chosen token"
    assert {"Queries", "Keys", "Values", "Scores", "Scale", "Mask", "Attention"} <= set(seen)
    assert {
        "Weighted sum",
        "Concatenated heads",
        "Projection",
        "Residual sum",
        "Activation",
    } <= set(seen)
    if served.ask("models")["models"][0]["kind"] == "encoder-decoder":
        assert "Encoder output" in seen
        assert seen.count("Attention") == 2  # its own, and across to the encoder


def test_norms_stand_where_the_model_has_them(page, encoder):
    """BERT norms after the sums: there is no norm for a part to read through."""
    walk(page, encoder)
    steps = page.locator("nav.steps button").all_inner_texts()
    assert "Norm" not in steps
    assert "Norm of the embedding" in steps
    assert "Last vectors" in steps


@pytest.mark.parametrize(
    "kind, steps, looked",
    [
        ("gated", {"Rotated queries", "Rotated keys", "Gate"}, ("rotate_q", "ffn_act")),
        ("parallel", {"Rotated queries", "Rotated keys"}, ("residual_ffn",)),
    ],
)
def test_models_that_are_built_otherwise(page, odd, kind, steps, looked):
    """Rotated queries, a gate, two parts that read one stream: in the block, step by step, and in
    the panel of attention."""
    walk(page, odd, f"?model={kind}&walk.at=block&layer=1")
    assert steps <= set(page.locator("nav.steps button").all_inner_texts())
    feed = page.get_by_role("region", name="Feed-forward")
    feed.locator("canvas").first.wait_for()
    columns = feed.locator(".column > button")
    names = [column.get_attribute("aria-label") for column in columns.all()]
    # Where both parts read the stream, the second one's end is added to the first one's sum.
    assert names.count("Residual sum") == 2
    assert names[0] == ("Residual stream" if kind == "parallel" else "Residual sum")
    for at in looked:
        page.goto(f"{odd.address}?model={kind}&walk.at={at}&layer=1&walk.column=1")
        page.locator(".cell .value").wait_for()
        expect(page.locator("figure .waiting")).to_have_count(0)
        assert page.get_by_role("alert").count() == page.locator("figure .bad").count() == 0
    page.goto(f"{odd.address}?model={kind}&panel=attention&layer=1&head=3")
    page.get_by_role("application", name=re.compile("^Attention lines")).wait_for()
    page.goto(f"{odd.address}?model={kind}&panel=attention&attention.view=neuron&layer=1&head=3")
    page.get_by_role("application", name=re.compile("^Query, keys")).wait_for()
    assert page.get_by_role("alert").count() == 0


def test_a_link_shows_the_same(page, decoder):
    walk(page, decoder, "?walk.at=softmax&layer=2&head=1&token=2")
    arrives(page, "Attention")
    assert (
        page.get_by_role("radio", name="2", exact=True).first.get_attribute("aria-checked")
        == "true"
    )
    assert page.locator(".chosen .number").inner_text() == "2"
    page.reload()
    page.locator(".words h2").wait_for()
    arrives(page, "Attention")


def test_the_choice_continues_the_text(page, decoder):
    walk(page, decoder, "?walk.at=choice")
    tokens = page.locator("form [role=option]")
    expect(tokens).not_to_have_count(0)
    before = tokens.count()
    page.get_by_role("button", name=re.compile("^Append")).click()
    expect(tokens).to_have_count(before + 1)
    assert page.locator("textarea").first.input_value().startswith("time flies like an arrow")


def test_the_tour_is_offered_once(page, decoder, axe):
    page.goto(decoder.address)
    card = page.get_by_role("dialog", name="Guided tour")
    card.wait_for()
    arrives(page, "The whole model")
    assert page.locator(".frame").count() == 0 and page.evaluate("scrollY") == 0
    expect(card.locator("strong")).to_have_text(page.locator("[data-finding]").inner_text())
    assert axe(page) == []
    page.get_by_role("button", name="中文").click()
    declined = page.get_by_role("dialog", name="导览").get_by_role("button", name="以后再说")
    declined.click()
    assert page.get_by_role("dialog").count() == 0
    page.reload()
    page.get_by_role("navigation").first.wait_for()
    assert page.get_by_role("dialog").count() == 0


def test_the_tour_leads_and_is_remembered(page, decoder):
    page.goto(decoder.address)
    card = page.get_by_role("dialog", name="Guided tour")
    card.wait_for()
    welcome = card.locator("h2").inner_text()
    card.get_by_role("button", name="Take the tour").click()
    stops = int(card.locator(".count").inner_text().split()[-1])
    assert stops == 12
    titles = {welcome}
    for _ in range(stops - 2):
        titles.add(card.locator("h2").inner_text())
        card.get_by_role("button", name="Next").focus()
        page.keyboard.press("Enter")
        expect(card.locator("[data-first]")).to_be_focused()
    assert len(titles) == stops - 1
    card.get_by_role("button", name="Back").click()
    page.keyboard.press("Escape")
    assert card.count() == 0
    page.goto(decoder.address)
    page.get_by_role("navigation", name="Steps", exact=True).wait_for()
    assert card.count() == 0
    page.get_by_role("button", name="Guided tour").click()
    card.wait_for()


def test_in_chinese(page, decoder):
    walk(page, decoder, "?walk.at=q")
    page.get_by_role("button", name="中文").click()
    arrives(page, "查询")
    assert page.locator("html").get_attribute("lang") == "zh"
    page.reload()
    page.locator(".words h2").wait_for()
    arrives(page, "查询")


@pytest.mark.parametrize("at", ["model", "block", "dot", "probabilities"])
@pytest.mark.parametrize("scheme", quick(["light", "dark"]))
def test_axe(page, decoder, axe, at, scheme):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    walk(page, decoder, f"?walk.at={at}&walk.column=1")
    settle(page)
    assert axe(page) == []
