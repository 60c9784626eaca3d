"""Two checkpoints beside each other in a browser."""

from __future__ import annotations

import re

import page_models
import pytest
import torch
from serving import serve


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A model, and the same with one head's output taken away."""
    folder = tmp_path_factory.mktemp("compare")
    model = page_models.decoder()
    model.save(folder / "before")
    with torch.no_grad():
        model.net.decoder.blocks[1].attention.out.weight[:, 8:16] = 0.0  # head 1 of 4, of width 8
    model.save(folder / "after")
    yield from serve(folder / "after", folder / "before", text="time flies like an arrow")


def side(page, name: str):
    return page.get_by_role("combobox", name=name, exact=True)


def test_what_moved(page, two, axe):
    page.goto(two.address + "?panel=compare")
    heads = page.get_by_role("region", name="Heads that write something else")
    heads.wait_for()
    page.wait_for_load_state("networkidle")
    assert side(page, "Before").input_value() == "before"
    assert side(page, "After").input_value() == "after"
    weights = page.get_by_role("region", name="Weights that moved most").locator("li")
    assert "decoder.blocks.1.attention.out.weight" in weights.first.inner_text()
    matrix = heads.get_by_role("application")
    matrix.focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile("layer=1&head=1"))
    page.get_by_role("region", name="Layer 1, head 1").wait_for()
    assert axe(page) == []


def test_the_same_on_both_sides_is_said(page, two):
    page.goto(two.address + "?panel=compare")
    side(page, "Before").select_option("after")
    page.get_by_text("Both sides are the same model").wait_for()
    assert "compare.a=after" in page.url


def test_one_model_alone(page, decoder):
    page.goto(decoder.address + "?panel=compare")
    page.get_by_text("There is only one model open").wait_for()
    assert page.get_by_role("alert").count() == 0
