"""The tokenizer in the metadata of a GGUF file.

`tokenizer.ggml.model` names the algorithm: "llama" is SentencePiece's BPE, whose merge order is in
the scores; "gpt2" is byte-level BPE with merges, after a split into words that is given only by
name (`tokenizer.ggml.pre`).
"""

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from glassformer.errors import LoadError, UnsupportedError
from glassformer.text.backend import LibraryBackend
from glassformer.text.loading.byte_bpe import GPT2_WORDS, LLAMA3_WORDS
from glassformer.text.loading.sentencepiece_model import SPACE, PieceType
from glassformer.text.loading.tokenizer_config import TokenizerConfig, special_token
from glassformer.text.loading.wordpiece_bpe import add_bos_eos, merges_of, ranks

Metadata = Mapping[str, Any]
PREFIX = "tokenizer.ggml."
# Our role names and GGUF's, with the spelling that the files use.
ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "sep": "seperator", "pad": "padding"}

# The split patterns, by the name in the file; each splits the parts that the one before it left.
GPT2, LLAMA3, SMOLLM = (GPT2_WORDS,), (LLAMA3_WORDS,), (r"\p{N}", GPT2_WORDS)
DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", GPT2_WORDS, r"\p{N}+", "[0-9][0-9][0-9]")
WORDS = {
    "default": DEFAULT,
    "gpt-2": GPT2,
    "gpt-neox": GPT2,
    "phi-2": GPT2,
    "llama-bpe": LLAMA3,
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    "smollm": SMOLLM,
}


def has_tokenizer(metadata: Metadata) -> bool:
    return metadata.get(f"{PREFIX}model") not in (None, "no_vocab", "none")


def backend_of(metadata: Metadata) -> tuple[LibraryBackend, TokenizerConfig]:
    """Returns the backend and the settings that the metadata describe."""
    model = metadata.get(f"{PREFIX}model")
    if not has_tokenizer(metadata):
        raise LoadError("The GGUF file has no tokenizer.")
    if model not in BACKENDS:
        raise UnsupportedError(
            f"The GGUF file has a tokenizer of the kind {model!r}; known are "
            f"{', '.join(BACKENDS)}.",
            field=f"{PREFIX}model",
        )
    tokens = listed(metadata, "tokens")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise LoadError(
            f"The GGUF file lists {len(tokens):,} tokens, of which only {len(vocabulary):,} "
            "differ; get it again."
        )
    backend = BACKENDS[model](metadata, vocabulary)
    settings = settings_of(metadata, tokens)
    add_reserved(backend, metadata, tokens)
    backend.add_special_tokens(settings.special_tokens())
    starts = model == "llama" or WORDS.get(words_name(metadata)) is LLAMA3
    add_bos_eos(backend, settings, bos=starts)
    return LibraryBackend(backend), settings


def sentence_pieces(metadata: Metadata, vocabulary: dict[str, int]) -> Backend:
    """SentencePiece's BPE, with merges derived from the scores."""
    scores = listed(metadata, "scores", len(vocabulary))
    unknown = metadata.get(f"{PREFIX}unknown_token_id")
    name = next((piece for piece, index in vocabulary.items() if index == unknown), None)
    merges = merges_of(ranks(list(zip(vocabulary, scores, strict=True))))
    backend = Backend(BPE(vocabulary, merges, unk_token=name, fuse_unk=True, byte_fallback=True))
    # As in SentencePiece, a space is added before every text, even if it starts with a space.
    leads = metadata.get(f"{PREFIX}add_space_prefix", True)
    steps = [normalizers.Prepend(SPACE)] if leads else []
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    back = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*back, decoders.Strip(" ", left=1)] if leads else back)
    return backend


def byte_pairs(metadata: Metadata, vocabulary: dict[str, int]) -> Backend:
    """Byte-level BPE with the merges of the file."""
    name = words_name(metadata)
    if name not in WORDS:
        raise UnsupportedError(
            f"The GGUF file splits texts into words by the unknown rule {name!r} ({PREFIX}pre); "
            f"known are {', '.join(WORDS)}.",
            field=f"{PREFIX}pre",
        )
    merges = [tuple(merge.split(" ", 1)) for merge in listed(metadata, "merges")]
    for pair in merges:
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocabulary.keys():
            raise LoadError(
                f"The GGUF file merges {' '.join(pair)!r}, which its vocabulary does not have; "
                "get it again."
            )
    backend = Backend(BPE(vocabulary, merges, ignore_merges=WORDS[name] is LLAMA3))
    cuts = [pre_tokenizers.Split(Regex(words), "isolated") for words in WORDS[name]]
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*cuts, letters])
    backend.decoder = decoders.ByteLevel()
    if name == "gpt-neox":
        backend.normalizer = normalizers.NFC()
    return backend


BACKENDS = {"llama": sentence_pieces, "gpt2": byte_pairs}


def words_name(metadata: Metadata) -> str:
    """Returns the name of the split into words.

    Files from before 2024 do not give it; for known architectures it is implied.
    """
    known = {"gpt2": "gpt-2", "gptneox": "gpt-neox"}
    name = known.get(metadata.get("general.architecture", ""), "default")
    return str(metadata.get(f"{PREFIX}pre", name))


def listed(metadata: Metadata, key: str, length: int | None = None) -> list[Any]:
    """Returns a list of the metadata, after checking its length."""
    values = metadata.get(PREFIX + key)
    if not isinstance(values, list) or length not in (None, len(values)):
        count = "" if length is None else f" of {length:,} entries"
        raise LoadError(f"The GGUF file has no list {PREFIX}{key}{count}; get it again.")
    return values


def settings_of(metadata: Metadata, tokens: list[str]) -> TokenizerConfig:
    """Returns the settings as tokenizer_config.json would give them."""
    architecture = metadata.get("general.architecture")
    ids = {role: metadata.get(f"{PREFIX}{name}_token_id") for role, name in ROLES.items()}
    for role, id in ids.items():
        if id is not None and not (isinstance(id, int) and 0 <= id < len(tokens)):
            raise LoadError(
                f"The GGUF file gives the role {role} to the token {id!r} of {len(tokens):,}; "
                "get it again."
            )
    said = {
        "add_bos_token": metadata.get(f"{PREFIX}add_bos_token"),
        "add_eos_token": metadata.get(f"{PREFIX}add_eos_token"),
        "chat_template": metadata.get("tokenizer.chat_template"),
        "model_max_length": metadata.get(f"{architecture}.context_length"),
        "padding_side": "left" if architecture == "llama" else None,
        **{f"{role}_token": tokens[id] for role, id in ids.items() if id is not None},
    }
    return TokenizerConfig({key: value for key, value in said.items() if value is not None})


def add_reserved(backend: Backend, metadata: Metadata, tokens: list[str]) -> None:
    """Adds control and user-defined tokens, which are never split in a text."""
    if f"{PREFIX}token_type" not in metadata:
        return
    kinds = listed(metadata, "token_type", len(tokens))
    pairs = list(zip(tokens, kinds, strict=True))
    backend.add_special_tokens([special_token(t) for t, kind in pairs if kind == PieceType.CONTROL])
    own = [AddedToken(t, normalized=False) for t, kind in pairs if kind == PieceType.USER_DEFINED]
    backend.add_tokens(own)
