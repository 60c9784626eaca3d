"""Streaming gives the text of decoding at once, and never half a character."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from glassformer.text import Tokenizer, train
from glassformer.text.detokenize_stream import clean_spaces, settled

STREAMED = [
    "bert-uncased",
    "bert-odd",
    "gpt2",
    "roberta",
    "openai-gpt",
    "xlm-roberta",
    "t5",
    "llama",
    "llama-legacy",
    "marian",
    "fsmt",
]


def streamed(
    tokenizer: Tokenizer, ids: list[int], special: bool, after: Sequence[int] = ()
) -> list[str]:
    stream = tokenizer.stream(special=special, after=after)
    return [*(stream.push(id) for id in ids), stream.finish()]


@pytest.mark.parametrize("name", STREAMED)
def test_joined_it_is_decode(name: str, folders: dict[str, Path], texts: list[str]) -> None:
    tokenizer = Tokenizer.load(folders[name]).target_tokenizer
    generator = random.Random(5)
    sequences = [tokenizer.encode(text).ids for text in texts]
    few = generator.sample(range(tokenizer.size), 12)
    for length in (1, 2, 5, 40):
        sequences += [generator.choices(range(tokenizer.size), k=length) for _ in range(100)]
        sequences += [generator.choices(few, k=length) for _ in range(100)]
    for ids in sequences:
        for special in (True, False):
            parts = streamed(tokenizer, ids, special)
            assert "".join(parts) == tokenizer.decode(ids, special=special), ids
            for cut in {1, len(ids) // 2}:
                after, new = ids[:cut], ids[cut:]
                parts = streamed(tokenizer, new, special, after)
                assert "".join(parts) == tokenizer.decode(new, special=special, after=after), ids


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe", "wordpiece", "unigram", "word", "char"])
def test_joined_it_is_decode_for_trained_kinds(
    kind: str, corpus: list[str], texts: list[str]
) -> None:
    tokenizer = train(kind, texts=corpus, vocab_size=700)
    generator = random.Random(5)
    sequences = [tokenizer.encode(text).ids for text in [*texts, *corpus]]
    sequences += [generator.choices(range(tokenizer.size), k=20) for _ in range(200)]
    for ids in sequences:
        assert "".join(streamed(tokenizer, ids, False)) == tokenizer.decode(ids)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_no_part_has_half_a_character(name: str, folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders[name])
    text = "😀 𝔊lass 中文 한국어 👩‍👩‍👧 ok"
    ids = tokenizer.encode(text, special=False).ids
    assert len(ids) > len(text)
    parts = streamed(tokenizer, ids, False)
    assert "".join(parts) == text
    assert not any("\ufffd" in part for part in parts)


def test_words_come_as_soon_as_they_are_complete(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["gpt2"])
    ids = tokenizer.encode("the quick brown fox").ids
    parts = streamed(tokenizer, ids, False)
    assert parts[:-1] == [tokenizer.decode([id]) for id in ids]
    assert parts[-1] == ""


def test_half_a_character_at_the_end_is_given_by_finish(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["gpt2"])
    ids = tokenizer.encode("a😀").ids[:-1]
    parts = streamed(tokenizer, ids, False)
    assert parts[-1] == tokenizer.decode(ids)[1:] != ""


def test_a_long_stream_costs_no_more_per_token(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.load(folders["gpt2"])
    ids = tokenizer.encode("the lazy dog didn't mind. ").ids

    def decoded_tokens(repeats: int) -> int:
        stream = tokenizer.stream()
        write, counts = stream._write, []

        def counted(tokens: list[str]) -> str:
            counts.append(len(tokens))
            return write(tokens)

        stream._write = counted
        for id in ids * repeats:
            stream.push(id)
        stream.finish()
        return sum(counts)

    short, long = decoded_tokens(10), decoded_tokens(160)
    assert short > 0 and long <= 16 * (short + 1)


def test_what_is_settled_stays_so_whatever_follows() -> None:
    generator = random.Random(2)
    for _ in range(5000):
        text = "".join(generator.choices(" '.,!?nmtsvrea", k=generator.randint(0, 14)))
        end = settled(text)
        assert clean_spaces(text[:end]) + clean_spaces(text[end:]) == clean_spaces(text)
        for more in (" ", "'", " '", "' ", ".", "m", " x"):
            whole = text + more
            assert clean_spaces(text[:end]) + clean_spaces(whole[end:]) == clean_spaces(whole)
