"""Loads byte-level BPE tokenizers (GPT-2 and similar) from `vocab.json` and `merges.txt`.

Families differ in how a text is split into words and in the tokens around it; `catalog.py` lists
the files of each family.
"""

from pathlib import Path

from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from glassformer.text.backend import LibraryBackend, TokenizerBackend, set_template
from glassformer.text.loading.tokenizer_config import TokenizerConfig, add_tokens, id_of
from glassformer.text.loading.wordpiece_bpe import add_bos_eos, bpe

GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_WORDS = LLAMA3_WORDS.replace("{1,3}", "")


def load_gpt2(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    backend = byte_level(files_of(folder), settings)
    add_bos_eos(backend, settings, bos=False)
    return LibraryBackend(backend)


def load_gpt_neox(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    backend = byte_level(files_of(folder), settings)
    backend.normalizer = normalizers.NFC()
    add_bos_eos(backend, settings, bos=False)
    return LibraryBackend(backend)


def load_qwen(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    backend = byte_level(files_of(folder), settings)
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(
                add_prefix_space=settings.flag("add_prefix_space", False), use_regex=False
            ),
        ]
    )
    add_bos_eos(backend, settings, bos=False)
    return LibraryBackend(backend)


def load_roberta(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    backend = byte_level(files_of(folder), settings)
    cls, sep = settings.roles["cls"], settings.roles["sep"]
    backend.post_processor = processors.RobertaProcessing(
        (sep, id_of(backend, sep)),
        (cls, id_of(backend, cls)),
        trim_offsets=settings.flag("trim_offsets", True),
        add_prefix_space=settings.flag("add_prefix_space", False),
    )
    return LibraryBackend(backend)


def load_deberta(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    backend = byte_level(files_of(folder), settings)
    cls, sep = settings.roles["cls"], settings.roles["sep"]
    set_template(backend, [cls, "$A", sep], [cls, "$A", sep, "$B:1", f"{sep}:1"])
    return LibraryBackend(backend)


def files_of(folder: Path) -> BPE:
    return bpe(folder, continuing_subword_prefix="", end_of_word_suffix="")


def byte_level(model: BPE, settings: TokenizerConfig) -> Backend:
    backend = Backend(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=settings.flag("add_prefix_space", False)
    )
    backend.decoder = decoders.ByteLevel()
    add_tokens(backend, settings)
    return backend
