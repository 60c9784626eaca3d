"""Transformer-XL's tokenizer: whole words, as WikiText-103 writes them.

It is read from `vocab.txt`, one word per line, or from the published `vocab.bin` or `vocab.pkl`.
The last two are pickles: they are read as plain lists and dictionaries, and a file that names any
other object is rejected, so that nothing in them is ever executed.
"""

import pickle
import pickletools
import re
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

from glassformer.errors import GlassformerError, LoadError
from glassformer.text.backends.moses import MosesBackend
from glassformer.text.backends.python_backend import numbered
from glassformer.text.loading.files import read_bytes, read_lines
from glassformer.text.loading.tokenizer_config import TokenizerConfig

FILES = ("vocab.txt", "vocab.bin", "vocab.pkl")


@dataclass(frozen=True, kw_only=True)
class TransfoXLBackend(MosesBackend):
    lowercase: bool

    def reference_class(self) -> str:
        return "TransfoXLTokenizer"

    def words(self, text: str) -> list[str]:
        text = self.normalizer.normalize((text.lower() if self.lowercase else text).strip())
        words = self.tokenizer.tokenize(text, aggressive_dash_splits=True, escape=False)
        spaced = [re.sub(r"(?<=\d)[,.](?=\d)", r" @\g<0>@ ", word) for word in words]
        return " ".join(spaced).split()

    def pieces(self, word: str) -> list[str]:
        return [word]

    def fold(self, character: str) -> str:
        return character.lower() if self.lowercase else character

    def written(self, word: str) -> str:
        return word[1:-1] if re.fullmatch("@.@", word) else word

    def write(self, tokens: list[str]) -> str:
        return self.detokenized(tokens).replace(" @,@ ", ",").replace(" @.@ ", ".").strip()


def load_transfo_xl(folder: Path, settings: TokenizerConfig) -> TransfoXLBackend:
    path = next(folder / name for name in FILES if (folder / name).is_file())
    words = read_words(path)
    return TransfoXLBackend(
        vocabulary=numbered({word: i for i, word in enumerate(words)}, settings, path),
        unknown=settings.roles["unk"],
        end=None,
        originals={"vocab.txt": "".join(f"{word}\n" for word in words).encode("utf-8")},
        language=str(settings.values["language"]),
        lowercase=settings.flag("lower_case", False),
    )


def read_words(path: Path) -> list[str]:
    if path.suffix == ".txt":
        first_of_line = (line.split() for line in read_lines(path))
        return list(dict.fromkeys(parts[0] for parts in first_of_line if parts))
    content = read_pickle(path)
    words = content.get("idx2sym") if isinstance(content, dict) else None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise LoadError(f"The file {path} holds no list of words (idx2sym); copy it again.")
    return words


def read_pickle(path: Path) -> Any:
    try:
        content = BytesIO(_pickled(read_bytes(path)))
        value = _load_plain(content)
        for _ in range(3 if isinstance(value, int) else 0):  # torch: two numbers and a table first
            value = _load_plain(content)
        return value
    except GlassformerError:
        raise
    except Exception as error:  # unpickling raises whatever a damaged file leads to
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise LoadError(
            f"The file {path} cannot be read without running code that it names ({why}); write "
            "its words to vocab.txt, one a line."
        ) from None


def _pickled(content: bytes) -> bytes:
    """Returns the pickle in a file; newer ones of torch are archives, which are not compressed."""
    if not content.startswith(b"PK"):
        return content
    with ZipFile(BytesIO(content)) as archive:
        parts = [one for one in archive.infolist() if one.filename.endswith("/data.pkl")]
        if len(parts) != 1 or parts[0].compress_type != ZIP_STORED:
            raise pickle.UnpicklingError("the archive is not one of torch")
        return archive.read(parts[0])


def _load_plain(content: BytesIO) -> Any:
    """Unpickles the next value, after checking the numbers by which memory is reserved."""
    begin, size = content.tell(), len(content.getbuffer())
    for operation, argument, _ in pickletools.genops(content):
        if operation.name.endswith("PUT") and int(argument or 0) > size:
            raise pickle.UnpicklingError("its values have numbers that are too large")
    end = content.tell()
    content.seek(begin)
    return PlainUnpickler(BytesIO(content.read(end - begin))).load()


class PlainUnpickler(pickle.Unpickler):
    """Accepts only the two dictionary classes that vocabularies use."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "collections" and name in ("OrderedDict", "Counter"):
            return dict
        raise pickle.UnpicklingError(f"{module}.{name}")
