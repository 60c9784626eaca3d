"""One body with several heads: the page lets one choose whose outputs it shows, and every panel
that speaks of outputs follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import page_models
import pytest
import torch
from bare import CHANGED, addressed, number, percent, settle, visit
from quick import quick
from serving import Served, serve
from torch import Tensor

import glassformer as gf
from glassformer import inside

TEXT = "time flies like an arrow"
HEADS = ["lm", *page_models.HEADS]
OFF = {"kind": "scale", "at": "encoder.blocks.1.z", "heads": [2], "factor": 0.0}
PANELS = ("walk", "attention", "next", "lens", "positions", "edit", "compare", "parameters")


def labels(head: str) -> list[str]:
    return page_models.HEADS[head][1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Of the model, beside which lies one with the first head alone."""
    made: Path = tmp_path_factory.mktemp("heads") / "several"
    body = page_models.encoder()
    gf.create(body.spec, tokenizer=body.tokenizer).save(made.parent / "body")
    model = page_models.several(body)
    model.save(made)
    texts = page_models.TEXTS
    inside.tune_lens(model, texts, head="names", max_steps=2, folder=made / "tuned_lens")
    return made


@pytest.fixture(scope="module")
def model(folder) -> gf.Model:
    return gf.load(folder)


@pytest.fixture(scope="module")
def several(folder) -> Iterator[Served]:
    yield from serve(folder, folder.parent / "body", text=TEXT)


def run(head: str | None = None) -> dict[str, Any]:
    return {"model": "several", "text": TEXT} | ({} if head is None else {"output": head})


def logits(model: gf.Model, head: str, tap: Any = None) -> Tensor:
    """The model's own: [label], or [position, label]."""
    read = model.tokenizer.encode(TEXT)
    with torch.no_grad():
        inputs = {"token_type_ids": torch.tensor([read.segments]), "tap": tap}
        found: Tensor = model(torch.tensor([read.ids]), **inputs).head_outputs[head][0]
    return found


def without_head(name: str, value: Tensor) -> Tensor:
    if name != OFF["at"]:
        return value
    value = value.clone()
    value[:, OFF["heads"]] = 0
    return value


def test_what_there_is_to_ask_of_each_head(several):
    outputs = several.ask("structure", model="several")["outputs"]
    assert [one["head"] for one in outputs] == HEADS
    what = [one["predicts"]["what"] for one in outputs]
    assert what == ["masked", "classify", "classify", "tag"]
    assert [one["predicts"]["labels"] for one in outputs[1:]] == [*map(labels, HEADS[1:])]
    assert [one["predicts"]["lens"] for one in outputs] == [True, False, False, True]
    assert [one["tuned"] for one in outputs] == [False, False, False, True]
    assert [one["mask"] is not None for one in outputs] == [True, False, False, False]


@pytest.mark.parametrize("head", ["topic", "mood", "names"])
def test_every_question_about_an_output_is_of_that_head(several, model, head):
    table = np.atleast_2d(logits(model, head).numpy())
    row = len(table) - 1
    probs = np.atleast_2d(logits(model, head).softmax(-1).numpy())
    asked = {**run(head), "position": row}
    (one,) = several.ask("next", **asked)["positions"]
    found = {each["text"]: each["probability"] for each in one["candidates"]}
    assert found == pytest.approx(dict(zip(labels(head), probs[row], strict=True)), abs=1e-5)
    _, arrays = several.ask("array", **run(head), name="logits", dtype="float32")
    np.testing.assert_allclose(arrays["array"], table, atol=1e-5)
    told = several.ask("cell", **run(head), name="logits", row=row, col=1)
    assert told["value"] == pytest.approx(table[row, 1], abs=1e-5)
    parts = several.ask("contributions", **asked, token=1, against=0)
    assert parts["text"] == labels(head)[1] and parts["against"]["text"] == labels(head)[0]
    assert parts["logit"] == pytest.approx(table[row, 1] - table[row, 0], abs=1e-5)
    assert sum(one["value"] for one in parts["parts"]) == pytest.approx(parts["logit"], abs=1e-4)
    for method in ("gradient", "integrated"):
        found = several.ask("saliency", **asked, method=method)
        assert found["text"] == labels(head)[int(table[row].argmax())]
    edited = np.atleast_2d(logits(model, head, without_head).softmax(-1).numpy())
    metadata, arrays = several.ask("edit", **asked, edits=[OFF])
    now = {each["text"]: each["probability"] for each in metadata["after"]["candidates"]}
    assert now == pytest.approx(dict(zip(labels(head), edited[row], strict=True)), abs=1e-5)
    assert arrays["divergence"].shape == (len(table),)
    metadata, _ = several.ask("sweep", **asked, **{"from": TEXT}, at="resid_pre", token=0)
    assert repr(labels(head)[0]) in metadata["title"]


def test_the_lens_of_a_head_for_words(several, model):
    probs = logits(model, "names").softmax(-1).numpy()
    metadata, arrays = several.ask("lens", **run("names"))
    assert {*metadata["texts"].values()} <= {*labels("names")}
    np.testing.assert_allclose(arrays["probability"][-1], probs.max(-1), atol=1e-5)
    assert several.ask("lens_cell", **run("names"), row=0, position=1, tuned=True)["candidates"]
    _, edited = several.ask("edit_lens", **run("names"), edits=[OFF])
    now = logits(model, "names", without_head).softmax(-1).numpy()
    np.testing.assert_allclose(edited["lens_after"][-1], now.max(-1), atol=1e-5)
    status, said = several.refused("lens", **run("mood"))
    assert status == 400 and "no logit lens" in said
    status, said = several.refused("lens", **run("lm"), tuned=True)
    assert status == 400 and "read by the head 'names'" in said


def test_a_head_that_is_not_there(several):
    status, said = several.refused("next", **run("mod"))
    assert status == 400
    assert said.startswith("There is no head 'mod'") and said.endswith(f"only {', '.join(HEADS)}.")


def test_two_models_by_a_head_that_one_of_them_has(several):
    both = {"a": "several", "b": "body", "text": TEXT}
    metadata, arrays = several.ask("compare", **both, output="mood")
    assert metadata["a"] is None and "divergence" not in arrays and "heads.encoder" in arrays
    metadata, _ = several.ask("compare", **both)
    assert metadata["a"] is not None  # both have one for masked words


# --- in a browser ---------------------------------------------------------------------------------


def chosen(page: Any, label: str = "Output") -> Any:
    return page.get_by_role("combobox", name=label, exact=True)


def shown(head: str, probs: Tensor) -> list[str]:
    order = probs.argsort(descending=True).tolist()
    return [f"{labels(head)[i]} {percent(float(probs[i]))}" for i in order]


def listed(page: Any, name: str) -> list[str]:
    """Names and percentages of a list."""
    rows = page.get_by_role("list", name=name).get_by_role("listitem").all()
    words = [row.inner_text().split() for row in rows]
    return [" ".join(word for word in row if word[-1] == "%" or word[0].isalpha()) for row in words]


def test_choosing_a_head(several, model, page):
    page.emulate_media(reduced_motion="reduce")
    visit(page, several, panel="next", model="several", text=TEXT, token=2)
    assert chosen(page).locator("option").all_inner_texts() == HEADS
    assert chosen(page).input_value() == "lm"
    assert page.get_by_role("tab", name="Next token").count() == 1
    for head in ("mood", "topic"):
        chosen(page).select_option(head)
        settle(page)
        assert addressed(page, f"output={head}")
        assert "The label of the text" in page.inner_text("#panel")
        wanted = shown(head, logits(model, head).softmax(-1))
        assert listed(page, "The labels, the most probable first") == wanted
    page.reload()
    settle(page)
    assert chosen(page).input_value() == "topic"
    chosen(page).select_option("names")
    settle(page)
    wanted = shown("names", logits(model, "names")[2].softmax(-1))
    assert listed(page, "The labels, the most probable first") == wanted
    page.get_by_role("tab", name="Walkthrough").click()
    settle(page)
    assert listed(page, "Probabilities") == wanted
    page.get_by_role("button", name="中文").click()
    assert chosen(page, "输出").input_value() == "names"


def test_lens_and_edits_follow(several, model, page):
    page.emulate_media(reduced_motion="reduce")
    words = {"model": "several", "text": TEXT, "token": 2, "output": "mood"}
    visit(page, several, panel="lens", lens_view="parts", **words)
    page.get_by_label("Logit of").select_option("good")
    settle(page)
    own = float(logits(model, "mood")[1])
    assert number(page.locator("[data-logit]").inner_text()) == pytest.approx(own, rel=2e-3)
    chosen(page).select_option("names")  # whose labels are others: the most probable is meant again
    settle(page)
    best = float(logits(model, "names")[2].max())
    assert number(page.locator("[data-logit]").inner_text()) == pytest.approx(best, rel=2e-3)
    assert "lens.of" not in page.url
    visit(page, several, panel="lens", **{**words, "output": "names"})
    assert page.get_by_role("radiogroup", name="Lens").count() == 1  # a lens was tuned for it
    visit(page, several, panel="lens", **words)
    assert "There is no logit lens" in page.inner_text("#panel")


def test_with_one_head_there_is_nothing_to_choose(several, page):
    visit(page, several, panel="next", model="body", text=TEXT, output="mood")
    assert chosen(page).count() == 0 and page.get_by_role("alert").count() == 0


@pytest.mark.parametrize("panel", quick(PANELS, "next", "lens"))
def test_every_panel(several, page, axe, panel):
    page.emulate_media(reduced_motion="reduce")
    visit(page, several, panel=panel, model="several", text=TEXT)
    for head in HEADS[::-1]:
        chosen(page).select_option(head)
        settle(page)
        assert page.get_by_role("alert").count() == 0
    assert axe(page) == []
    page.set_viewport_size({"width": 420, "height": 900})
    page.evaluate(CHANGED)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_the_command_line_says_which_head_is_first(folder, page, capsys):
    from glassformer.cli.open import open_page

    with pytest.raises(gf.GlassformerError, match="There is no head 'mod'"):
        open_page([str(folder)], port=0, head="mod", check=True)
    open_page([str(folder)], port=0, head="mood", check=True)
    assert "It answers" in capsys.readouterr().out
    for served in serve(folder, text=TEXT, head="mood"):
        visit(page, served)
        assert chosen(page).input_value() == "mood"
