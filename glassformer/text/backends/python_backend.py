"""Base class for backends that split text without the `tokenizers` library.

A subclass splits a text into pieces; this class maps them to ids and adds special tokens.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel

from glassformer.errors import LoadError
from glassformer.text.backend import Text, TokenizerBackend, no_languages
from glassformer.text.encoding import TextEncoding
from glassformer.text.loading.tokenizer_config import TokenizerConfig, add_tokens, id_of

Cut = tuple[str, int, int]
"""A piece, and its start and end in the text."""


@dataclass(frozen=True, kw_only=True)
class PythonBackend(ABC):
    """A backend whose subclasses split texts in Python."""

    vocabulary: Backend
    unknown: str
    start: str | None = None
    end: str | None
    originals: dict[str, bytes]
    """The files it was read from, by name, which are saved unchanged."""
    other: Self | None = None
    """The target side, if this is the source side."""

    @abstractmethod
    def cut(self, text: str) -> list[Cut]:
        """Returns the pieces of a text that contains no special tokens."""

    @abstractmethod
    def write(self, tokens: list[str]) -> str: ...

    @abstractmethod
    def reference_class(self) -> str: ...

    @property
    @abstractmethod
    def piecewise(self) -> bool: ...

    @property
    def ends_both(self) -> bool:
        """Whether in a pair the end token also follows the first text."""
        return False

    @property
    def target_backend(self) -> TokenizerBackend:
        return self.other or self

    def with_languages(self, source: str | None, target: str | None) -> TokenizerBackend:
        raise no_languages()

    @property
    def language_token(self) -> str | None:
        return None

    def files(self) -> dict[str, bytes]:
        return self.originals

    def ids(self, texts: list[str]) -> list[list[int]]:
        return [encoded.ids for encoded in self.read(list(texts), special=False)]

    def read(self, texts: list[Text], special: bool) -> list[TextEncoding]:
        return [self._encoded((t,) if isinstance(t, str) else t, special) for t in texts]

    @cached_property
    def special_pattern(self) -> re.Pattern[str]:
        tokens = [t.content for t in self.vocabulary.get_added_tokens_decoder().values()]
        longest_first = sorted(tokens, key=len, reverse=True)
        return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def _encoded(self, texts: tuple[str, ...], special: bool) -> TextEncoding:
        cuts: list[Cut] = []
        sequence: list[int | None] = []
        for index, text in enumerate(texts):
            if special and self.start is not None and index == 0:
                cuts.append((self.start, 0, 0))
                sequence.append(None)
            own = self._cut_around_special(text)
            cuts += own
            sequence += [index] * len(own)
            if special and self.end is not None and (self.ends_both or index == len(texts) - 1):
                cuts.append((self.end, 0, 0))
                sequence.append(None)
        unknown = id_of(self.vocabulary, self.unknown)
        ids = [self.vocabulary.token_to_id(piece) for piece, _, _ in cuts]
        return TextEncoding(
            ids=[unknown if id is None else id for id in ids],
            tokens=[piece for piece, _, _ in cuts],
            segments=[0] * len(cuts),
            offsets=[(start, end) for _, start, end in cuts],
            sequence=sequence,
            special_mask=[text is None for text in sequence],
            words=[None] * len(cuts),
        )

    def _cut_around_special(self, text: str) -> list[Cut]:
        """Splits a text, but keeps special tokens that it contains whole."""
        cuts = []
        at = 0
        for number, part in enumerate(self.special_pattern.split(text)):
            is_special = number % 2 == 1
            pieces = [(part, 0, len(part))] if is_special else self.cut(part)
            cuts += [(piece, at + start, at + end) for piece, start, end in pieces]
            at += len(part)
        return cuts


def numbered(vocabulary: dict[str, int], settings: TokenizerConfig, where: object) -> Backend:
    """Returns a library backend that only maps tokens to ids.

    `where` is the file that error messages name.
    """
    for role in ("unk", "eos", "sep", "pad"):
        token = settings.roles.get(role)
        if token is not None and token not in vocabulary:
            raise LoadError(f"The file {where} lacks the token {token!r}.")
    backend = Backend(WordLevel(vocabulary, unk_token=settings.roles["unk"]))
    add_tokens(backend, settings)
    return backend
