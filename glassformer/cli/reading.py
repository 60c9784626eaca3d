"""What verbs that read texts have in common: which model, which texts, and how results go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glassformer.cli.inputs import (
    Device,
    Dtype,
    Encoding,
    Field,
    Files,
    FormOption,
    Inputs,
    OnErrorOption,
    Record,
    Source,
    Text,
    Whole,
    field_of,
)
from glassformer.cli.outputs import AsJson
from glassformer.model import Model
from glassformer.source import load


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

    def read(self, form: str | None) -> Inputs:
        return Inputs(
            self.text,
            self.file,
            form=form,
            encoding=self.encoding,
            whole=self.whole,
            on_error=self.on_error,
        )

    def load(self, **more: Any) -> Model:
        return load(self.model, self.device, self.dtype, **more)


@dataclass(frozen=True)
class Reading(Common):
    """Texts of a column, or as they stand."""

    form: FormOption = None
    field: Field = "text"

    def inputs(self) -> Inputs:
        return self.read(self.form)

    @property
    def column(self) -> str:
        """Which one has the text; what stands on the command line is in none."""
        return "text" if self.text not in (None, "-") else self.field

    def text_of(self, record: Record) -> str:
        return field_of(record, self.column)
