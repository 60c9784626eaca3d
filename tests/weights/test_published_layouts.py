"""Published checkpoints load as they are: without an argument, as the class that config.json names,
with the reference's numbers. What cannot be loaded rightly is refused with a sentence."""

from __future__ import annotations

import json

import pytest
import reference
import torch
from cases import TOLERANCE, Case, Name, difference
from layouts import LAYOUTS, Change, Layout, lacking, of, plus, under
from more_layouts import MORE_LAYOUTS
from safetensors.torch import load_file, save_file

import glassformer as gf


def write(layout: Layout, plain, folder) -> None:
    folder.mkdir()
    (folder / layout.config_name).write_text(json.dumps(layout.written))
    tensors = {n: t.clone().contiguous() for n, t in layout.tensors(plain).items()}
    if layout.pickled:
        held = tensors if layout.wrap is None else layout.wrap(tensors)
        torch.save(held, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def made(layout: Layout, folder):
    """The reference's model of the class that is expected, and the tensors of the one that saved:
    what the reference itself writes."""
    model = reference.make(layout.config, layout.made_by, seed=3)
    reference.save(model, folder)
    tensors = load_file(folder / "model.safetensors")
    if layout.wanted != layout.made_by:
        model, info = reference.load(folder, layout.wanted)
        assert not info["missing_keys"]
    return model, tensors


@pytest.mark.parametrize("layout", LAYOUTS + MORE_LAYOUTS, ids=lambda layout: layout.name)
def test_a_published_layout_loads(layout, tmp_path):
    theirs, tensors = made(layout, tmp_path / "plain")
    write(layout, tensors, tmp_path / "published")
    ours = gf.load(tmp_path / "published")
    assert ours.architecture == layout.wanted and ours.config["model_type"] == layout.kind
    assert not set(ours.load_report.dropped.values()) & {"asked for"}
    case = Case.of(Name(layout.kind, layout.wanted, layout.tiny), theirs, ours)
    batch = case.batch((9, 5, 12, 7), "right")
    assert difference(case.ours(batch), case.theirs(batch)) <= TOLERANCE


def published(folder, layout: Layout):
    """The folder of a layout, without a model of the reference to compare with."""
    write(layout, made(layout, folder / "plain")[1], folder / "published")
    return folder / "published"


def llama(*changes: Change, **keys) -> Layout:
    return of("llama", "llama", "LlamaForCausalLM", *changes, keys=keys)


def bert(made_by: str, *changes: Change, **details) -> Layout:
    return of("bert", "bert", made_by, *changes, **details)


STRAY = {"surprise__weight": torch.ones(3)}
NORM = "bert.encoder.layer.1.output.LayerNorm"
FOREIGN = {"AutoModelForCausalLM": "modeling_x.LlamaBidirectionalModel"}
REFUSED = {
    "a tensor of the body is missing": (
        bert("BertForMaskedLM", lacking(NORM)),
        rf"lacks {NORM}.weight, {NORM}.bias; without the whole body there is no model",
    ),
    "the body has other names": (
        bert(
            "BertForMaskedLM",
            lambda t: {n.replace("encoder.layer", "block"): v for n, v in t.items()},
        ),
        "and has bert.block.0.* without the whole body",
    ),
    "a tensor that nothing explains": (
        bert("BertForTokenClassification", plus(**STRAY)),
        r"has surprise.weight, which this model does not have; .* "
        r"with ignore_unexpected=\('surprise',\)\.$",
    ),
    "a layer more than config.json has": (
        llama(plus(model__layers__2__mlp__up_proj__weight=torch.ones(64, 32))),
        r"has model.layers.2.mlp.up_proj.weight, which",
    ),
    "the head is missing": (
        bert("BertModel", under("bert."), named="BertForTokenClassification"),
        r"lacks classifier.weight, classifier.bias; the tensors are those of BertModel",
    ),
    "bidirectional": (llama(is_causal=False), "sets is_causal to False"),
    "a window": (llama(sliding_window=64), "sets sliding_window to 64"),
    "windows in layers": (
        llama(layer_types=["sliding_attention", "full_attention"]),
        "sets layer_types to",
    ),
    "a share of the rotations": (llama(partial_rotary_factor=0.5), "sets partial_rotary_factor"),
    "quantized": (llama(quantization_config={"bits": 4}), r"\(quantization_config in config.json"),
    "compressed": (llama(compression_config={"bits": 4}), r"\(compression_config in config.json"),
    "quantized by MLX": (
        llama(quantization={"bits": 4}),
        r"quantized these weights \(quantization in config.json",
    ),
    "foreign code": (llama(auto_map=FOREIGN), r"auto_map: modeling_x.LlamaBidirectionalModel\)"),
    "a foreign class": (
        of("x", "llama", "LlamaForCausalLM", plus(**STRAY), named="LlamaMoeForCausalLM"),
        "Llama has no class 'LlamaMoeForCausalLM', and the tensors fit none of LlamaModel",
    ),
    "any of several types": (
        of("x", "llama", "LlamaForCausalLM", named=None, lacks=("model_type",)),
        "has no model_type, and neither its class nor the tensors say which it is",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_loaded_rightly_is_refused(name, tmp_path):
    layout, message = REFUSED[name]
    plain = of("plain", layout.kind, layout.made_by)
    write(layout, made(plain, tmp_path / "plain")[1], tmp_path / "published")
    with pytest.raises(gf.GlassformerError, match=message) as caught:
        gf.load(tmp_path / "published")
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".") and "init_missing=" not in text


def test_foreign_code_can_be_replaced_by_a_class_of_ours(tmp_path):
    folder = published(tmp_path, llama(auto_map=FOREIGN))
    assert gf.load(folder, architecture="LlamaForCausalLM").architecture == "LlamaForCausalLM"


def test_no_other_class_is_offered_where_the_named_one_is_whole(tmp_path):
    """The head of a tagger and that of a classifier have one name."""
    folder = published(
        tmp_path,
        bert("BertForSequenceClassification", plus(**STRAY), named="BertForTokenClassification"),
    )
    with pytest.raises(gf.GlassformerError, match="ignore_unexpected=") as caught:
        gf.load(folder)
    assert "architecture=" not in str(caught.value)


def test_a_new_head_is_offered_to_be_made_and_the_body_never(tmp_path):
    layout = bert("BertForMaskedLM", lacking("cls.predictions.transform.dense"))
    with pytest.raises(
        gf.GlassformerError, match=r"init_missing=\('cls.predictions.transform.dense',\)"
    ):
        gf.load(published(tmp_path, layout), architecture="BertForMaskedLM")


def test_the_report_says_what_was_dropped_renamed_and_not_read(tmp_path):
    layout = next(layout for layout in LAYOUTS if layout.name == "bert-base-chinese")
    report = gf.load(published(tmp_path, layout)).load_report
    assert report.renamed["bert.embeddings.LayerNorm.gamma"] == "bert.embeddings.LayerNorm.weight"
    reason = "belongs to BertForPreTraining; this class does not read it"
    assert report.dropped["cls.seq_relationship.weight"] == reason
    assert report.dropped["bert.pooler.dense.bias"].startswith("belongs to BertModel;")
    assert report.unread["pooler_num_fc_layers"] == 3 and not report.notes
    line = "keys of config.json that nothing reads: directionality, pooler_fc_size"
    assert line in str(report) and f"{len(report.renamed)} renamed (" in str(report)


def test_the_report_notes_keys_that_may_have_been_meant(tmp_path):
    report = gf.load(published(tmp_path, llama(mlp_biased=True, qk_layernorm=True))).load_report
    assert report.unread == {"mlp_biased": True, "qk_layernorm": True}
    assert report.notes == [
        "qk_layernorm = True in config.json has an effect in other families and none in Llama",
        "mlp_biased in config.json is not read; mlp_bias is a key of Llama",
    ]
    assert all(note in str(report) for note in report.notes)


def test_the_report_notes_a_class_that_was_not_named(tmp_path):
    layout = next(layout for layout in LAYOUTS if layout.name == "a class of one's own")
    notes = gf.load(published(tmp_path, layout)).load_report.notes
    assert notes == [
        "config.json names the class BertForSentiment; the tensors fit "
        "BertForSequenceClassification"
    ]


def test_what_is_no_tensor_is_reported(tmp_path):
    layout = next(layout for layout in LAYOUTS if layout.name == "a number beside the tensors")
    assert gf.load(published(tmp_path, layout)).load_report.dropped == {"step": "is not a tensor"}


def test_a_published_folder_saves_what_it_loads(tmp_path):
    """In today's names, with the keys that were not read."""
    layout = next(layout for layout in LAYOUTS if layout.name == "bert-base-chinese")
    model = gf.load(published(tmp_path, layout))
    model.save(tmp_path / "saved")
    again = gf.load(tmp_path / "saved")
    assert not again.load_report.renamed and not again.load_report.dropped
    assert again.load_report.unread == model.load_report.unread
    _, info = reference.load(tmp_path / "saved", "BertForMaskedLM")
    assert not info["missing_keys"] and not info["unexpected_keys"]


def test_a_class_of_another_type_of_the_family(tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 48, "head_dim": 8, "vocab_size": 40}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    gf.create("qwen3-0.6b", **sizes, **heads).save(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "architectures": ["Qwen2ForCausalLM"]}))
    model = gf.load(tmp_path)
    assert model.architecture == "Qwen3ForCausalLM"
    assert "config.json names the class Qwen2ForCausalLM" in str(model.load_report)
    with pytest.raises(gf.ConfigError, match=r"model_type 'qwen3', .* no class for 'Qwen2ForC"):
        gf.load(tmp_path, architecture="Qwen2ForCausalLM")
