"""Arguments that name a file, which is read instead."""

from __future__ import annotations

import os
from pathlib import Path

from glassformer.cli.printing import print_note
from glassformer.data.files import SPREADSHEETS
from glassformer.data.readers import ENDINGS, form_of
from glassformer.errors import DataError

FORMS = {
    "text": "a text file",
    "jsonl": "JSON lines",
    "csv": "a CSV file",
    "tsv": "a TSV file",
    "conll": "a CoNLL file",
    "squad": "a SQuAD file",
    "parquet": "a Parquet file",
    "tokens": "token ids",
    "librispeech": "LibriSpeech transcripts",
}
LITERALLY = "(to use its name as a text, give it on standard input)"


def file_named(word: str, form: str | None = None) -> Path | None:
    """Returns the file at this path and reports it on standard error, or None if it is a text.

    A single word with the suffix of a data file is not a text, but a wrong path.
    """
    if os.path.isfile(word):
        path = Path(word)
        print_note(f"Reading {word} as {FORMS[form or form_of(path)]} {LITERALLY}.")
        return path
    if os.path.isdir(word):
        raise DataError(f"{word} is a folder; name a file in it {LITERALLY}.", path=word)
    if os.path.exists(word):
        raise DataError(f"{word} is not a regular file; read it with - < {word}.", path=word)
    if looks_like_a_path(word):
        raise DataError(f"There is no file {word}; correct the path {LITERALLY}.", path=word)
    return None


def looks_like_a_path(word: str) -> bool:
    name = Path(word.lower())
    ending = Path(name.stem).suffix if name.suffix == ".gz" else name.suffix
    return len(word.split()) == 1 and ending in (".txt", *ENDINGS, *SPREADSHEETS)
