"""Heads of other kinds in a browser: regression, answer starts, and binary tags."""

from __future__ import annotations

import page_models
import pytest
from bare import number, settle, shares, visit
from serving import serve

import glassformer as gf
from glassformer.text import train as train_tokenizer

TEXT = "time flies like an arrow"


def xlnet() -> gf.Model:
    roles = {name: f"<{name}>" for name in ("unk", "pad", "cls", "sep", "mask")}
    tokenizer = train_tokenizer(
        "bpe", texts=page_models.TEXTS, vocab_size=160, special_tokens=roles
    )
    made = gf.create(
        "xlnet-base",
        tokenizer=tokenizer,
        architectures=["XLNetForQuestionAnswering"],
        vocab_size=tokenizer.size,
        pad_token_id=tokenizer.special["pad"],
        d_model=32,
        n_layer=2,
        n_head=4,
        d_inner=64,
    )
    return page_models.shaken(made)


def electra() -> gf.Model:
    tokenizer = train_tokenizer(
        "wordpiece", texts=page_models.TEXTS, vocab_size=200, lowercase=True
    )
    sizes = {**page_models.SIZES, "vocab_size": tokenizer.size, "embedding_size": 16}
    kind = ["ElectraForPreTraining"]
    return page_models.shaken(
        gf.create("electra-small", tokenizer=tokenizer, architectures=kind, **sizes)
    )


def regression() -> gf.Model:
    settings = {"id2label": {"0": "score"}, "problem_type": "regression"}
    return page_models.shaken(page_models.encoder("BertForSequenceClassification", **settings))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    for make in (xlnet, electra, regression):
        make().save(folder / make.__name__)
    return folder


@pytest.fixture(scope="module")
def several(saved):
    yield from serve(*(saved / name for name in ("xlnet", "electra", "regression")), text=TEXT)


def test_a_regression_says_a_number_and_no_probability(several, saved, page):
    said = float(gf.load(saved / "regression").look(TEXT).logits.array[0])
    visit(page, several, panel="next", model="regression", text=TEXT)
    main = page.get_by_role("main")
    assert "predicts a number" in main.inner_text() and "%" not in main.inner_text()
    assert number(page.locator(".bars .number").inner_text()) == pytest.approx(said, abs=6e-3)
    visit(page, several, panel="edit", model="regression", text=TEXT)
    shown = page.locator("ol li .number").first.inner_text()
    before, after = (number(text) for text in shown.split(" → "))
    assert before == after == pytest.approx(said, abs=6e-3)
    visit(page, several, panel="walk", model="regression", text=TEXT)
    found = [
        step["kind"]
        for step in several.ask(
            "walk", model="regression", text=TEXT, stack="encoder", layer=0, head=0
        )["steps"]
    ]
    assert found[-1] == "logits" and "probabilities" not in found


def test_where_the_end_depends_on_the_start_the_start_alone_is_told(several, saved, page):
    visit(page, several, panel="next", model="xlnet", text=TEXT, span_end=1)
    assert page.get_by_role("radiogroup", name="Answer's").count() == 0
    view = gf.load(saved / "xlnet").look(TEXT)
    best = [one.probability for one in view.predictions(top=3)]
    told = shares(page.locator("aside").inner_text())
    assert told[:3] == pytest.approx(best, abs=6e-3)


def test_every_stop_of_a_walk_without_positions_or_norms_before(several, page):
    """XLNet adds nothing to its tokens' vectors, and norms stand behind its parts."""
    visit(page, several, panel="walk", model="xlnet", text=TEXT, walk_at="embed_token")
    page.get_by_role("button", name="Next →").click()
    settle(page)
    assert page.get_by_role("heading", name="Block 0").is_visible()


def test_a_detector_says_of_every_token_whether_it_was_replaced(several, saved, page):
    visit(page, several, panel="next", model="electra", text=TEXT, token=2)
    (wanted,) = gf.load(saved / "electra").look(TEXT).predictions(2)
    aside = page.locator("aside").inner_text()
    assert "replaced" in aside and "sigmoid" in aside
    assert shares(aside)[0] == pytest.approx(wanted.probability, abs=6e-3)
