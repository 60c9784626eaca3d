from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer as gf


def test_the_report_accounts_for_every_tensor(folder):
    model = gf.load(folder.path)
    report = model.load_report
    assert report.files == ("model.safetensors",)
    read = {name for names in report.read.values() for name in names}
    assert read == set(folder.tensors) and not report.made and not report.dropped
    assert report.tied == {"heads.lm.out.weight": "decoder.embed.token.weight"}
    assert report.bytes == sum(t.nbytes for t in folder.tensors.values())
    assert report.dtypes == ("float32",)
    assert "28 tensors read from model.safetensors" in str(report)


def test_without_a_class_in_the_config_the_tensors_say_it(folder):
    folder.set(architectures=None)
    assert gf.load(folder.path).architecture == "GPT2LMHeadModel"
    tensors = {**folder.tensors, "score.weight": torch.zeros(2, 16)}
    folder.write(tensors)
    assert gf.load(folder.path).architecture == "GPT2ForSequenceClassification"


def test_an_old_config_without_a_model_type_is_read_by_its_class(folder):
    config = folder.config
    del config["model_type"]
    (folder.path / "config.json").write_text(json.dumps(config))
    assert gf.load(folder.path, architecture="GPT2LMHeadModel").config["model_type"] == "gpt2"


def test_a_new_head_on_an_old_body_is_asked_for_by_name(folder):
    with pytest.raises(gf.GlassformerError, match=r"lacks score\.weight.*init_missing="):
        gf.load(folder.path, architecture="GPT2ForSequenceClassification")
    model = gf.load(
        folder.path,
        architecture="GPT2ForSequenceClassification",
        init_missing="score",
        labels=["bad", "fair", "good"],
        seed=3,
    )
    assert model.load_report.made == ["heads.classify.out.weight"]
    assert model.spec.labels == ("bad", "fair", "good")
    assert model.heads["classify"].out.weight.shape == (3, 16)
    again = gf.load(
        folder.path,
        architecture="GPT2ForSequenceClassification",
        init_missing="score",
        labels=["bad", "fair", "good"],
        seed=3,
    )
    assert torch.equal(model.heads["classify"].out.weight, again.heads["classify"].out.weight)
    model.save(folder.path.with_name("classifier"))
    loaded = gf.load(folder.path.with_name("classifier"))
    assert loaded.spec.labels == ("bad", "fair", "good")
    assert loaded.architecture == "GPT2ForSequenceClassification"


def test_tensors_are_left_out_only_when_asked(folder):
    folder.write({**folder.tensors, "old_head.weight": torch.zeros(2, 16)})
    with pytest.raises(gf.GlassformerError, match=r"ignore_unexpected=\('old_head',\)"):
        gf.load(folder.path)
    model = gf.load(folder.path, ignore_unexpected="old_head")
    assert model.load_report.dropped == {"old_head.weight": "asked for"}


def test_known_left_overs_of_old_files_are_reported_with_their_reason(folder):
    folder.write({**folder.tensors, "transformer.h.0.attn.bias": torch.ones(1, 1, 20, 20)})
    report = gf.load(folder.path).load_report
    assert report.dropped == {"transformer.h.0.attn.bias": "the causal mask, which is computed"}


def test_a_body_under_another_prefix_is_found(folder):
    bare = {name.removeprefix("transformer."): t for name, t in folder.tensors.items()}
    folder.write(bare)
    model = gf.load(folder.path)
    tokens = torch.arange(5)[None]
    with torch.no_grad():
        assert torch.equal(model(tokens).logits, folder.model(tokens).logits)


def test_shards_as_one_file(folder):
    tokens = torch.arange(5)[None]
    folder.model.save(folder.path, shard_bytes=6000)
    assert not folder.weights.exists()
    assert len(list(folder.path.glob("model-*.safetensors"))) > 2
    loaded = gf.load(folder.path)
    assert len(loaded.load_report.files) > 2
    with torch.no_grad():
        assert torch.equal(loaded(tokens).logits, folder.model(tokens).logits)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "before 1.6"])
def test_a_legacy_bin_as_safetensors(folder, legacy):
    tensors = {**folder.tensors}
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
    for name in [n for n in tensors if ".ln_" in n]:
        kind = {"weight": "gamma", "bias": "beta"}[name.rpartition(".")[2]]
        tensors[f"{name.rpartition('.')[0]}.{kind}"] = tensors.pop(name)
    path = folder.path / "pytorch_model.bin"
    torch.save(tensors, path, _use_new_zipfile_serialization=not legacy)
    folder.weights.unlink()
    loaded = gf.load(folder.path)
    tokens = torch.arange(5)[None]
    with torch.no_grad():
        assert torch.equal(loaded(tokens).logits, folder.model(tokens).logits)


def test_a_legacy_bin_in_shards(folder):
    names = sorted(folder.tensors)
    parts = {
        "pytorch_model-00001-of-00002.bin": names[:9],
        "pytorch_model-00002-of-00002.bin": names[9:],
    }
    for file, held in parts.items():
        torch.save({name: folder.tensors[name] for name in held}, folder.path / file)
    where = {name: file for file, held in parts.items() for name in held}
    index = folder.path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": where}))
    folder.weights.unlink()
    loaded = gf.load(folder.path)
    assert loaded.load_report.files == tuple(parts)
    tokens = torch.arange(5)[None]
    with torch.no_grad():
        assert torch.equal(loaded(tokens).logits, folder.model(tokens).logits)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_is_made_takes_the_dtype_of_what_is_read(tmp_path, dtype):
    """A half-precision translator whose file leaves its sinusoids out, as published ones do."""
    model = gf.create(
        "transformer-base", vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1
    )
    model.to(dtype)
    model.save(tmp_path / "half")
    path = tmp_path / "half" / "model.safetensors"
    kept = {n: t.clone() for n, t in load_file(path).items() if "embed_positions" not in n}
    save_file(kept, path, metadata={"format": "pt"})
    loaded = gf.load(tmp_path / "half")
    assert sorted(loaded.load_report.made) == [
        f"{s}.embed.position.weight" for s in ("decoder", "encoder")
    ]
    assert loaded.load_report.dtypes == (str(dtype).removeprefix("torch."),)
    tokens = torch.arange(5)[None]
    with torch.no_grad():
        assert torch.equal(
            loaded(decoder_input_ids=tokens, input_ids=tokens).logits,
            model(decoder_input_ids=tokens, input_ids=tokens).logits,
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", torch.float64])
def test_dtype_is_applied(folder, dtype):
    model = gf.load(folder.path, dtype=dtype)
    wanted = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype)
    assert {p.dtype for p in model.parameters()} == {wanted}
    assert model.load_report.dtypes == (str(wanted).removeprefix("torch."),)


def test_a_wrong_dtype_is_named(folder):
    with pytest.raises(gf.GlassformerError, match="no dtype 'float17'"):
        gf.load(folder.path, dtype="float17")


def test_weights_that_are_changed_do_not_reach_the_file(folder):
    before = folder.weights.read_bytes()
    model = gf.load(folder.path)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert folder.weights.read_bytes() == before


def test_loading_needs_no_more_memory_than_the_model(tmp_path):
    """Peak growth of a process that loads a model whose tensors are all joined from parts."""
    folder = tmp_path / "llama"
    gf.create(
        "llama-7b",
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=16,
        num_attention_heads=8,
        vocab_size=8000,
    ).save(folder)
    size = (folder / "model.safetensors").stat().st_size
    script = (
        "import resource, sys, glassformer as gf, torch\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "model = gf.load(sys.argv[1])\n"
        "for p in model.parameters(): p.sum()\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert size > 2e8
    assert int(run.stdout) < 1.1 * size


def test_generation_settings_travel_along(folder):
    path = folder.path / "generation_config.json"
    path.write_text(json.dumps({"max_new_tokens": 7}))
    model = gf.load(folder.path)
    model.save(folder.path.with_name("copy"))
    assert gf.load(folder.path.with_name("copy")).generation_config == {"max_new_tokens": 7}
