"""recipes/written.py: both sides start from the same state, and a trial runs to its end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.train.recipe import read_recipe

ROOT = Path(__file__).parent.parent
WORDS = ("the", "old", "miller", "walked", "to", "a", "river", "and", "nobody", "asked", "why")
TINY = ("model.num_layers=1", "model.num_heads=2", "model.hidden_size=16",
        "model.intermediate_size=32", "tokenizer.vocab_size=300", "train.precision=float32",
        "train.max_steps=1", "train.learning_rate=1e-12")  # fmt: skip


def sentence(number: int) -> str:
    return " ".join(WORDS[(number * i + i) % len(WORDS)] for i in range(3, 5 + number % 9))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A root with data of its own."""
    for split in ("train", "val", "test_2016_flickr"):
        for side in ("de", "en", "fr"):
            path = tmp_path / "data" / "multi30k" / f"{split}.{side}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{sentence(i)} {side}.\n" for i in range(24)))
    for split in ("train", "dev", "test"):
        path = tmp_path / "data" / "scitldr" / f"{split}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"source": [sentence(i), sentence(i + 1)], "target": [sentence(i)]}
                for i in range(24)]  # fmt: skip
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    monkeypatch.syspath_prepend(str(ROOT / "recipes"))
    monkeypatch.chdir(tmp_path)
    import written

    import bench

    for module in (bench, written):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["multi30k-de-en", "multi30k-de-en-decoder", "scitldr-decoder"])
def test_both_sides_start_alike(place, name):
    from hugging_writing import Peer
    from written import started

    causal = ["objective.prefix_lm=false"] if "decoder" in name else []
    recipe = started(read_recipe(f"recipes/{name}.toml", [*TINY, *causal]), place)
    peer = Peer(place / "start", recipe, torch.device("cpu"))
    learned = peer.examples(recipe.data.train)
    run = gf.train(recipe, device="cpu")
    assert run.finished is not None
    valid = peer.perplexity(peer.examples(recipe.data.validation))
    assert run.finished["best"] == pytest.approx(valid, rel=1e-4)
    assert len(learned) == 24
    model = gf.load(place / "start")
    sources = [sentence(i) for i in range(5)]
    verb = model.translate if "multi30k" in name else model.summarize
    said = [one.text for one in verb(sources, num_beams=2, max_new_tokens=8)]
    assert peer.write(sources, 3, num_beams=2, max_new_tokens=8) == said


def test_a_trial_compares_both_sides(place, monkeypatch, capsys):
    import written

    command = "written.py multi30k de-en --trial --seeds 1,2"
    monkeypatch.setattr(sys, "argv", command.split())
    written.main()
    found = json.loads((place / "runs/trial/results/written-de-en.json").read_text())
    assert list(found) == ["ours 1", "theirs 1", "ours 2", "theirs 2"]
    assert all(one["BLEU, beam"] >= 0 and one["seconds"] > 0 for one in found.values())
    rows = written.multi30k_table({"de-en": found})
    assert [row[:2] for row in rows[1:]] == [["de-en", "Glassformer"], ["de-en", "transformers"]]
    assert "±" in rows[1][3] and rows[1][-1] and not rows[2][-1]


def test_the_other_side_learns(place):
    """The same recipe with a real rate brings the loss down on either side alike."""
    from hugging_writing import train_peer
    from written import started

    settings = (*TINY[:-2], "train.max_steps=60", "train.learning_rate=5e-3",
                "train.warmup_steps=10", "train.ema_decay=0.8", "model.config.dropout=0.0",
                "data.tokens_per_batch=256")  # fmt: skip
    recipe = started(read_recipe("recipes/multi30k-de-en.toml", settings), place)
    _, facts = train_peer(place / "start", recipe, torch.device("cpu"))
    run = gf.train(recipe, device="cpu")
    assert run.finished is not None
    assert facts["perplexity"] < 60
    assert run.finished["best"] == pytest.approx(facts["perplexity"], rel=0.3)
