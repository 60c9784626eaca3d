"""Models that predict labels, tags or answers: the server sends what the model computes, and
every panel has something to show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import page_models
import pytest
import torch
from bare import CHANGED, MINUS, addressed, number, percent, settle, visit
from bare import shares as shares_of
from quick import quick
from serving import Served, serve
from torch import Tensor

import glassformer as gf

TEXT, PAIR, OTHER = "time flies like an arrow", "fruit flies like a banana", "i am a student"
MAKE = {
    "classifier": lambda: page_models.labeling("SequenceClassification"),
    "several": lambda: page_models.labeling(
        "SequenceClassification", problem_type="multi_label_classification"
    ),
    "tagger": lambda: page_models.labeling("TokenClassification"),
    "reader": lambda: page_models.labeling("QuestionAnswering"),
    "gpt2": page_models.labeling_decoder,
    "t5": page_models.labeling_encoder_decoder,
}
WHAT = {"tagger": "tag", "reader": "span"}


@dataclass
class Told:
    """A model, asked by the page and by hand."""

    name: str
    served: Served
    model: gf.Model

    @property
    def what(self) -> str:
        return WHAT.get(self.name, "classify")

    @property
    def run(self) -> dict[str, str]:
        pair = {"pair": PAIR} if self.name == "reader" else {}
        return {"model": self.name, "text": TEXT, **pair}

    def ask(self, question: str, **more: Any) -> Any:
        return self.served.ask(question, **self.run, **more)

    def table(self, tap: Any = None) -> Tensor:
        """[row, outcome]: logits of the model itself."""
        read = self.model.tokenizer.encode(TEXT, self.run.get("pair"))
        segments = None
        if self.model.spec.last_stack.embed.segments:
            segments = torch.tensor([read.segments])
        with torch.no_grad():
            model = self.model
            logits = model(torch.tensor([read.ids]), token_type_ids=segments, tap=tap).logits[0]
        return {"classify": logits[None], "tag": logits, "span": logits.T}[self.what]

    def probs(self, logits: Tensor) -> np.ndarray:
        found = logits.sigmoid() if self.name == "several" else logits.softmax(-1)
        return found.numpy()

    @property
    def head_off(self) -> dict[str, Any]:
        last = "decoder" if self.model.decoder is not None else "encoder"
        return {"kind": "scale", "at": f"{last}.blocks.1.z", "heads": [2], "factor": 0.0}

    def without_head(self) -> Tensor:
        def tap(name: str, value: Tensor) -> Tensor:
            if name != self.head_off["at"]:
                return value
            value = value.clone()
            value[:, 2] = 0
            return value

        return self.table(tap)

    def names(self) -> list[str]:
        if self.what == "span":
            return [token["text"] for token in self.ask("read")["encoder"]]
        return ["bad", "good", "odd"]


@pytest.fixture(scope="module")
def labeled(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("labeled")
    for name, make in MAKE.items():
        make().save(folder / name)
    return {name: folder / name for name in MAKE}


@pytest.fixture(scope="module")
def labeling(labeled) -> Iterator[Served]:
    yield from serve(*labeled.values())


@pytest.fixture(params=MAKE)
def told(request, labeling, labeled) -> Told:
    return Told(request.param, labeling, gf.load(labeled[request.param]))


def shares(candidates: list[dict[str, Any]]) -> dict[int, float]:
    return {one["token"]: one["probability"] for one in candidates}


def test_the_outcomes_and_their_probabilities(told):
    metadata = told.ask("structure")["outputs"][0]["predicts"]
    assert (metadata["what"], metadata["several"]) == (told.what, told.name == "several")
    assert metadata["labels"] == ([] if told.what == "span" else ["bad", "good", "odd"])
    assert metadata["lens"] == (told.what == "tag")
    logits, found = told.table(), told.ask("next", count=400)
    assert found["what"] == told.what and found["masks"] == []
    assert len(found["positions"]) == len(logits)
    for row, one in enumerate(found["positions"]):
        wanted = told.probs(logits)[row]
        assert one["position"] == row and one["actual"] is None
        assert shares(one["candidates"]) == pytest.approx(dict(enumerate(wanted)), abs=1e-5)
        ranked = [each["token"] for each in one["candidates"]]
        assert ranked == logits[row].argsort(descending=True).tolist()
        assert [each["text"] for each in one["candidates"]] == [told.names()[i] for i in ranked]
        off = -(wanted * np.log(wanted)).sum()
        if told.name == "several":
            off -= ((1 - wanted) * np.log(1 - wanted)).sum()
        assert one["entropy"] == pytest.approx(off, abs=1e-4)


def test_the_walk_ends_in_them(told):
    stack = told.ask("structure")["last"]
    steps = told.ask("walk", stack=stack, layer=1, head=1)["steps"]
    assert [step["kind"] for step in steps[-3:]] == ["logits", "probabilities", "choice"]
    logits = told.table()
    for step, wanted in zip(steps[-3:], (logits.numpy(), told.probs(logits)), strict=False):
        _, arrays = told.ask("array", name=step["array"], dtype="float32")
        assert step["shape"] == list(wanted.shape)
        np.testing.assert_allclose(arrays["array"], wanted, atol=1e-5)
    cell = told.ask("cell", name="logits", row=len(logits) - 1, col=1)
    assert cell["value"] == pytest.approx(float(logits[-1, 1]), abs=1e-5)
    products = sum(term["product"] for term in cell["terms"])
    assert products + cell["parts"].get("bias", 0.0) == pytest.approx(cell["value"], abs=1e-5)


def test_a_logit_is_taken_apart(told):
    logits = told.table()
    row = len(logits) - 1
    found = told.ask("contributions", position=row)
    best = int(logits[row].argmax())
    assert (found["token"], found["text"]) == (best, told.names()[best])
    for wanted in (found, told.ask("contributions", position=row, token=1)):
        assert wanted["logit"] == pytest.approx(float(logits[row, wanted["token"]]), abs=1e-4)
        parts = sum(part["value"] for part in wanted["parts"])
        assert parts == pytest.approx(wanted["logit"], abs=1e-4)
    if told.what == "span":
        _, said = told.served.refused("contributions", **told.run, position=0, token=1, against=2)
        assert "cannot be compared" in said
    else:
        other = told.ask("contributions", position=row, token=1, against=0)
        assert other["logit"] == pytest.approx(float(logits[row, 1] - logits[row, 0]), abs=1e-4)


def test_what_mattered(told):
    view = told.model.look((TEXT, PAIR) if told.what == "span" else TEXT)
    logits = told.table()
    best = int(logits[0].argmax())
    position, output = {"classify": (None, best), "tag": (0, best), "span": (best, 0)}[told.what]
    found = told.ask("saliency", position=0, method="gradient")
    assert (found["token"], found["text"]) == (best, told.names()[best])
    wanted = view.gradient_x_input(output, position=position).values.numpy()
    np.testing.assert_allclose(found[view.stack], wanted, atol=1e-5)
    read = {"gpt2": len(view.tokens) - 1, "t5": len(view.tokens) - 1, "reader": best}
    rolled = told.ask("saliency", position=0, method="rollout")[view.stack]
    at = read.get(told.name, 0)
    np.testing.assert_allclose(rolled, view.rollout().numpy()[at], atol=1e-6)


def test_edits_before_and_after(told):
    was, now = told.table(), told.without_head()
    row = len(was) - 1
    metadata, arrays = told.ask("edit", position=row, edits=[told.head_off])
    before, after = told.probs(was), told.probs(now)
    for side, wanted in (("before", before), ("after", after)):
        share = shares(metadata[side]["candidates"])
        assert share == pytest.approx({i: wanted[row][i] for i in share}, abs=1e-5)
    assert metadata["moved"][0]["id"] == np.abs(after[row] - before[row]).argmax()
    far = (before * np.log(before / after)).sum(-1)
    if told.name == "several":
        far += ((1 - before) * np.log((1 - before) / (1 - after))).sum(-1)
    np.testing.assert_allclose(arrays["divergence"], far, atol=1e-4)
    assert np.abs(after - before).max() > 1e-3
    if told.what == "tag":
        _, lens = told.ask("edit_lens", edits=[told.head_off])
        np.testing.assert_allclose(lens["lens_after"][-1], after.max(-1), atol=1e-5)
    else:
        _, said = told.served.refused("edit_lens", **told.run, edits=[told.head_off])
        assert "no logit lens" in said
    _, said = told.served.refused("edit_text", **told.run, edits=[told.head_off])
    assert "no head for the vocabulary" in said


def test_patches_are_swept(told):
    """With all of the stream from the text itself nothing changes; with another text's last stream
    in the place that the head reads, the logit is that text's."""
    metadata, arrays = told.ask("sweep", **{"from": TEXT}, at="resid_pre", position=0)
    assert metadata["axes"] == ["layer", "position"]
    np.testing.assert_allclose(arrays["effect"], 0, atol=1e-5)
    if told.name == "classifier":
        other = "time flies like an student"
        _, arrays = told.ask("sweep", **{"from": other}, at="resid_pre", position=0, token=1)
        assert np.abs(arrays["effect"]).max() > 1e-4


def test_the_lens_says_tags_or_why_not(told):
    if told.what == "tag":
        metadata, arrays = told.ask("lens")
        assert set(metadata["texts"].values()) <= set(told.names())
        np.testing.assert_allclose(
            arrays["probability"][-1], told.probs(told.table()).max(-1), atol=1e-5
        )
        assert (arrays["wanted"] == -1).all()
    else:
        _, said = told.served.refused("lens", **told.run)
        assert "no logit lens" in said
    for question in ("beams", "step", "continue"):
        _, said = told.served.refused(question, **told.run, token=0, beams=2, length=2)
        assert "no head for the vocabulary" in said


def test_models_that_do_not_say_the_same_are_not_compared_in_it(labeling):
    both = {"a": "classifier", "b": "tagger", "text": TEXT}
    metadata, arrays = labeling.ask("compare", **both)
    assert (
        metadata["a"] is None and "divergence" not in arrays
    )  # one says it of texts, one of tokens
    metadata, arrays = labeling.ask("compare", a="classifier", b="several", text=TEXT)
    assert metadata["a"] is None  # one label holds, or several do


def test_two_checkpoints_of_a_tagger(labeled, tmp_path):
    model = gf.load(labeled["tagger"])
    with torch.no_grad():
        model.heads["tag"].out.bias.add_(torch.tensor([0.5, 0.0, -1.0]))
    model.save(tmp_path / "moved")
    for served in serve(labeled["tagger"], tmp_path / "moved"):
        metadata, arrays = served.ask("compare", a="tagger", b="moved", text=TEXT, position=2)
        was, now = (
            Told("tagger", served, gf.load(folder)).table().softmax(-1).numpy()
            for folder in (labeled["tagger"], tmp_path / "moved")
        )
        for side, wanted in (("a", was), ("b", now)):
            share = shares(metadata[side]["candidates"])
            assert share == pytest.approx(dict(enumerate(wanted[2])), abs=1e-5)
        far = (was * np.log(was / now)).sum(-1)
        np.testing.assert_allclose(arrays["divergence"], far, atol=1e-5)


# --- in a browser ---------------------------------------------------------------------------------

PANELS = ("walk", "attention", "next", "lens", "positions", "edit", "compare", "parameters")
SEEN = ("classifier", "tagger", "reader")


@pytest.mark.parametrize("name", quick(SEEN))
@pytest.mark.parametrize("panel", PANELS)
def test_every_panel(labeling, page, axe, panel, name):
    """Nothing on the console (the fixture), nothing that axe finds, no error said."""
    page.emulate_media(reduced_motion="reduce")
    visit(page, labeling, panel=panel, model=name, text=TEXT)
    assert page.get_by_role("tab", selected=True).get_attribute("id") == f"tab-{panel}"
    assert page.get_by_role("tab", name="Prediction").count() == 1
    assert page.get_by_role("alert").count() == 0
    assert axe(page) == []
    page.set_viewport_size({"width": 420, "height": 900})
    page.evaluate(CHANGED)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_the_comparison_of_models_that_predict_differently_has_a_finding(labeling, page):
    visit(page, labeling, panel="compare", model="tagger", compare_a="classifier", text=TEXT)
    _, arrays = labeling.ask("compare", a="classifier", b="tagger", text=TEXT, position=0)
    heads = arrays["heads.encoder"]
    layer, head = np.unravel_index(heads.argmax(), heads.shape)
    finding = page.locator("[data-finding]").inner_text()
    assert f"layer {layer}, head {head} changes most" in finding
    assert float(finding.split()[-1].rstrip(".")) == pytest.approx(heads.max(), abs=6e-3)


def by_hand(name: str, labeling: Served, labeled: dict[str, Path]) -> Told:
    return Told(name, labeling, gf.load(labeled[name]))


def outcomes(names: list[str], probs: np.ndarray) -> list[str]:
    """As the page lists them."""
    order = (-probs).argsort()[:10]
    return [f"{names[i]} {percent(float(probs[i]))}" for i in order]


def listed(page: Any, label: str) -> list[str]:
    """Names and percentages of a list."""
    rows = page.get_by_role("list", name=label).get_by_role("listitem").all()
    words = [row.inner_text().split() for row in rows]
    return [" ".join(word for word in row if not numeric(word)) for row in words]


def numeric(word: str) -> bool:
    return word.replace(MINUS, "").replace(".", "").isdigit()


@pytest.mark.parametrize("name", ["classifier", "several", "tagger"])
def test_the_prediction_is_the_net_s(labeling, labeled, page, name):
    told = by_hand(name, labeling, labeled)
    logits = told.table()
    row = 2 if name == "tagger" else 0
    wanted = outcomes(told.names(), told.probs(logits)[row])
    visit(page, labeling, panel="next", model=name, text=TEXT, token=2)
    assert listed(page, "The labels, the most probable first") == wanted
    body = page.locator("#panel").inner_text()
    title = {"several": "The labels of the text", "tagger": "The label of every token"}
    assert title.get(name, "The label of the text") in body
    assert page.get_by_role("slider").count() == 0  # nothing to sample with
    for word in ("Temperature", "Beam tree", "Sample a token"):
        assert word not in body
    visit(page, labeling, panel="walk", model=name, text=TEXT, token=2, walk_at="probabilities")
    assert listed(page, "Probabilities") == wanted
    visit(page, labeling, panel="next", model=name, text=TEXT, token=2, lang="zh")
    assert "标签" in page.locator("#panel h2").inner_text()


def test_an_answer_s_start_and_end(labeling, labeled, page):
    told = by_hand("reader", labeling, labeled)
    probs = told.probs(told.table())
    visit(page, labeling, panel="next", model="reader", text=TEXT, pair=PAIR)
    for row, end in enumerate(("start", "end")):
        page.get_by_role("radiogroup", name="Answer's").get_by_role("radio", name=end).click()
        settle(page)
        assert listed(page, "The most probable tokens") == outcomes(told.names(), probs[row])
    assert addressed(page, "span.end=1")


@pytest.mark.parametrize("name", SEEN)
def test_the_lens_opens_with_what_there_is(labeling, labeled, page, name):
    told = by_hand(name, labeling, labeled)
    run = {"model": name, "text": TEXT, "pair": told.run.get("pair", ""), "token": 2}
    visit(page, labeling, panel="lens", **run)
    body = page.locator("#panel").inner_text()
    assert ("There is no logit lens" in body) == (name != "tagger")
    visit(page, labeling, panel="lens", lens_view="parts", **run)
    logits = told.table()[2 if name == "tagger" else 0]
    shown = page.locator("[data-logit]").inner_text()
    assert number(shown) == pytest.approx(float(logits.max()), rel=2e-3)
    if name != "reader":
        page.get_by_label("Logit of").select_option("good")
        settle(page)
        shown = page.locator("[data-logit]").inner_text()
        assert number(shown) == pytest.approx(float(logits[1]), rel=2e-3)
    visit(page, labeling, panel="lens", lens_view="mattered", **run)
    best = told.names()[int(logits.argmax())]
    assert f"Effect of each token on “{best}" in page.locator("#panel").inner_text()


@pytest.mark.parametrize("name", SEEN)
def test_an_edit_changes_what_is_said(labeling, labeled, page, name):
    told = by_hand(name, labeling, labeled)
    row = 2 if name == "tagger" else 0
    pair = told.run.get("pair", "")
    edits = json.dumps([told.head_off])
    visit(page, labeling, panel="edit", model=name, text=TEXT, pair=pair, token=2, edit_list=edits)
    before, after = (told.probs(each)[row] for each in (told.table(), told.without_head()))
    rows = page.get_by_role("list", name="Probabilities before and after")
    shown = [shares_of(one.inner_text()) for one in rows.get_by_role("listitem").all()]
    order = np.maximum(before, after).argsort()[::-1]
    for (was, now), i in zip(shown, order, strict=False):
        assert was == pytest.approx(before[i], abs=6e-3)
        assert now == pytest.approx(after[i], abs=6e-3)
    assert len(shown) == min(10, len(before))
    body = page.locator("#panel").inner_text()
    assert ("There is no logit lens" in body) == (name != "tagger")
    assert ("Lens of the edited model" in body) == (name == "tagger")
    assert "also generate" not in body
