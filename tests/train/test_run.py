"""The run folder: locks, contents, and errors of writing."""

from __future__ import annotations

import itertools
import json
import os
import resource
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_recipe import RECIPE
from test_resume import Interrupting, assert_same_run, metrics, recipe

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.train.errors import explain_model_memory, explain_step_errors
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.open_run import open_run
from glassformer.train.recipe import TrainSettings, read_recipe
from glassformer.train.reporter import Reporter
from glassformer.zoo import folder_of


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "state").iterdir())


def test_the_recipe_of_the_issue_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("recipe.toml").write_text(RECIPE)
    for name in ("train.txt", "valid.txt"):
        Path(name).write_text("To be, or not to be, that is the question.\n" * 20)
    small = [
        "model.num_layers=1",
        "model.num_heads=2",
        "model.hidden_size=16",
        "model.context_length=16",
    ]
    run = gf.train("recipe.toml", [*small, "train.max_steps=3", "train.batch_size=2"])
    assert run.folder == Path("runs/shakespeare")
    written = sorted(path.name for path in run.folder.iterdir() if not path.name.startswith("."))
    assert [name.split(".out")[0] for name in written] == [
        "README.md", "about.json", "best", "data", "data_summary.json", "events", "finished.json",
        "inputs.json", "metrics.jsonl", "model", "plots", "recipe.toml", "run.json", "state",
        "tokenizer",
    ]  # fmt: skip
    kept = tomllib.loads((run.folder / "recipe.toml").read_text())
    assert kept["train"]["lr_scheduler"] == "cosine" and kept["objective"]["memory_length"] == 0
    model = gf.load(run.model)
    assert (len(model.spec.decoder.blocks), model.spec.decoder.width) == (1, 16)
    assert model.generate("To be", max_new_tokens=3).text
    assert [entry["step"] for entry in run.entries() if "loss" in entry] == [1, 3]


def test_test_files_are_judged_by_the_best_model(tmp_path):
    whole = recipe(tmp_path / "run", max_steps=12, eval_steps=2, ema_decay=0.0, learning_rate=0.3)
    (tmp_path / "data/test").write_text("and the dog sat on the log while the sun went down. " * 4)
    whole["data"]["test"] = str(tmp_path / "data/test")
    run = gf.train(whole)
    judged = [entry for entry in run.entries() if "valid" in entry]
    bests = list(itertools.accumulate((e["valid"]["loss"] for e in judged), min))
    new = [i for i, best in enumerate(bests) if i == 0 or best < bests[i - 1]]
    assert [i for i, entry in enumerate(judged) if "test" in entry] == new != list(range(6))
    assert run.finished["test"] == judged[new[-1]]["test"]
    assert "best model on the test files" in (run.folder / "README.md").read_text()
    model = gf.load(run.best)
    ids = model.tokenizer.encode((tmp_path / "data/test").read_text(), special=False).ids
    ids = torch.tensor([*ids, model.tokenizer.special["eos"]])
    total = 0.0
    for start in range(0, len(ids) - 1, 16):
        row = ids[start : start + 17]
        logits = model(row[None, :-1]).logits[0]
        total += torch.nn.functional.cross_entropy(logits, row[1:], reduction="sum").item()
    assert run.finished["test"]["loss"] == pytest.approx(total / (len(ids) - 1), abs=1e-5)


def test_without_validation_files_the_last_model_is_tested(tmp_path):
    whole = recipe(tmp_path / "run", max_steps=4)
    whole["data"] = {"train": whole["data"]["train"], "test": whole["data"]["validation"]}
    run = gf.train(whole)
    assert run.finished["best"] is None and run.finished["test"]["perplexity"] > 1
    assert not (run.folder / "best").exists()
    assert "model of the end on the test files" in (run.folder / "README.md").read_text()


def test_a_run_that_is_over_is_not_run_again(tmp_path):
    whole = recipe(tmp_path / "run", max_steps=2)
    gf.train(whole)
    before = (tmp_path / "run/state/step-0000000002/notes.json").stat().st_mtime_ns
    assert gf.train(whole).finished["step"] == 2
    assert (tmp_path / "run/state/step-0000000002/notes.json").stat().st_mtime_ns == before


def test_another_recipe_in_the_folder_is_an_error(tmp_path):
    folder = tmp_path / "run"
    gf.train(recipe(folder, max_steps=2))
    other = recipe(folder, max_steps=2, learning_rate=0.02)
    with pytest.raises(
        GlassformerError, match=r"another recipe \(train.learning_rate: 0.01 there, 0.02 here\)"
    ):
        gf.train(other)
    assert checkpoints(folder) == ["step-0000000002"]
    (folder / "mine.txt").write_text("keep")
    gf.train(other, restart=True)
    assert (folder / "mine.txt").read_text() == "keep"
    assert [entry["step"] for entry in metrics(folder) if "loss" in entry] == [1, 2]


def test_a_mistake_before_the_first_checkpoint_leaves_nothing_in_the_way(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(GlassformerError, match="cannot have 5 heads"):
        gf.train(recipe(folder, max_steps=2), ["model.num_heads=5"])
    with pytest.raises(GlassformerError, match=r"missing\.txt does not exist"):
        gf.train(recipe(folder, max_steps=2), ["data.train=missing.txt"])
    assert gf.train(recipe(folder, max_steps=2)).finished["step"] == 2


def test_an_unknown_option_is_named_before_the_folder_is_looked_at(tmp_path):
    folder = tmp_path / "run"
    gf.train(recipe(folder, max_steps=2))
    with pytest.raises(
        GlassformerError, match="has no option 'memory_lenght'; did you mean 'memory_length'"
    ):
        gf.train(recipe(folder, max_steps=2), ["objective.memory_lenght=4"])


def test_a_run_does_not_go_on_with_other_data(tmp_path):
    whole = recipe(tmp_path / "run")
    with pytest.raises(TrainingInterrupted):
        gf.train(whole, reporters=[Interrupting(4)])
    (tmp_path / "data/train").write_text("the cat sat on the mat.\n" * 20)
    with pytest.raises(GlassformerError, match=r"train \(data\.train\) has changed since the run"):
        gf.train(whole)
    manifest = json.loads((tmp_path / "run/run.json").read_text())
    del manifest["files"]["inputs.json"]  # as an older version has left it
    manifest["adopted"] = True
    (tmp_path / "run/run.json").write_text(json.dumps(manifest))
    (tmp_path / "run/inputs.json").unlink()
    with pytest.raises(GlassformerError, match=r"had 1,488 tokens when .* and has 480 now"):
        gf.train(whole)


def test_two_cannot_train_in_one_folder(tmp_path):
    whole = recipe(tmp_path / "run")
    with (
        open_run(read_recipe(whole)),
        pytest.raises(GlassformerError, match="Another process is training in"),
    ):
        gf.train(whole)


def test_folders_of_others_are_left_alone(tmp_path):
    (tmp_path / "run/model").mkdir(parents=True)
    with pytest.raises(
        GlassformerError, match=r"contains 'model', which no run.json of a run lists"
    ):
        gf.train(recipe(tmp_path / "run"))


class At(Reporter):
    """Does something once, when a step is logged."""

    def __init__(self, step: int, do) -> None:
        self.at, self.do = step, do

    def step(self, entry):
        if entry["step"] == self.at:
            self.do()


def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path):
    """Files may not grow beyond what a checkpoint needs: writing fails half way."""
    whole, full = tmp_path / "whole", tmp_path / "full"
    gf.train(recipe(whole))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = At(4, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard)))
    try:
        with pytest.raises(GlassformerError) as said:
            gf.train(recipe(full), reporters=[limit])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "The checkpoint of step 6 could not be written (File too large); that of " in str(
        said.value
    )
    assert "step-0000000003" in str(said.value)
    assert checkpoints(full) == ["step-0000000003"]
    gf.train(recipe(full))
    assert_same_run(whole, full)


def test_a_full_disk_when_the_best_model_is_written(tmp_path):
    folder = tmp_path / "run"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = At(4, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard)))
    said = r"best could not be written \(File too large.*\); nothing .*Checkpoints .* are whole"
    try:
        with pytest.raises(GlassformerError, match=said):
            gf.train(recipe(folder, max_steps=5), ["run.tensorboard=false"], reporters=[limit])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert checkpoints(folder) == ["step-0000000003"]
    assert gf.train(recipe(folder, max_steps=5)).finished["step"] == 5


def test_a_missing_permission_leaves_the_last_checkpoint_whole(tmp_path):
    ours = itertools.takewhile(lambda path: "pytest-" in str(path), tmp_path.parents)
    for path in (tmp_path, *ours):
        path.chmod(0o777)
    state = tmp_path / "run/state"
    root = os.geteuid() == 0

    def forbid():
        state.chmod(0o555)
        for path in (tmp_path / "run").glob("[em]*.*"):  # events and metrics are not forbidden
            path.chmod(0o666)
        if root:  # whom no mode keeps out
            os.seteuid(65534)

    try:
        with pytest.raises(GlassformerError, match=r"of step 6 could not be written.*Permission"):
            gf.train(recipe(tmp_path / "run"), reporters=[At(5, forbid)])
    finally:
        if root:
            os.seteuid(0)
    assert checkpoints(tmp_path / "run") == ["step-0000000003"]
    state.chmod(0o755)
    assert gf.train(recipe(tmp_path / "run")).finished["step"] == 32


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GlassformerError, match=r"file/run cannot be written \(Not a directory\)"):
        gf.train(recipe(tmp_path / "run"), [f"run.out={tmp_path / 'file/run'}"])


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
        MemoryError(),
    ],
)
def test_out_of_memory_names_what_to_turn(error):
    said = (
        r"try train.batch_size=16 train.gradient_accumulation_steps=2 .*"
        r"train.precision=bfloat16, or train.gradient_checkpointing"
    )
    with pytest.raises(GlassformerError, match=said), explain_step_errors(TrainSettings()):
        raise error
    with pytest.raises(RuntimeError, match="other"), explain_step_errors(TrainSettings()):
        raise RuntimeError("other")


def test_a_model_that_does_not_fit_is_told_from_a_step_that_does_not():
    with (
        pytest.raises(GlassformerError, match=r"for the model, .*smaller model.hidden_size"),
        explain_step_errors(TrainSettings()),
        explain_model_memory(),
    ):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")


def test_a_kernel_that_cannot_promise_the_same_bits_is_named():
    said = r"\(kthvalue CUDA does not have a deterministic .*\); set train.deterministic = false"
    words = "kthvalue CUDA does not have a deterministic implementation, but you set ..."
    settings = TrainSettings(deterministic=True)
    with pytest.raises(GlassformerError, match=said), explain_step_errors(settings):
        raise RuntimeError(words)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"model": {"preset": "gtp2"}}, "no preset 'gtp2'"),
        ({"model": {"preset": "gpt2", "num_heads": 5}}, "hidden size 768 cannot have 5 heads"),
        ({"model": {"preset": "awd-lstm", "num_heads": 2}}, "num_heads does not apply"),
        ({"model": {"preset": "gpt2", "architecture": "Bert"}}, "model.architecture is 'Bert'"),
        (
            {"model": {"base": "shakespeare", "num_layers": 2}},
            "model.num_layers is for new models",
        ),
        (
            {
                "model": {"base": "shakespeare"},
                "tokenizer": {"type": "byte-bpe", "vocab_size": 1300},
            },
            r"The tokenizer has 13\d\d tokens and the model's decoder 1024",
        ),
        ({"data": {"train": "nowhere.txt"}}, "nowhere.txt does not exist"),
        ({"train": {"optimizer": "adamv"}}, "did you mean 'adamw'"),
        ({"train": {"lr_scheduler": "cosinus"}}, "did you mean 'cosine'"),
        ({"objective": {"name": "masked-lm"}}, "masks are for encoders"),
    ],
)
def test_bad_recipes_are_told_before_the_first_step(tmp_path, tables, said):
    whole = recipe(tmp_path / "run")
    if "tokenizer" in tables:
        words = " ".join(f"w{i}x{i * 7919 % 1009}" for i in range(3000))
        (tmp_path / "data/train").write_text(words)
    with pytest.raises(GlassformerError, match=said):
        gf.train({**whole, **tables})
    assert not (tmp_path / "run/metrics.jsonl").exists()


def test_rows_that_are_longer_than_the_model_reads(tmp_path):
    with pytest.raises(GlassformerError, match="length of 99 is more than the 16 positions"):
        gf.train(recipe(tmp_path / "run"), ["data.sequence_length=99"])


def test_the_folder_of_a_run_stands_for_its_model(tmp_path):
    run = gf.train(recipe(tmp_path / "run", max_steps=1))
    ways = {"folder": run.folder, "model": run.model}
    ends = []
    for name, folder in ways.items():
        model = {"model": {"base": str(folder)}, "tokenizer": {}}
        ends.append(
            gf.train(recipe(tmp_path / name, max_steps=1) | model).model / "model.safetensors"
        )
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_several_objectives_are_learned_at_once(tmp_path):
    tables = [{"name": "causal-lm", "weight": 2.0}, {"name": "causal-lm", "rate": 3.0}]
    run = gf.train({**recipe(tmp_path / "run", max_steps=3), "objective": tables})
    entry = [entry for entry in run.entries() if len(entry.get("parts", ())) == 2][-1]
    one, other = entry["parts"]["causal-lm/lm"], entry["parts"]["causal-lm-2/lm"]
    assert entry["loss"] == pytest.approx(2 * one + other)


def test_an_adapter_is_what_learns_and_what_is_published(tmp_path):
    run = gf.train(recipe(tmp_path / "run", "lora", max_steps=2))
    assert sorted(path.name for path in run.model.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "glassformer.json",
    ]
    (state,) = run.state.glob("*/*.safetensors")
    assert not [name for name in load_file(state) if "lora" not in name and "adapters" not in name]
    base = tmp_path / "data/base"
    plain = gf.load(base).score("the cat").total
    assert gf.load(base).adapters.load(run.model).score("the cat").total != plain
    fresh = {**recipe(tmp_path / "other"), "adapter": {"type": "lora"}}
    with pytest.raises(GlassformerError, match=r"name it as model\.base"):
        gf.train(fresh)


def test_a_model_of_a_folder_is_trained_further(tmp_path):
    """And the folder stays as it was."""
    files = {path: path.read_bytes() for path in folder_of("shakespeare").iterdir()}
    whole = recipe(tmp_path / "run", max_steps=2, batch_size=1)
    del whole["tokenizer"]
    run = gf.train({**whole, "model": {"base": "shakespeare"}}, ["data.sequence_length=8"])
    assert all(path.read_bytes() == data for path, data in files.items())
    before, after = gf.load("shakespeare"), gf.load(run.model)
    names = [name for name, weight in before.named_parameters()
             if not torch.equal(weight, after.get_parameter(name))]  # fmt: skip
    assert len(names) > 50
    assert json.loads((run.model / "config.json").read_text())["n_embd"] == 192


def test_the_room_can_be_called_whatever_was_imported_before():
    import glassformer.train.loop

    assert gf.train is glassformer.train and callable(gf.train)
