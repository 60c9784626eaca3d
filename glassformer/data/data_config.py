"""The settings of a recipe's [data] table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from glassformer.errors import ConfigError

Format = Literal[
    "text",
    "jsonl",
    "csv",
    "tsv",
    "conll",
    "squad",
    "parallel",
    "parquet",
    "tokens",
    "librispeech",
]
Batching = Literal["concatenate", "variable-bptt", "pack", "pad", "bucket"]


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The files, their format, and how records become rows."""

    train: tuple[str, ...] = ()  # paths, or patterns such as "books/*.txt"
    validation: tuple[str, ...] | float = ()  # or the fraction of "train" that is held out
    test: tuple[str, ...] = ()

    format: Format | None = None  # None: by the ending of each file
    encoding: str = "utf-8"
    on_error: Literal["stop", "skip"] = "stop"  # "skip" omits malformed records and counts them
    columns: Mapping[str, str] = field(default_factory=dict)  # the objective's name to the file's
    document_boundary: Literal["file", "blank-line", "line"] = "file"  # where a text document ends
    column_names: tuple[str, ...] = ()  # column names of CSV and TSV files without a header
    delimiter: str | None = None  # of CSV; None: the format's default
    quoting: bool | None = None  # whether fields may be quoted; default: in CSV yes, in TSV no
    word_column: int = 0  # of CoNLL: index of the word's column, negative from the end
    tag_column: int = -1  # and of the tag's column

    batching: Batching | None = None  # None: the objective's default
    sequence_length: int | None = None  # of concatenated or packed rows; None: context length
    tokens_per_batch: int | None = None  # of a bucket, over all processes
    max_batch_shapes: int | None = None  # maximum number of batch shapes; None: no limit
    attend_across_documents: bool = False  # in concatenated rows, to earlier documents
    num_workers: int | None = None  # for tokenization; None: one per core
    cache: str | None = None  # folder of tokenized data; None: in the run folder

    def __post_init__(self) -> None:
        if isinstance(self.validation, float) and not 0 < self.validation < 1:
            raise ConfigError(
                f"data.validation is {self.validation}; it must be files, or a fraction of the "
                "training records between 0 and 1."
            )
        if self.batching == "bucket" and self.tokens_per_batch is None:
            raise ConfigError('data.batching = "bucket" needs data.tokens_per_batch.')
        if self.max_batch_shapes is not None and self.batching != "bucket":
            raise ConfigError('data.max_batch_shapes is for data.batching = "bucket".')
        for name in ("sequence_length", "tokens_per_batch", "max_batch_shapes", "num_workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"data.{name} must be at least 1, not {value}.")
        try:
            plain = "\n".encode(self.encoding) == b"\n"
        except LookupError:
            raise ConfigError(f"There is no encoding {self.encoding!r} (data.encoding).") from None
        if not plain:
            raise ConfigError(
                f"Lines of {self.encoding} cannot be separated byte by byte; convert the files to "
                "UTF-8 (data.encoding)."
            )

    @property
    def held_out(self) -> float:
        """The fraction of the training records that validation uses; 0.0 if it has files."""
        return self.validation if isinstance(self.validation, float) else 0.0

    def files(self, split: str) -> tuple[str, ...]:
        """Returns the paths and patterns of "train", "validation" or "test"."""
        files: tuple[str, ...] = (
            self.train if split == "validation" and self.held_out else (getattr(self, split))
        )
        return files
