"""Many processes learn what one does, and go on from each other's checkpoints.

Weights are compared within 1e-6 in float32, without dropout (every process draws its own). AdamW
and Adafactor divide by the gradient's own size, so that a weight whose true gradient is zero (the
bias of keys) takes whole steps of nothing but rounding, and no two ways of adding up agree on
those; with an eps above the rounding it does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from quick import quick
from safetensors import safe_open
from safetensors.torch import load_file
from test_resume import TEXT, files, metrics

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.families import find_preset, spec_from_config
from glassformer.train import recipe_text
from glassformer.train.tensor_parallel import check_shares, row_order

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent.parent)}
STEPS, STOP = 6, 2  # asked to stop while step 2 is logged, a run stops behind step 3
FSDP, TENSOR = ["scale.parallel=fsdp"], ["scale.tensor_parallel_size=2"]
SAVING = ["train.save_steps=2"]
ADAFACTOR, MUON = ["train.optimizer=adafactor"], ["train.optimizer=muon"]
COMPILED = "train.compile=true"
BACKWARD, WRITING = "glassformer.train.precision.Precision.backward", "os.fsync"
QUICK = ("one", "ddp", "fsdp", "two", "two, then one", "killed", "killed, then one")
PLANS = {  # by name: what they go on from, processes, settings, when they are stopped or killed
    "one": (None, 1, [], None),
    "ddp": (None, 2, [], None),
    "fsdp": (None, 2, FSDP, None),
    "two": (None, 2, FSDP, STOP),
    "two, then one": ("two", 1, [], None),
    "two, then three": ("two", 3, FSDP, None),
    "three": (None, 3, [], STOP),
    "three, then split by two": ("three", 2, TENSOR, STOP + 2),
    "three, split by two, then one": ("three, then split by two", 1, [], None),
    "one at first": (None, 1, [], STOP),
    "one, then two": ("one at first", 2, FSDP, None),
    "killed": (None, 2, [*FSDP, *SAVING], [1, BACKWARD, 9]),  # at the end of step 5
    "killed, then one": ("killed", 1, SAVING, None),
    "killed writing": (None, 2, SAVING, [1, WRITING, 1]),  # the checkpoint of step 4
    "killed writing, then two": ("killed writing", 2, [*FSDP, *SAVING], None),
    "adafactor": (None, 1, ADAFACTOR, None),
    "adafactor, ddp": (None, 2, ADAFACTOR, None),
    "adafactor, fsdp": (None, 2, [*ADAFACTOR, *FSDP], None),
    "muon": (None, 1, MUON, None),
    "muon, fsdp": (None, 2, [*MUON, *FSDP], None),
    "compiled, ddp": (None, 2, [COMPILED], None),
    "compiled, fsdp": (None, 2, [COMPILED, *FSDP], None),
    "lora": (None, 1, [], None),
    "lora, ddp": (None, 2, [], None),
    "lora, fsdp": (None, 2, FSDP, None),
}


def recipe(folder: Path, **train) -> dict:
    data = folder.parent
    for name, text in (("train", TEXT), ("valid", TEXT[:400])):
        (data / name).write_text(text)
    sizes = {
        "num_layers": 2,
        "num_heads": 2,
        "hidden_size": 16,
        "context_length": 16,
        "dropout": 0.0,
    }
    lora = folder.name.startswith("lora")
    adapter = {
        "type": "lora",
        "rank": 2,
        "dropout": 0.0,
        "modules_to_save": ["ln_f"],
    }  # whole tensors, too
    special = {"adapter": adapter} if lora else {}
    return {
        "model": {"base": str(data / "one/model")} if lora else {"preset": "gpt2", **sizes},
        **({} if lora else {"tokenizer": {"type": "char"}}),
        **special,
        "data": {
            "train": str(data / "train"),
            "validation": str(data / "valid"),
            "sequence_length": 16,
        },
        "train": {
            "max_steps": STEPS,
            "batch_size": 6,
            "gradient_accumulation_steps": 2,
            "learning_rate": 0.01,
            "warmup_steps": 2,
        }
        | {"eps": 1e-3, "ema_decay": 0.5, "save_steps": 100, "eval_steps": 0, "seed": 3}
        | train,
        "run": {"out": str(folder), "logging_steps": 1, "tensorboard": False},
    }


def ran(*words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory, pytestconfig) -> Path:
    """All plans, or without --all those of QUICK, one after the other."""
    folder = tmp_path_factory.mktemp("together")
    asked = []
    for name in PLANS if pytestconfig.getoption("all") else QUICK:
        like, world, said, stop = PLANS[name]
        run = {"recipe": recipe(folder / name), "world": world, "said": said}
        run |= {} if stop is None else {"stop": stop} if isinstance(stop, int) else {"kill": stop}
        run |= {"like": str(folder / like)} if like else {}
        asked.append(run)
    (folder / "runs.json").write_text(json.dumps(asked))
    (folder / "said").write_text(ran(str(HERE / "together.py"), str(folder / "runs.json")))
    return folder


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Of the last checkpoint, the optimizer's and averages too; put together from all files."""
    (state,) = (run / "state").glob(f"step-*{STEPS}")
    found: dict[str, torch.Tensor] = {}
    pieces: dict[str, list[tuple[list[int], torch.Tensor]]] = {}
    for path in state.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            where = json.loads(file.metadata()["DCP_SHARDING_INFO"])
            for name in file.keys():  # noqa: SIM118
                offset = where[name]["saved_offsets"]
                pieces.setdefault(name, []).append((offset, file.get_tensor(name)))
    for name, parts in pieces.items():
        parts.sort(key=lambda part: part[0])
        assert all(not any(offset[1:]) for offset, _ in parts)
        found[name] = torch.cat([part for _, part in parts]) if parts[0][0] else parts[0][1]
    return found


def assert_same(one: Path, other: Path) -> None:
    mine, theirs = weights(one), weights(other)
    assert mine.keys() == theirs.keys() and len(mine) > 10
    for name, tensor in mine.items():
        assert torch.allclose(tensor, theirs[name], atol=1e-6, rtol=0), name
    published = [load_file(next((run / "model").glob("*.safetensors"))) for run in (one, other)]
    for name, tensor in published[0].items():
        assert torch.allclose(tensor, published[1][name], atol=1e-6, rtol=0), name
    for line, another in zip(metrics(one), metrics(other), strict=True):
        for key in ("loss", "gradient", "tokens", "step"):
            assert line.get(key) == pytest.approx(another.get(key), abs=1e-5)
        assert line.get("valid", {}) == pytest.approx(another.get("valid", {}), abs=1e-4)
    assert files(one / "best").keys() == files(other / "best").keys()


@pytest.mark.parametrize(
    "name", quick(["ddp", "fsdp", "compiled, ddp", "compiled, fsdp"], "ddp", "fsdp")
)
def test_two_processes_learn_what_one_does(runs, name):
    assert_same(runs / "one", runs / name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adafactor, ddp", "adafactor, fsdp", "muon, fsdp"])
def test_rules_of_whole_matrices_are_the_same_for_shares_of_them(runs, name):
    assert_same(runs / name.split(",")[0], runs / name)


@pytest.mark.parametrize(
    "name",
    quick(["two, then one", "two, then three", "three, split by two, then one", "one, then two"]),
)
def test_a_checkpoint_goes_on_with_any_number_of_processes(runs, name):
    assert_same(runs / "one", runs / name)


@pytest.mark.parametrize(
    ("name", "step", "later"),
    quick([("killed", 4, "killed, then one"), ("killed writing", 2, "killed writing, then two")]),
)
def test_a_process_that_is_killed_ends_the_run_and_spares_the_checkpoint(runs, name, step, later):
    said, killed = (runs / "said").read_text(), len(list(runs.glob("killed*"))) // 2
    assert said.count("[256, 9]") == killed  # the other has ended with an error
    assert said.count("waited too long") + said.count("could not be written") == killed
    whole = [path.name for path in (runs / name / "state").iterdir() if not path.suffix]
    assert whole == [f"step-{step:010d}"]
    assert_same(runs / "one", runs / later)


def test_nothing_is_warned_of(runs):
    assert "find_unused_parameters" not in (runs / "said").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lora, ddp", "lora, fsdp"])
def test_adapters_learn_the_same_on_two_processes(runs, name):
    assert_same(runs / "lora", runs / name)


@pytest.mark.parametrize(
    ("name", "step"), quick([("two", 3), ("three", 3), ("three, then split by two", 5)])
)
def test_a_run_stops_on_all_processes_behind_the_same_step(runs, name, step):
    (state,) = (runs / name / "state").iterdir()
    assert state.name == f"step-{step:010d}"
    assert not (runs / name / "finished.json").exists()


def test_with_fsdp_every_process_writes_its_share(runs):
    (state,) = (runs / "fsdp/state").iterdir()
    sizes = [path.stat().st_size for path in state.glob("*.safetensors")]
    assert len(sizes) == 2 and min(sizes) > 0.4 * sum(sizes)


@pytest.mark.parametrize("cases", quick(["llama-3.2-1b", "gpt2 qwen3-0.6b bert-base t5-small"]))
def test_processes_share_the_matrices_of_a_layer(cases):
    """`split_steps.py` compares with one process alone: GPT-2, Llama and Qwen with grouped heads,
    BERT, T5."""
    ran(str(HERE / "split_steps.py"), "2", *cases.split())


@pytest.mark.slow
def test_processes_share_matrices_and_rows():
    ran(str(HERE / "split_steps.py"), "4", "llama-3.2-1b")


@pytest.mark.slow
def test_torchrun_trains(tmp_path):
    whole = recipe(tmp_path / "run", max_steps=2, batch_size=4)
    (tmp_path / "recipe.toml").write_text(recipe_text.write_recipe(whole))
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "glassformer", "train", "recipe.toml", *FSDP]
    assert ran(*command, cwd=tmp_path).count("2 steps done") == 1
    assert [line["step"] for line in metrics(tmp_path / "run") if "loss" in line] == [1, 2]


@pytest.mark.parametrize(
    ("world", "said", "why"),
    [
        (
            1,
            ["scale.tensor_parallel_size=2"],
            r"does not divide the number of processes, 1.*--nproc-per-node 2",
        ),
        (4, ["scale.tensor_parallel_size=2"], "needs scale.parallel = 'fsdp'"),
        (1, ["scale.parallel=fdsp"], "did you mean 'fsdp'"),
    ],
)
def test_what_cannot_be_shared_is_said(tmp_path, monkeypatch, world, said, why):
    monkeypatch.setenv("WORLD_SIZE", str(world))
    with pytest.raises(GlassformerError, match=why):
        gf.train(recipe(tmp_path / "run"), said)


@pytest.mark.parametrize(
    ("preset", "settings", "degree", "why"),
    [
        ("gpt2", {"n_head": 3, "n_embd": 24}, 2, "does not divide 3 heads"),
        ("llama-3.2-1b", {"num_key_value_heads": 1}, 2, "does not divide 1 heads"),
        ("deberta-base", {}, 2, "cannot be split by heads"),
    ],
)
def test_layers_that_cannot_be_split_are_named(preset, settings, degree, why):
    config = {**find_preset(preset), **settings}
    spec = spec_from_config(config, config["architectures"][0])
    with pytest.raises(GlassformerError, match=why):
        check_shares(spec, degree)


def test_rows_lie_process_by_process_of_each_part_its_own():
    assert row_order((4, 2, 2), 2).tolist() == [0, 1, 4, 6, 2, 3, 5, 7]
