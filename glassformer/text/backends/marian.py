"""Marian's tokenizer: SentencePiece pieces whose ids are in `vocab.json`.

It is read from `source.spm`, `target.spm` and `vocab.json` (and `target_vocab.json` if the two
languages do not share a vocabulary).
"""

import re
from dataclasses import dataclass
from pathlib import Path

from glassformer.text.backends.python_backend import Cut, PythonBackend, numbered
from glassformer.text.backends.unigram_segmenter import UnigramSegmenter
from glassformer.text.loading.files import read_bytes, read_vocabulary
from glassformer.text.loading.sentencepiece_model import SPACE, SentencePieceModel
from glassformer.text.loading.tokenizer_config import TokenizerConfig

LANGUAGE_CODE = re.compile(r">>.*?<<", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class MarianBackend(PythonBackend):
    segmenter: UnigramSegmenter

    @property
    def piecewise(self) -> bool:
        return True

    def reference_class(self) -> str:
        return "MarianTokenizer"

    def cut(self, text: str) -> list[Cut]:
        """Splits a text; a language code such as `>>fra<<` at the start is one piece."""
        code = LANGUAGE_CODE.match(text)
        if code is None:
            return self.segmenter.segment(text)
        at = code.end()
        rest = self.segmenter.segment(text[at:])
        return [(code.group(), 0, at), *((piece, at + s, at + e) for piece, s, e in rest)]

    def write(self, tokens: list[str]) -> str:
        text = group = ""
        for token in tokens:
            if self.special_pattern.fullmatch(token):
                text, group = text + merge_pieces(group) + token + " ", ""
            else:
                group += token
        return (text + merge_pieces(group)).strip()


def merge_pieces(pieces: str) -> str:
    return pieces.replace(SPACE, " ").lstrip(" ")


def load_marian(folder: Path, settings: TokenizerConfig) -> MarianBackend:
    separate = settings.flag("separate_vocabs", False)
    target_vocabulary = "target_vocab.json" if separate else "vocab.json"
    names = ("source.spm", "target.spm", "vocab.json", target_vocabulary)
    originals = {name: read_bytes(folder / name) for name in names}

    def side(model: str, vocabulary: str, other: MarianBackend | None) -> MarianBackend:
        path = folder / vocabulary
        return MarianBackend(
            vocabulary=numbered(read_vocabulary(path), settings, path),
            segmenter=UnigramSegmenter(SentencePieceModel.read(folder / model)),
            unknown=settings.roles["unk"],
            end=settings.roles["eos"],
            originals=originals,
            other=other,
        )

    return side("source.spm", "vocab.json", side("target.spm", target_vocabulary, None))
