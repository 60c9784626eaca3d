"""Tokenizes texts in advance, all at once, for callers that encode one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glassformer.errors import GlassformerError
from glassformer.text.backend import Text
from glassformer.text.encoding import TextEncoding
from glassformer.text.tokenizer import Tokenizer


class PrefetchEncoder:
    """A tokenizer's `encode` for callers that encode text by text and know which texts come next.

    Texts passed to `read` are tokenized together, on all cores. For all other texts, `encode` calls
    the tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._places: dict[tuple[Text, bool], int] = {}
        self._encoded: Sequence[TextEncoding] = ()

    def read(self, texts: Iterable[Text], *, special: bool = True) -> None:
        """Tokenizes these texts and discards those of the previous call.

        Values that are not texts are skipped; `encode` reports them.
        """
        wanted = list(dict.fromkeys(text for text in texts if _is_text(text)))
        try:
            self._encoded = self.tokenizer.lazy_encodings(wanted, special=special)
        except GlassformerError:
            wanted = []
        self._places = {(text, special): place for place, text in enumerate(wanted)}

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        special: bool = True,
        max_length: int | None = None,
    ) -> TextEncoding:
        """Returns the prefetched encoding of the text, or encodes it now."""
        whole: Text = text if pair is None else (text, pair)
        place = self._places.get((whole, special)) if _is_text(whole) else None
        if place is None:
            return self.tokenizer.encode(text, pair, special=special, max_length=max_length)
        found = self._encoded[place]
        return found if max_length is None else found.truncated(max_length, "right")


def _is_text(text: object) -> bool:
    parts = text if isinstance(text, tuple) else (text,)
    return all(isinstance(part, str) for part in parts)
