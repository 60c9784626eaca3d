"""SentencePiece's Unigram segmentation, reproduced exactly.

The `tokenizers` library also implements Unigram, and T5 and XLM-RoBERTa use that implementation, as
the reference does. The reference for Marian is SentencePiece itself, which differs in details: it
matches normalization rules on bytes instead of on graphemes, keeps scores in 32 bits, and never
takes "<s>" in a text for the control piece.
"""

import struct
from dataclasses import dataclass

import numpy as np

from glassformer.errors import UnsupportedError
from glassformer.text.loading.sentencepiece_model import (
    SPACE,
    Algorithm,
    PieceType,
    SentencePieceModel,
)

UNKNOWN_PENALTY = 10.0


@dataclass(frozen=True)
class Normalized:
    """A normalized text; character `i` of it comes from `starts[i]:ends[i]` of the original."""

    text: str
    starts: list[int]
    ends: list[int]


class Charsmap:
    """Replacement rules on byte strings: a double-array trie, then the replacements."""

    def __init__(self, blob: bytes) -> None:
        size = struct.unpack("<I", blob[:4])[0] if blob else 0
        self._units = np.frombuffer(blob[4 : 4 + size], dtype="<u4").tolist()
        self._replacements = blob[4 + size :]

    def longest(self, text: bytes, start: int) -> tuple[int, str] | None:
        """Returns the end of the longest rule that matches at `start` and its replacement."""
        if not self._units:
            return None
        found = None
        node = trie_offset(self._units[0])
        for position in range(start, len(text)):
            node ^= text[position]
            unit = self._units[node]
            if unit & 0x800000FF != text[position]:
                break
            node ^= trie_offset(unit)
            if unit & 0x100:
                found = position + 1, self._units[node] & 0x7FFFFFFF
        if found is None:
            return None
        end, at = found
        return end, self._replacements[at : self._replacements.index(0, at)].decode("utf-8")


def trie_offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


class UnigramSegmenter:
    """Splits texts into the pieces of a SentencePiece unigram model."""

    def __init__(self, model: SentencePieceModel) -> None:
        if model.algorithm is not Algorithm.UNIGRAM:
            raise UnsupportedError(
                f"The SentencePiece model is of kind {model.algorithm.name.lower()}; "
                "only unigram models can be used here."
            )
        if model.texts(PieceType.BYTE):
            raise UnsupportedError("A SentencePiece model with byte pieces cannot be used here.")
        normal = {p.text: p.score for p in model.pieces if p.kind is PieceType.NORMAL}
        scored = zip(model.pieces, model.scored(), strict=True)
        user = dict(entry for piece, entry in scored if piece.kind is PieceType.USER_DEFINED)
        self.model = model
        self._charsmap = Charsmap(model.charsmap)
        self._scores = {**normal, **user}
        self._unknown_score = float32(min(normal.values(), default=0.0) - UNKNOWN_PENALTY)
        self._longest = max(map(len, self._scores), default=1)
        self._user_defined = sorted(user, key=len, reverse=True)

    def segment(self, text: str) -> list[tuple[str, int, int]]:
        """Returns the pieces of a text with their start and end in it.

        Adjacent unknown pieces are merged.
        """
        normalized = self.normalize(text)
        pieces: list[tuple[str, int, int]] = []
        previous_known = True
        for start, end, known in self._best_path(normalized.text):
            piece = normalized.text[start:end]
            first, last = normalized.starts[start], normalized.ends[end - 1]
            if not known and not previous_known:
                before, first, _ = pieces.pop()
                piece = before + piece
            pieces.append((piece, first, last))
            previous_known = known
        return pieces

    def normalize(self, text: str) -> Normalized:
        """Applies the replacement rules and the handling of spaces."""
        characters: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        after_space = self.model.collapse_spaces
        for replacement, start, end in self._replaced(text):
            for character in replacement:
                if character == " " and after_space:
                    continue
                if not characters and self.model.dummy_prefix:
                    characters.append(SPACE)
                    starts.append(start)
                    ends.append(start)
                characters.append(SPACE if character == " " else character)
                starts.append(start)
                ends.append(end)
                after_space = self.model.collapse_spaces and character == " "
        while self.model.collapse_spaces and characters and characters[-1] == SPACE:
            characters.pop()
        return Normalized("".join(characters), starts, ends)

    def _replaced(self, text: str) -> list[tuple[str, int, int]]:
        """Applies the rules of the charsmap; returns (replacement, start, end) triples."""
        content = text.encode("utf-8")
        replaced = []
        at = byte = 0
        while at < len(text):
            user = next((u for u in self._user_defined if text.startswith(u, at)), None)
            rule = None if user else self._charsmap.longest(content, byte)
            if rule is not None:
                until, replacement = rule
                size = len(content[byte:until].decode("utf-8"))
            else:
                replacement = user or text[at]
                until, size = byte + len(replacement.encode("utf-8")), len(replacement)
            replaced.append((replacement, at, at + size))
            at, byte = at + size, until
        return replaced

    def _best_path(self, text: str) -> list[tuple[int, int, bool]]:
        """Finds the split with the highest sum of scores (Viterbi): (start, end, known) triples."""
        best = [0.0] + [-np.inf] * len(text)
        origin = [(0, True)] * (len(text) + 1)
        for start in range(len(text)):
            for end in range(start + 1, min(start + self._longest, len(text)) + 1):
                score = self._scores.get(text[start:end])
                known = score is not None
                if score is None:
                    if end > start + 1:
                        continue
                    score = self._unknown_score
                total = float32(best[start] + score)
                if total > best[end]:
                    best[end] = total
                    origin[end] = start, known
        path = []
        end = len(text)
        while end > 0:
            start, known = origin[end]
            path.append((start, end, known))
            end = start
        return path[::-1]


def float32(value: float) -> float:
    return float(np.float32(value))
