"""Tokenizers with language tokens: M2M-100 and XLM."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import transformers

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer


def test_m2m_puts_the_language_first(
    folders: dict[str, Path], texts: list[str], tmp_path: Path
) -> None:
    theirs = transformers.M2M100Tokenizer.from_pretrained(
        folders["m2m_100"], src_lang="fr", tgt_lang="zh"
    )
    ours = Tokenizer.load(folders["m2m_100"]).with_languages("fr", "zh")
    ours.save(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "m2m_100"}')
    for tokenizer in (ours, Tokenizer.load(tmp_path)):
        for text in texts:
            assert tokenizer.encode(text).ids == theirs(text)["input_ids"]
            assert (
                tokenizer.target_tokenizer.encode(text).ids == theirs(text_target=text)["input_ids"]
            )
    assert ours.id("__zu__") == theirs.get_lang_id("zu")
    with pytest.raises(GlassformerError, match="no language 'xx'; its languages are af, am"):
        ours.with_languages("xx")


def test_xlm_reads_romanian_without_its_marks(folders: dict[str, Path]) -> None:
    ours = Tokenizer.load(folders["xlm"])
    theirs = transformers.XLMTokenizer.from_pretrained(folders["xlm"])
    text = "Şeful ONU declară că nu există o soluţie în țară"
    expected = theirs.convert_tokens_to_ids(theirs._tokenize(text, lang="ro"))
    assert ours.with_languages("ro").encode(text, special=False).ids == expected


def test_xlm_reads_chinese_by_jieba(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Tokenizer.load(folders["xlm"]).with_languages("zh")
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(GlassformerError, match="pip install rjieba"):
        ours.encode("你好，世界！")
    segmenter = ModuleType("rjieba")
    segmenter.cut = lambda text: [text[:2], text[2:]]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rjieba", segmenter)
    theirs = transformers.XLMTokenizer.from_pretrained(folders["xlm"])
    expected = theirs.convert_tokens_to_ids(theirs._tokenize("你好，世界！", lang="zh"))
    assert ours.encode("你好，世界！", special=False).ids == expected


def test_xlm_says_that_japanese_needs_more(folders: dict[str, Path]) -> None:
    with pytest.raises(GlassformerError, match="KyTea"):
        Tokenizer.load(folders["xlm"]).with_languages("ja").encode("東京タワー")


def test_offsets_of_words_that_lost_their_accents(folders: dict[str, Path]) -> None:
    text = "Je suis Étudiant, ŒUVRE école 1,000！"
    encoded = Tokenizer.load(folders["xlm"]).encode(text)
    ends = [p[1] for t, p in zip(encoded.tokens, encoded.offsets, strict=True) if "</w>" in t]
    at, expected = 0, []
    for word in ("Je", "suis", "Étudiant", ",", "ŒUVRE", "école", "1,000", "！"):
        at = text.index(word, at) + len(word)
        expected.append(at)
    assert ends == expected


def test_offsets_of_ctrl(folders: dict[str, Path]) -> None:
    text = "Links the  quick\n brown"
    encoded = Tokenizer.load(folders["ctrl"]).encode(text)
    pieces = [text[start:end] for start, end in encoded.offsets]
    assert "".join(pieces) == "Linksthequick\nbrown"
    assert [token.removesuffix("@@") for token in encoded.tokens] == pieces
