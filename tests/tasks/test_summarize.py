"""Models trained in the tests summarize their training texts; invalid input is refused."""

from __future__ import annotations

import json
import sys

import pytest
from rights import ABOUT, ALONE, BOTH, ENGLISH, learn, pairs

import glassformer as gf
from glassformer.cli import main
from glassformer.errors import GlassformerError


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """An encoder-decoder with a prefix before every source, as T5's."""
    return learn(
        tmp_path_factory.mktemp("both") / "run",
        pairs(ENGLISH, ABOUT),
        BOTH,
        objective={
            "name": "sequence-to-sequence",
            "source_prefix": "summarize: ",
            "max_source_length": 48,
        },
    )


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """A decoder alone, with a line as the separator."""
    return learn(
        tmp_path_factory.mktemp("alone") / "run",
        pairs(ENGLISH, ABOUT),
        ALONE,
        tokenizer={"type": "byte-bpe", "vocab_size": 400},
        objective={"name": "continuation", "separator": "\nIn short: "},
    )


@pytest.mark.parametrize("which", ["reader", "stream"])
def test_what_was_learned(which, request):
    model = request.getfixturevalue(which)
    assert [one.text for one in model.summarize(ENGLISH)] == ABOUT
    one = model.summarize(ENGLISH[0], num_beams=1)
    assert (one.text, one.finish_reason, one.unread, one.parts) == (ABOUT[0], "eos", 0, 1)


def test_a_long_text_is_cut_as_in_training(reader, stream):
    """An encoder reads the beginning, a decoder alone the end, as their objectives have it."""
    long = f"{ENGLISH[0]} " + " ".join(ENGLISH[1:] * 3)
    found = reader.summarize(long)
    ids = reader.tokenizer.encode(f"summarize: {long}").ids
    assert found.unread == len(ids) - 48 > 0
    assert found.text == reader.generate(ids[:48], num_beams=4, max_new_tokens=128).text.strip()
    ids = stream.tokenizer.encode(long).ids
    behind = stream.tokenizer.encode("\nIn short: ").ids
    found = stream.summarize(long, max_new_tokens=20)
    kept = 128 - 20 - len(behind)
    assert found.unread == len(ids) - kept
    whole = stream.generate([*ids[-kept:], *behind], num_beams=4, max_new_tokens=20)
    assert found.text == whole.text.strip()


def test_or_its_parts_are_summarized_and_then_their_summaries(reader):
    tokens = reader.tokenizer.encode(f"summarize: {ENGLISH[2]}").ids
    options = {"max_source_length": len(tokens), "long": "split"}  # for one of them at a time
    found = reader.summarize("\n\n".join(ENGLISH[:3]), **options)
    assert found.parts == 3 and found.unread == 0
    assert found.text == reader.summarize("\n".join(ABOUT[:3]), **options).text
    short = reader.summarize(ENGLISH[0], long="split")
    assert (short.text, short.parts) == (ABOUT[0], 1)


def test_a_language_model_is_told_what_separates():
    """GPT-2's way (Radford et al., 2019): a text, and TL;DR behind it."""
    model = gf.load("shakespeare")
    text = "Is the day so young?"
    found = model.summarize(text, separator="\nTL;DR:", max_new_tokens=8, num_beams=1)
    plain = model.generate(f"{text}\nTL;DR:", max_new_tokens=8)
    assert found.text == plain.text.strip() and found.text


def test_bad_input_is_named(reader):
    with pytest.raises(GlassformerError, match="empty"):
        reader.summarize("  ")
    with pytest.raises(GlassformerError, match="long is one of cut, split"):
        reader.summarize("a", long="fold")


def run(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["glassformer", "summarize", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_on_the_command_line(reader, tmp_path, monkeypatch, capsys):
    folder, path = tmp_path / "model", tmp_path / "in.csv"
    reader.save(folder)
    rows = [f'"{text}","{about}"' for text, about in zip(ENGLISH, ABOUT, strict=True)]
    path.write_text("\n".join(["article,about", *rows[:2], "one,two,three", *rows[2:]]) + "\n")
    words = [folder, "--file", path, "--field", "article", "--reference-field", "about"]
    assert run(monkeypatch, *words, "--on-error", "skip") == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == ABOUT
    assert "in.csv:4" in said.err and "5 used, 1 skipped." in said.err
    for kind in ("ROUGE-1", "ROUGE-2", "ROUGE-L", "ROUGE-Lsum"):
        assert f"{kind:<10} 100.00  as rouge-score, use_stemmer=True" in said.err
    assert run(monkeypatch, *words) == 1
    assert "in.csv:4" in capsys.readouterr().err


def test_a_note_where_a_text_was_cut(reader, tmp_path, monkeypatch, capsys):
    reader.save(tmp_path / "model")
    (tmp_path / "long.txt").write_text("\n".join(ENGLISH))
    words = [tmp_path / "model", "--file", tmp_path / "long.txt", "--whole", "--json"]
    assert run(monkeypatch, *words) == 0
    said = capsys.readouterr()
    (record,) = map(json.loads, said.out.splitlines())
    assert record["unread"] > 0
    assert f"1 texts were too long for the model, {record['unread']:,} tokens" in said.err
    assert run(monkeypatch, *words, "--long", "split") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["parts"] > 1 and "longer" not in said.err
