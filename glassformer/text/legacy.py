"""Text room, the archive: tokenizers from the files of before `tokenizer.json`.

A folder and its settings come in; `catalog.py` says which family has which files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE, Unigram, WordPiece

from glassformer.errors import GlassformerError
from glassformer.text.codec import Codec, LibraryCodec
from glassformer.text.files import read_lines, read_merges, read_vocabulary
from glassformer.text.sentencepiece import SPACE, Algorithm, Kind, SentencePieceModel
from glassformer.text.settings import Settings, add_tokens, id_of, special_token


def load_bert(folder: Path, settings: Settings) -> Codec:
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
    surround(backend, [cls, "$A", sep], [cls, "$A", sep, "$B:1", f"{sep}:1"])
    return LibraryCodec(backend)


def load_gpt2(folder: Path, settings: Settings) -> Codec:
    backend = byte_level(folder, settings)
    add_bos_eos(backend, settings, bos=False)
    return LibraryCodec(backend)


def load_roberta(folder: Path, settings: Settings) -> Codec:
    backend = byte_level(folder, settings)
    cls, sep = settings.roles["cls"], settings.roles["sep"]
    backend.post_processor = processors.RobertaProcessing(
        (sep, id_of(backend, sep)),
        (cls, id_of(backend, cls)),
        trim_offsets=settings.flag("trim_offsets", True),
        add_prefix_space=settings.flag("add_prefix_space", False),
    )
    return LibraryCodec(backend)


def byte_level(folder: Path, settings: Settings) -> Backend:
    backend = Backend(bpe(folder, continuing_subword_prefix="", end_of_word_suffix=""))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=settings.flag("add_prefix_space", False)
    )
    backend.decoder = decoders.ByteLevel()
    add_tokens(backend, settings)
    return backend


def load_gpt(folder: Path, settings: Settings) -> Codec:
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
    return LibraryCodec(backend)


def load_t5(folder: Path, settings: Settings) -> Codec:
    model = SentencePieceModel.read(folder / "spiece.model")
    extra = [f"<extra_id_{i}>" for i in reversed(range(settings.number("extra_ids", 100)))]
    vocabulary = [(piece.text, piece.score) for piece in model.pieces]
    vocabulary += [(token, 0.0) for token in extra]
    backend = unigram(vocabulary, model, unknown=model.unknown, prefix_space=True)
    backend.add_special_tokens([special_token(token) for token in extra])
    add_tokens(backend, settings)
    eos = settings.roles["eos"]
    surround(backend, ["$A", eos], ["$A", eos, "$B", eos])
    return LibraryCodec(backend)


def load_xlm_roberta(folder: Path, settings: Settings) -> Codec:
    model = SentencePieceModel.read(folder / "sentencepiece.bpe.model")
    roles = settings.roles
    bos, eos = roles["bos"], roles["eos"]
    # fairseq put four tokens of its own where SentencePiece has three.
    first = [bos, roles["pad"], eos, roles["unk"]]
    vocabulary = [(token, 0.0) for token in first]
    vocabulary += [(piece.text, piece.score) for piece in model.pieces[3:]]
    vocabulary += [(roles["mask"], 0.0)]
    prefix_space = settings.flag("add_prefix_space", True)
    backend = unigram(vocabulary, model, unknown=3, prefix_space=prefix_space)
    add_tokens(backend, settings)
    surround(backend, [bos, "$A", eos], [bos, "$A", eos, eos, "$B", eos])
    return LibraryCodec(backend)


def unigram(
    vocabulary: list[tuple[str, float]],
    model: SentencePieceModel,
    *,
    unknown: int,
    prefix_space: bool,
) -> Backend:
    if model.algorithm is not Algorithm.UNIGRAM:
        raise GlassformerError("This family needs a unigram SentencePiece model.")
    backend = Backend(Unigram(vocabulary, unk_id=unknown, byte_fallback=False))
    if model.charsmap:
        backend.normalizer = normalizers.Precompiled(model.charsmap)
    scheme = "always" if prefix_space else "never"
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme)]
    )
    backend.decoder = decoders.Metaspace(SPACE, prepend_scheme=scheme)
    add_reserved(backend, model)
    return backend


def load_llama(folder: Path, settings: Settings) -> Codec:
    model = SentencePieceModel.read(folder / "tokenizer.model")
    if model.algorithm is not Algorithm.BPE:
        raise GlassformerError("This family needs a BPE SentencePiece model.")
    vocabulary = {piece.text: index for index, piece in enumerate(model.pieces)}
    backend = Backend(BPE(vocabulary, merges_of(vocabulary), fuse_unk=True, byte_fallback=True))
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
    return LibraryCodec(backend)


def merges_of(vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges behind a SentencePiece BPE vocabulary: every split of a piece into two pieces.

    Earlier pieces were merged first; that order is their id.
    """
    merges = []
    for piece, index in vocabulary.items():
        for at in range(1, len(piece)):
            left, right = piece[:at], piece[at:]
            if left in vocabulary and right in vocabulary:
                order = (index, len(left), len(right), vocabulary[left], vocabulary[right])
                merges.append((order, (left, right)))
    return [pair for _, pair in sorted(merges)]


def bpe(folder: Path, **options: Any) -> BPE:
    vocabulary = read_vocabulary(folder / "vocab.json")
    merges = read_merges(folder / "merges.txt")
    for left, right in merges:
        require(vocabulary, [left, right, left + right], folder / "vocab.json")
    return BPE(vocabulary, merges, **options)


def require(vocabulary: Mapping[str, int], tokens: list[str], path: Path) -> None:
    for token in tokens:
        if token not in vocabulary:
            raise GlassformerError(
                f"The file {path} lacks the token {token!r}; "
                "the files of this folder do not belong together, or one is cut off."
            )


def add_reserved(backend: Backend, model: SentencePieceModel) -> None:
    """Control and user-defined pieces stay whole wherever a text has them."""
    backend.add_special_tokens([special_token(text) for text in model.texts(Kind.CONTROL)])
    user_defined = model.texts(Kind.USER_DEFINED)
    backend.add_tokens([AddedToken(text, normalized=False) for text in user_defined])


def add_bos_eos(backend: Backend, settings: Settings, *, bos: bool) -> None:
    """Put the start and end tokens around each text, as `add_bos_token`, `add_eos_token` say."""
    roles = settings.roles
    start = [roles["bos"]] if settings.flag("add_bos_token", bos) and "bos" in roles else []
    end = [roles["eos"]] if settings.flag("add_eos_token", False) and "eos" in roles else []
    second = [f"{token}:1" for token in (*start, "$B", *end)]
    surround(backend, [*start, "$A", *end], [*start, "$A", *end, *second])


def surround(backend: Backend, single: list[str], pair: list[str]) -> None:
    """Set the template of special tokens; `:1` after an entry puts it into the second segment."""
    names = {entry.removesuffix(":1") for entry in pair} - {"$A", "$B"}
    backend.post_processor = processors.TemplateProcessing(
        single=single,
        pair=pair,
        special_tokens=[(name, id_of(backend, name)) for name in sorted(names)],
    )
