"""The responses of the page for a decoder, an encoder and an encoder-decoder equal the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.core import ActivationCapture

TEXTS = {
    "decoder": {"text": "time flies like an arrow"},
    "encoder": {"text": "time flies like an [MASK]", "pair": "fruit flies like a banana"},
    "encoder_decoder": {"text": "je suis étudiant", "target": "i am a student"},
}
EDIT = {"kind": "scale", "heads": [1], "factor": 0.0}


class Told:
    """A server, a run to ask about, and the same run in the model."""

    def __init__(self, served, folders) -> None:
        self.served = served
        self.name = served.ask("models")["start"]["model"]
        self.run = {"model": self.name, **TEXTS[self.name]}
        self.model = gf.load(folders[self.name])
        self.read = served.ask("read", **self.run)
        self.last = "encoder" if self.name == "encoder" else "decoder"
        self.tokens = self.read[self.last]

    def ask(self, question, **more):
        return self.served.ask(question, **self.run, **more)

    def refused(self, question, **more):
        return self.served.refused(question, **{**self.run, **more})[1]

    def inputs(self):
        ids = {stack: self.ids(stack) for stack in ("encoder", "decoder") if self.read[stack]}
        given = {"input_ids": ids.get("encoder", ids[self.last])}
        if len(ids) == 2:
            given["decoder_input_ids"] = ids["decoder"]
        if self.name == "encoder":
            segments = [token["sentence"] or 0 for token in self.tokens]
            first = next(i for i, s in enumerate(segments) if s)
            given["token_type_ids"] = torch.tensor(
                [[int(i >= first) for i in range(len(segments))]]
            )
        return given

    def forward(self, *names):
        """The model's own logits, and its tensors by name."""
        seen = ActivationCapture(*names)
        return self.tapped(seen), seen

    def tapped(self, tap):
        with torch.no_grad():
            return self.model(**self.inputs(), tap=tap).logits[0]

    def ids(self, stack):
        return torch.tensor([[token["id"] for token in self.read[stack]]])


@pytest.fixture
def told(served, folders) -> Told:
    return Told(served, folders)


def test_models_and_what_they_are_made_of(told):
    (entry,) = told.served.ask("models")["models"]
    kind = told.name.replace("_", "-")
    assert (entry["kind"], entry["checkpoints"]) == (kind, [])
    found = told.served.ask("structure", model=told.name)
    assert found["parameters"] == sum(p.numel() for p in told.model.parameters())
    assert found["last"] == told.last
    types = {"encoder-decoder": ["encoder", "decoder", "cross"]}.get(kind, [kind])
    assert found["attention_types"] == types and list(found["stacks"]) == types[:2]
    (output,) = found["outputs"]
    assert output["predicts"]["what"] == ("masked" if kind == "encoder" else "next")
    assert found["reads"] == {
        "pair": kind == "encoder",
        "target": kind == "encoder-decoder",
        "empty": kind == "decoder",
    }
    layer = found["stacks"][told.last]["layers"][-1]
    assert layer["attention"]["heads"] == 4 and layer["placement"] in ("pre", "post")


def test_texts_become_tokens(told):
    known = told.model.tokenizer
    if told.name == "encoder_decoder":
        assert told.read["target"] == {"text": "i am a student", "written": False}
        assert [t["id"] for t in told.read["encoder"]] == known.encode(told.run["text"]).ids
        ids = [t["id"] for t in told.read["decoder"]]
        assert ids == [
            known.special["pad"],
            *known.target_tokenizer.encode("i am a student").ids[:-1],
        ]
        free = told.served.ask("read", model=told.name, text=told.run["text"])
        assert free["target"]["written"]
    else:
        pair = told.run.get("pair")
        wanted = known.encode(told.run["text"], pair).ids
        assert [t["id"] for t in told.tokens] == wanted
        assert {t["sentence"] for t in told.tokens} == ({0, 1, None} if pair else {0})
        assert all(t["piece"] == known.token(t["id"]) for t in told.tokens)


def test_any_array_in_any_piece(told):
    name = f"{told.last}.blocks.1.q"
    wanted = told.forward(name)[1][name][0].numpy()
    metadata, arrays = told.ask("array", name=name, dtype="float32")
    assert metadata["axes"] == ["head", "position", "dim"] and metadata["shape"] == list(
        wanted.shape
    )
    np.testing.assert_allclose(arrays["array"], wanted, atol=1e-6)
    _, part = told.ask("array", name=name, at={"head": 2, "position": [1, 4]}, dtype="float32")
    np.testing.assert_allclose(part["array"], wanted[2, 1:4], atol=1e-6)
    _, small = told.ask("array", name=name, downsample={"dim": 3}, dtype="float32")
    chunks = np.array_split(wanted, [3, 6], -1)
    np.testing.assert_allclose(
        small["array"], np.stack([c.mean(-1) for c in chunks], -1), atol=1e-6
    )
    _, half = told.ask("array", name=name)
    assert half["array"].dtype == np.float16


def test_attention_in_all_its_views(told):
    for attention_type in told.served.ask("structure", model=told.name)["attention_types"]:
        stack, scope = ("decoder", "cross.") if attention_type == "cross" else (attention_type, "")
        names = [f"{stack}.blocks.{i}.{scope}pattern" for i in range(2)]
        whole = np.stack([told.forward(*names)[1][name][0].numpy() for name in names])
        ask = {"attention_type": attention_type, "layer": 1}
        metadata, head = told.ask("attention", **ask, view="head", head=2)
        np.testing.assert_allclose(head["pattern"], whole[1, 2], atol=1e-3)
        assert [metadata["queries"], metadata["keys"]] == list(whole.shape[2:])
        _, layer = told.ask("attention", **ask, view="layer", heads=[0, 3])
        np.testing.assert_allclose(layer["pattern"], whole[1, [0, 3]], atol=1e-3)
        _, row = told.ask("attention", **ask, view="row", query=1)
        np.testing.assert_allclose(row["pattern"], whole[1, :, 1], atol=1e-3)
        _, model = told.ask("attention", attention_type=attention_type, view="model", size=2, end=2)
        rows, columns = (-(-size // 2) for size in whole.shape[2:])
        np.testing.assert_allclose(
            model["pattern"][:, :, 0, 0], whole[:, :, :rows, :columns].max((2, 3)), atol=1e-3
        )
        part = {"queries": [1, 3], "keys": [0, 2]}
        _, model = told.ask("attention", attention_type=attention_type, view="model", end=2, **part)
        np.testing.assert_allclose(model["pattern"], whole[:, :, 1:3, :2], atol=1e-3)
        _, neuron = told.ask("attention", **ask, view="neuron", head=2, query=1)
        np.testing.assert_allclose(neuron["product"].sum(-1), neuron["dot"], atol=1e-4)
        weights = np.exp(neuron["scores"] - neuron["scores"].max())
        np.testing.assert_allclose(weights / weights.sum(), neuron["pattern"], atol=1e-5)
        metadata, kinds = told.ask("heads", attention_type=attention_type)
        np.testing.assert_allclose(kinds["first"][1], whole[1, :, :, 0].mean(-1), atol=1e-3)


def test_candidates_with_and_without_sampling_options(told):
    logits, _ = told.forward()
    found = told.ask("next")["positions"]
    assert len(found) == len(told.tokens)
    probs = logits.softmax(-1)
    for place, one in enumerate(found):
        best = probs[place].topk(10)
        assert [c["token"] for c in one["candidates"]] == best.indices.tolist()
        got = [c["probability"] for c in one["candidates"]]
        np.testing.assert_allclose(got, best.values, rtol=1e-4)
    (cold,) = told.ask("next", position=1, temperature=0.5, top_k=3)["positions"]
    scores = (logits[1] / 0.5).topk(3).values.softmax(-1)
    got = [c["probability"] for c in cold["candidates"]]
    np.testing.assert_allclose(got, [*scores, *[0] * 7], rtol=1e-4, atol=1e-6)
    assert cold["left"] == 3
    true = {c["token"] for c in [found[0]["actual"]]}
    at = 0 if told.name == "encoder" else 1
    assert true == {told.tokens[at]["id"]}
    if told.name == "encoder":
        assert found[told.ask("next")["masks"][0]]["actual"] is None
    else:
        assert found[-1]["actual"] is None


def test_a_text_goes_on(told):
    if told.name == "encoder":
        (place,) = told.ask("next")["masks"]
        token = told.model.tokenizer.id("time")
        found = told.ask("continue", token=token, position=place)
        assert found["text"] == "time flies like an time" and found["pair"] == told.run["pair"]
        assert "is not a mask" in told.refused("continue", token=token, position=0)
        return
    token = told.tokens[1]["id"]
    found = told.ask("continue", token=token)
    again = told.served.ask("read", **{**told.run, **found})[told.last]
    assert [t["id"] for t in again] == [*(t["id"] for t in told.tokens), token]


def test_beams_and_steps(told):
    if told.name == "encoder":
        assert "does not generate" in told.refused("step")
        return
    found = told.ask("beams", beams=3, length=4)
    nodes = found["nodes"]
    begun = told.ids("decoder")[0].tolist()[: found["position"] + 1]
    assert len(begun) == (1 if told.name == "encoder_decoder" else len(told.tokens))
    for one in found["results"]:
        path, place = [], one["node"]
        while place is not None:
            path.insert(0, nodes[place]["token"])
            place = nodes[place]["parent"]
        total = 0.0
        for length, token in enumerate(path):
            more = torch.tensor([[*begun, *path[:length]]])
            memory = told.model.encode(told.ids("encoder")) if told.read["encoder"] else None
            with torch.no_grad():
                logits = told.model.decode(more, encoder_hidden_states=memory).logits[0, -1]
            total += float(logits.log_softmax(-1)[token])
        assert nodes[one["node"]]["score"] == pytest.approx(total, abs=1e-3)
    assert {node["state"] for node in nodes} >= {"kept", "pruned"}
    steps = told.ask("step", length=5)
    count = len(begun)
    assert [s["fresh"] for s in steps["steps"]] == [count, 1, 1, 1, 1][: len(steps["steps"])]
    assert [s["reused"] for s in steps["steps"]][:2] == [0, count]
    assert steps["steps"][0]["chosen"]["token"] == int(told.forward()[0][count - 1].argmax())
    assert (steps["cache"]["memory"] is None) == (told.name == "decoder")


def test_the_lens_ends_in_what_is_said(told):
    logits, seen = told.forward("*.resid_post", "*.embed")
    metadata, arrays = told.ask("lens", token="final")
    assert [row["after"] for row in metadata["rows"][:3]] == ["embed", "attention", "ffn"]
    assert arrays["best"][-1].tolist() == logits.argmax(-1).tolist()
    np.testing.assert_allclose(arrays["divergence"][-1], 0, atol=1e-5)
    early = told.model.readout(seen[f"{told.last}.blocks.0.resid_post"])[0].softmax(-1)
    wanted = logits.argmax(-1)
    np.testing.assert_allclose(
        arrays["chosen"][2], early.gather(1, wanted[:, None])[:, 0].detach(), rtol=1e-4
    )
    own = told.ask("lens")[1]
    assert own["wanted"][0] == told.tokens[0 if told.name == "encoder" else 1]["id"]
    cell = told.ask("lens_cell", row=2, position=1)
    assert cell["candidates"][0]["token"] == arrays["best"][2, 1]
    whole = told.ask("contributions", position=1)
    assert sum(part["value"] for part in whole["parts"]) == pytest.approx(whole["logit"], abs=1e-3)
    for method in ("gradient", "integrated", "rollout"):
        found = told.ask("saliency", position=1, method=method)
        assert len(found[told.last]) == len(told.tokens)


def test_edits_before_and_after(told):
    at = f"{told.last}.blocks.1.z"
    metadata, arrays = told.ask("edit", edits=[{**EDIT, "at": at}], position=1)

    def off(name, value):
        if name != at:
            return value
        value = value.clone()
        value[:, 1] = 0
        return value

    before, _ = told.forward()
    after = told.tapped(off)
    probs = after.softmax(-1)[1].topk(10)
    assert [c["token"] for c in metadata["after"]["candidates"]] == probs.indices.tolist()
    assert [c["token"] for c in metadata["before"]["candidates"]] == before[1].topk(
        10
    ).indices.tolist()
    far = (before.softmax(-1) * (before.log_softmax(-1) - after.log_softmax(-1))).sum(-1)
    np.testing.assert_allclose(arrays["divergence"], far, atol=1e-5)
    metadata, arrays = told.ask("edit_lens", edits=[{**EDIT, "at": at}])
    for run, logits in (("before", before), ("after", after)):
        likely, best = logits.softmax(-1).max(-1)
        assert arrays[f"best_{run}"][-1].tolist() == best.tolist()
        np.testing.assert_allclose(arrays[f"lens_{run}"][-1], likely.detach(), rtol=1e-4)
    assert [row["layer"] for row in metadata["rows"]] == [None, *range(len(metadata["rows"]) - 1)]
    for row in (0, 1):  # before the layer that is edited
        assert (arrays["lens_after"][row] == arrays["lens_before"][row]).all()
    seen, some = told.ask("edit_lens", edits=[{**EDIT, "at": at}], first=1, count=2)
    assert (seen["first"], seen["tokens"]) == (1, len(told.tokens))
    for name, whole in arrays.items():
        np.testing.assert_allclose(some[name], whole[:, 1:3], rtol=1e-4)


def test_steering_and_patching(told):
    stream = f"{told.last}.blocks.0.resid_post"
    steer = {"kind": "steer", "at": stream, "toward": "a robot", "away": "an arrow", "factor": 3.0}
    assert told.ask("edit", edits=[steer])[1]["divergence"].max() > 0
    if told.name == "encoder":
        assert "does not generate" in told.refused("edit_text", edits=[steer], length=3)
    else:
        written = told.ask("edit_text", edits=[steer], length=3)
        assert written["before"] == told.ask("edit_text", edits=[], length=3)["after"]
        assert written["after"] != written["before"]
    assert "needs 'away'" in told.refused("edit", edits=[{**steer, "away": None}])
    same = {"kind": "patch", "at": stream, "from": told.run["text"]}
    if "pair" not in told.run:
        same |= {"from_target": told.run["target"]} if "target" in told.run else {}
        assert (told.ask("edit", edits=[same])[1]["divergence"] == 0).all()
        text = {"text": "time flies", "from": "fruit flies"}
        if told.name == "decoder":
            got = told.served.ask("sweep", model=told.name, at="resid_pre", **text)[1]["effect"]
            assert got.shape[0] == 3


def test_positions_and_parameters(told):
    metadata, arrays = told.served.ask("positions", model=told.name, length=16)
    kinds = {picture["kind"] for picture in metadata["pictures"]}
    assert kinds == ({"bias", "mask"} if told.name == "encoder_decoder" else {"table", "mask"})
    assert set(arrays) == {picture["array"] for picture in metadata["pictures"]}
    table = told.served.ask("parameters", model=told.name)
    total = sum(p.numel() for p in told.model.parameters())
    assert table["total"] == total
    assert sum(p["count"] for p in table["parts"] if p["shape"] is not None) == total
    name = next(p["name"] for p in table["parts"] if p["shape"] is not None and not p["fixed"])
    bars = told.served.ask("histogram", model=told.name, name=name)
    weight = dict(told.model.named_parameters())[name]
    assert sum(bars["counts"]) == weight.numel() and len(bars["edges"]) == len(bars["counts"]) + 1
    assert bars["mean"] == pytest.approx(float(weight.mean()), abs=1e-6)
    found = told.served.ask("vocabulary", model=told.name, begins="fl")["tokens"]
    assert found and all(one["text"].strip().startswith("fl") for one in found)


def test_the_walk_names_arrays_that_are_there(told):
    found = told.ask("walk", stack=told.last, layer=1, head=2)["steps"]
    ids = {step["id"] for step in found}
    for step in found:
        assert set(step["inputs"]) <= ids
        if step["array"] is not None:
            metadata, _ = told.ask("array", name=step["array"], downsample={"token": 8})
            assert metadata["shape"] == step["shape"] and metadata["axes"] == step["axes"]
    kinds = [step["kind"] for step in found]
    assert ("cross_softmax" in kinds) == (told.name == "encoder_decoder")
    assert kinds[-1] == "choice"
    cell = told.ask("cell", name=f"{told.last}.blocks.1.attn_out", row=1, col=3)
    total = sum(term["product"] for term in cell["terms"]) + cell["parts"].get("bias", 0.0)
    assert total == pytest.approx(cell["value"], abs=1e-4)


@pytest.mark.parametrize(
    ("question", "given", "said"),
    [
        ("read", {"text": "time flies " * 200}, "more than the model's"),
        ("read", {"text": 5}, "'text' must be a text"),
        ("read", {"model": "nobody"}, "There is no model 'nobody' here, only"),
        ("read", {"text": "\ud800"}, "half a character"),
        ("array", {"name": "decoder.blocks.9.q"}, "the nearest name is"),
        ("array", {"name": "decoder.embed", "at": {"head": 1}}, "There is no axis 'head'"),
        ("array", {"name": "decoder.embed", "at": {"position": "x"}}, "an index or [from, to)"),
        ("array", {"name": "decoder.embed", "at": {"position": 99}}, "no position 99"),
        (
            "attention",
            {"attention_type": "decoder", "view": "head", "layer": 7, "head": 0},
            "no layer",
        ),
        ("attention", {"attention_type": "cross", "view": "model"}, "no cross-attention"),
        (
            "attention",
            {"attention_type": "sky", "view": "model"},
            "attention_type is one of encoder, decoder, cross",
        ),
        (
            "attention",
            {"attention_type": "decoder", "view": "layer", "layer": 0, "heads": [9]},
            "0 to 3",
        ),
        (
            "attention",
            {"attention_type": "decoder", "view": "model", "keys": [0, 99]},
            "[from, to) of the",
        ),
        ("next", {"temperature": 0}, "temperature must be"),
        ("next", {"position": 99}, "position goes from 0 to"),
        ("next", {"count": 1000}, "count goes from 1 to 400"),
        ("edit", {"edits": [{"kind": "scale", "at": "nothing", "factor": 0}]}, "no tensor"),
        ("edit", {"edits": [{"kind": "bend", "at": "decoder.embed"}]}, "An edit is one of"),
        ("beams", {"beams": 99}, "beams goes from 2 to 16"),
        ("walk", {"stack": "encoder", "layer": 0, "head": 0}, "no encoder"),
        ("cell", {"name": "decoder.blocks.0.q", "row": 0, "col": 0}, "give the index of one"),
        ("compare", {"a": "decoder"}, "needs 'b'"),
        ("histogram", {"name": "nothing"}, "no tensor 'nothing'"),
    ],
)
def test_bad_questions_get_one_sentence(decoder, question, given, said):
    status, sentence = decoder.refused(
        question, **{"model": "decoder", "text": "time flies like an arrow", **given}
    )
    assert status == 400 and said in sentence and "\n" not in sentence


def test_a_model_without_a_head_says_so(tmp_path):
    import page_models
    from serving import serve

    page_models.encoder("BertModel").save(tmp_path / "bare")
    for served in serve(tmp_path / "bare"):
        run = {"model": "bare", "text": "time flies"}
        found = served.ask("structure", model="bare")["outputs"][0]["predicts"]
        assert found["what"] is None and "no head for the vocabulary" in found["why"]
        for question in ("next", "lens", "contributions", "beams", "edit"):
            status, said = served.refused(question, **run, position=0, edits=[])
            assert status == 400 and "no head for the vocabulary" in said
        _, arrays = served.ask("attention", **run, attention_type="encoder", view="model")
        assert arrays["pattern"].shape[:2] == (3, 4)
