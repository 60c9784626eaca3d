"""What verbs that read texts have in common: which model, which texts, and how results go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import (
    AsJson,
    Device,
    Dtype,
    Encoding,
    Field,
    Files,
    FormOption,
    OnErrorOption,
    Source,
    Text,
    Whole,
)

if TYPE_CHECKING:
    from glassformer.cli.inputs import Inputs, Record
    from glassformer.cli.text_column import TextColumn
    from glassformer.model import Model


@dataclass(frozen=True)
class Common:
    """The model, where its texts stand, and how results go out."""

    model: Source
    text: Text = None
    file: Files = None
    whole: Whole = False
    encoding: Encoding = "utf-8"
    on_error: OnErrorOption = "stop"
    as_json: AsJson = False
    device: Device = "cpu"
    dtype: Dtype = None

    def read(self, form: str | None, column: TextColumn) -> Inputs:
        from glassformer.cli.inputs import Inputs

        return Inputs(
            self.text,
            self.file,
            form=form,
            column=column,
            encoding=self.encoding,
            whole=self.whole,
            on_error=self.on_error,
        )

    def load(self, **more: Any) -> Model:
        from glassformer.source import load

        return load(self.model, self.device, self.dtype, **more)


@dataclass(frozen=True)
class Reading(Common):
    """Texts of a column, or as they stand."""

    form: FormOption = None
    field: Field = None

    def inputs(self, *taken: str | None) -> Inputs:
        """`taken` are columns that have something else than the text."""
        from glassformer.cli.text_column import TextColumn

        return self.read(self.form, TextColumn(self.field, taken=taken))

    @property
    def column(self) -> str:
        return self.field or "text"

    def text_of(self, record: Record) -> str:
        from glassformer.cli.inputs import field_of

        return field_of(record, self.column)
