"""FSMT's tokenizer: Moses, two vocabularies, counted merges."""

import shutil
import sys
from pathlib import Path

import pytest

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer


def test_each_side_has_its_vocabulary(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["fsmt"])
    assert tokenizer.target_tokenizer is not tokenizer
    assert tokenizer.size != tokenizer.target_tokenizer.size
    text = "The quick brown fox"
    assert tokenizer.decode(tokenizer.encode(text).ids).startswith("The")


def test_offsets_of_normalized_and_escaped_words(folders: dict[str, Path]) -> None:
    text = "The dog didn't mind: “see” a & b, 1,000！"
    encoded = Tokenizer.load(folders["fsmt"]).encode(text)
    ends = [p[1] for t, p in zip(encoded.tokens, encoded.offsets, strict=True) if "</w>" in t]
    expected = [
        "The",
        "dog",
        "didn",
        "'t",
        "mind",
        ":",
        "“",
        "see",
        "”",
        "a",
        "&",
        "b",
        ",",
        "1,000",
    ]
    at = 0
    for word, end in zip([*expected, "！"], ends, strict=True):
        at = text.index(word, at) + len(word)
        assert end == at, word


def test_without_moses(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    tokenizer = Tokenizer.load(folders["fsmt"])
    with pytest.raises(GlassformerError, match=r'pip install "glassformer\[moses\]"'):
        tokenizer.encode("hello")


def test_languages_are_needed(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["fsmt"], tmp_path / "fsmt")
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(GlassformerError, match="must name two languages"):
        Tokenizer.load(folder)
