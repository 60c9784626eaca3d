"""Options of commands that read texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from glassformer.cli.model_options import ModelOptions
from glassformer.cli.shared_options import (
    AsJson,
    Encoding,
    Field,
    Files,
    FormOption,
    OnErrorOption,
    Text,
    Whole,
)

if TYPE_CHECKING:
    from glassformer.cli.input_records import InputRecords, Record
    from glassformer.cli.text_column import TextColumn


@dataclass(frozen=True)
class CommonOptions(ModelOptions):
    """The model, the input texts, and the output format."""

    text: Text = None
    file: Files = None
    whole: Whole = False
    encoding: Encoding = None
    on_error: OnErrorOption = "stop"
    as_json: AsJson = False

    def read(self, form: str | None, column: TextColumn) -> InputRecords:
        from glassformer.cli.input_records import InputRecords

        return InputRecords(
            self.text,
            self.file,
            form=form,
            column=column,
            encoding=self.encoding,
            whole=self.whole,
            on_error=self.on_error,
        )


@dataclass(frozen=True)
class TextTaskOptions(CommonOptions):
    """Common options, with a format and a text column."""

    form: FormOption = None
    field: Field = None

    def inputs(self, *taken: str | None) -> InputRecords:
        """Returns the input records. `taken` are columns with another use than the text."""
        from glassformer.cli.text_column import TextColumn

        return self.read(self.form, TextColumn(self.field, taken=taken))

    @property
    def column(self) -> str:
        return self.field or "text"

    def text_of(self, record: Record) -> str:
        from glassformer.cli.input_records import field_of

        return field_of(record, self.column)
