"""Tiny folders in the layout of published models: T5, M2M-100 and Whisper, which have learned
nothing, and something to listen to."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

from models import SEQ2SEQ, sentencepiece_in
from whisper_models import write_whisper

import glassformer as gf

TEXTS = ["Hallo Welt, wie geht es dir?", "The dog walks in the green park.", "Bonjour le monde."]


def begun(folder: Path, model_type: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return folder


def t5(folder: Path) -> None:
    begun(folder, "t5")
    sentencepiece_in(folder / "spiece.model", TEXTS * 4)
    sizes = {"d_model": 16, "d_ff": 24, "d_kv": 8, "num_heads": 2, "num_layers": 1}
    save(folder, "t5-small", **sizes)


def m2m100(folder: Path) -> None:
    begun(folder, "m2m_100")
    pieces = sentencepiece_in(folder / "sentencepiece.bpe.model", TEXTS * 4)[3:]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    save(folder, "m2m100-418m", **SEQ2SEQ)


def whisper(folder: Path) -> None:
    write_whisper(folder, ("en", "de"))


def save(folder: Path, preset: str, **sizes: Any) -> Any:
    tokenizer = gf.Tokenizer.load(folder)
    known = [tokenizer.size, *(number + 1 for number in tokenizer.special.values())]
    languages = [tokenizer.id("__zu__") + 1] if preset.startswith("m2m") else []
    model = gf.create(
        preset, seed=1, tokenizer=tokenizer, vocab_size=max(*known, *languages), **sizes
    )
    model.save(folder)
    return model


def sound(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(b"\0\1" * 1600)
