"""The Moses word tokenization that FSMT, XLM and Transformer-XL share.

Moses is in the optional package `sacremoses`.
"""

import re
import unicodedata
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from glassformer.errors import UnsupportedError
from glassformer.text.backends.bpe_merge import END_OF_WORD
from glassformer.text.backends.python_backend import Cut, PythonBackend

ASCII_FORMS = str.maketrans(
    "，、”“∶：？《》）！（；１」「０３２５６９７８４～’━〈〉【】％",
    ',,""::?"")!(;1""032569784~\'-<>[]%',
)
REACH = 16
"""How many extra characters to search for a Moses word in the text, where it may have been
normalized away.
"""


@dataclass(frozen=True, kw_only=True)
class MosesBackend(PythonBackend):
    """A backend that splits texts into Moses words and words into pieces."""

    language: str

    @abstractmethod
    def words(self, text: str) -> list[str]: ...

    @abstractmethod
    def pieces(self, word: str) -> list[str]: ...

    def fold(self, character: str) -> str:
        """Returns what `words` turns a character into; used only to find the words in the text."""
        return character.translate(ASCII_FORMS)

    def surface_form(self, word: str) -> str:
        """Returns a word as it appears in the folded text."""
        return word

    @property
    def piecewise(self) -> bool:
        """False: Moses needs all words to decide on the spaces around quotation marks."""
        return False

    def cut(self, text: str) -> list[Cut]:
        folded = [(form, at) for at, character in enumerate(text) for form in self.fold(character)]
        source = "".join(form for form, _ in folded)
        places = [at for _, at in folded] + [len(text)]
        cuts: list[Cut] = []
        at = 0
        for word in self.words(text):
            written = self.surface_form(word)
            start = source.find(written, at, at + len(written) + REACH)
            start, end = (at, at) if start < 0 else (start, start + len(written))
            pieces = placed(self.pieces(word), start, end)
            cuts += [(piece, places[first], places[last]) for piece, first, last in pieces]
            at = end
        return cuts

    @cached_property
    def moses(self) -> Any:
        try:
            import sacremoses  # type: ignore[import-untyped]
        except ImportError:
            raise UnsupportedError(
                'This tokenizer needs the package sacremoses: pip install "glassformer[moses]".'
            ) from None
        return sacremoses

    @cached_property
    def normalizer(self) -> Any:
        return self.moses.MosesPunctNormalizer(lang=self.language)

    @cached_property
    def tokenizer(self) -> Any:
        return self.moses.MosesTokenizer(lang=self.language)

    def detokenized(self, words: list[str]) -> str:
        return str(self.moses.MosesDetokenizer(lang=self.language).detokenize(words))

    def normalized(self, text: str) -> str:
        """Converts punctuation to its ASCII form and removes unprintable characters."""
        text = re.sub(r"[。．]\s*", ". ", text.translate(ASCII_FORMS)).replace("…", "...")
        text = self.normalizer.normalize(text)
        return "".join(c for c in text if not unicodedata.category(c).startswith("C"))


def placed(pieces: list[str], start: int, end: int) -> list[Cut]:
    """Returns the pieces of one word with their offsets.

    If normalization changed the word, every piece gets the offsets of the whole word.
    """
    lengths = [len(piece.removesuffix(END_OF_WORD)) for piece in pieces]
    if sum(lengths) != end - start:
        return [(piece, start, end) for piece in pieces]
    cuts = []
    for piece, length in zip(pieces, lengths, strict=True):
        cuts.append((piece, start, start + length))
        start += length
    return cuts
