"""The settings of a recipe's [data] table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from glassformer.errors import ConfigError

Format = Literal["text", "jsonl", "csv", "tsv", "conll", "squad", "parallel", "parquet", "tokens"]
Arrangement = Literal["stream", "varying", "pack", "single", "buckets"]


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The files, their format, and how records become rows."""

    train: tuple[str, ...] = ()  # paths, or patterns such as "books/*.txt"
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    format: Format = "text"
    encoding: str = "utf-8"
    on_error: Literal["stop", "skip"] = "stop"  # "skip" omits malformed records and counts them
    columns: Mapping[str, str] = field(default_factory=dict)  # the objective's name to the file's
    documents: Literal["file", "blank", "lines"] = "file"  # the part of a text that is a document
    names: tuple[str, ...] = ()  # column names of CSV and TSV files without a header
    delimiter: str | None = None  # of CSV; None: the format's default
    quotes: bool | None = None  # whether fields may be quoted; default: in CSV yes, in TSV no
    word: int = 0  # of CoNLL: index of the word's column, negative from the end
    tag: int = -1  # and of the tag's column

    arrange: Arrangement | None = None  # None: the objective's default
    length: int | None = None  # of streamed or packed rows; None: the model's context length
    tokens: int | None = None  # per batch of a bucket, over all processes
    shapes: int | None = None  # maximum number of batch shapes; None: no limit
    across: bool = False  # in a stream, attention sees earlier documents
    processes: int | None = None  # for tokenization; None: one per core
    cache: str | None = None  # folder of tokenized data; None: in the run folder

    def __post_init__(self) -> None:
        if self.arrange == "buckets" and self.tokens is None:
            raise ConfigError(
                'data.arrange = "buckets" needs data.tokens, the number of tokens of a batch.'
            )
        if self.shapes is not None and self.arrange != "buckets":
            raise ConfigError('data.shapes is for batches of data.arrange = "buckets".')
        for name in ("length", "tokens", "shapes", "processes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"data.{name} must be at least 1, not {value}.")
        try:
            plain = "\n".encode(self.encoding) == b"\n"
        except LookupError:
            raise ConfigError(f"There is no encoding {self.encoding!r} (data.encoding).") from None
        if not plain:
            raise ConfigError(
                f"Lines of {self.encoding} cannot be told apart byte by byte; convert the files "
                "to UTF-8 (data.encoding)."
            )
