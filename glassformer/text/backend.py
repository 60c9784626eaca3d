"""How one vocabulary reads and writes text. Texts and tokens come in.

Most families need only the `tokenizers` library (`LibraryBackend`). Those that it cannot describe
bring a codec of their own (see `foreign.py`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tokenizers import Tokenizer as Backend
from tokenizers import processors

from glassformer.errors import GlassformerError
from glassformer.text.encoding import LazyEncodings, TextEncoding
from glassformer.text.loading.tokenizer_config import id_of

Text = str | tuple[str, str]


class TokenizerBackend(Protocol):
    @property
    def vocabulary(self) -> Backend:
        """Knows tokens, ids, and which of them are special."""

    @property
    def piecewise(self) -> bool:
        """Whether the text of a token depends only on its neighbors, so that it can be streamed."""

    @property
    def target(self) -> "TokenizerBackend":
        """The codec of the language that a translation model writes."""

    def with_languages(self, source: str | None, target: str | None) -> "TokenizerBackend":
        """The same codec for texts in other languages, where it tells languages apart; None keeps
        the one it has."""

    @property
    def language_token(self) -> str | None:
        """The token that says in which language a text is, where it tells them apart so."""

    def read(self, texts: list[Text], special: bool) -> Sequence[TextEncoding]: ...

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Of the texts alone: no special tokens, and nothing but ids, which is sooner done."""

    def write(self, tokens: list[str]) -> str: ...

    def files(self) -> dict[str, bytes]:
        """The files from which this codec can be loaded again."""

    def reference_class(self) -> str:
        """The class by which `transformers` loads those files."""


def no_languages() -> GlassformerError:
    return GlassformerError(
        "This tokenizer reads all languages alike, and it has none to choose; leave "
        "source_language and target_language out."
    )


@dataclass(frozen=True)
class LibraryBackend:
    vocabulary: Backend

    @property
    def piecewise(self) -> bool:
        return True

    @property
    def target(self) -> TokenizerBackend:
        return self

    def with_languages(self, source: str | None, target: str | None) -> TokenizerBackend:
        raise no_languages()

    @property
    def language_token(self) -> str | None:
        return None

    def read(self, texts: list[Text], special: bool) -> Sequence[TextEncoding]:
        return LazyEncodings(self.vocabulary.encode_batch(texts, add_special_tokens=special))

    def ids(self, texts: list[str]) -> list[list[int]]:
        encodings = self.vocabulary.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def write(self, tokens: list[str]) -> str:
        decoder = self.vocabulary.decoder
        return " ".join(tokens) if decoder is None else str(decoder.decode(tokens))

    def files(self) -> dict[str, bytes]:
        # The library reads some scores a bit off what it wrote; what it then writes, it keeps.
        settled = Backend.from_str(self.vocabulary.to_str())
        return {"tokenizer.json": settled.to_str(pretty=True).encode("utf-8")}

    def reference_class(self) -> str:
        return "PreTrainedTokenizerFast"


def set_template(backend: Backend, single: list[str], pair: list[str]) -> None:
    """Set the template of special tokens; a number after an entry, as `:1`, is its segment."""
    names = {re.sub(r":\d$", "", entry) for entry in pair} - {"$A", "$B"}
    backend.post_processor = processors.TemplateProcessing(
        single=single,
        pair=pair,
        special_tokens=[(name, id_of(backend, name)) for name in sorted(names)],
    )
