"""The tokenizer's methods and errors."""

import os
import threading
from pathlib import Path

import pytest
import torch

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer, train


@pytest.fixture(scope="module")
def bert(folders: dict[str, Path]) -> Tokenizer:
    return Tokenizer.load(folders["bert-cased"])


@pytest.mark.parametrize("text", [None, 3, b"bytes", ["a", "list"], ("only one",), ("a", 3)])
def test_only_text_is_encoded(text: object, bert: Tokenizer) -> None:
    with pytest.raises(GlassformerError, match="A text must be a str"):
        bert.encode(text)  # type: ignore[arg-type]
    with pytest.raises(GlassformerError, match="A text must be a str"):
        bert.batch([text])  # type: ignore[list-item]


def test_half_a_character(bert: Tokenizer) -> None:
    with pytest.raises(GlassformerError, match="lone surrogate\\) at index 2"):
        bert.encode("ab\ud83d")


@pytest.mark.parametrize("texts", ["one text", [], ()])
def test_a_batch_is_a_list(texts: object, bert: Tokenizer) -> None:
    with pytest.raises(GlassformerError, match="A batch is a list of at least one text"):
        bert.batch(texts)  # type: ignore[arg-type]


def test_sides(bert: Tokenizer) -> None:
    with pytest.raises(GlassformerError, match="truncate must be"):
        bert.encode("text", truncate="middle")
    with pytest.raises(GlassformerError, match="side must be"):
        bert.batch(["text"], side="top")


def test_tokens_and_ids(bert: Tokenizer) -> None:
    assert bert.token(bert.id("[MASK]")) == "[MASK]"
    assert bert.id("[MASK]") == bert.special["mask"]
    assert "[MASK]" in bert and "no such token" not in bert
    with pytest.raises(GlassformerError, match="lacks 'no such token'"):
        bert.id("no such token")
    for id in (-1, bert.size):
        with pytest.raises(GlassformerError, match=f"has no id {id}"):
            bert.token(id)


def test_decoding_takes_tensors_and_skips_what_is_beyond(bert: Tokenizer) -> None:
    ids = bert.encode("the fox").ids
    assert bert.decode(torch.tensor([*ids, bert.size + 5])) == bert.decode(ids) == "the fox"
    with pytest.raises(GlassformerError, match="-100 is not a token id"):
        bert.decode([-100])


def test_empty_text(folders: dict[str, Path]) -> None:
    for name, folder in folders.items():
        encoded = Tokenizer.load(folder).encode("")
        assert all(encoded.special_mask), name


def test_offsets_are_indices_of_python(bert: Tokenizer) -> None:
    text = "👩‍👩‍👧 the e\u0301 你好 dog"
    encoded = bert.encode(text, special=False)
    places = zip(encoded.tokens, encoded.offsets, strict=True)
    found = [token for token, (start, end) in places if text[start:end] == token.lstrip("#")]
    assert {"the", "你", "好"} <= set(found)
    assert text[encoded.offsets[-1][0] : encoded.offsets[-1][1]] == encoded.tokens[-1].lstrip("#")
    assert encoded.offsets[-1][1] == len(text)


def test_saving_leaves_no_rubbish(bert: Tokenizer, tmp_path: Path) -> None:
    for _ in range(2):
        bert.save(tmp_path / "deep" / "folder")
    assert sorted(os.listdir(tmp_path / "deep" / "folder")) == [
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_saving_where_one_cannot(bert: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(GlassformerError, match="is a file; name a folder"):
        bert.save(tmp_path / "file")


def test_threads_share_one(corpus: list[str]) -> None:
    tokenizer = train("byte-bpe", texts=corpus, vocab_size=400)
    expected = {n: [tokenizer.encode(text, max_length=n).ids for text in corpus] for n in (3, 9)}
    wrong: list[int] = []

    def work(length: int) -> None:
        for _ in range(50):
            found = [row.ids for row in tokenizer.batch(corpus, max_length=length).encoded]
            if found != expected[length]:
                wrong.append(length)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 9, 3, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_ids_alone_are_those_of_an_encoding(folders: dict[str, Path], corpus: list[str]) -> None:
    for folder in folders.values():
        tokenizer = Tokenizer.load(folder)
        for text in [*corpus[:20], "", "  two  spaces ", "naïve 日本語 🙂"]:
            assert tokenizer.ids(text) == tokenizer.encode(text, special=False).ids
    with pytest.raises(GlassformerError, match="A text must be a str"):
        tokenizer.ids(b"bytes")  # type: ignore[arg-type]
