"""Tokenizers from every family's older files are equal to those of the reference."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers

from glassformer.text import Tokenizer

REFERENCE = {
    "bert-uncased": "BertTokenizer",
    "bert-cased": "BertTokenizer",
    "bert-odd": "BertTokenizer",
    "distilbert-uncased": "DistilBertTokenizer",
    "gpt2": "GPT2Tokenizer",
    "gpt2-options": "GPT2Tokenizer",
    "roberta": "RobertaTokenizer",
    "roberta-described": "RobertaTokenizer",
    "bart": "BartTokenizer",
    "openai-gpt": "OpenAIGPTTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "t5": "T5Tokenizer",
    "llama": "LlamaTokenizer",
    "llama-legacy": "LlamaTokenizer",
    "marian": "MarianTokenizer",
    "fsmt": "FSMTTokenizer",
    "ctrl": "CTRLTokenizer",
    "xlm": "XLMTokenizer",
    "m2m_100": "M2M100Tokenizer",
    "gemma": "GemmaTokenizer",
    "opt": "GPT2Tokenizer",
    "gpt_neox": "GPTNeoXTokenizer",
    "qwen2": "Qwen2Tokenizer",
    "whisper": "WhisperTokenizer",
}
OWN = ("marian", "fsmt", "ctrl", "xlm", "m2m_100")
FAST = [name for name in REFERENCE if name not in OWN]


def reference(name: str, folder: Path) -> Any:
    return getattr(transformers, REFERENCE[name]).from_pretrained(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(params=REFERENCE)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def random_texts(texts: list[str], count: int) -> list[str]:
    """Texts cut and joined anywhere, so that characters meet that never met."""
    generator = random.Random(7)
    alphabet = "".join(texts)
    return ["".join(generator.choices(alphabet, k=generator.randint(1, 30))) for _ in range(count)]


def test_ids_tokens_and_size(name: str, folders: dict[str, Path], texts: list[str]) -> None:
    ours, theirs = Tokenizer.load(folders[name]), reference(name, folders[name])
    assert ours.size == len(theirs)
    for text in [*texts, *random_texts(texts, 150)]:
        for special in (True, False):
            expected = theirs(text, add_special_tokens=special)["input_ids"]
            assert ours.encode(text, special=special).ids == expected, text
        if name in FAST:
            assert ours.encode(text, special=False).tokens == theirs.tokenize(text), text


@pytest.mark.parametrize("name", FAST)
def test_offsets_words_and_masks(name: str, folders: dict[str, Path], texts: list[str]) -> None:
    ours, theirs = Tokenizer.load(folders[name]), reference(name, folders[name])
    for text, pair in zip(texts, texts[::-1], strict=True):
        encoded = ours.encode(text, pair)
        # The reference takes an empty second text for none.
        expected = theirs(
            [text], [pair], return_offsets_mapping=True, return_special_tokens_mask=True
        )
        assert encoded.offsets == expected["offset_mapping"][0]
        assert encoded.special_mask == [bool(x) for x in expected["special_tokens_mask"][0]]
        assert encoded.sequence == expected.sequence_ids(0)
        assert encoded.words == expected.word_ids(0)


def test_pairs(name: str, folders: dict[str, Path], texts: list[str]) -> None:
    ours, theirs = Tokenizer.load(folders[name]), reference(name, folders[name])
    for text, pair in zip(texts, texts[::-1], strict=True):
        expected = theirs([text], [pair], return_token_type_ids=True)
        encoded = ours.encode(text, pair)
        assert encoded.ids == expected["input_ids"][0], (text, pair)
        if name in FAST:
            assert encoded.segments == expected["token_type_ids"][0]


def test_decoding(name: str, folders: dict[str, Path], texts: list[str]) -> None:
    ours, theirs = Tokenizer.load(folders[name]), reference(name, folders[name])
    generator = random.Random(3)
    sequences = [ours.encode(text).ids for text in texts]
    # Whisper's times, the last tokens, have a test of their own.
    size = ours.size - 5 if name == "whisper" else ours.size
    sequences += [generator.choices(range(size), k=15) for _ in range(200)]
    for ids in sequences:
        for special in (True, False):
            expected = theirs.decode(ids, skip_special_tokens=not special)
            assert ours.target_tokenizer.decode(ids, special=special) == expected


@pytest.mark.parametrize("side", ["right", "left"])
def test_truncation(name: str, side: str, folders: dict[str, Path], texts: list[str]) -> None:
    ours, theirs = Tokenizer.load(folders[name]), reference(name, folders[name])
    theirs.truncation_side = side
    for length in (4, 7, 12):
        expected = theirs(texts, max_length=length, truncation=True)["input_ids"]
        assert [ours.encode(t, max_length=length, truncate=side).ids for t in texts] == expected
        if name in FAST:
            pairs = list(zip(texts, texts[3:], strict=False))
            first, second = zip(*pairs, strict=True)
            expected = theirs(list(first), list(second), max_length=length, truncation=True)
            found = [ours.encode(a, b, max_length=length, truncate=side).ids for a, b in pairs]
            assert found == expected["input_ids"]


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding(name: str, side: str, folders: dict[str, Path], texts: list[str]) -> None:
    ours, theirs = Tokenizer.load(folders[name]), reference(name, folders[name])
    if theirs.pad_token is None:
        theirs.pad_token = theirs.convert_ids_to_tokens(ours.special.get("eos", 0))
    theirs.padding_side = side
    expected = theirs(texts, padding=True, return_tensors="pt", max_length=20, truncation=True)
    batch = ours.batch(texts, side=side, max_length=20)
    assert batch.tokens.equal(expected["input_ids"])
    assert batch.mask.equal(expected["attention_mask"].bool())
    if "token_type_ids" in expected and name != "distilbert-uncased":
        assert batch.segments is not None
        assert batch.segments.equal(expected["token_type_ids"])
    else:
        assert batch.segments is None


def test_default_padding_side_and_roles(name: str, folders: dict[str, Path]) -> None:
    ours, theirs = Tokenizer.load(folders[name]), reference(name, folders[name])
    assert ours.padding_side == theirs.padding_side
    expected = {
        key.removesuffix("_token"): theirs.convert_tokens_to_ids(token)
        for key, token in theirs.special_tokens_map.items()
        if isinstance(token, str)
    }
    assert ours.special == expected
    assert ours.max_length == (theirs.model_max_length if theirs.model_max_length < 1e9 else None)


def test_saved_folders_load_everywhere(
    name: str, folders: dict[str, Path], texts: list[str], tmp_path: Path
) -> None:
    ours = Tokenizer.load(folders[name])
    first, second = tmp_path / "first", tmp_path / "second"
    ours.save(first)
    shutil.copy(folders[name] / "config.json", first)
    again = Tokenizer.load(first)
    auto = transformers.AutoTokenizer.from_pretrained(first)
    classes = [auto]
    if name in FAST:
        classes.append(transformers.PreTrainedTokenizerFast.from_pretrained(first))
        assert ("token_type_ids" in auto("a")) == (ours.batch(["a"]).segments is not None)
    for text in texts:
        expected = ours.encode(text).ids
        assert again.encode(text).ids == expected
        for theirs in classes:
            assert theirs(text)["input_ids"] == expected, text
        for special in (True, False):
            decoded = ours.target_tokenizer.decode(expected, special=special)
            assert auto.decode(expected, skip_special_tokens=not special) == decoded
    again.save(second)
    (first / "config.json").unlink()
    assert contents(first) == contents(second)


def test_the_family_follows_from_the_files(folders: dict[str, Path], tmp_path: Path) -> None:
    for name in ("bert-uncased", "gpt2", "xlm-roberta", "t5", "llama", "marian", "fsmt"):
        folder = shutil.copytree(folders[name], tmp_path / name)
        (folder / "config.json").unlink()
        text = "Hello, world! 你好"
        expected = Tokenizer.load(folders[name]).encode(text).ids
        assert Tokenizer.load(folder).encode(text).ids == expected


def test_older_side_files(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["bert-uncased"], tmp_path / "bert")
    size = Tokenizer.load(folder).size
    (folder / "added_tokens.json").write_text(f'{{"glass": {size}, "[ENTITY]": {size + 1}}}')
    (folder / "special_tokens_map.json").write_text(
        '{"mask_token": {"content": "[MASK]", "lstrip": true, "rstrip": false,'
        ' "normalized": false, "single_word": false}}'
    )
    (folder / "tokenizer_config.json").write_text('{"additional_special_tokens": ["[ENTITY]"]}')
    ours = Tokenizer.load(folder)
    theirs = transformers.BertTokenizer.from_pretrained(folder)
    assert ours.size == size + 2
    for text in ("a glass house", "a [ENTITY] here", "see  [MASK] there"):
        assert ours.encode(text).ids == theirs(text)["input_ids"]
        ids = ours.encode(text).ids
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize(
    "name", ["bert-uncased", "gpt2", "openai-gpt", "xlm-roberta", "llama", "llama-legacy", "gemma"]
)
def test_what_is_written_behind_a_text_is_what_the_reference_adds_to_it(
    name: str, folders: dict[str, Path], texts: list[str]
) -> None:
    """As its pipelines do it: all of it decoded, without what the text before is decoded to."""
    tokenizer, theirs = Tokenizer.load(folders[name]), reference(name, folders[name])
    begins = 0
    for text in texts:
        ids = tokenizer.encode(text).ids
        for cut in range(1, len(ids)):
            before, whole = (
                theirs.decode(some, skip_special_tokens=True) for some in (ids[:cut], ids)
            )
            if whole.startswith(before):  # else the cut was within a character
                found = tokenizer.decode(ids[cut:], after=ids[:cut])
                assert found == whole[len(before) :], (text, cut)
                begins += found.startswith(" ")
    assert begins > 10
