"""Training on recordings: from a table to a model that writes what it hears."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.train.data_summary import DataSummary
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.reporter import Reporter
from glassformer.train.task_recipe import TaskOptions, make_task_recipe

sys.path.insert(0, str(Path(__file__).parent / "objectives"))
import speech_material as speech

QUICK = ("train.lr_scheduler=constant", "train.betas=[0.9, 0.98]", "train.warmup_steps=10")
PLAIN = ("objective.speed_perturbation=0", "objective.freq_masks=0", "objective.time_masks=0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    speech.write_words(folder / "data")
    speech.make_model(folder / "tokenizer").save(folder / "base")
    return folder


@pytest.fixture(scope="module")
def run(folder):
    return gf.train(
        "transcribe",
        folder / "data" / "data.csv",
        base=str(folder / "base"),
        out=str(folder / "run"),
        validation=str(folder / "data" / "data.csv"),
        max_steps=160,
        learning_rate=8e-3,
        batch_size=8,
        settings=(*PLAIN, *QUICK, "objective.ctc_weight=0.3", "train.eval_steps=160"),
        progress=False,
    )


def test_words_are_learned(run):
    assert run.metrics["wer"] == run.metrics["cer"] == 0.0
    assert run.metrics["ctc_cer"] < 1.0


def test_the_model_is_evaluated_for_each_speaker(run, folder):
    model = run.load()
    assert [head.name for head in model.spec.heads] == ["lm", "ctc"]
    found = gf.evaluate(model, str(folder / "data" / "data.csv"))
    assert found.task == "speech-recognition" and found["wer"] == 0.0
    assert {name: one.records for name, one in found.speakers.items()} == {"s0": 4, "s1": 4}
    rows = [
        {"audio": str(folder / "data" / "1.wav"), "text": "One!", "speaker": "a"},
        {"audio": str(folder / "data" / "2.wav"), "text": "two three", "speaker": "b"},
        {"audio": str(folder / "data" / "missing.wav"), "text": "x"},
    ]
    found = gf.evaluate(model, rows, "asr", on_error="skip")
    assert found["wer"] == pytest.approx(1 / 3) and len(found.skipped) == 1
    assert found.speakers["a"].metrics["wer"].value == 0.0
    assert found.speakers["b"].metrics["wer"].value == 0.5
    assert found.record()["speakers"]["b"]["metrics"]["wer"]["value"] == 0.5
    assert gf.evaluate(model, rows[:1], normalizer="none")["wer"] == 1.0


class Interrupting(Reporter):
    def step(self, entry):
        if entry["step"] == 4:
            os.kill(os.getpid(), 2)


def test_an_interrupted_run_goes_on_with_the_same_bits(folder):
    def recipe(out):
        return {
            "model": {"base": str(folder / "base")},
            "data": {"train": [str(folder / "data" / "data.csv")]},
            "objective": {"name": "speech-recognition", "time_mask_ratio": 0.5},
            "train": {"max_steps": 8, "batch_size": 3, "save_steps": 3, "learning_rate": 1e-2},
            "run": {"out": str(folder / out), "logging_steps": 1},
        }

    whole = gf.train(recipe("whole")).load().state_dict()
    with pytest.raises(TrainingInterrupted):
        gf.train(recipe("parts"), reporters=[Interrupting()])
    parts = gf.train(recipe("parts")).load().state_dict()
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_records_that_cannot_be_heard_are_left_out_and_counted(folder, tmp_path):
    (folder / "data" / "more.csv").write_text(
        "audio,text,speaker\n0.wav,zero,s0\n1.wav,one,s1\nnone.wav,two,s0\nlong.wav,long,s2\n"
    )
    speech.write_wav(folder / "data" / "long.wav", speech.tone(0, 1.5))
    options = {
        "base": str(folder / "base"),
        "out": str(tmp_path / "run"),
        "validation": str(folder / "data" / "data.csv"),
        "max_steps": 1,
        "progress": False,
    }
    with pytest.raises(gf.DataError, match=r"none\.wav does not exist"):
        gf.train("transcribe", folder / "data" / "more.csv", **options)
    run = gf.train("transcribe", folder / "data" / "more.csv", **options, on_error="skip")
    summary = DataSummary.read(run.folder / "data_summary.json")
    split = summary.splits["train"]
    assert (split.skipped, split.examples, split.tally.too_long) == (1, 2, 1)
    assert split.tally.seconds == pytest.approx(0.6)
    assert split.tally.speakers == {"s0": 1, "s1": 1}
    notes = " ".join(summary.notes())
    assert "1 record was left out of data.train, because the sound is longer" in notes
    assert "2 of the 2 speakers of data.validation are also in data.train" in notes


def test_the_recipe_of_a_folder_and_of_common_voice(folder, tmp_path):
    (tmp_path / "7" / "1").mkdir(parents=True)
    speech.write_wav(tmp_path / "7" / "1" / "7-1-0.wav", speech.tone(0))
    (tmp_path / "7" / "1" / "7-1.trans.txt").write_text("7-1-0 zero\n" * 20)
    options = TaskOptions(base=str(folder / "base"), lora=True)
    made = make_task_recipe("asr", [str(tmp_path)], options)
    assert made.tables["data"]["format"] == "librispeech"
    assert made.tables["data"]["train"] == [f"{tmp_path}/**/*.trans.txt"]
    assert made.tables["objective"] == {"name": "speech-recognition"}
    assert made.tables["train"]["metric_for_best_model"] == "wer"
    assert made.tables["adapter"] == {"type": "lora"}
    with pytest.raises(gf.ConfigError, match="transcribe starts from a model of speech"):
        make_task_recipe("asr", [str(tmp_path)], TaskOptions())
    with pytest.raises(gf.DataError, match="is a folder"):
        make_task_recipe("asr", [str(folder / "base")], options)


def test_an_adapter_is_trained_beside_weights_that_stay(folder):
    run = gf.train(
        "transcribe",
        folder / "data" / "data.csv",
        base=str(folder / "base"),
        out=str(folder / "lora"),
        validation=0,
        max_steps=2,
        lora=True,
        progress=False,
    )
    base, adapted = gf.load(folder / "base"), run.load()
    before, after = base.state_dict(), adapted.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before if name in after)
    assert adapted.adapters.active == "default"
    sound = base.processor(folder / "data" / "3.wav")
    start = torch.tensor([[base.spec.tokens.start]])
    one, other = (m(input_features=sound, decoder_input_ids=start).logits for m in (base, adapted))
    assert not torch.equal(one, other)
