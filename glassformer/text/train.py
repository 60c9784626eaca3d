"""Text room, the workshop: learns a vocabulary from text. Files, or any stream of texts, come in.

Files are read line by line, so they may be larger than memory.
"""

import codecs
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from glassformer.errors import GlassformerError
from glassformer.text.codec import LibraryCodec
from glassformer.text.legacy import add_bos_eos, surround
from glassformer.text.sentencepiece import SPACE
from glassformer.text.settings import ROLES, Settings
from glassformer.text.tokenizer import Tokenizer

LONGEST_LINE = 2**20
"""A longer line is read in parts of this many bytes."""
SAMPLE = 2**30
"""How many bytes to learn from, unless told otherwise: more text hardly changes a vocabulary."""

END_OF_TEXT = {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}
SENTENCE_TOKENS = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}
BERT_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


@dataclass(frozen=True, kw_only=True)
class Kind:
    special: Mapping[str, str]
    build: Callable[[str | None, bool], Backend]
    """From the unknown token, and whether to lowercase."""
    trainer: Callable[..., Any]
    needs_unknown: bool = True
    least: int = 0
    """How many tokens it has besides the special ones, however small the text."""


def byte_bpe(unknown: str | None, lowercase: bool) -> Backend:
    backend = Backend(models.BPE())
    backend.normalizer = normalizers.Lowercase() if lowercase else None
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def bpe(unknown: str | None, lowercase: bool) -> Backend:
    return sentences(Backend(models.BPE(unk_token=unknown, fuse_unk=True)), lowercase)


def unigram(unknown: str | None, lowercase: bool) -> Backend:
    return sentences(Backend(models.Unigram()), lowercase)


def sentences(backend: Backend, lowercase: bool) -> Backend:
    """Spaces are part of the pieces, any run of white space counts as one."""
    steps = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    backend.normalizer = normalizers.Sequence(steps + [normalizers.Lowercase()] * lowercase)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(SPACE, prepend_scheme="always"),
            pre_tokenizers.Split(Regex(r"[\p{P}\p{S}]"), "isolated"),
        ]
    )
    backend.decoder = decoders.Metaspace(SPACE, prepend_scheme="always")
    return backend


def wordpiece(unknown: str | None, lowercase: bool) -> Backend:
    return words(Backend(models.WordPiece(unk_token=unknown)), lowercase)


def word(unknown: str | None, lowercase: bool) -> Backend:
    return words(Backend(models.WordLevel(unk_token=unknown)), lowercase)


def words(backend: Backend, lowercase: bool) -> Backend:
    """Words stand between spaces and punctuation; a Chinese character is a word."""
    backend.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    joints = Regex(r"(?<=[\p{Han}\p{Hiragana}\p{Katakana}]) (?=[\p{Han}\p{Hiragana}\p{Katakana}])")
    backend.decoder = decoders.Sequence(
        [decoders.WordPiece(prefix="##"), decoders.Fuse(), decoders.Replace(joints, "")]
    )
    return backend


def char(unknown: str | None, lowercase: bool) -> Backend:
    backend = Backend(models.WordLevel(unk_token=unknown))
    backend.normalizer = normalizers.Lowercase() if lowercase else None
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return backend


def byte_bpe_trainer(**options: Any) -> trainers.BpeTrainer:
    return trainers.BpeTrainer(**options, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def bpe_trainer(**options: Any) -> trainers.BpeTrainer:
    room = options["vocab_size"] - len(options["special_tokens"])
    return trainers.BpeTrainer(**options, limit_alphabet=room)


def wordpiece_trainer(**options: Any) -> trainers.WordPieceTrainer:
    # A character can begin a word and continue one, so it may take two places.
    room = (options["vocab_size"] - len(options["special_tokens"])) // 2
    return trainers.WordPieceTrainer(**options, limit_alphabet=room)


def unigram_trainer(min_frequency: int, unknown: str | None, **options: Any) -> Any:
    return trainers.UnigramTrainer(**options, unk_token=unknown)


KINDS = {
    "byte-bpe": Kind(
        special=END_OF_TEXT,
        build=byte_bpe,
        trainer=byte_bpe_trainer,
        needs_unknown=False,
        least=256,
    ),
    "bpe": Kind(special=SENTENCE_TOKENS, build=bpe, trainer=bpe_trainer),
    "wordpiece": Kind(special=BERT_TOKENS, build=wordpiece, trainer=wordpiece_trainer),
    "unigram": Kind(special=SENTENCE_TOKENS, build=unigram, trainer=unigram_trainer),
    "word": Kind(special=SENTENCE_TOKENS, build=word, trainer=trainers.WordLevelTrainer),
    "char": Kind(special=SENTENCE_TOKENS, build=char, trainer=trainers.WordLevelTrainer),
}
