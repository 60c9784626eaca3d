"""glassformer score: tables, totals, files longer than the context."""

from __future__ import annotations

import io
import json
import sys

import pytest

import glassformer as gf

TEXT = "To be, or not to be"


@pytest.fixture(scope="module")
def bard():
    return gf.load("shakespeare")


def test_every_token_and_the_perplexity(glassformer, bard):
    code, shown, _ = glassformer("score", "shakespeare", TEXT)
    wanted = bard.score(TEXT)
    assert code == 0
    rows = shown.splitlines()
    assert len(rows) == 2 + len(wanted.tokens)
    for row, logprob in zip(rows[1:], wanted.logprobs, strict=False):
        assert f"{logprob:.4f}" in row
    assert rows[-1] == (
        f"6 tokens, log-probability {wanted.total:.4f}, perplexity {wanted.perplexity:.4f}"
    )


def test_json_from_a_pipe(glassformer, bard, monkeypatch):
    pipe = io.TextIOWrapper(io.BytesIO(f"{TEXT}\n".encode()), "utf-8")
    monkeypatch.setattr(sys, "stdin", pipe)
    found = json.loads(glassformer("score", "shakespeare", "-", "--json")[1])
    wanted = bard.score(TEXT)
    assert (found["tokens"], found["logprobs"]) == (wanted.tokens, wanted.logprobs)
    assert (found["total"], found["perplexity"]) == (wanted.total, wanted.perplexity)
    assert "".join(found["texts"]) == TEXT.removeprefix("To")


def test_a_file_longer_than_the_context(glassformer, bard, tmp_path):
    text = f"{TEXT}. " * 120
    (tmp_path / "long.txt").write_text(text)
    words = ("score", "shakespeare", "--file", str(tmp_path / "long.txt"))
    wanted = bard.score(text, window=64, stride=16)
    shown = glassformer(*words, "--window", "64", "--stride", "16")[1]
    assert shown == (
        f"{len(wanted.tokens):,} tokens, log-probability {wanted.total:.4f}, "
        f"perplexity {wanted.perplexity:.4f}\n"
    )
    assert len(glassformer(*words, "--full")[1].splitlines()) == len(wanted.tokens) + 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("",), "The text is empty"),
        (("a",), "A text of one token has nothing to predict"),
        ((TEXT, "--target", "x"), "Only an encoder-decoder scores a target"),
        ((TEXT, "--window", "9999"), "is above the model's 256 positions"),
        (("--file", "/nowhere/text"), "/nowhere/text cannot be read"),
        ((TEXT, "--file", "x"), "Give one of TEXT and --file"),
    ],
)
def test_bad_words_get_one_sentence(glassformer, words, said):
    code, shown, error = glassformer("score", "shakespeare", *words)
    assert (code, shown) == (1, "")
    assert error.startswith("error: ") and said in error and error.count("\n") == 1


def test_what_quantization_costs(glassformer, bard):
    wanted = gf.load("shakespeare", quantize="int8").score(TEXT).perplexity
    shown = glassformer("score", "shakespeare", TEXT, "--quantize", "int8")[1].splitlines()
    assert shown[-2].endswith(f"perplexity {wanted:.4f}")
    before = bard.score(TEXT).perplexity
    assert shown[-1].startswith(f"int8: perplexity {before:.4f} -> {wanted:.4f} (")
    found = json.loads(glassformer("score", "shakespeare", TEXT, "--quantize", "int8", "--json")[1])
    assert found["perplexity"] == wanted
    assert found["perplexity_before"] == before
