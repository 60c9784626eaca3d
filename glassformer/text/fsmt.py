"""Text room, FSMT's codec: Moses makes words, byte pairs cut them, two vocabularies number them.

A folder with `vocab-src.json`, `vocab-tgt.json` and `merges.txt` comes in. Moses is the optional
package `sacremoses`.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.text.files import read_bytes, read_merges, read_vocabulary
from glassformer.text.foreign import Cut, ForeignCodec, numbered
from glassformer.text.settings import Settings

END_OF_WORD = "</w>"
ASCII_FORMS = str.maketrans(
    "，、”“∶：？《》）！（；１」「０３２５６９７８４～’━〈〉【】％",
    ',,""::?"")!(;1""032569784~\'-<>[]%',
)
REACH = 16
"""How far to look for a word of Moses in the text, which may have been normalized away."""


@dataclass(frozen=True, kw_only=True)
class MosesCodec(ForeignCodec):
    language: str
    merges: Mapping[tuple[str, str], int]
    lowercase: bool

    @property
    def piecewise(self) -> bool:
        """No: Moses needs all words to decide on the spaces around quotation marks."""
        return False

    @property
    def ends_both(self) -> bool:
        return True

    def reference_class(self) -> str:
        return "FSMTTokenizer"

    def cut(self, text: str) -> list[Cut]:
        source = text.translate(ASCII_FORMS)
        cuts: list[Cut] = []
        at = 0
        for word in self._words(text.lower() if self.lowercase else text):
            written = unescape(word)
            start = source.find(written, at, at + len(written) + REACH)
            start, end = (at, at) if start < 0 else (start, start + len(written))
            cuts += placed(self._byte_pairs(word), start, end)
            at = end
        return cuts

    def write(self, tokens: list[str]) -> str:
        words = "".join(token.replace(END_OF_WORD, " ") for token in tokens).split()
        return str(self._moses.MosesDetokenizer(lang=self.language).detokenize(words))

    @cached_property
    def _moses(self) -> Any:
        try:
            import sacremoses  # type: ignore[import-untyped]
        except ImportError:
            raise GlassformerError(
                'FSMT tokenizers need the package sacremoses: pip install "glassformer[moses]".'
            ) from None
        return sacremoses

    @cached_property
    def _normalizer(self) -> Any:
        return self._moses.MosesPunctNormalizer(lang=self.language)

    @cached_property
    def _tokenizer(self) -> Any:
        return self._moses.MosesTokenizer(lang=self.language)

    def _words(self, text: str) -> list[str]:
        text = re.sub(r"[。．]\s*", ". ", text.translate(ASCII_FORMS)).replace("…", "...")
        text = self._normalizer.normalize(text)
        text = "".join(c for c in text if not unicodedata.category(c).startswith("C"))
        words = self._tokenizer.tokenize(text, aggressive_dash_splits=True, escape=True)
        return [word for word in words if word]

    @cached_property
    def _byte_pairs(self) -> Callable[[str], list[str]]:
        def cut(word: str) -> list[str]:
            return merged([*word[:-1], word[-1] + END_OF_WORD], self.merges)

        return lru_cache(maxsize=2**16)(cut)


def merged(parts: list[str], ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """Join the neighbors whose merge was learned first, until no merge is left."""
    while True:
        pairs = [pair for pair in pairwise(parts) if pair in ranks]
        if not pairs:
            return parts
        first = min(pairs, key=ranks.__getitem__)
        joined: list[str] = []
        for part in parts:
            if joined and (joined[-1], part) == first:
                joined[-1] += part
            else:
                joined.append(part)
        parts = joined


def placed(pieces: list[str], start: int, end: int) -> list[Cut]:
    """The pieces of one word with their places; all of the word where Moses has escaped it."""
    lengths = [len(piece.removesuffix(END_OF_WORD)) for piece in pieces]
    if sum(lengths) != end - start:
        return [(piece, start, end) for piece in pieces]
    cuts = []
    for piece, length in zip(pieces, lengths, strict=True):
        cuts.append((piece, start, start + length))
        start += length
    return cuts


def load_fsmt(folder: Path, settings: Settings) -> MosesCodec:
    languages = settings.values.get("langs")
    if not isinstance(languages, list) or len(languages) != 2:
        raise GlassformerError(
            f'{folder / "tokenizer_config.json"} must name two languages, as "langs": ["en", "de"].'
        )
    names = ("vocab-src.json", "vocab-tgt.json", "merges.txt")
    originals = {name: read_bytes(folder / name) for name in names}
    pairs = read_merges(folder / "merges.txt", counted=True)
    merges = {pair: rank for rank, pair in enumerate(pairs)}

    def side(language: str, vocabulary: str, other: MosesCodec | None) -> MosesCodec:
        path = folder / vocabulary
        return MosesCodec(
            vocabulary=numbered(read_vocabulary(path), settings, path),
            unknown=settings.roles["unk"],
            end=settings.roles["sep"],
            originals=originals,
            other=other,
            language=language,
            merges=merges,
            lowercase=settings.flag("do_lower_case", False),
        )

    target = side(languages[1], "vocab-tgt.json", None)
    return side(languages[0], "vocab-src.json", target)
