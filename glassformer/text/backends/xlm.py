"""XLM's tokenizer: language-specific words, without accents, split by BPE.

It is read from `vocab.json` and `merges.txt`.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.errors import UnsupportedError
from glassformer.text.backend import TokenizerBackend
from glassformer.text.backends.bpe_merge import BytePairs
from glassformer.text.backends.moses import MosesBackend
from glassformer.text.backends.python_backend import numbered
from glassformer.text.loading.files import read_bytes, read_vocabulary
from glassformer.text.loading.tokenizer_config import TokenizerConfig

ROMANIAN = str.maketrans("ŞşŢţȘșȚțĂăÂâÎî", "SsTtSsTtAaAaIi")


@dataclass(frozen=True, kw_only=True)
class XlmBackend(MosesBackend):
    byte_pairs: BytePairs
    plain: bool
    """Whether texts are lowercased and lose their accents."""

    @property
    def ends_both(self) -> bool:
        return True

    def reference_class(self) -> str:
        return "XLMTokenizer"

    def with_languages(self, source: str | None, target: str | None) -> TokenizerBackend:
        return replace(self, language=source or self.language)

    def words(self, text: str) -> list[str]:
        words = WORDS.get(self.language, by_moses)(self, text)
        if self.plain:
            words = plain(" ".join(words)).split(" ")
        return [word for word in words if word]

    def pieces(self, word: str) -> list[str]:
        return self.byte_pairs.cut(word)

    def fold(self, character: str) -> str:
        character = super().fold(character)
        return plain(character) if self.plain else character

    def write(self, tokens: list[str]) -> str:
        return self.byte_pairs.merge_pieces(tokens).strip()


def plain(text: str) -> str:
    letters = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in letters if unicodedata.category(c) != "Mn").lower()


def by_moses(backend: XlmBackend, text: str) -> list[str]:
    text = backend.normalized(text)
    if backend.language == "ro":
        text = text.translate(ROMANIAN)
    return list(backend.tokenizer.tokenize(text, escape=False))


def by_jieba(backend: XlmBackend, text: str) -> list[str]:
    cut = segmenter("rjieba", "Chinese").cut
    return backend.normalized(" ".join(cut(text))).split()


def by_pythainlp(backend: XlmBackend, text: str) -> list[str]:
    return list(segmenter("pythainlp", "Thai").word_tokenize(backend.normalized(text)))


def by_kytea(backend: XlmBackend, text: str) -> list[str]:
    raise UnsupportedError(
        "XLM splits Japanese into words with KyTea, which is not supported; put spaces between "
        "the words yourself and choose another language, as with_languages('en')."
    )


WORDS: dict[str, Callable[[XlmBackend, str], list[str]]] = {
    "zh": by_jieba,
    "th": by_pythainlp,
    "ja": by_kytea,
}


def segmenter(package: str, language: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise UnsupportedError(
            f"XLM splits {language} into words with the package {package}: pip install {package}."
        ) from None


def load_xlm(folder: Path, settings: TokenizerConfig) -> XlmBackend:
    path = folder / "vocab.json"
    return XlmBackend(
        vocabulary=numbered(read_vocabulary(path), settings, path),
        unknown=settings.roles["unk"],
        start=settings.roles["bos"],
        end=settings.roles["sep"],
        originals={name: read_bytes(folder / name) for name in ("vocab.json", "merges.txt")},
        language=str(settings.values["src_lang"]),
        byte_pairs=BytePairs.read(folder / "merges.txt"),
        plain=settings.flag("do_lowercase_and_remove_accent", True),
    )
