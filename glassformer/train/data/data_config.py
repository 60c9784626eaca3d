"""What a recipe's [data] table says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from glassformer.errors import GlassformerError

Format = Literal["text", "jsonl", "csv", "tsv", "conll", "squad", "parallel", "parquet", "tokens"]
Arrangement = Literal["stream", "varying", "pack", "single", "buckets"]


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Where the records are, how they are written there, and how they become rows."""

    train: tuple[str, ...] = ()  # paths, or patterns such as "books/*.txt"
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    format: Format = "text"
    encoding: str = "utf-8"
    on_error: Literal["stop", "skip"] = "stop"  # "skip" leaves out malformed records, and counts
    columns: Mapping[str, str] = field(default_factory=dict)  # the objective's name to the file's
    documents: Literal["file", "blank", "lines"] = "file"  # what of a text is one document
    names: tuple[str, ...] = ()  # of CSV and TSV files without a header
    delimiter: str | None = None  # of CSV; the format's own
    quotes: bool | None = None  # whether fields may be quoted; in CSV yes, in TSV no
    word: int = 0  # of CoNLL: the word's column, counted from 0, or from -1 at the end
    tag: int = -1  # and the tag's

    arrange: Arrangement | None = None  # the objective's own
    length: int | None = None  # of rows that are streamed or packed; the model's context
    tokens: int | None = None  # of a batch of a bucket, over all processes
    shapes: int | None = None  # of batches, at most; or else as lengths come
    across: bool = False  # in a stream, attention sees documents before its own
    processes: int | None = None  # that tokenize; as many as there are cores
    cache: str | None = None  # the folder of tokenized data; the run's own

    def __post_init__(self) -> None:
        if self.arrange == "buckets" and self.tokens is None:
            raise GlassformerError(
                'data.arrange = "buckets" needs data.tokens, the number of tokens of a batch.'
            )
        if self.shapes is not None and self.arrange != "buckets":
            raise GlassformerError('data.shapes is for batches of data.arrange = "buckets".')
        for name in ("length", "tokens", "shapes", "processes"):
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
