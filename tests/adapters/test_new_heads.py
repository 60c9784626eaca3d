"""A base model gets a head that it lacks: newly initialized weights are trained and saved with
every kind of adapter, and give the same logits in peft and after loading the folder."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peft
import pytest
import reference
import torch
import transformers
from beside_peft import CONFIGS, TOLERANCE, adapted, far, scatter, trained

import glassformer as gf
from glassformer.adapters import AdaLoRA, BitFit, Bottleneck, LoRA, Prefix, Prompt, active
from glassformer.errors import GlassformerError

BERT = {**CONFIGS["BertForSequenceClassification"]}
del BERT["num_labels"]
LLAMA = {**CONFIGS["LlamaForCausalLM"], "tie_word_embeddings": False, "pad_token_id": 1}
GPT2 = {**CONFIGS["GPT2LMHeadModel"], "pad_token_id": 1}
BART = {**CONFIGS["BartForConditionalGeneration"]}
LABELS = ("bad", "good", "odd")


@dataclass(frozen=True)
class Case:
    config: dict[str, Any]
    base: str
    architecture: str
    modules: set[str]  # as peft is to find them in modules_to_save
    make: tuple[str, ...]
    drop: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    settings: tuple[Any, ...] = field(default=(LoRA(rank=2),))


ALL = (
    LoRA(rank=2),
    LoRA(rank=2, bias="all"),
    LoRA(rank=2, modules_to_save=()),
    AdaLoRA(rank=3, target_rank=2, max_steps=9),
    Prefix(num_virtual_tokens=3),
    Prompt(num_virtual_tokens=3),
    BitFit(),
    Bottleneck(bottleneck_size=4),
)
POOLED = {"bert.pooler.dense", "classifier"}
CASES = {
    "classes": Case(
        BERT, "BertForMaskedLM", "BertForSequenceClassification", POOLED,
        ("classifier", "bert.pooler"), ("cls",), LABELS, ALL,
    ),
    "a number": Case(
        BERT, "BertForMaskedLM", "BertForSequenceClassification", POOLED,
        ("classifier", "bert.pooler"), ("cls",), ("value",),
    ),
    "tags": Case(
        BERT, "BertForMaskedLM", "BertForTokenClassification", {"classifier"},
        ("classifier",), ("cls",), LABELS, (LoRA(rank=2), BitFit()),
    ),
    "answers": Case(
        BERT, "BertForMaskedLM", "BertForQuestionAnswering", {"qa_outputs"}, ("qa_outputs",),
        ("cls",),
    ),
    "choices": Case(
        BERT, "BertForMaskedLM", "BertForMultipleChoice", POOLED,
        ("classifier", "bert.pooler"), ("cls",),
    ),
    "masked words": Case(
        BERT, "BertModel", "BertForMaskedLM", {"cls.predictions"}, ("cls",), ("pooler",), None,
        (LoRA(rank=2), BitFit()),
    ),
    "a head of two layers": Case(
        {**BERT, "model_type": "roberta", "pad_token_id": 1}, "RobertaForMaskedLM",
        "RobertaForSequenceClassification", {"classifier.dense", "classifier.out_proj"},
        ("classifier",), ("lm_head",), LABELS, (LoRA(rank=2, target_modules=("query", "dense")),),
    ),
    "a decoder": Case(
        GPT2, "GPT2LMHeadModel", "GPT2ForSequenceClassification", {"score"}, ("score",), (), LABELS
    ),
    "a decoder's words": Case(
        LLAMA, "LlamaModel", "LlamaForCausalLM", {"lm_head"}, ("lm_head",)
    ),
    "an encoder-decoder": Case(
        BART, "BartForConditionalGeneration", "BartForSequenceClassification",
        {"classification_head.dense", "classification_head.out_proj"},
        ("classification_head",), ("final_logits_bias",), LABELS,
    ),
}  # fmt: skip
PAIRS = [(name, settings) for name, case in CASES.items() for settings in case.settings]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    for name, case in CASES.items():
        reference.save(reference.make(case.config, case.base, seed=1), folder / name)
    return folder


def load(case: Case, folder: Path, **more: Any) -> gf.Model:
    how = {
        "architecture": case.architecture,
        "init_missing": case.make,
        "ignore_unexpected": case.drop,
    }
    return gf.load(folder, **how, labels=case.labels, **more)


def tokens_of(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, 40, (2, 9), generator=generator)
    tokens[:, -1] = 2  # the end, where BART's head looks
    mask = torch.ones_like(tokens)
    if case.architecture.startswith("Bert"):
        mask[1, 6:] = 0
    many = case.architecture.endswith("MultipleChoice")
    return (tokens[None], mask[None]) if many else (tokens, mask)


@torch.no_grad()
def ours(case: Case, model: gf.Model) -> torch.Tensor:
    tokens, mask = tokens_of(case)
    logits = model(tokens, mask.bool()).logits
    return logits[mask.bool()] if logits.shape[:2] == mask.shape else logits


@torch.no_grad()
def theirs(case: Case, base: Path, adapter: Path) -> torch.Tensor:
    """As a user of peft would load it; the head that transformers draws is another each time."""
    more = {} if case.labels is None else {"num_labels": len(case.labels)}
    plain = getattr(transformers, case.architecture).from_pretrained(base, **more)
    model = peft.PeftModel.from_pretrained(plain, adapter).eval()
    tokens, mask = tokens_of(case)
    out = model(input_ids=tokens, attention_mask=mask)
    if case.architecture.endswith("QuestionAnswering"):
        logits = torch.stack((out.start_logits, out.end_logits), -1)
    else:
        logits = out.logits
    return logits[mask.bool()] if logits.shape[:2] == mask.shape else logits


@pytest.mark.parametrize(("name", "settings"), PAIRS, ids=str)
def test_what_starts_fresh_is_trained_and_saved(bases, tmp_path, name, settings):
    case, folder = CASES[name], tmp_path / "adapter"
    model = adapted(load(case, bases / name, seed=7), settings)
    fresh = {n for n in model.load_report.made if n in dict(model.named_parameters())}
    assert fresh and fresh <= set(trained(model))
    wanted = ours(case, model)
    model.adapters.save(folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    if not isinstance(settings, BitFit) and getattr(settings, "biases", "none") == "none":
        assert set(config["modules_to_save"]) == case.modules
    again = gf.load(folder)
    assert far(ours(case, again), wanted) == 0
    assert again.architecture == case.architecture
    assert case.labels is None or again.spec.labels == case.labels
    assert far(ours(case, gf.load(bases / name, adapter=folder)), wanted) == 0
    assert far(ours(case, load(case, bases / name, adapter=folder, seed=3)), wanted) == 0
    if not isinstance(settings, Bottleneck):
        assert far(theirs(case, bases / name, folder), wanted) < TOLERANCE


@pytest.mark.parametrize("name", [name for name in CASES if name != "a number"])
def test_merged_and_saved_it_is_a_full_model(bases, tmp_path, name):
    case = CASES[name]
    model = adapted(load(case, bases / name), LoRA(rank=2))
    wanted = ours(case, model)
    model.adapters.save(tmp_path / "adapter")
    with pytest.raises(GlassformerError, match=r"adapters.merge\(forget=True\) before"):
        model.save(tmp_path / "without")
    again = gf.load(tmp_path / "adapter").adapters.merge(forget=True)
    again.save(tmp_path / "merged")
    assert far(ours(case, gf.load(tmp_path / "merged")), wanted) < TOLERANCE
    full = getattr(transformers, case.architecture).from_pretrained(tmp_path / "merged").eval()
    tokens, mask = tokens_of(case)
    with torch.no_grad():
        out = full(input_ids=tokens, attention_mask=mask)
    if case.labels is not None:
        assert tuple(full.config.id2label.values()) == case.labels
    if "logits" in out and out.logits.shape[:2] != mask.shape:
        assert far(out.logits, wanted) < TOLERANCE


def test_ranks_do_not_stand_beside_what_is_trained_whole(bases):
    case = CASES["classes"]
    model = load(case, bases / "classes")
    with pytest.raises(
        GlassformerError, match="classifier is newly initialized and trained in full"
    ):
        model.adapters.add(LoRA(target_modules=("classifier",)))


def test_an_adapter_without_what_was_fresh_is_refused(bases, tmp_path):
    """As one that was saved with its classifier alone: the pooler would be another."""
    from safetensors.torch import load_file, save_file

    case = CASES["classes"]
    adapted(load(case, bases / "classes"), LoRA(rank=2)).adapters.save(tmp_path / "adapter")
    path = tmp_path / "adapter/adapter_model.safetensors"
    save_file({k: v for k, v in load_file(path).items() if "pooler" not in k}, path)
    with pytest.raises(
        GlassformerError, match=r"nor the adapter's has bert\.pooler\.dense\.weight"
    ):
        gf.load(tmp_path / "adapter")


def test_a_tied_table_that_starts_fresh_stays_tied(tmp_path):
    model = gf.create("gpt2", n_embd=16, n_layer=1, n_head=2, vocab_size=40, n_positions=20)
    model.save(tmp_path / "whole")
    model.load_report.made = ["decoder.embed.token.weight"]
    model.adapters.add(LoRA(rank=2))
    scatter(active(model).parameters())
    assert model.heads["lm"].out.weight is model.decoder.embed.token.weight
    wanted = model(torch.arange(9)[None]).logits
    model.adapters.save(tmp_path / "adapter", base=str(tmp_path / "whole"))
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    assert config["modules_to_save"] == ["lm_head", "transformer.wte"]
    plain = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "whole")
    read = peft.PeftModel.from_pretrained(plain, tmp_path / "adapter").eval()
    assert far(read(torch.arange(9)[None]).logits, wanted) < TOLERANCE
    model.adapters.merge(forget=True).save(tmp_path / "merged")
    assert far(gf.load(tmp_path / "merged")(torch.arange(9)[None]).logits, wanted) < TOLERANCE


def test_the_base_is_found_where_it_went(bases, tmp_path, monkeypatch):
    case = CASES["classes"]
    shutil.copytree(bases / "classes", tmp_path / "here/base")
    monkeypatch.chdir(tmp_path / "here")
    model = adapted(load(case, Path("base")), LoRA(rank=2))
    wanted = ours(case, model)
    model.adapters.save("adapter")
    config = json.loads(Path("adapter/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tmp_path / "here/base")
    monkeypatch.chdir(tmp_path)
    assert far(ours(case, gf.load("here/adapter")), wanted) == 0
    (tmp_path / "here").rename(tmp_path / "there")  # both together
    assert far(ours(case, gf.load("there/adapter")), wanted) == 0
    (tmp_path / "there/base").rename(tmp_path / "elsewhere")
    with pytest.raises(GlassformerError) as found:
        gf.load("there/adapter")
    assert "here/base, which is not there" in str(found.value)
    assert "gf.load(MODEL, adapter='there/adapter'), or MODEL --adapter there/adapter" in str(
        found.value
    )
    assert far(ours(case, gf.load("elsewhere", adapter="there/adapter")), wanted) == 0


def test_a_built_in_base_is_known_by_its_name(tmp_path):
    model = gf.load("encoder", architecture="BertForTokenClassification", labels=LABELS,
                    init_missing="classifier", ignore_unexpected="cls")  # fmt: skip
    adapted(model, LoRA(rank=1, target_modules=("query",))).adapters.save(tmp_path / "adapter")
    told = json.loads((tmp_path / "adapter/glassformer.json").read_text())
    assert told["base"]["source"] == "zoo:encoder" and "relative" not in told["base"]
    assert Path(
        json.loads((tmp_path / "adapter/adapter_config.json").read_text())[
            "base_model_name_or_path"
        ]
    ).is_dir()
    again = gf.load(tmp_path / "adapter")
    assert far(again(torch.arange(9)[None]).logits, model(torch.arange(9)[None]).logits) == 0
    assert again.tokenizer.fingerprint == model.tokenizer.fingerprint


def test_a_model_without_a_folder_is_asked_for(tmp_path):
    model = gf.create("gpt2", n_embd=16, n_layer=1, n_head=2, vocab_size=40)
    model.adapters.add(LoRA(rank=1)).adapters.save(tmp_path / "adapter")
    with pytest.raises(
        GlassformerError, match="does not say for which model it is; name the model"
    ):
        gf.load(tmp_path / "adapter")


def test_an_adapter_upon_an_adapter(bases, tmp_path):
    case = CASES["classes"]
    adapted(load(case, bases / "classes"), LoRA(rank=2)).adapters.save(tmp_path / "first")
    model = gf.load(tmp_path / "first")
    with pytest.raises(GlassformerError, match="is loaded as it was saved"):
        gf.load(tmp_path / "first", labels=["a", "b"])
    from glassformer.loading import merged

    second = merged(model)
    second.adapters.add(LoRA(rank=1), seed=1)
    scatter(active(second).parameters(), 0.2)
    wanted = ours(case, second)
    second.adapters.save(tmp_path / "second")
    again = gf.load(tmp_path / "second")
    assert far(ours(case, again), wanted) == 0 and again.spec.labels == LABELS


@pytest.mark.parametrize("task", ["SEQ_CLS", None])
def test_a_folder_of_pefts_with_a_head_of_its_own(bases, tmp_path, task):
    """It says a task, or the class, and the shape of the head says how many labels there are."""
    case = CASES["classes"]
    plain = transformers.BertForSequenceClassification.from_pretrained(
        bases / "classes", num_labels=5
    )
    whole = ["classifier", "pooler"]
    config = peft.LoraConfig(r=2, target_modules=["query"], modules_to_save=whole, task_type=task)
    model = peft.get_peft_model(plain, config).eval()
    scatter(p for p in model.parameters() if p.requires_grad)
    model.save_pretrained(tmp_path / "adapter")
    tokens, mask = tokens_of(case)
    wanted = model(input_ids=tokens, attention_mask=mask).logits
    again = gf.load(tmp_path / "adapter")
    assert again.spec.labels == tuple(f"LABEL_{i}" for i in range(5))
    assert far(ours(case, again), wanted) < TOLERANCE


def test_a_head_beside_codes_is_refused(bases, tmp_path):
    case = CASES["classes"]
    adapted(load(case, bases / "classes"), LoRA(rank=2)).adapters.save(tmp_path / "adapter")
    with pytest.raises(GlassformerError, match="load it without quantize"):
        gf.load(tmp_path / "adapter", quantize="int8")


def test_a_base_is_read_in_the_precision_of_the_training(bases, tmp_path):
    case = CASES["classes"]
    gf.load(bases / "classes").save(tmp_path / "half", dtype=torch.bfloat16)
    model = adapted(load(case, tmp_path / "half", dtype="float32"), LoRA(rank=2))
    wanted = ours(case, model)
    model.adapters.save(tmp_path / "adapter")
    assert far(ours(case, gf.load(tmp_path / "adapter")), wanted) == 0
    half = gf.load(tmp_path / "adapter", dtype="bfloat16")
    assert next(half.parameters()).dtype == torch.bfloat16
