"""glassformer vectors: training, saving and queries of word vectors."""

from __future__ import annotations

import json

import pytest

from glassformer.word_vectors import read_vectors


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("A cat sleeps here .\nA dog sleeps here .\nOslo is a city .\n" * 40)
    return path


@pytest.mark.parametrize("kind", ["skip-gram", "cbow", "glove"])
@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_a_text_becomes_vectors(glassformer, text, kind, name):
    out = text.with_name(name)
    words = (
        "vectors",
        str(text),
        "--type",
        kind,
        "--vector-size",
        "12",
        "--epochs",
        "2",
        "--lowercase",
    )
    code, shown, said = glassformer(*words, "--out", str(out))
    assert (code, shown) == (0, "")
    assert "9 words, 600 of them in the text" in said
    assert f"written to {out}" in said
    vectors = read_vectors(out)
    assert vectors.table.shape == (9, 12)
    assert vectors.words[:3] == [".", "a", "here"]  # 120 each, then 80 each
    before = out.read_bytes()
    again = ("vectors", "train", *words[1:], "--out", str(out), "--overwrite")
    assert glassformer(*again)[0] == 0
    assert out.read_bytes() == before


def test_the_full_softmax(glassformer, text):
    out = text.with_name("v.txt")
    words = ("--negative", "0", "--vector-size", "8", "--out", str(out))
    assert glassformer("vectors", str(text), *words)[0] == 0
    assert read_vectors(out).size == 8


@pytest.fixture
def space(tmp_path):
    path = tmp_path / "space.txt"
    path.write_text("5 2\nman 1 0\nking 1 1\nwoman -1 0.2\nqueen -1 1\nrock 0 -1\n")
    return path


def test_neighbors_and_analogies(glassformer, space):
    _, shown, _ = glassformer("vectors", "nearest", str(space), "king", "rock", "-n", "1")
    assert shown == "king\n   0.7071  man\nrock\n   0.0000  man\n"
    _, shown, _ = glassformer("vectors", "analogy", str(space), "man", "king", "woman")
    assert shown.splitlines()[:2] == ["man : king = woman : ?", "   0.9858  queen"]


def test_evaluation(glassformer, space, tmp_path):
    questions, pairs = tmp_path / "q.txt", tmp_path / "p.tsv"
    questions.write_text(": family\nMAN KING WOMAN QUEEN\nman king boy prince\n")
    pairs.write_text("king\tman\t8\nking\trock\t1\n")
    words = ("vectors", "evaluate", str(space), "--analogies", str(questions))
    words = (*words, "--similarities", str(pairs))
    _, shown, _ = glassformer(*words)
    assert ["total", "1", "1", "100.0%", "1"] in [line.split() for line in shown.splitlines()]
    assert "Spearman 1.0000, Pearson 1.0000 over 2 pairs (0 with unknown words)" in shown
    said = json.loads(glassformer(*words, "--json")[1])
    assert said[str(questions)][0] == {"name": "family", "right": 1, "asked": 1, "unknown": 1}
    assert said[str(pairs)]["spearman"] == pytest.approx(1)


def test_conversion(glassformer, space, tmp_path):
    for name in ("v.bin", "v.txt"):
        assert glassformer("vectors", "convert", str(space), str(tmp_path / name))[0] == 0
        assert read_vectors(tmp_path / name).words == read_vectors(space).words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.txt", "--out", "v"), "none.txt cannot be read: No such file or directory."),
        (("text.txt", "--out", "v", "--type", "bag"), "--type is one of skip-gram, cbow, glove"),
        (("text.txt", "--out", "none/v"), "none/v cannot be written"),
        (("text.txt", "--out", "v", "--min-count", "999"), "lower min_count, or give more text"),
        (("text.txt", "--out", "v", "--window", "0"), "window must be 1 or more, not 0"),
        (("empty.txt", "--out", "v"), "There are no words in empty.txt."),
        (
            ("latin.txt", "--out", "v"),
            "latin.txt:2 is not UTF-8, but may be cp1252 (--encoding cp1252).",
        ),
        (
            ("gb.txt", "--out", "v"),
            "gb.txt:1 is not UTF-8, but may be gb18030 (--encoding gb18030).",
        ),
        (("text.txt", "--out", "v", "--encoding", "utf-99"), "There is no encoding 'utf-99'"),
        (("evaluate", "space.txt"), "Name the data for the evaluation"),
        (("nearest", "space.txt", "kin"), "'kin' is not among the 5 words; did you mean 'king'?"),
    ],
)
def test_bad_input_is_one_sentence(glassformer, text, space, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes(b"fine\nna\xefve\n")
    (tmp_path / "gb.txt").write_bytes("时光 飞逝\n".encode("gb18030"))
    code, _, error = glassformer("vectors", *words)
    assert code == 1
    assert said in error
    assert not (tmp_path / "v").exists()


def test_text_in_another_encoding(glassformer, tmp_path):
    (tmp_path / "gb.txt").write_bytes("时光 飞逝 如 箭\n".encode("gb18030") * 20)
    options = ("--vector-size", "4", "--epochs", "1", "--encoding", "gb18030")
    out = tmp_path / "v.txt"
    code, _, _ = glassformer("vectors", str(tmp_path / "gb.txt"), "--out", str(out), *options)
    assert code == 0 and set(read_vectors(out).words) == {"时光", "飞逝", "如", "箭"}


def test_words_of_chinese_text(glassformer, tmp_path):
    pytest.importorskip("jieba")
    (tmp_path / "zh.txt").write_text("我来到北京清华大学。\n" * 20, "utf-8")
    options = ("--vector-size", "4", "--epochs", "1", "--segmenter", "jieba")
    out = tmp_path / "v.txt"
    code, _, said = glassformer("vectors", str(tmp_path / "zh.txt"), "--out", str(out), *options)
    assert code == 0, said
    assert set(read_vectors(out).words) == {"我", "来到", "北京", "清华大学", "。"}
