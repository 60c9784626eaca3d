"""The parameter table in a browser."""

from __future__ import annotations

import re

from bare import addressed


def test_counts_are_the_servers(page, served):
    page.goto(served.address + "?panel=parameters")
    total = page.locator(".head p:first-child strong")
    total.wait_for()
    model = served.ask("models")["start"]["model"]
    told = served.ask("parameters", model=model)
    assert int(total.inner_text().replace(",", "")) == told["total"]
    page.get_by_role("button", name="Open all").click()
    assert page.locator("tbody tr").count() == len(told["parts"])
    page.get_by_role("button", name="Close all").click()
    outer = [part for part in told["parts"] if part["depth"] == 0]
    assert page.locator("tbody tr").count() == len(outer)


def test_a_parameters_distribution(page, decoder, axe):
    page.goto(decoder.address + "?panel=parameters")
    page.get_by_role("button", name="Open all").click()
    name = "decoder.blocks.1.attention.qkv.weight"
    page.get_by_role("button", name=name, exact=True).click()
    picture = page.get_by_role("img", name=f"Histogram of {name}")
    picture.wait_for()
    model = decoder.ask("models")["start"]["model"]
    told = decoder.ask("histogram", model=model, name=name)
    assert picture.locator("rect").count() == len(told["counts"])
    assert addressed(page, "parameters.name=")
    page.reload()
    picture.wait_for()
    assert axe(page) == []


def test_what_is_tied(page, decoder):
    page.goto(decoder.address + "?panel=parameters")
    ties = page.get_by_role("region", name="Tied weights")
    ties.get_by_text("heads.lm.out.weight").wait_for()
    assert ties.get_by_text("decoder.embed.token.weight").count() == 1


def test_by_keyboard_alone(page, decoder):
    """Tabs by arrows, a module by Enter."""
    page.goto(decoder.address + "?panel=compare")
    page.get_by_role("tab", name="Compare").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("panel=parameters"))
    module = page.get_by_role("button", name="Show the parts of decoder.blocks.0", exact=True)
    module.focus()
    page.keyboard.press("Enter")
    assert module.get_attribute("aria-expanded") == "true"
