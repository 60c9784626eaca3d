"""Training: every kind, any script, files read as streams, and clear refusals."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer, train
from glassformer.text.training.train import read_file

KINDS = ["byte-bpe", "bpe", "wordpiece", "unigram", "word", "space", "char"]


@pytest.fixture
def file(corpus: list[str], tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(corpus * 3), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_saved_it_is_the_same_here_and_in_the_reference(
    kind: str, file: Path, texts: list[str], tmp_path: Path
) -> None:
    tokenizer = train(kind, file, 500)
    assert 100 < tokenizer.size <= 500
    tokenizer.save(tmp_path / "saved")
    again = Tokenizer.load(tmp_path / "saved")
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path / "saved")
    assert again.special == tokenizer.special
    for text in texts:
        ids = tokenizer.encode(text).ids
        assert again.encode(text).ids == ids == theirs(text)["input_ids"]
        decoded = tokenizer.decode(ids)
        assert again.decode(ids) == decoded == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("kind", KINDS)
def test_twice_the_same(kind: str, file: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        train(kind, file, 450).save(tmp_path / name)
    first, second = ((tmp_path / n / "tokenizer.json").read_bytes() for n in ("one", "two"))
    assert first == second


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "char", "word"])
def test_more_characters_than_room(kind: str, file: Path, tmp_path: Path) -> None:
    tokenizers = [train(kind, file, 40) for _ in range(3)]
    assert all(tokenizer.size <= 40 for tokenizer in tokenizers)
    encoded = [tokenizer.encode("the dog, 世界").tokens for tokenizer in tokenizers]
    assert encoded[0] == encoded[1] == encoded[2]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "space"])
def test_chinese(kind: str, corpus: list[str]) -> None:
    tokenizer = train(kind, texts=corpus, vocab_size=700)
    for text in ("你好，世界！今天天气很好。", "机器学习是人工智能的一个分支，变换器改变了它。"):
        encoded = tokenizer.encode(text)
        assert tokenizer.special.get("unk") not in encoded.ids
        assert tokenizer.decode(encoded.ids) == text
    encoded = train(kind, texts=corpus * 5, vocab_size=900).encode("你好", special=False)
    if kind in ("wordpiece", "word", "char"):
        assert encoded.tokens == ["你", "好"]
        assert encoded.offsets == [(0, 1), (1, 2)]


def test_characters_and_bytes_come_back_exactly(corpus: list[str], texts: list[str]) -> None:
    char = train("char", texts=[*corpus, *texts], vocab_size=2000)
    byte = train("byte-bpe", texts=corpus, vocab_size=300)
    for text in [*texts, "two\nlines\r\nand  spaces \t"]:
        if not any(token in text for token in ("<s>", "</s>", "<|endoftext|>")):
            assert char.decode(char.encode(text).ids) == text
            assert byte.decode(byte.encode(text).ids) == text


def test_the_vocabulary_of_six() -> None:
    tokenizer = train(
        "word", texts=["je suis étudiant"], vocab_size=10, special_tokens={"unk": "?", "eos": "!"}
    )
    assert tokenizer.size == 5
    assert tokenizer.encode("je suis étudiant").tokens == ["je", "suis", "étudiant"]
    assert tokenizer.decode(tokenizer.encode("je suis étudiant").ids) == "je suis étudiant"


def test_special_tokens_that_the_text_has_are_numbered_once() -> None:
    """WikiText has <unk> among its words, and marks may stand where lines end."""
    special = {"unk": "<unk>", "eos": "<eos>"}
    tokenizer = train(
        "space", texts=["a <unk> b <eos>", "a c <eos>"], vocab_size=5, special_tokens=special
    )
    ids = tokenizer.encode("a <unk> b c <eos>", special=False).ids
    assert tokenizer.size == 5 and sorted(ids) == [0, 1, 2, 3, 4]
    assert (ids[1], ids[4]) == (0, 1) == (tokenizer.special["unk"], tokenizer.special["eos"])


def test_words_between_spaces_alone() -> None:
    text = "a role @-@ playing game , lit . <unk>"
    tokenizer = train("space", texts=[text], vocab_size=50)
    assert tokenizer.encode(text).tokens == text.split()
    assert tokenizer.encode("game, lit .").tokens == ["<unk>", "lit", "."]


def test_roles_and_frames(corpus: list[str], tmp_path: Path) -> None:
    special = {"unk": "<?>", "bos": "<go>", "eos": "<stop>", "pad": "<->"}
    tokenizer = train(
        "bpe", texts=corpus, vocab_size=300, special_tokens=special, add_bos=True, add_eos=True
    )
    assert {role: tokenizer.token(id) for role, id in tokenizer.special.items()} == special
    assert tokenizer.encode("the").tokens[0] == "<go>"
    assert tokenizer.encode("the", "dog").tokens[-1] == "<stop>"
    tokenizer.save(tmp_path)
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert theirs("the", "dog")["input_ids"] == tokenizer.encode("the", "dog").ids
    framed = train("wordpiece", texts=corpus, vocab_size=300)
    batch = framed.batch([("the", "dog")])
    assert batch.encoded[0].segments == sorted(batch.encoded[0].segments)
    assert batch.segments is not None and batch.segments.max() == 1


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "char"])
def test_a_letter_that_is_only_seen_as_a_capital_is_known_as_a_small_one(kind: str) -> None:
    low = train(kind, texts=["Zoé met nobody"] * 3, vocab_size=60, lowercase=True)
    ids = low.encode("Zoé zoé").ids
    assert low.decode(ids).replace(" ", "") == "zoézoé"


def test_lowercase_and_frequency(corpus: list[str]) -> None:
    low = train("word", texts=corpus, vocab_size=500, lowercase=True)
    assert low.encode("THE Dog").ids == low.encode("the dog").ids
    rare = train("word", texts=["a a b"], vocab_size=50, min_frequency=2)
    assert "a" in rare and "b" not in rare
    pieces = train("wordpiece", texts=["北京 北京 a 上"], vocab_size=50, min_frequency=2)
    assert pieces.encode("北上").tokens[1:-1] == ["北", "[UNK]"]


def test_texts_may_be_a_stream(corpus: list[str], file: Path) -> None:
    def stream() -> Iterator[str]:
        yield from corpus

    assert (
        train("char", texts=stream(), vocab_size=500).size
        == train("char", texts=corpus, vocab_size=500).size
    )
    both = train("char", [file], 1000, texts=["ж"])
    assert "ж" in both and "世" in both


def test_a_fault_in_the_stream_is_not_hidden() -> None:
    def stream() -> Iterator[str]:
        yield "text"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train("bpe", texts=stream(), vocab_size=100)


def test_a_sample_of_large_files(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_text("".join(f"line{number}\n" for number in range(20000)))
    all_words = train("word", path, 50000).size
    some = train("word", path, 50000, sample=path.stat().st_size // 10)
    assert all_words > 20000
    assert 1600 < some.size < 2400
    assert some.size == train("word", path, 50000, sample=path.stat().st_size // 10).size


def test_long_lines_are_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "one-line.txt"
    text = "a" + "世界" * 800_000
    path.write_text(text, encoding="utf-8")
    parts = list(read_file(path))
    assert len(parts) > 3 and "".join(parts) == text


MEMORY = """
import resource, sys
from glassformer.text import train
train("byte-bpe", [sys.argv[1]], 400)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
train("byte-bpe", [sys.argv[2]], 400)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_file(corpus: list[str], tmp_path: Path) -> None:
    small, large = tmp_path / "small.txt", tmp_path / "large.txt"
    text = "\n".join(corpus) + "\n"
    small.write_text(text * 100)
    large.write_text(text * 25_000)
    assert large.stat().st_size > 25e6
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(small), str(large)],
        capture_output=True,
        text=True,
        check=True,
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 15e6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type": "bpee"}, "There is no tokenizer type 'bpee'; choose from byte-bpe, bpe"),
        (
            {"vocab_size": 200},
            "vocab_size=200 is too small: a byte-bpe tokenizer with 1 special tokens has",
        ),
        ({"type": "word", "vocab_size": 4}, "at least 5 tokens"),
        (
            {"type": "word", "special_tokens": {"pad": "_"}},
            "A word tokenizer needs an unknown token",
        ),
        ({"special_tokens": {"start": "_"}}, "There is no special role 'start'"),
        ({"texts": "one text"}, "texts must be a list"),
        ({"texts": [b"bytes"]}, "A text must be a str, not bytes"),
        ({"texts": []}, "There is no text to train on"),
        ({"texts": ["", ""]}, "There is no text to train on"),
        ({"type": "unigram", "texts": [" \n "]}, "There is no text to train on"),
        ({"type": "word", "texts": [" \n "]}, "There is no text to train on"),
        ({"files": "nowhere.txt"}, "The file nowhere.txt does not exist"),
        ({"type": "unigram", "vocab_size": 8}, "try a larger vocabulary"),
    ],
)
def test_refusals(arguments: dict[str, object], message: str, corpus: list[str]) -> None:
    call = {"type": "byte-bpe", "vocab_size": 400, "texts": corpus, **arguments}
    with pytest.raises(GlassformerError) as caught:
        train(**call)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_files(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"")
    with pytest.raises(GlassformerError, match=r"no text to train on in .*bad\.txt"):
        train(kind, path, 400)
    for content in (b"fine\nalso fine\nbr\xffken\n", b"fine\nalso fine\ncut \xe4\xb8"):
        path.write_bytes(content)
        with pytest.raises(GlassformerError, match=r"Line 3 of .*bad\.txt is not UTF-8"):
            train(kind, path, 400)


def test_languages_are_tokens_before_a_text(tmp_path):
    texts = ["Guten Morgen, wie geht es?"] * 3
    tokenizer = train("bpe", texts=texts, vocab_size=60, languages=["en", "fr"])
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    for one in (tokenizer, again):
        assert one.language_tokens == ("en", "fr")
        same, before = one.for_translation("de", "fr")
        assert (same, before) == (one, ">>fr<< ")
        ids = one.encode(f"{before}Guten Morgen").ids
        assert ids[0] == one.id(">>fr<<") and one.decode(ids) == "Guten Morgen"
        with pytest.raises(GlassformerError, match="no language 'it'; its languages are en, fr"):
            one.for_translation(None, "it")
