"""Transformer-XL's words, against what its last reference release gave (`make_transfo_xl.py`)."""

import json
import pickle
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer

REFERENCE = json.loads(Path(__file__).with_name("transfo_xl.json").read_text("utf-8"))
WORDS = REFERENCE["words"]


def make(folder: Path, **settings: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "transfo-xl"}')
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("result", REFERENCE["results"], ids=["cased", "lower"])
def test_ids_and_texts(result: dict[str, Any], tmp_path: Path) -> None:
    folder = make(tmp_path / "words", lower_case=result["lower_case"])
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS), "utf-8")
    ours = Tokenizer.load(folder)
    ours.save(tmp_path / "again")
    (tmp_path / "again" / "config.json").write_text('{"model_type": "transfo-xl"}')
    for tokenizer in (ours, Tokenizer.load(tmp_path / "again")):
        assert [tokenizer.encode(text).ids for text in REFERENCE["texts"]] == result["ids"]
        decoded = [tokenizer.decode(row, special=True) for row in result["ids"]]
        assert decoded == result["decoded"]
    assert ours.special == {"eos": 0, "unk": 1}
    encoded = ours.encode("it was 3.14159")
    assert encoded.tokens[2:] == ["3", "@.@", "14159"]
    assert encoded.offsets[2:] == [(7, 8), (8, 9), (9, 14)]


def vocabulary(**more: object) -> dict[str, object]:
    numbers = OrderedDict((word, i) for i, word in enumerate(WORDS))
    return {"counter": Counter(WORDS), "idx2sym": WORDS, "sym2idx": numbers, **more}


def test_published_pickles(tmp_path: Path) -> None:
    old, new, plain = (make(tmp_path / name) for name in ("old", "new", "plain"))
    torch.save(vocabulary(), old / "vocab.bin", _use_new_zipfile_serialization=False)
    torch.save(vocabulary(), new / "vocab.bin")
    (plain / "vocab.pkl").write_bytes(pickle.dumps(vocabulary()))
    for folder in (old, new, plain):
        tokenizer = Tokenizer.load(folder)
        rows = [tokenizer.encode(text).ids for text in REFERENCE["texts"]]
        assert rows == REFERENCE["results"][0]["ids"]


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("sprung"),)


def test_nothing_in_a_pickle_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = make(tmp_path / "trap")
    for content in (pickle.dumps(vocabulary(trap=Trap())), b"\x80\x04", b"PK not a zip"):
        (folder / "vocab.pkl").write_bytes(content)
        with pytest.raises(GlassformerError, match=r"vocab.pkl cannot be read .* vocab.txt"):
            Tokenizer.load(folder)
    torch.save(vocabulary(trap=Trap()), folder / "vocab.bin")
    with pytest.raises(GlassformerError, match=r"vocab\.bin cannot be read"):
        Tokenizer.load(folder)
    assert not (tmp_path / "sprung").exists()
    torch.save([1, 2], folder / "vocab.bin")
    with pytest.raises(GlassformerError, match=r"holds no list of words \(idx2sym\)"):
        Tokenizer.load(folder)


MEMO = b"\x80\x02]r\xff\xff\xff\x00."  # its memo would take 268 MB


@pytest.mark.parametrize(
    "content",
    [
        MEMO,
        b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".",  # a bytearray of a terabyte
        b"\x80\x02}h\x05.",
        b"\x80\x02K\x01K\x02R.",
        b"\x80\x02]K\x01b.",
        b"I" + b"9" * 5000 + b"\n.",
        b"",
    ],
    ids=["memo", "size", "no entry", "no call", "no state", "digits", "nothing"],
)
def test_a_pickle_that_is_damaged_or_hostile(tmp_path: Path, content: bytes) -> None:
    folder = make(tmp_path / "words")
    for name in ("vocab.pkl", "vocab.bin"):
        (folder / name).write_bytes(content)
        with pytest.raises(GlassformerError, match=rf"{name} cannot be read .* vocab.txt"):
            Tokenizer.load(folder)
        (folder / name).unlink()


def test_a_memo_that_takes_all_memory(tmp_path: Path) -> None:
    folder = make(tmp_path / "words")
    (folder / "vocab.pkl").write_bytes(MEMO)
    with pytest.raises(GlassformerError, match="numbers that are too large"):
        Tokenizer.load(folder)


def test_an_archive_that_is_compressed_is_not_one_of_torch(tmp_path: Path) -> None:
    folder = make(tmp_path / "words")
    with ZipFile(folder / "vocab.bin", "w", ZIP_DEFLATED) as archive:
        archive.writestr("vocab/data.pkl", pickle.dumps(vocabulary()))
    with pytest.raises(GlassformerError, match="the archive is not one of torch"):
        Tokenizer.load(folder)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match=r"needs vocab.txt or vocab.bin or vocab.pkl"):
        Tokenizer.load(make(tmp_path / "empty"))
