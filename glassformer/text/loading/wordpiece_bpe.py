"""Loads WordPiece and BPE tokenizers from the files that preceded `tokenizer.json`.

`catalog.py` lists the files of each family. Byte-level BPE is in `byte_bpe.py`, SentencePiece's
unigram models in `unigram.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE, WordPiece

from glassformer.errors import LoadError
from glassformer.text.backend import LibraryBackend, TokenizerBackend, set_template
from glassformer.text.loading.files import read_lines, read_merges, read_vocabulary
from glassformer.text.loading.sentencepiece_model import (
    SPACE,
    Algorithm,
    PieceType,
    SentencePieceModel,
)
from glassformer.text.loading.tokenizer_config import TokenizerConfig, add_tokens, special_token


def load_bert(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    vocabulary = {token: index for index, token in enumerate(read_lines(folder / "vocab.txt"))}
    roles = settings.roles
    require(vocabulary, [roles["unk"]], folder / "vocab.txt")
    backend = Backend(WordPiece(vocabulary, unk_token=roles["unk"]))
    lowercase = settings.flag("do_lower_case", True)
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.flag("tokenize_chinese_chars", True),
        strip_accents=settings.flag("strip_accents", lowercase),
        lowercase=lowercase,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    add_tokens(backend, settings)
    cls, sep = roles["cls"], roles["sep"]
    set_template(backend, [cls, "$A", sep], [cls, "$A", sep, "$B:1", f"{sep}:1"])
    return LibraryBackend(backend)


def load_gpt(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    backend = Backend(
        bpe(
            folder,
            continuing_subword_prefix="",
            end_of_word_suffix="</w>",
            unk_token=settings.roles["unk"],
        )
    )
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.BPEDecoder(suffix="</w>")
    add_tokens(backend, settings)
    add_bos_eos(backend, settings, bos=False)
    return LibraryBackend(backend)


def load_llama(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    model = SentencePieceModel.read(folder / "tokenizer.model")
    if model.algorithm is not Algorithm.BPE:
        raise LoadError("This family needs a BPE SentencePiece model.")
    vocabulary = {piece.text: index for index, piece in enumerate(model.pieces)}
    merges = merges_of(ranks([(piece.text, piece.score) for piece in model.pieces]))
    backend = Backend(BPE(vocabulary, merges, fuse_unk=True, byte_fallback=True))
    prefix_space = settings.flag("add_prefix_space", True)
    scheme = "first" if prefix_space else "never"
    if prefix_space and settings.flag("legacy", False):
        scheme = "always"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=False)
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix_space:
        steps.append(decoders.Strip(" ", left=1))
    backend.decoder = decoders.Sequence(steps)
    add_reserved(backend, model)
    add_tokens(backend, settings)
    add_bos_eos(backend, settings, bos=True)
    return LibraryBackend(backend)


def ranks(scored: Sequence[tuple[str, float]]) -> dict[str, int]:
    """Returns the order in which the pieces of a SentencePiece BPE vocabulary were merged.

    The scores give it; usually the ids follow it, but Llama's runs of spaces come last.
    """
    order = sorted(range(len(scored)), key=lambda index: (-scored[index][1], index))
    return {scored[index][0]: rank for rank, index in enumerate(order)}


def merges_of(ranks: Mapping[str, int]) -> list[tuple[str, str]]:
    """Returns the merges of a SentencePiece BPE vocabulary: every split into two known pieces."""
    merges = []
    for piece, index in ranks.items():
        for at in range(1, len(piece)):
            left, right = piece[:at], piece[at:]
            if left in ranks and right in ranks:
                order = (index, len(left), len(right), ranks[left], ranks[right])
                merges.append((order, (left, right)))
    return [pair for _, pair in sorted(merges)]


def bpe(folder: Path, **options: Any) -> BPE:
    """Reads `vocab.json` and `merges.txt`; `options` are passed to the BPE model."""
    vocabulary = read_vocabulary(folder / "vocab.json")
    merges = read_merges(folder / "merges.txt")
    for left, right in merges:
        require(vocabulary, [left, right, left + right], folder / "vocab.json")
    return BPE(vocabulary, merges, **options)


def require(vocabulary: Mapping[str, int], tokens: list[str], path: Path) -> None:
    """Raises if the vocabulary of a file lacks one of the tokens."""
    for token in tokens:
        if token not in vocabulary:
            raise LoadError(
                f"The file {path} lacks the token {token!r}; "
                "the files of this folder do not belong together, or one is cut off."
            )


def add_reserved(backend: Backend, model: SentencePieceModel) -> None:
    """Adds control and user-defined pieces, which are never split in a text."""
    backend.add_special_tokens([special_token(text) for text in model.texts(PieceType.CONTROL)])
    user_defined = model.texts(PieceType.USER_DEFINED)
    backend.add_tokens([AddedToken(text, normalized=False) for text in user_defined])


def add_bos_eos(backend: Backend, settings: TokenizerConfig, *, bos: bool) -> None:
    """Sets the template of start and end tokens from `add_bos_token` and `add_eos_token`.

    `bos` is the default of `add_bos_token`.
    """
    roles = settings.roles
    start = [roles["bos"]] if settings.flag("add_bos_token", bos) and "bos" in roles else []
    end = [roles["eos"]] if settings.flag("add_eos_token", False) and "eos" in roles else []
    second = [f"{token}:1" for token in (*start, "$B", *end)]
    set_template(backend, [*start, "$A", *end], [*start, "$A", *end, *second])
