"""Words of Chinese text, compared with jieba itself."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.text.segmenter import is_han, make_segmenter
from glassformer.text.training.train import train
from glassformer.train.objectives.masking import Masking, Masks
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import RaggedColumn
from glassformer.train.objectives.whole_words import Vocabulary

TEXT = "我来到北京清华大学"


def test_without_jieba_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    make_segmenter.cache_clear()
    with pytest.raises(GlassformerError, match=r"jieba: pip install 'glassformer\[zh\]'"):
        make_segmenter("jieba")
    with pytest.raises(GlassformerError, match="There is no segmenter 'thulac'; choose jieba"):
        make_segmenter("thulac")
    with pytest.raises(GlassformerError, match="set whole_word_mask"):
        Masks(segmenter="jieba")


def test_words_are_jiebas_and_nothing_is_written():
    jieba = pytest.importorskip("jieba")
    jieba.setLogLevel(60)
    cache = Path(tempfile.gettempdir(), "jieba.cache")
    before = cache.exists()
    segmenter = make_segmenter("jieba")
    assert segmenter.words(f"{TEXT}, so.") == ["我", "来到", "北京", "清华大学", ",", "so", "."]
    assert segmenter.starts(TEXT) == {0, 1, 3, 5, 9}
    assert cache.exists() == before
    assert segmenter.words(TEXT) == jieba.lcut(TEXT)
    assert is_han("北") and not is_han("a") and not is_han("。")


def test_masks_cover_whole_chinese_words():
    pytest.importorskip("jieba")
    tokenizer = train("char", texts=[TEXT, "ab ,。"], special_tokens={"mask": "[M]", "unk": "[U]"})
    rows = [tokenizer.ids(text) for text in (f"{TEXT}。ab", "京清华大学")]
    tokens = RaggedColumn(np.array([*rows[0], *rows[1]]), np.array([len(row) for row in rows]))
    starts = Vocabulary(tokenizer, "jieba").starts(tokens)
    first = [1, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0]  # 我 来到 北京 清华大学 。ab
    assert starts[: len(rows[0])].astype(int).tolist() == first
    assert starts[len(rows[0]) :].astype(int).tolist() == [1, 1, 0, 0, 0]  # a row of its own
    options = Masks(mlm_probability=0.5, whole_word_mask=True, segmenter="jieba")
    words = np.cumsum(starts)
    for seed in range(20):
        _, targets = Masking(tokenizer, options)(tokens, RowRandom.of(seed, rows=np.arange(2)))
        chosen = targets >= 0
        for word in set(words[chosen]):
            assert chosen[words == word].all()
