"""The tokenizer class that a folder names decides, before the model type; one whose files nobody
here reads is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import transformers

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer
from glassformer.text.loading.catalog import FAMILIES
from glassformer.text.loading.tokenizer_classes import CLASSES

ALIKE = {
    "ElectraTokenizer": "bert-uncased",
    "MobileBertTokenizer": "bert-uncased",
    "SqueezeBertTokenizer": "bert-uncased",
    "ConvBertTokenizer": "bert-uncased",
    "DPRQuestionEncoderTokenizer": "bert-uncased",
    "DPRContextEncoderTokenizer": "bert-uncased",
    "CodeGenTokenizer": "gpt2",
    "LongformerTokenizer": "roberta",
    "MT5Tokenizer": "t5",
    "BertTokenizer": "bert-cased",
    "DistilBertTokenizer": "distilbert-uncased",
}
FOLDERS = {name: types[0] for name, types in CLASSES.items()} | ALIKE
NOT_THERE = ("TransfoXLTokenizer", "NllbTokenizer")  # made for other tests; see `test_languages`


def renamed(source: Path, folder: Path, **settings: object) -> Path:
    """A copy, of a model type that nobody knows."""
    shutil.copytree(source, folder)
    (folder / "config.json").write_text('{"model_type": "abacus"}')
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(config | settings))
    return folder


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in NOT_THERE])
def test_a_known_class_reads_its_files(
    name: str, folders: dict[str, Path], texts: list[str], tmp_path: Path
) -> None:
    """As those of its model type are read, which other tests compare with the reference."""
    source = folders[FOLDERS[name]]
    by_type = Tokenizer.load(source)
    for number, said in enumerate((name, f"{name}Fast")):
        folder = renamed(source, tmp_path / str(number), tokenizer_class=said)
        ours = Tokenizer.load(folder)
        assert all(ours.encode(text).ids == by_type.encode(text).ids for text in texts)


@pytest.mark.parametrize("name", [name for name in ALIKE if hasattr(transformers, name)])
def test_classes_that_read_alike(
    name: str, folders: dict[str, Path], texts: list[str], tmp_path: Path
) -> None:
    folder = renamed(folders[FOLDERS[name]], tmp_path / "copy", tokenizer_class=name)
    ours, theirs = Tokenizer.load(folder), getattr(transformers, name).from_pretrained(folder)
    for text in texts:
        assert ours.encode(text).ids == theirs(text)["input_ids"], text


def test_every_model_type_has_a_class() -> None:
    assert {kind for kinds in CLASSES.values() for kind in kinds} == set(FAMILIES)


def test_a_class_of_another_type_goes_before_the_model_type(
    folders: dict[str, Path], texts: list[str], tmp_path: Path
) -> None:
    """As the Chinese GPT-2 models, which read BERT's vocabulary."""
    folder = renamed(folders["bert-uncased"], tmp_path / "copy", tokenizer_class="BertTokenizer")
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = Tokenizer.load(folder)
    for text in texts:
        assert ours.encode(text).ids == theirs(text)["input_ids"]


@pytest.mark.parametrize("where", ["tokenizer_config.json", "config.json"])
def test_an_unknown_class_is_refused(where: str, folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["bert-uncased"], tmp_path / "bert")
    Tokenizer.load(folder)
    config = {"model_type": "bert"} if where == "config.json" else {}
    config["tokenizer_class"] = "BertJapaneseTokenizer"
    (folder / where).write_text(json.dumps(config))
    with pytest.raises(GlassformerError) as caught:
        Tokenizer.load(folder)
    assert "tokenizer class 'BertJapaneseTokenizer', which is not known here" in str(caught.value)
    assert "save the tokenizer as tokenizer.json" in str(caught.value)


def test_an_unknown_class_with_a_tokenizer_json_is_read(
    folders: dict[str, Path], texts: list[str], tmp_path: Path
) -> None:
    Tokenizer.load(folders["bert-uncased"]).save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text()) | {"tokenizer_class": "HerbertTokenizerFast"}
    path.write_text(json.dumps(config))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    ours, before = Tokenizer.load(tmp_path), Tokenizer.load(folders["bert-uncased"])
    assert all(ours.encode(text).ids == before.encode(text).ids for text in texts)


@pytest.mark.parametrize(
    "name", ["PreTrainedTokenizerFast", "PreTrainedTokenizer", "AutoTokenizer", "TokenizersBackend"]
)
def test_a_class_that_says_nothing(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["bert-uncased"], tmp_path / "bert")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    expected = Tokenizer.load(folders["bert-uncased"]).encode("the glass house").ids
    assert Tokenizer.load(folder).encode("the glass house").ids == expected
