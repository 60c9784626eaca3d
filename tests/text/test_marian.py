"""Marian's tokenizer: two languages, language codes, the reference's target mode."""

import json
import random
import shutil
from pathlib import Path

import pytest
from transformers import MarianTokenizer

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer


def test_the_target_side_reads_as_the_reference_reads_labels(
    folders: dict[str, Path], texts: list[str]
) -> None:
    ours = Tokenizer.load(folders["marian"])
    theirs = MarianTokenizer.from_pretrained(folders["marian"])
    assert (
        ours.target_tokenizer is not ours
        and ours.target_tokenizer.target_tokenizer is ours.target_tokenizer
    )
    for text in texts:
        assert ours.target_tokenizer.encode(text).ids == theirs(text_target=text)["input_ids"], text


def test_separate_vocabularies(folders: dict[str, Path], texts: list[str], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["marian"], tmp_path / "marian")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    pieces = [token for token in vocabulary if token not in ("</s>", "<unk>", "<pad>")]
    random.Random(4).shuffle(pieces)
    target = {token: i for i, token in enumerate(["<pad>", "<unk>", "</s>", *pieces])}
    (folder / "target_vocab.json").write_text(json.dumps(target))
    (folder / "tokenizer_config.json").write_text('{"separate_vocabs": true}')
    ours = Tokenizer.load(folder)
    theirs = MarianTokenizer.from_pretrained(folder)
    for text in texts:
        assert ours.encode(text).ids == theirs(text)["input_ids"]
        # The reference numbers special tokens of labels by the source vocabulary, where they are
        # other tokens; ours come from the target's own, as a model must have learned them.
        if "</s>" not in text:
            labels = theirs(text_target=text)["input_ids"]
            assert ours.target_tokenizer.encode(text, special=False).ids == labels[:-1]
        assert ours.target_tokenizer.encode(text).ids[-1] == target["</s>"]


def test_unknown_pieces(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["marian"])
    encoded = tokenizer.encode(">>xxx<< ☃")
    assert encoded.tokens == [">>xxx<<", "▁", "☃", "</s>"]
    assert encoded.ids[0] == encoded.ids[2] == tokenizer.special["unk"]
    assert encoded.offsets == [(0, 7), (8, 8), (8, 9), (0, 0)]


def test_a_vocabulary_without_its_end_token(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["marian"], tmp_path / "marian")
    (folder / "vocab.json").write_text('{"<unk>": 0, "<pad>": 1}')
    with pytest.raises(GlassformerError, match=r"vocab.json lacks the token '</s>'"):
        Tokenizer.load(folder)
