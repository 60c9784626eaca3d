"""The compare panel with two checkpoints, in a browser."""

from __future__ import annotations

import re
import shutil

import page_models
import pytest
import torch
from bare import Reference, addressed, number, percent, settle
from serving import serve

import glassformer as gf

pytest.importorskip("playwright", reason="page tests left out: playwright is not installed")
from playwright.sync_api import expect


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A model, and the same with one head's output taken away."""
    folder = tmp_path_factory.mktemp("compare")
    model = page_models.decoder()
    model.save(folder / "before")
    with torch.no_grad():
        model.decoder.blocks[1].attention.out.weight[:, 8:16] = 0.0  # head 1 of 4, of width 8
    model.save(folder / "after")
    yield from serve(folder / "before", folder / "after", text="time flies like an arrow")


def side(page, name: str):
    return page.get_by_role("combobox", name=name, exact=True)


def test_what_moved(page, two, axe):
    page.goto(two.address + "?panel=compare&layer=0&head=0")
    heads = page.get_by_role("region", name="Change of the head outputs")
    heads.wait_for()
    settle(page)
    assert side(page, "Before").input_value() == "before"
    assert side(page, "After").input_value() == "after"
    weights = page.get_by_role("region", name="Weights with the largest change").locator("li")
    assert "decoder.blocks.1.attention.out.weight" in weights.first.inner_text()
    matrix = heads.get_by_role("application")
    matrix.focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile("layer=1&head=1"))
    page.get_by_text("Layer 1, head 1").first.wait_for()
    assert axe(page) == []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training of six steps that kept every second, and its folder."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "text.txt").write_text("\n".join(page_models.TEXTS * 20), "utf-8")
    page_models.decoder().save(folder / "start")
    gf.train(
        {
            "model": {"base": str(folder / "start")},
            "data": {"train": str(folder / "text.txt"), "sequence_length": 32, "num_workers": 1},
            "train": {
                "max_steps": 6,
                "batch_size": 4,
                "learning_rate": 1e-2,
                "warmup_steps": 0,
                "save_steps": 0,
            },
            "run": {"out": str(folder / "run"), "snapshot_steps": 2, "tensorboard": False},
        }
    )
    for served in serve(folder / "run", text="time flies like an arrow"):
        yield served, folder / "run"


def predicted(page, label: str):
    bars = page.get_by_role("region", name="Predictions").get_by_role("list", name=label)
    return bars.locator("li .number")


def wanted(folder) -> list[str]:
    """The ten largest shares after the text, by the model itself."""
    logits = Reference(folder, "time flies like an arrow").run()[-1]
    return [percent(share) for share in logits.softmax(-1).sort(descending=True)[0][:10].tolist()]


def test_the_steps_of_a_training(page, run):
    """A run folder is its last step; before it stands the first, and sliders lead to all others."""
    served, folder = run
    page.goto(served.address + "?panel=compare")
    sliders = page.get_by_role("slider")
    expect(sliders).to_have_count(2)
    model = page.get_by_role("combobox", name="Model", exact=True)
    expect(model.locator("option:checked")).to_have_text("run · step 6")
    texts = [one.get_attribute("aria-valuetext") for one in sliders.all()]
    assert texts[0].startswith("2 · loss ") and texts[1].startswith("6 · end of the run · loss ")
    heads = page.get_by_role("region", name="Change of the head outputs")
    heads.wait_for()
    expect(predicted(page, "Before")).to_have_text(wanted(folder / "steps" / "step-0000000002"))
    expect(predicted(page, "After")).to_have_text(wanted(folder / "model"))
    change = (
        page.get_by_role("region", name="Weights with the largest change").locator(".number").first
    )
    far = number(change.inner_text())
    sliders.last.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("compare.b=run%404"))
    expect(sliders.last).to_have_attribute("aria-valuetext", re.compile("^4 · loss "))
    expect(change).not_to_have_text(re.compile(f"^{far}$"))
    settle(page)
    expect(predicted(page, "After")).to_have_text(wanted(folder / "steps" / "step-0000000004"))
    assert number(change.inner_text()) < far
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Both models are the same").wait_for()


def test_weights_that_were_zero_have_no_relative_change(folders, tmp_path):
    model = gf.load(folders["decoder"])
    zero = "decoder.blocks.0.ffn.up.bias"
    assert not model.get_parameter(zero).any()
    with torch.no_grad():
        for name in (zero, "decoder.final_norm.weight"):
            model.get_parameter(name).add_(0.1)
    model.save(tmp_path / "moved")
    for served in serve(folders["decoder"], tmp_path / "moved"):
        metadata, _ = served.ask("compare", a="decoder", b="moved", text="time flies", position=0)
        first, second = metadata["weights"][:2]
        assert first["name"] == "decoder.final_norm.weight" and second["change"] == 0
        assert zero not in {one["name"] for one in metadata["weights"]}


def test_a_step_is_dragged_to(page, run):
    """With the mouse, also past steps between, and past what the other side has."""
    served, folder = run
    page.goto(served.address + "?panel=compare")
    slider = page.get_by_role("slider").last
    page.get_by_role("region", name="Predictions").wait_for()
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] - 8, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 8, middle, steps=12)
    page.get_by_text("Both models are the same").wait_for()
    page.mouse.move(box["x"] + box["width"] / 2, middle, steps=12)
    page.mouse.up()
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^4 · loss "))
    assert addressed(page, "compare.b=run%404")
    page.get_by_role("region", name="Predictions").wait_for()
    settle(page)
    expect(predicted(page, "After")).to_have_text(wanted(folder / "steps" / "step-0000000004"))


def test_a_model_beside_a_run(run, page):
    """The side without a slider is as high as the one with it."""
    _, folder = run
    for served in serve(folder.parent / "start", folder, text="time flies like an arrow"):
        page.goto(served.address + "?panel=compare&compare.a=start&compare.b=run")
        expect(page.get_by_role("slider")).to_have_count(1)
        expect(page.get_by_role("region", name="Predictions")).to_be_visible()
        before, after = page.locator(".side").evaluate_all(  # both in one moment
            "all => all.map(card => card.getBoundingClientRect()).map(box => [box.y, box.height])"
        )
        assert before == after


def test_the_same_on_both_sides_is_said(page, two):
    page.goto(two.address + "?panel=compare")
    side(page, "Before").select_option("after")
    page.get_by_text("Both models are the same").wait_for()
    assert addressed(page, "compare.a=after")


def test_models_with_other_tokens_are_not_offered(page, folders, tmp_path):
    shutil.copytree(folders["decoder"], tmp_path / "copy")
    for served in serve(folders["decoder"], folders["encoder"], tmp_path / "copy"):
        page.goto(served.address + "?panel=compare")
        page.get_by_role("region", name="Predictions").wait_for()
        for name in ("Before", "After"):
            expect(side(page, name).locator("option")).to_have_text(["decoder", "copy"])
        assert page.get_by_role("alert").count() == 0


def test_one_model_alone(page, decoder):
    page.goto(decoder.address + "?panel=compare")
    page.get_by_text("No other open model has the same tokens").wait_for()
    assert page.get_by_role("alert").count() == 0
    commands = page.locator("#panel code").all_inner_texts()
    assert commands == ["glassformer open MODEL OTHER", "glassformer open runs/RUN"]
    assert "`" not in page.locator("#panel").inner_text()
