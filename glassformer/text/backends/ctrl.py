"""CTRL's tokenizer: words separated by white space, split by BPE.

It is read from `vocab.json` and `merges.txt`. A piece that does not end its word is written with
`@@`; a line break belongs to the word before it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from glassformer.text.backends.bpe_merge import END_OF_WORD, BytePairs
from glassformer.text.backends.python_backend import Cut, PythonBackend, numbered
from glassformer.text.loading.files import read_bytes, read_vocabulary
from glassformer.text.loading.tokenizer_config import TokenizerConfig

WORD = re.compile(r"\S+\n?")
CONTINUES = "@@"
CODES = """
    Pregnancy Christianity Explain Fitness Saving Ask Ass Joke Questions Thoughts Retail Feminism
    Writing Atheism Netflix Computing Opinion Alone Funny Gaming Human India Joker Diet Legal
    Norman Tip Weight Movies Running Science Horror Confession Finance Politics Scary Support
    Technologies Teenage Event Learned Notion Wikipedia Books Extract Confessions Conspiracy Links
    Narcissus Relationship Relationships Reviews News Translation multilingual
"""
"""The names of the control codes, as the published model has them."""


@dataclass(frozen=True, kw_only=True)
class CtrlBackend(PythonBackend):
    byte_pairs: BytePairs

    @property
    def piecewise(self) -> bool:
        return True

    @property
    def control_codes(self) -> dict[str, str]:
        """The published control codes in this vocabulary: ordinary words at a text's beginning."""
        tokens = self.vocabulary.get_vocab()
        return {name: f"{name} " for name in CODES.split() if name in tokens}

    def reference_class(self) -> str:
        return "CTRLTokenizer"

    def cut(self, text: str) -> list[Cut]:
        cuts: list[Cut] = []
        for word in WORD.finditer(text):
            at = word.start()
            *inner, last = self.byte_pairs.cut(word.group())
            last = last.removesuffix(END_OF_WORD)
            for piece, mark in [*((piece, CONTINUES) for piece in inner), (last, "")]:
                cuts.append((piece + mark, at, at + len(piece)))
                at += len(piece)
        return cuts

    def write(self, tokens: list[str]) -> str:
        return " ".join(tokens).replace(f"{CONTINUES} ", "").strip()


def load_ctrl(folder: Path, settings: TokenizerConfig) -> CtrlBackend:
    path = folder / "vocab.json"
    return CtrlBackend(
        vocabulary=numbered(read_vocabulary(path), settings, path),
        unknown=settings.roles["unk"],
        end=None,
        originals={name: read_bytes(folder / name) for name in ("vocab.json", "merges.txt")},
        byte_pairs=BytePairs.read(folder / "merges.txt"),
    )
