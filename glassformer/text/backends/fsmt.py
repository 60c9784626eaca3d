"""FSMT's tokenizer: Moses words, split by BPE, with a vocabulary per language.

It is read from `vocab-src.json`, `vocab-tgt.json` and `merges.txt`.
"""

from dataclasses import dataclass
from html import unescape
from pathlib import Path

from glassformer.errors import ConfigError
from glassformer.text.backends.bpe_merge import BytePairs
from glassformer.text.backends.moses import MosesBackend
from glassformer.text.backends.python_backend import numbered
from glassformer.text.loading.files import read_bytes, read_vocabulary
from glassformer.text.loading.tokenizer_config import TokenizerConfig


@dataclass(frozen=True, kw_only=True)
class FsmtBackend(MosesBackend):
    byte_pairs: BytePairs
    lowercase: bool

    @property
    def ends_both(self) -> bool:
        return True

    def reference_class(self) -> str:
        return "FSMTTokenizer"

    def words(self, text: str) -> list[str]:
        text = self.normalized(text.lower() if self.lowercase else text)
        words = self.tokenizer.tokenize(text, aggressive_dash_splits=True, escape=True)
        return [word for word in words if word]

    def pieces(self, word: str) -> list[str]:
        return self.byte_pairs.cut(word)

    def surface_form(self, word: str) -> str:
        return unescape(word)

    def write(self, tokens: list[str]) -> str:
        return self.detokenized(self.byte_pairs.merge_pieces(tokens).split())


def load_fsmt(folder: Path, settings: TokenizerConfig) -> FsmtBackend:
    languages = settings.values.get("langs")
    if not isinstance(languages, list) or len(languages) != 2:
        raise ConfigError(
            f'{folder / "tokenizer_config.json"} must name two languages, as "langs": ["en", "de"].'
        )
    names = ("vocab-src.json", "vocab-tgt.json", "merges.txt")
    originals = {name: read_bytes(folder / name) for name in names}
    byte_pairs = BytePairs.read(folder / "merges.txt")

    def side(language: str, vocabulary: str, other: FsmtBackend | None) -> FsmtBackend:
        path = folder / vocabulary
        return FsmtBackend(
            vocabulary=numbered(read_vocabulary(path), settings, path),
            unknown=settings.roles["unk"],
            end=settings.roles["sep"],
            originals=originals,
            other=other,
            language=language,
            byte_pairs=byte_pairs,
            lowercase=settings.flag("do_lower_case", False),
        )

    target = side(languages[1], "vocab-tgt.json", None)
    return side(languages[0], "vocab-src.json", target)
