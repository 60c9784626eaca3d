"""Train room, data: what a recipe's [data] table says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from glassformer.errors import GlassformerError

FORMATS = ("text", "jsonl", "csv", "tsv", "conll", "squad", "parallel", "parquet")
DOCUMENTS = ("file", "blank", "lines")
ARRANGEMENTS = ("stream", "pack", "single", "buckets")
Files = str | Sequence[str]
"""A path, a pattern such as "books/*.txt", or a list of those."""


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Where the records are, how they are written there, and how they become rows."""

    train: Files = ()
    valid: Files = ()
    test: Files = ()

    format: str = "text"
    encoding: str = "utf-8"
    on_error: str = "stop"  # or "skip": malformed records are left out and counted
    columns: Mapping[str, str] = field(default_factory=dict)  # the objective's name to the file's
    documents: str = "file"  # of text: a document is a "file", between "blank" lines, or "lines"
    names: Sequence[str] = ()  # of CSV and TSV files without a header
    delimiter: str | None = None  # of CSV; the format's own
    quotes: bool | None = None  # whether fields may be quoted; in CSV yes, in TSV no
    word: int = 0  # of CoNLL: the word's column, counted from 0, or from -1 at the end
    tag: int = -1  # and the tag's

    arrange: str | None = None  # stream, pack, single or buckets; the objective's own
    length: int | None = None  # of rows that are streamed or packed; the model's context
    tokens: int | None = None  # of a batch of a bucket, over all processes
    across: bool = False  # in a stream, attention sees documents before its own
    processes: int | None = None  # that tokenize; as many as there are cores
    cache: str | None = None  # the folder of tokenized data; the run's own

    def __post_init__(self) -> None:
        _check("format", self.format, FORMATS)
        _check("documents", self.documents, DOCUMENTS)
        _check("on_error", self.on_error, ("stop", "skip"))
        if self.arrange is not None:
            _check("arrange", self.arrange, ARRANGEMENTS)
        if self.arrange == "buckets" and self.tokens is None:
            raise GlassformerError(
                'data.arrange = "buckets" needs data.tokens, the number of tokens of a batch.'
            )
        for name in ("length", "tokens", "processes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise GlassformerError(f"data.{name} must be at least 1, not {value}.")
        try:
            plain = "\n".encode(self.encoding) == b"\n"
        except LookupError:
            raise GlassformerError(
                f"There is no encoding {self.encoding!r} (data.encoding)."
            ) from None
        if not plain:
            raise GlassformerError(
                f"Lines of {self.encoding} cannot be told apart byte by byte; convert the files "
                "to UTF-8 (data.encoding)."
            )


def _check(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise GlassformerError(f"data.{name} must be one of {', '.join(choices)}, not {value!r}.")
