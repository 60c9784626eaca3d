"""Makes data/ for recipes/tuned.py of a folder that has the published files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file
from tuning import FETCHED

from bench import ROOT

AS_PUBLISHED = (
    "wnut17/wnut17train.conll",
    "wnut17/emerging.dev.conll",
    "wnut17/emerging.test.annotated",
    *(f"resume_ner/{split}.char.bmes" for split in ("train", "dev", "test")),
    "xquad/xquad.en.json",
)


def gather(source: Path, target: Path) -> None:
    """What the recipes read, made of the published files; and MiniLM with its numbers in half as
    many bytes, which both sides read as float32."""
    here = ROOT / "recipes"
    for words in ((here / "classify" / "prepare.py", source, target / "classify"),
                  (here / "prepare.py", source, target)):  # fmt: skip
        subprocess.run([sys.executable, *map(str, words)], check=True)
    for name in AS_PUBLISHED:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
    made = target / "minilm"
    made.mkdir(exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copyfile(FETCHED / name, made / name)
    weights = load_file(FETCHED / "model.safetensors")
    halved = {k: v.half() if v.is_floating_point() else v for k, v in weights.items()}
    save_file(halved, made / "model.safetensors", {"format": "pt"})
