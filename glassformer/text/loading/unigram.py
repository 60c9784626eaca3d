"""Loads SentencePiece unigram models.

Each family adds its own tokens before or after the pieces of the file; `catalog.py` lists the
files of each family. The reference is SentencePiece itself, the program that made the file.
"""

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from tokenizers import Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import Unigram

from glassformer.errors import LoadError
from glassformer.text.backend import LibraryBackend, TokenizerBackend, set_template
from glassformer.text.languages import MBART, MBART_50
from glassformer.text.loading.sentencepiece_model import (
    SPACE,
    Algorithm,
    PieceType,
    SentencePieceModel,
    SentencePieceToken,
)
from glassformer.text.loading.tokenizer_config import TokenizerConfig, add_tokens, special_token


def load_t5(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    model = SentencePieceModel.read(folder / "spiece.model")
    extra = [f"<extra_id_{i}>" for i in reversed(range(settings.number("extra_ids", 100)))]
    backend = unigram(model, settings, last=extra)
    eos = settings.roles["eos"]
    set_template(backend, ["$A", eos], ["$A", eos, "$B", eos])
    return LibraryBackend(backend)


def load_xlm_roberta(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    roles = settings.roles
    backend = fairseq(folder, settings, [])
    bos, eos = roles["bos"], roles["eos"]
    set_template(backend, [bos, "$A", eos], [bos, "$A", eos, eos, "$B", eos])
    return LibraryBackend(backend)


def load_mbart(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    return LibraryBackend(fairseq(folder, settings, MBART))


def load_mbart_50(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    return LibraryBackend(fairseq(folder, settings, MBART_50))


def load_nllb(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    """Raises, because NLLB's pieces are BPE and only tokenizer.json has their merges."""
    raise LoadError(
        f"The folder {folder} has a tokenizer of NLLB without tokenizer.json, which is published "
        "with it; get that file too."
    )


def fairseq(folder: Path, settings: TokenizerConfig, languages: Sequence[str]) -> Backend:
    """Loads a fairseq model, which has four tokens of its own where SentencePiece has three."""
    model = SentencePieceModel.read(folder / "sentencepiece.bpe.model")
    roles = settings.roles
    first = [roles["cls"], roles["pad"], roles["eos"], roles["unk"]]
    return unigram(model, settings, first=first, replaced=3, last=[*languages, roles["mask"]])


def load_pegasus(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    """Loads Pegasus, whose pieces follow `offset` tokens that only pretraining used."""
    model = SentencePieceModel.read(folder / "spiece.model")
    roles = settings.roles
    spare = [f"<unk_{i}>" for i in range(2, settings.number("offset", 103))]
    masks = [str(settings.values["mask_token_sent"]), roles["mask"]]
    first = [roles["pad"], roles["eos"], *masks, *spare]
    backend = unigram(model, settings, first=first, replaced=2)
    set_template(backend, ["$A", roles["eos"]], ["$A", "$B", roles["eos"]])
    return LibraryBackend(backend)


def load_albert(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    model = numbers_apart(SentencePieceModel.read(folder / "spiece.model"))
    return like_bert(unigram(model, settings, cleaning=plain_letters(settings, True)), settings)


def load_big_bird(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    model = SentencePieceModel.read(folder / "spiece.model")
    return like_bert(unigram(model, settings), settings)


def load_deberta_v2(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    model = SentencePieceModel.read(folder / "spm.model")
    lowercase = settings.flag("do_lower_case", False)
    backend = unigram(
        model,
        settings,
        cleaning=[normalizers.Lowercase()] if lowercase else [],
        cuts=settings.flag("split_by_punct", False),
    )
    return like_bert(backend, settings)


def like_bert(backend: Backend, settings: TokenizerConfig) -> TokenizerBackend:
    """Adds BERT's template of special tokens."""
    cls, sep = settings.roles["cls"], settings.roles["sep"]
    set_template(backend, [cls, "$A", sep], [cls, "$A", sep, "$B:1", f"{sep}:1"])
    return LibraryBackend(backend)


def load_xlnet(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    """Loads XLNet, whose classification token comes last and has a segment of its own."""
    model = numbers_apart(SentencePieceModel.read(folder / "spiece.model"))
    backend = unigram(model, settings, cleaning=plain_letters(settings, False))
    cls, sep = settings.roles["cls"], settings.roles["sep"]
    set_template(backend, ["$A", sep, f"{cls}:2"], ["$A", sep, "$B:1", f"{sep}:1", f"{cls}:2"])
    return LibraryBackend(backend)


def plain_letters(settings: TokenizerConfig, lowercase: bool) -> list[normalizers.Normalizer]:
    """Returns the normalization that ALBERT and XLNet apply before SentencePiece."""
    steps: list[normalizers.Normalizer] = [
        normalizers.Replace("``", '"'),
        normalizers.Replace("''", '"'),
    ]
    if not settings.flag("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.Replace(Regex(combining_marks()), "")]
    if settings.flag("do_lower_case", lowercase):
        steps.append(normalizers.Lowercase())
    return steps


def numbers_apart(model: SentencePieceModel) -> SentencePieceModel:
    """Keeps numbers separate from a following comma, by lowering the scores of such pieces."""

    def costly(piece: SentencePieceToken) -> bool:
        return len(piece.text) > 1 and piece.text[-1] == "," and piece.text[-2].isdigit()

    pieces = [replace(p, score=p.score - 100.0) if costly(p) else p for p in model.pieces]
    return replace(model, pieces=pieces)


def combining_marks() -> str:
    """Returns a pattern of all characters that combine with the one before.

    Not all marks do: in Hindi and Thai, vowel signs are characters of their own.
    """
    marks = [code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    ends = [at for at, next in pairwise(marks) if next != at + 1] + [marks[-1]]
    starts = marks[:1] + [next for at, next in pairwise(marks) if next != at + 1]
    ranges = (f"\\x{{{a:X}}}-\\x{{{b:X}}}" for a, b in zip(starts, ends, strict=True))
    return f"[{''.join(ranges)}]"


def unigram(
    model: SentencePieceModel,
    settings: TokenizerConfig,
    *,
    first: Sequence[str] = (),
    replaced: int = 0,
    last: Sequence[str] = (),
    cleaning: Sequence[normalizers.Normalizer] = (),
    cuts: bool = False,
) -> Backend:
    """Builds a backend from a SentencePiece unigram model.

    Args:
        model: The SentencePiece model.
        settings: The settings of the tokenizer.
        first: The tokens that replace the first `replaced` pieces.
        replaced: How many pieces `first` replaces.
        last: The tokens after the pieces.
        cleaning: The normalizers to apply before SentencePiece's rules.
        cuts: Whether each punctuation mark is a word of its own.
    """
    if model.algorithm is not Algorithm.UNIGRAM:
        raise LoadError("This family needs a unigram SentencePiece model.")
    vocabulary = [(token, 0.0) for token in first]
    vocabulary += model.scored()[replaced:]
    vocabulary += [(token, 0.0) for token in last]
    unknown = [token for token, _ in vocabulary].index(settings.roles["unk"])
    bytes_too = bool(model.texts(PieceType.BYTE))
    backend = Backend(Unigram(vocabulary, unk_id=unknown, byte_fallback=bytes_too))
    rules = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    backend.normalizer = normalizers.Sequence([*cleaning, *rules])
    scheme = "always" if settings.flag("add_prefix_space", model.dummy_prefix) else "never"
    steps: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme)
    ]
    if model.collapse_spaces:
        steps.insert(0, pre_tokenizers.Split(" ", "removed"))
    if cuts:
        steps.insert(0, pre_tokenizers.Punctuation("isolated"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    back = decoders.Metaspace(SPACE, prepend_scheme=scheme)
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), back]) if bytes_too else back
    backend.add_special_tokens([special_token(text) for text in model.texts(PieceType.CONTROL)])
    backend.add_special_tokens([special_token(token) for token in last])
    add_tokens(backend, settings)
    return backend
