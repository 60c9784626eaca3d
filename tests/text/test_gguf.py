"""Tokenizers in GGUF files, compared with those that they were converted from."""

import gguf
import pytest
import sentencepiece
from tokenizers import Regex, decoders, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer
from glassformer.text.loading.files import read_merges, read_vocabulary
from glassformer.text.loading.gguf import backend_of, has_tokenizer
from glassformer.text.loading.sentencepiece_model import SentencePieceModel


def tokenizer_of(source):
    return Tokenizer(*backend_of(source))


def metadata(**keys):
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items() if value is not None}


@pytest.fixture
def pieces(folders):
    """The metadata that llama.cpp makes of a SentencePiece file."""
    model = SentencePieceModel.read(folders["llama"] / "tokenizer.model")
    return metadata(
        model="llama",
        tokens=[piece.text for piece in model.pieces],
        scores=[piece.score for piece in model.pieces],
        token_type=[int(piece.kind) for piece in model.pieces],
        bos_token_id=1,
        eos_token_id=2,
        unknown_token_id=0,
    )


@pytest.fixture
def pairs(folders):
    """The same of a byte-level vocabulary."""
    vocabulary = read_vocabulary(folders["gpt2"] / "vocab.json")
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    merges = read_merges(folders["gpt2"] / "merges.txt")
    return metadata(
        model="gpt2",
        tokens=tokens,
        token_type=[3 if token == "<|endoftext|>" else 1 for token in tokens],
        merges=[" ".join(pair) for pair in merges],
        bos_token_id=vocabulary["<|endoftext|>"],
        eos_token_id=vocabulary["<|endoftext|>"],
    )


def test_sentence_pieces_are_sentencepieces(folders, texts, pieces):
    ours = tokenizer_of(pieces)
    path = str(folders["llama"] / "tokenizer.model")
    theirs = sentencepiece.SentencePieceProcessor(model_file=path)
    assert ours.size == theirs.get_piece_size()
    reserved = ("<s>", "</s>", "<unk>", "<tool>")  # SentencePiece reads these as plain text
    plain = [text for text in texts if not any(token in text for token in reserved)]
    assert len(plain) > 20
    for text in plain:
        ids = ours.encode(text).ids
        assert ids == [1, *theirs.encode(text)], text
        assert ours.decode(ids) == theirs.decode(ids), text


def test_the_order_of_sentence_pieces_is_in_their_scores(texts, pieces):
    """Not in their ids, which a file may give as it likes."""
    count = len(pieces["tokenizer.ggml.tokens"])
    order = [*range(300), *reversed(range(300, count))]
    shuffled = dict(pieces)
    for key in ("tokens", "scores", "token_type"):
        shuffled[f"tokenizer.ggml.{key}"] = [pieces[f"tokenizer.ggml.{key}"][i] for i in order]
    plain, other = tokenizer_of(pieces), tokenizer_of(shuffled)
    for text in texts:
        assert other.encode(text).tokens == plain.encode(text).tokens


def test_reserved_pieces_stay_whole(pieces):
    ours = tokenizer_of(pieces)
    assert "<tool>" in ours.encode("a<tool>b").tokens
    assert ours.encode("a</s>b").ids[2] == 2
    assert ours.decode(ours.encode("a<tool>b</s>").ids) == "a<tool> b"


def test_no_space_is_put_first_where_the_file_says_so(pieces):
    ours = tokenizer_of({**pieces, "tokenizer.ggml.add_space_prefix": False})
    assert ours.encode("the dog", special=False).tokens[0][0] == "t"
    assert ours.decode(ours.encode("the dog").ids) == "the dog"


LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PUBLISHED = {  # how the tokenizer.json of a model with that name cuts texts into words
    "gpt-2": (pre_tokenizers.ByteLevel(add_prefix_space=False),),
    "smollm": (
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ),
    "llama-bpe": (
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_byte_pairs_are_those_of_the_published_tokenizer(name, texts, pairs):
    ours = tokenizer_of({**pairs, **metadata(pre=name, add_bos_token=False)})
    vocabulary = {token: i for i, token in enumerate(pairs["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in pairs["tokenizer.ggml.merges"]]
    theirs = Backend(BPE(vocabulary, merges, ignore_merges=name == "llama-bpe"))
    theirs.pre_tokenizer = pre_tokenizers.Sequence(list(PUBLISHED[name]))
    theirs.decoder = decoders.ByteLevel()
    theirs.add_special_tokens(["<|endoftext|>"])
    for text in [*texts, "123456 12ab3 ½x ٣٤"]:
        ids = ours.encode(text).ids
        assert ids == theirs.encode(text).ids, text
        assert ours.decode(ids) == theirs.decode(ids), text


def test_the_default_rule_keeps_punctuation_and_digits_apart(pairs):
    ours = tokenizer_of({**pairs, "tokenizer.ggml.pre": "default"})
    words = ours._backend.vocabulary.pre_tokenizer.pre_tokenize_str("Hi, it's 12345 ok")
    assert [word for word, _ in words] == ["Hi", ",", "Ġit", "'", "s", "Ġ", "123", "45", "Ġok"]


def test_a_gpt2_file_without_a_rule_is_cut_as_gpt2(texts, pairs):
    named = tokenizer_of({**pairs, "tokenizer.ggml.pre": "gpt-2"})
    old = tokenizer_of({**pairs, "general.architecture": "gpt2"})
    assert [old.encode(t).ids for t in texts] == [named.encode(t).ids for t in texts]


@pytest.mark.parametrize(
    ("keys", "starts"),
    [({}, False), ({"add_bos_token": True}, True), ({"pre": "llama-bpe"}, True),
     ({"pre": "llama-bpe", "add_bos_token": False}, False)],
)  # fmt: skip
def test_whether_a_text_begins_with_the_start_token(keys, starts, pairs):
    ours = tokenizer_of({**pairs, **metadata(**keys)})
    assert (ours.encode("the").ids[0] == ours.special["bos"]) is starts


def test_saved_it_loads_as_the_same(tmp_path, texts, pieces, pairs):
    for number, source in enumerate((pieces, pairs)):
        extra = {"general.architecture": "llama", "llama.context_length": 512,
                 "tokenizer.chat_template": "{{ messages }}"}  # fmt: skip
        ours = tokenizer_of({**source, **extra})
        assert (ours.max_length, ours.padding_side) == (512, "left")
        folder = tmp_path / str(number)
        ours.save(folder)
        again = Tokenizer.load(folder)
        assert [again.encode(t).ids for t in texts] == [ours.encode(t).ids for t in texts]
        assert (again.special, again.max_length) == (ours.special, ours.max_length)
        assert '"chat_template": "{{ messages }}"' in (folder / "tokenizer_config.json").read_text()


def test_no_tokenizer():
    assert not has_tokenizer({"general.architecture": "llama"})
    assert not has_tokenizer(metadata(model="no_vocab"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "bert"}, "a tokenizer of the kind 'bert'; known are llama, gpt2"),
        ({"pre": "deepseek-llm"}, "by the unknown rule 'deepseek-llm'"),
        ({"merges": None}, "has no list tokenizer.ggml.merges"),
        ({"merges": ["q x"]}, "merges 'q x', which its vocabulary does not have"),
        ({"merges": ["qx"]}, "merges 'qx', which its vocabulary does not have"),
        ({"token_type": [1, 2]}, "has no list tokenizer.ggml.token_type of"),
        ({"eos_token_id": 100_000}, "gives the role eos to the token 100000 of"),
        ({"tokens": ["a", "b", "a"], "merges": [], "token_type": None, "bos_token_id": None,
          "eos_token_id": None}, "lists 3 tokens, of which only 2 differ"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(change, said, pairs):
    changed = {f"tokenizer.ggml.{key}": value for key, value in change.items()}
    source = {key: value for key, value in {**pairs, **changed}.items() if value is not None}
    with pytest.raises(GlassformerError) as caught:
        tokenizer_of(source)
    assert said in str(caught.value) and str(caught.value).endswith(".")


def test_a_file_is_loaded_by_its_path(tmp_path, folders, texts):
    path = tmp_path / "words.gguf"
    writer = gguf.GGUFWriter(path, "gptneox")
    vocabulary = read_vocabulary(folders["gpt_neox"] / "vocab.json")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(vocabulary, key=vocabulary.__getitem__))
    writer.add_token_types([3, 3] + [1] * (len(vocabulary) - 2))
    writer.add_token_merges([" ".join(m) for m in read_merges(folders["gpt_neox"] / "merges.txt")])
    writer.add_eos_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    ours, published = Tokenizer.load(path), Tokenizer.load(folders["gpt_neox"])
    for text in texts:
        assert ours.encode(text).ids == published.encode(text).ids
    assert ours.special == {"eos": 0}


def test_a_file_without_a_tokenizer(tmp_path):
    path = tmp_path / "empty.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(GlassformerError, match="has no tokenizer"):
        Tokenizer.load(path)
