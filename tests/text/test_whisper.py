"""Whisper's tokenizer: OpenAI's tables, start tokens, timestamps."""

import base64
import json
import shutil
from pathlib import Path

import pytest
import transformers

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer
from glassformer.text.backends.whisper import LANGUAGES, start_tokens
from glassformer.text.loading.load import holds_tokenizer
from glassformer.text.loading.tiktoken import byte_letters


@pytest.fixture
def table(folders: dict[str, Path], tmp_path: Path) -> Path:
    """The byte pairs of the test's Whisper folder, as OpenAI would publish them."""
    vocabulary = json.loads((folders["whisper"] / "vocab.json").read_text())
    merges = (folders["whisper"] / "merges.txt").read_text().splitlines()[1:]
    byte_of = {letter: byte for byte, letter in enumerate(byte_letters())}
    letters = sorted((t for t in vocabulary if len(t) == 1), key=vocabulary.__getitem__)
    tokens = [*letters, *(merge.replace(" ", "") for merge in merges)]
    lines = [
        base64.b64encode(bytes(byte_of[letter] for letter in token)).decode() + f" {rank}\n"
        for rank, token in enumerate(tokens)
    ]
    folder = tmp_path / "openai"
    folder.mkdir()
    (folder / "multilingual.tiktoken").write_text("".join(lines) + f"= {len(lines)}\n")
    (folder / "config.json").write_text('{"model_type": "whisper"}')
    return folder


def test_a_table_gives_the_same_pieces(
    table: Path, folders: dict[str, Path], texts: list[str]
) -> None:
    ours, published = Tokenizer.load(table), Tokenizer.load(folders["whisper"])
    for text in texts:
        if "<|" not in text:
            pieces = published.encode(text, special=False).tokens
            assert ours.encode(text, special=False).tokens == pieces
            assert ours.decode(ours.encode(text).ids) == text
    size = ours.id("<|endoftext|>")
    assert ours.id("<|startoftranscript|>") == size + 1
    assert [ours.id(f"<|{code}|>") for code in ("en", "zh", "su")] == [
        size + 2,
        size + 3,
        size + 100,
    ]
    assert ours.token(size + 101) == "<|translate|>"
    assert ours.token(size + 107) == "<|0.00|>" and ours.token(ours.size - 1) == "<|30.00|>"
    assert ours.size == size + 108 + 1500


def test_the_hundredth_language_follows_from_the_size(table: Path) -> None:
    size = Tokenizer.load(table).size
    config = table / "config.json"
    config.write_text(json.dumps({"model_type": "whisper", "vocab_size": size + 1}))
    ours = Tokenizer.load(table)
    assert ours.id("<|yue|>") + 1 == ours.id("<|translate|>") and ours.size == size + 1
    config.write_text(json.dumps({"model_type": "whisper", "vocab_size": size + 9}))
    with pytest.raises(GlassformerError, match="of 99 or 100 languages"):
        Tokenizer.load(table)


def test_a_table_beside_a_model_file_is_its_own(table: Path) -> None:
    (table / "config.json").unlink()
    model = table / "tiny.pt"
    model.touch()
    assert holds_tokenizer(model)
    assert Tokenizer.load(model).fingerprint == Tokenizer.load(table).fingerprint
    (table / "multilingual.tiktoken").unlink()
    assert not holds_tokenizer(model)


def test_a_broken_table_names_its_line(table: Path) -> None:
    with (table / "multilingual.tiktoken").open("a") as file:
        file.write("no base 64\n")
    with pytest.raises(GlassformerError, match="is not a token in base 64 and its number"):
        Tokenizer.load(table)


@pytest.mark.parametrize("language", [None, "de", "german", "chinese"])
@pytest.mark.parametrize("task", [None, "translate", "transcribe"])
@pytest.mark.parametrize("timestamps", [True, False])
def test_the_start_of_a_transcript(
    language: str | None, task: str | None, timestamps: bool, folders: dict[str, Path]
) -> None:
    theirs = transformers.WhisperTokenizer.from_pretrained(
        folders["whisper"], language=language, task=task, predict_timestamps=timestamps
    )
    ours = Tokenizer.load(folders["whisper"])
    start = [ours.id(token) for token in start_tokens(language, task, timestamps)]
    assert start == theirs.prefix_tokens


def test_settings_choose_the_start(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["whisper"], tmp_path / "whisper")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config |= {"language": "german", "task": "translate"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.WhisperTokenizer.from_pretrained(folder)
    assert Tokenizer.load(folder).encode("the dog").ids == theirs("the dog")["input_ids"]


def test_times_are_not_part_of_what_was_said(folders: dict[str, Path], tmp_path: Path) -> None:
    ours = Tokenizer.load(folders["whisper"])
    ours.save(tmp_path)
    shutil.copy(folders["whisper"] / "config.json", tmp_path)
    ids = [ours.id("<|0.02|>"), *ours.encode("the dog", special=False).ids, ours.id("<|0.06|>")]
    theirs = transformers.WhisperTokenizer.from_pretrained(folders["whisper"])
    assert theirs.decode(ids, skip_special_tokens=True) == "the dog"
    for tokenizer in (ours, Tokenizer.load(tmp_path)):
        assert tokenizer.decode(ids) == "the dog"
        assert tokenizer.decode(ids, special=True) == "<|0.02|>the dog<|0.06|>"


def test_unknown_languages_and_tasks() -> None:
    assert len(LANGUAGES) == 100
    with pytest.raises(GlassformerError, match="Whisper has no language 'klingon'; it has en, zh"):
        start_tokens("klingon")
    with pytest.raises(GlassformerError, match="one of translate, transcribe, not 'sing'"):
        start_tokens("en", "sing")
