"""Objectives by name, and the batches they make."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import material
import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters

from glassformer.data import DataSettings
from glassformer.errors import GlassformerError
from glassformer.train.batches import make_loader, prepare
from glassformer.train.batches.worker_process import without_weights
from glassformer.train.objectives import make_objective, objective_names
from glassformer.train.objectives.registry import options_of
from glassformer.train.step import TrainingModule

NAMES = ["causal-lm", "masked-lm", "next-sentence", "sentence-order", "replaced-token",
         "translation-lm", "span-corruption", "denoising", "permutation-lm"]  # fmt: skip
BERT = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "vocab_size": 300,
        "intermediate_size": 24, "max_position_embeddings": 64}  # fmt: skip
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2, "vocab_size": 300}
XLNET = {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 24, "vocab_size": 300, "mem_len": 9}
GPT2 = {"n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 64, "vocab_size": 300}
MODELS = {
    "causal-lm": ("gpt2", material.bytelevel, None, GPT2),
    "masked-lm": ("bert-base", material.wordpiece, "BertForMaskedLM", BERT),
    "next-sentence": ("bert-base", material.wordpiece, "BertForPreTraining", BERT),
    "sentence-order": ("bert-base", material.wordpiece, "BertForPreTraining", BERT),
    "replaced-token": ("electra-small", material.wordpiece, None, {**BERT, "embedding_size": 8}),
    "translation-lm": ("bert-base", material.wordpiece, "BertForMaskedLM", BERT),
    "span-corruption": ("t5-small", material.sentinels, None, T5),
    "denoising": ("t5-small", material.bytelevel, None, T5),
    "permutation-lm": ("xlnet-base", material.pieces, None, XLNET),
}
SETTINGS = {
    "next-sentence": {"document_boundary": "blank-line"},
    "sentence-order": {"document_boundary": "blank-line"},
    "translation-lm": {"format": "parallel"},
}


def make(name: str, **options):
    preset, tokenizer, architecture, settings = MODELS[name]
    model = material.model(preset, tokenizer(), architecture, **settings)
    return model, make_objective(name, model, options, length=40)


def loader_of(name: str, objective, folder: Path, **more):
    """Over documents between blank lines, or over two files of sentences."""
    paths = [folder / "one.txt", folder / "two.txt"]
    half = len(material.SENTENCES) // 2
    documents = ["\n".join(material.SENTENCES[:half]), "\n".join(material.SENTENCES[half:])]
    paths[0].write_text("\n\n".join(documents * 2) if name.endswith(("sentence", "order")) else
                        "\n".join(material.SENTENCES * 2), "utf-8")  # fmt: skip
    paths[1].write_text("\n".join(material.SENTENCES[::-1] * 2), "utf-8")
    own = SETTINGS.get(name, {})
    files = paths if own.get("format") == "parallel" else paths[:1]
    settings = DataSettings(
        train=tuple(map(str, files)), sequence_length=40, num_workers=1, **own, **more
    )
    store = prepare(settings, "train", objective, folder / "cache", about={})
    for_gpu = {"for_gpu": objective.few_shapes, "batch": 16 if objective.few_shapes else 4}
    return make_loader(settings, store, objective, context=64, seed=3, ahead=0, **for_gpu)


def together(objective, model, batches) -> dict[str, torch.Tensor]:
    found = [objective(model, batch) for batch in batches]
    return {part: sum(sums[part] for sums in found) for part in found[0]}


@pytest.mark.parametrize("name", NAMES)
def test_from_a_file_to_a_loss_that_processes_do_not_change(name, tmp_path):
    model, objective = make(name)
    assert (
        name in objective_names() and len(without_weights(objective)) < 2**20
    )  # for other processes
    objective.double().eval()
    loader = loader_of(name, objective, tmp_path)
    (one,) = loader.batches(step=5)
    halves = [loader.batches(5, rank, 2)[0] for rank in (0, 1)]
    for part, count in one.counts.items():
        assert count == sum(half.counts[part] for half in halves) > 0
    alone, shared = (together(objective, model, b) for b in ([one], halves))
    for part in alone:
        torch.testing.assert_close(alone[part], shared[part])
    (again,) = loader_of(name, objective, tmp_path).batches(step=5)
    assert all(torch.equal(again.inputs[key], one.inputs[key]) for key in one.inputs)
    (other,) = loader.batches(step=6)
    assert any(
        other.inputs[k].shape != v.shape or not torch.equal(other.inputs[k], v)
        for k, v in one.inputs.items()
    )
    assert (
        max(v.shape[1] for k, v in one.inputs.items() if k in ("input_ids", "decoder_input_ids"))
        <= 40
    )


@pytest.mark.parametrize("name", NAMES)
def test_batches_for_a_gpu_have_few_shapes(name, tmp_path):
    _, objective = make(name)
    objective.few_shapes = True
    loader = loader_of(name, objective, tmp_path)
    shapes = {
        tuple((key, *tensor.shape) for key, tensor in (batch.inputs | batch.targets).items())
        for step in range(60)
        for batch in loader.batches(step)
    }
    assert len(shapes) <= 2


def test_a_compiled_step_is_compiled_once_per_shape(tmp_path):
    model, objective = make("span-corruption")
    objective.few_shapes = True
    loader = loader_of("span-corruption", objective, tmp_path)
    torch._dynamo.reset()
    run = torch.compile(TrainingModule(model.float(), objective), backend="eager", dynamic=False)
    graphs = []
    for step in range(12):
        (batch,) = loader.batches(step)
        batch.inputs.pop("cu_seqlens", None)  # for kernels of a GPU; on a CPU its values are read
        run(batch)
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] == graphs[-1] > 0


@pytest.mark.parametrize("name", ["causal-lm", "permutation-lm"])
def test_a_memory_comes_from_the_rows_before(name, tmp_path):
    model, objective = make(name, memory_length=8)
    objective.double().eval()
    loader = loader_of(name, objective, tmp_path, attend_across_documents=True)
    (batch,) = loader.batches(0)
    assert batch.inputs["before"].shape == (4, 8)
    assert np.isfinite(float(objective(model, batch)["lm"]))


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_learns_also_in_bfloat16(name, tmp_path):
    """Processes wait for all gradients; one that never came would keep them waiting."""
    model, objective = make(name)
    both = torch.nn.ModuleDict({"net": model, "objective": objective}).float()
    (batch,) = loader_of(name, objective, tmp_path).batches(0)
    with torch.autocast("cpu", torch.bfloat16):
        sums = objective(model, batch)
    sum(sums.values()).backward()
    assert all(total.dtype == torch.float32 for total in sums.values())
    assert [n for n, p in both.named_parameters() if p.grad is None] == []
    with torch.no_grad():
        for part, total in objective(model, batch).items():
            torch.testing.assert_close(sums[part], total, rtol=1e-3, atol=1e-3)


def test_names_and_options_that_there_are_not():
    model, _ = make("masked-lm")
    with pytest.raises(GlassformerError, match=r"'mask-lm'; did you mean 'masked-lm'\?"):
        make_objective("mask-lm", model, {})
    with pytest.raises(
        GlassformerError, match=r"option 'propability'; did you mean 'mlm_probability'"
    ):
        make_objective("masked-lm", model, {"propability": 0.1})
    with pytest.raises(GlassformerError, match="needs the option 'parts'"):
        make_objective("mixture", model, {})
    assert make_objective("masked-lm", model, {}, length=30).length == 30
    assert make_objective("masked-lm", model, {"max_length": 20}, length=30).length == 20


GUIDE = (Path(__file__).parents[3] / "docs" / "train.md").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_guide_has_every_option_with_its_default(name):
    (row,) = re.findall(rf"^\| `{name}` \| (.*?) \|", GUIDE, re.M)
    said = dict(re.findall(r"`(\w+)` ([^,]+)", row))
    assert said == {key: str(option.default) for key, option in options_of(name).items()}


def test_only_the_objective_of_a_recipe_is_imported():
    code = (
        "import sys\n"
        "from glassformer.train.objectives.registry import find_objective, objective_names\n"
        "names = objective_names()\n"
        "print(find_objective('causal-lm').__module__, *names)\n"
        "print(*[name for name in sys.modules if name.startswith('glassformer.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found, modules = (line.split() for line in done.stdout.splitlines())
    assert found[0] == "glassformer.train.objectives.causal" and {*NAMES} < {*found[1:]}
    assert "glassformer.train.objectives.distillation" not in modules
    assert "glassformer.word_vectors" not in modules
