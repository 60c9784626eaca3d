from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import glassformer as gf

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "families")]

SETTINGS = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 20, "vocab_size": 30}


class Folder:
    """A saved model whose files a test spoils."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model = gf.create("gpt2", seed=1, **SETTINGS)
        self.model.save(path)

    @property
    def weights(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def tensors(self):
        return {name: t.clone() for name, t in load_file(self.weights).items()}

    def write(self, tensors) -> None:
        save_file(tensors, self.weights, metadata={"format": "pt"})

    @property
    def config(self):
        return json.loads((self.path / "config.json").read_text())

    def set(self, **keys) -> None:
        (self.path / "config.json").write_text(json.dumps({**self.config, **keys}))


@pytest.fixture
def folder(tmp_path) -> Folder:
    return Folder(tmp_path / "model")
