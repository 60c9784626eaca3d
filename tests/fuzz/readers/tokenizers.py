"""Tokenizers: tokenizer.json, SentencePiece, the older files of each family, chat templates."""

from __future__ import annotations

import io
import json
import pickle
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import torch
from sentencepiece import sentencepiece_model_pb2

from glassformer.text import Tokenizer
from glassformer.text.chat_template import find_templates, render
from glassformer.text.loading.sentencepiece_model import SentencePieceModel
from tests.fuzz.mutate import LONG
from tests.fuzz.readers import _made
from tests.fuzz.registry import Sample, SilentlyWrongError, reader

TEXTS = ("Time flies like an arrow.", "", "Je suis étudiant 你好 😀 <s>[MASK]</s>", "x" * 200)
KINDS = ("byte-bpe", "bpe", "wordpiece", "unigram", "word", "char")


def read_tokenizer(folder: Path) -> None:
    """Encodes and decodes; ids must be those of the vocabulary."""
    tokenizer = Tokenizer.load(folder)
    known = set(tokenizer.vocabulary.values())
    for text in TEXTS:
        ids = list(tokenizer.encode(text).ids)
        if not known.issuperset(ids):
            raise SilentlyWrongError(
                f"{text!r} has the ids {set(ids) - known}, which are no tokens"
            )
        tokenizer.decode(ids)
    tokenizer.encode_batch([*TEXTS[:2]]) if hasattr(tokenizer, "encode_batch") else None
    tokenizer.fingerprint  # noqa: B018 - as it is written


@reader("tokenizer.json", read=read_tokenizer, weight=6)
def libraries() -> Iterator[Sample]:
    for kind in KINDS:
        files = _made.written(_made.tokenizer(kind, 330 if kind == "byte-bpe" else 120).save)
        yield Sample(files, ("tokenizer.json",))


@reader("tokenizer_config.json", read=read_tokenizer, weight=2)
def settings() -> Iterator[Sample]:
    for kind in ("byte-bpe", "wordpiece"):
        files = _made.written(_made.tokenizer(kind, 330 if kind == "byte-bpe" else 120).save)
        for other in ("special_tokens_map.json", "added_tokens.json"):
            files.setdefault(
                other, b'{"mask_token": "<mask>", "x": 5}' if "map" in other else b"{}"
            )
        files["config.json"] = b'{"model_type": "gpt2"}'
        yield Sample(files, tuple(name for name in files if name != "tokenizer.json"))


MARKS = ("startoftranscript", "en", "translate", "transcribe", "startofprev", "notimestamps")
SETTINGS = {  # of families that need some
    "fsmt": {"langs": ["en", "de"]},
    "whisper": {
        "added_tokens_decoder": {
            str(330 + i): {"content": f"<|{mark}|>", "special": True, "normalized": False}
            for i, mark in enumerate(MARKS)
        },
        "additional_special_tokens": [f"<|{mark}|>" for mark in MARKS],
    },
}


@reader("older tokenizer files", read=read_tokenizer, weight=6)
def older() -> Iterator[Sample]:
    """The families' own files, as the tests of tokenizers make them."""
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "time",
        "flies",
        "like",
        "an",
        "##s",
        ".",
    ]
    lines = "".join(f"{word}\n" for word in words).encode()
    pairs = _made.tokenizer("byte-bpe", 330).vocabulary
    merges = merges_of(pairs)
    vocabulary = json.dumps(pairs, ensure_ascii=False).encode()
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "t", "i", "m", "e</w>", "me</w>", "ti", "a</w>", "e"]
    ends = {piece: number for number, piece in enumerate(pieces)}
    joined = b"#version: 0.2\nt i\nm e</w>\n"
    own = {
        "bert": {"vocab.txt": lines},
        "gpt2": {"vocab.json": vocabulary, "merges.txt": merges},
        "roberta": {"vocab.json": vocabulary, "merges.txt": merges},
        "whisper": {"vocab.json": vocabulary, "merges.txt": merges},
        "openai-gpt": {"vocab.json": json.dumps(ends).encode(), "merges.txt": joined},
        "ctrl": {"vocab.json": json.dumps(ends).encode(), "merges.txt": joined},
        "xlm": {"vocab.json": json.dumps(ends).encode(), "merges.txt": b"t i 7\nm e</w> 5\n"},
        "fsmt": {
            "vocab-src.json": json.dumps(ends).encode(),
            "vocab-tgt.json": json.dumps(ends).encode(),
            "merges.txt": b"t i 7\nm e</w> 5\n",
        },
        "transfo-xl": {"vocab.txt": b"<eos>\n<unk>\ntime\nflies\n,\n.\n@-@\n"},
    }
    for family, files in own.items():
        config = json.dumps({"model_type": family}).encode()
        told = json.dumps(SETTINGS.get(family, {})).encode()
        yield Sample({**files, "config.json": config, "tokenizer_config.json": told}, tuple(files))


# --- pickled words -------------------------------------------------------------------------------

EVIL = (  # pickled bytes: numbers of memo entries, sizes, globals and calls
    b"r\xff\xff\xff\x7f", b"r\xff\xff\xff\xff", b"q\xff", b"p99999999999\n",
    b"\x8d" + b"\xff" * 7 + b"\x7f", b"\x8e" + b"\xff" * 4 + b"\0" * 4,
    b"\x96" + b"\xff" * 4 + b"\0" * 4, b"B\xff\xff\xff\x7f", b"X\xff\xff\xff\x7f",
    b"\x8b\xff\xff\xff\x7f", b"cos\nsystem\n", b"c__builtin__\neval\n", b"R", b"b", b"\x81",
    b"h\xff", b"0" * 50, b"(" * 50, b"2" * 50, b"t", b"u", b"s", b"e", b"\x95" + b"\xff" * 8,
    b"I" + b"9" * 5000 + b"\n", b"L" + b"9" * 5000 + b"L\n", b"P1\n", b"\x97", b"\x82\x01",
)  # fmt: skip


def change_pickle(rng: Random, content: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(EVIL) + content[at + rng.choice((0, 0, 1, 5)) :]


@reader(
    "pickled words",
    read=read_tokenizer,
    mutations={".bin": change_pickle, ".pkl": change_pickle},
    weight=3,
)
def pickled_words() -> Iterator[Sample]:
    words = ["<eos>", "<unk>", "time", "flies", ",", ".", "@-@"]
    numbers = OrderedDict((word, number) for number, word in enumerate(words))
    state = {"counter": Counter(words), "idx2sym": words, "sym2idx": numbers}
    beside = {"config.json": b'{"model_type": "transfo-xl"}', "tokenizer_config.json": b"{}"}
    for zipped in (True, False):
        file = io.BytesIO()
        torch.save(state, file, _use_new_zipfile_serialization=zipped)
        yield Sample({**beside, "vocab.bin": file.getvalue()}, ("vocab.bin",))
    for protocol in (0, 2, 4):
        content = pickle.dumps(state, protocol)
        yield Sample({**beside, "vocab.pkl": content}, ("vocab.pkl",))


def merges_of(vocabulary: dict[str, int]) -> bytes:
    library = json.loads(_made.written(_made.tokenizer("byte-bpe", 330).save)["tokenizer.json"])
    pairs = [
        pair if isinstance(pair, str) else " ".join(pair) for pair in library["model"]["merges"]
    ]
    return "".join(f"{pair}\n" for pair in ["#version: 0.2", *pairs]).encode()


# --- SentencePiece -------------------------------------------------------------------------------


def read_sentencepiece(folder: Path) -> None:
    """Compares with protobuf's reader, where that reads the file, and tokenizes."""
    path = next(path for path in folder.iterdir() if path.suffix == ".model")
    ours = SentencePieceModel.read(path)
    theirs = sentencepiece_model_pb2.ModelProto()
    try:
        theirs.ParseFromString(path.read_bytes())
    except Exception:
        theirs = None
    if theirs is not None:
        expected = [(piece.piece, piece.score) for piece in theirs.pieces]
        found = [(piece.text, piece.score) for piece in ours.pieces]
        if repr(found) != repr(expected):
            raise SilentlyWrongError("the pieces are not those that protobuf reads")
    read_tokenizer(folder)


@reader("sentencepiece", read=read_sentencepiece, weight=3)
def sentencepieces() -> Iterator[Sample]:
    names = {"t5": "spiece.model", "llama": "tokenizer.model", "albert": "spiece.model",
             "xlm-roberta": "sentencepiece.bpe.model", "deberta-v2": "spm.model",
             "xlnet": "spiece.model", "big_bird": "spiece.model"}  # fmt: skip
    for family, name in names.items():
        content = sentencepiece_of(*KINDS_OF.get(family, ("unigram",)))
        config = json.dumps({"model_type": family}).encode()
        yield Sample({name: content, "config.json": config}, (name,))
    words = {"</s>": 0, "<unk>": 1, "▁ti": 2, "me": 3, "<pad>": 4, "t": 5, "<s>": 6}
    vocabulary = json.dumps(words, ensure_ascii=False).encode()
    content = sentencepiece_of("unigram", 0)
    yield Sample({"source.spm": content, "target.spm": content, "vocab.json": vocabulary,
                  "x.model": content, "config.json": b'{"model_type": "marian"}'},
                 ("source.spm", "target.spm", "vocab.json"))  # fmt: skip
    yield Sample({"sentencepiece.bpe.model": content, "vocab.json": vocabulary,
                  "config.json": b'{"model_type": "m2m_100"}'})  # fmt: skip


KINDS_OF = {"llama": ("bpe", 8), "deberta-v2": ("unigram", 0, "[UNK]")}


def sentencepiece_of(kind: str, byte_pieces: int = 0, unknown: str = "<unk>") -> bytes:
    model = sentencepiece_model_pb2.ModelProto()
    model.trainer_spec.model_type = 2 if kind == "bpe" else 1
    model.normalizer_spec.precompiled_charsmap = b""
    pieces = [(unknown, 2), ("<s>", 3), ("</s>", 3)]
    pieces += [(f"<0x{i:02X}>", 6) for i in range(byte_pieces)]
    pieces += [(p, 1) for p in ("▁", "▁t", "i", "m", "e", "▁ti", "me", "▁time", "a", "r", "o", "w")]
    for number, (text, form) in enumerate(pieces):
        model.pieces.add(piece=text, score=-float(number), type=form)
    return bytes(model.SerializeToString())


# --- chat templates ------------------------------------------------------------------------------

CHAT = """{% for message in messages %}{% if message['role'] == 'user' %}<u>{{ message['content']
| trim }}</u>{% else %}{{ message.content ~ eos_token }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}<a>{% endif %}"""
MESSAGES = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
ATTACKS = (
    "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
    "{{ 'x' * 10**10 }}", "{{ [0] * 10**10 }}", "{{ 9 ** 9 ** 9 }}", "{{ 'x'.ljust(10**10) }}",
    "{{ '%9999999999d' % 1 }}", "{{ '{:>9999999999}'.format(1) }}", "{{ ''.__class__.__mro__ }}",
    "{{ cycler.__init__.__globals__.os.system('touch executed') }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ '(' * 5000 }}" , "(" * 5000,
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "{% include 'x' %}", "{% raw %}",
    "{% set x = 'a' %}{% for i in range(60) %}{% set x = x ~ x %}{% endfor %}{{ x }}",
    "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "{{ messages | tojson(indent=10**9) }}", "{{ lipsum(n=10**9) }}", "{{ strftime_now('%' ) }}",
    "{{ raise_exception(1) }}", "{{ messages[5].x.y }}", "{{ 1/0 }}", "{{ x | foo }}",
)  # fmt: skip


def read_template(folder: Path) -> None:
    templates = find_templates(
        {}, {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    )
    text = render(
        templates["default"],
        MESSAGES,
        add_generation_prompt=True,
        bos_token="<s>",
        eos_token="</s>",
    )
    if not isinstance(text, str) or len(text) > 10 * LONG:
        raise SilentlyWrongError(f"the conversation has {len(text)} characters")


def change_template(rng: Random, content: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(ATTACKS).encode() + content[at:]


@reader("chat_template", read=read_template, mutations={".jinja": change_template}, weight=2)
def templates() -> Iterator[Sample]:
    yield Sample({"chat_template.jinja": CHAT.encode()})
    yield Sample({"chat_template.jinja": b"{{ messages[0].content }}"})
    yield Sample({"chat_template.json": json.dumps({"chat_template": CHAT}).encode()})
