"""Files of small models for the samples of several readers."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer.text import Tokenizer, train

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Time flies like an arrow; fruit flies like a banana.",
    "Je suis étudiant à l'école. 你好，世界！ 😀",
    "A robot must obey the orders given it by human beings.",
] * 3
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 300}


def written(write: Callable[[Path], Any]) -> dict[str, bytes]:
    """Returns the files that a function writes into a folder, in a fork: it may start threads."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "made"
        folder.mkdir()
        child = os.fork()
        if child == 0:
            try:
                write(folder)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0, "a sample could not be made"
        return files_of(folder)


def files_of(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@cache
def tokenizer(kind: str, size: int = 300) -> Tokenizer:
    return train(kind, texts=TEXTS, vocab_size=size)


@cache
def decoder() -> gf.Model:
    return gf.create("gpt2", seed=1, tokenizer=tokenizer("byte-bpe"), **GPT2)


@cache
def decoder_files() -> dict[str, bytes]:
    return written(decoder().save)
