"""How much of a text the vocabulary does not know, and a warning if it is a large part."""

from __future__ import annotations

import warnings
from collections import Counter

from glassformer.errors import UnknownTextWarning
from glassformer.text.encoding import TextEncoding

LIMIT = 1 / 3  # of the characters
MESSAGE = (
    "More than a third of a text is unknown to the model's vocabulary, so its result means little; "
    "unknown_ratio (also in --json) says how much of each text."
)


def warned(ratio: float) -> float:
    """Returns the share of a text that is unknown, after a warning if it is large."""
    if ratio > LIMIT:
        warnings.warn(MESSAGE, UnknownTextWarning, stacklevel=2)
    return ratio


def unknown_ratio(encoding: TextEncoding, unknown: int | None, by_bytes: bool) -> float:
    """Returns the share of a text's characters that are not in the vocabulary.

    Args:
        encoding: The tokens of the text.
        unknown: The id of the token for what is unknown.
        by_bytes: Whether a character that several tokens share counts as unknown.
    """
    tokens = Counter(
        (encoding.sequence[i], span, encoding.ids[i] == unknown)
        for i, span in enumerate(encoding.offsets)
        if not encoding.special_mask[i] and encoding.sequence[i] is not None
    )
    found = {True: 0, False: 0}
    for (_, (start, end), is_unknown), count in tokens.items():
        shared = by_bytes and count > 1 and end - start == 1
        found[is_unknown or shared] += max(end - start, 1)
    return found[True] / max(sum(found.values()), 1)
