"""The tokenizer backend protocol and its implementation with the `tokenizers` library.

Most families need only the `tokenizers` library (`LibraryBackend`). Families that it cannot
describe have their own backend in `text/backends`.
"""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer as Backend
from tokenizers import processors

from glassformer.errors import ConfigError
from glassformer.storage.parsing import parsing, silent
from glassformer.text.encoding import LazyEncodings, TextEncoding
from glassformer.text.loading.tokenizer_config import id_of

Text = str | tuple[str, str]


class TokenizerBackend(Protocol):
    """Converts between texts and the tokens of one vocabulary."""

    @property
    def vocabulary(self) -> Backend:
        """Maps tokens to ids and knows which tokens are special."""

    @property
    def piecewise(self) -> bool:
        """Whether a token's text depends only on its neighbors, so that it can be streamed."""

    @property
    def target_backend(self) -> "TokenizerBackend":
        """The backend for a translation model's target language."""

    def with_languages(self, source: str | None, target: str | None) -> "TokenizerBackend":
        """Returns this backend for texts in other languages, if it distinguishes languages.

        None keeps the current language.
        """

    @property
    def language_token(self) -> str | None:
        """The token that marks the language of a text, or None if the vocabulary has none."""

    def read(self, texts: list[Text], special: bool) -> Sequence[TextEncoding]: ...

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Returns only the ids of the texts, without special tokens; faster than `read`."""

    def write(self, tokens: list[str]) -> str: ...

    def files(self) -> dict[str, bytes]:
        """Returns the files from which this backend can be loaded again."""

    def reference_class(self) -> str:
        """Returns the name of the class with which `transformers` loads those files."""


def no_languages() -> ConfigError:
    return ConfigError(
        "This tokenizer does not distinguish languages; leave source_language and "
        "target_language out."
    )


def tokenizing() -> AbstractContextManager[None]:
    """Converts errors and panics of the library, which inconsistent files cause, to a sentence."""
    return parsing(Path("tokenizer.json"), "a tokenizer that works")


@dataclass(frozen=True)
class LibraryBackend:
    """A backend that the `tokenizers` library describes completely.

    Attributes:
        vocabulary: The library's tokenizer.
        was_parsed: Whether the library has parsed it from JSON.
    """

    vocabulary: Backend
    was_parsed: bool = False

    @property
    def piecewise(self) -> bool:
        return True

    @property
    def target_backend(self) -> TokenizerBackend:
        return self

    def with_languages(self, source: str | None, target: str | None) -> TokenizerBackend:
        raise no_languages()

    @property
    def language_token(self) -> str | None:
        return None

    def read(self, texts: list[Text], special: bool) -> Sequence[TextEncoding]:
        with tokenizing():
            return LazyEncodings(self.vocabulary.encode_batch(texts, add_special_tokens=special))

    def ids(self, texts: list[str]) -> list[list[int]]:
        with tokenizing():
            encodings = self.vocabulary.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def write(self, tokens: list[str]) -> str:
        decoder = self.vocabulary.decoder
        with tokenizing():
            return " ".join(tokens) if decoder is None else str(decoder.decode(tokens))

    def files(self) -> dict[str, bytes]:
        # The library reads some scores slightly different from what it wrote; once it has parsed
        # them, they are stable.
        with silent(), tokenizing():
            stable = self.vocabulary
            if not self.was_parsed:
                stable = Backend.from_str(stable.to_str())
            return {"tokenizer.json": stable.to_str(pretty=True).encode("utf-8")}

    def reference_class(self) -> str:
        return "PreTrainedTokenizerFast"


def set_template(backend: Backend, single: list[str], pair: list[str]) -> None:
    """Sets the special token template.

    A number after an entry, as in `$B:1`, is its segment.
    """
    names = {re.sub(r":\d$", "", entry) for entry in pair} - {"$A", "$B"}
    backend.post_processor = processors.TemplateProcessing(
        single=single,
        pair=pair,
        special_tokens=[(name, id_of(backend, name)) for name in sorted(names)],
    )
