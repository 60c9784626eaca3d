"""What translate and summarize share on the command line: knobs, references, figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from glassformer.cli.inputs import Inputs, Line, Record, field_of, say
from glassformer.cli.outputs import print_json
from glassformer.cli.words import knobs_of
from glassformer.errors import GlassformerError
from glassformer.generate.knobs import KINDS
from glassformer.metrics.texts import SignedFigure
from glassformer.train.data.readers import form_of

SEARCH, FRAME, JUDGE = "How it is written", "How it is read", "Beside references"


@dataclass(frozen=True)
class Writing:
    """How the model reads a text and writes another; a knob that was not turned is None."""

    quantize: Annotated[str | None, typer.Option(help="int8, int4: smaller weights.")] = None
    num_beams: Annotated[
        int | None,
        typer.Option(help="Texts searched side by side (4); 1 is greedy.", rich_help_panel=SEARCH),
    ] = None
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 0 favors long texts (1).", rich_help_panel=SEARCH)
    ] = None
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Tokens to write at most.", rich_help_panel=SEARCH)
    ] = None
    no_repeat_ngram_size: Annotated[
        int | None, typer.Option(help="No so many tokens in a row twice.", rich_help_panel=SEARCH)
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(help="Rows at once; a text has one a beam.", rich_help_panel=SEARCH),
    ] = None
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any knob of generate, as name=value.", rich_help_panel=SEARCH),
    ] = None
    length: Annotated[
        int | None,
        typer.Option(
            help="Tokens read at once, if not as many as the model can.", rich_help_panel=FRAME
        ),
    ] = None
    prefix: Annotated[
        str | None,
        typer.Option(
            help="What stands before a text, if not what the model says.", rich_help_panel=FRAME
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            help="What stands behind a text, for a decoder alone; as the model says.",
            rich_help_panel=FRAME,
        ),
    ] = None

    def options(self) -> dict[str, Any]:
        """What a translator or a summarizer is given: the frame, and the knobs that were turned."""
        turned = {k: v for k, v in vars(self).items() if k in KINDS and v is not None}
        frame = {"length": self.length, "prefix": self.prefix, "separator": self.separator}
        return {**frame, **turned, **knobs_of(self.sets or [])}


@dataclass(frozen=True)
class Judging:
    reference: Annotated[
        str | None,
        typer.Option(
            help="A file with what is right, line by line; the figures are told at the end.",
            rich_help_panel=JUDGE,
        ),
    ] = None
    reference_field: Annotated[
        str | None,
        typer.Option(
            help="The column of what is right, of --reference or of the input itself; a text or a "
            "list of several.",
            rich_help_panel=JUDGE,
        ),
    ] = None

    def beside(self, inputs: Inputs, encoding: str) -> Beside:
        return Beside(inputs, self.reference, self.reference_field, encoding)


def text_in(record: Record, field: str) -> str:
    """What a verb reads; a list of sentences is one text."""
    found = record.get(field)
    if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
        return " ".join(found)
    return field_of(record, field)


def line_in(record: Record, field: str) -> str:
    """The same; an empty line of a text file is no mistake, but layout."""
    if isinstance(record, Line) and field == "text":
        return str(record["text"])
    return text_in(record, field)


class Beside:
    """What was written, beside what is right. References of a file belong to the input's lines of
    the same number, also where some are skipped."""

    def __init__(self, inputs: Inputs, file: str | None, field: str | None, encoding: str) -> None:
        self.file, self.field = file, field
        self.written: list[str] = []
        self.right: list[list[str]] = []
        self.lines: dict[str, Record] = {}
        if file is None:
            return
        paths = inputs.shelf.paths
        if len(paths) > 1 or any(form_of(path) in ("csv", "tsv") for path in paths):
            raise GlassformerError(
                "--reference belongs to the lines of one text or JSON file; of others name the "
                "column that has the references (--reference-field)."
            )
        for record in Inputs(files=[file], encoding=encoding):
            if isinstance(record, dict):
                self.lines[_line(record)] = record

    def __bool__(self) -> bool:
        return self.file is not None or self.field is not None

    def references(self, record: Record) -> list[str]:
        """Those of a record; wrong ones are an error before anything is computed."""
        own = record
        if self.file is not None:
            line = "1" if record["where"] == "TEXT" else _line(record)
            if line not in self.lines:
                raise GlassformerError(f"{self.file} has no line {line} for it (--reference)")
            own = self.lines[line]
        name = self.field or "text"
        found = own.get(name)
        several = [found] if isinstance(found, str) else found
        if (
            not isinstance(several, list)
            or not several
            or not all(isinstance(x, str) for x in several)
        ):
            raise GlassformerError(
                f"{own['where']} has no text, or list of texts, as {name!r} (--reference-field)"
            )
        return several

    def add(self, written: str, record: Record) -> None:
        self.written.append(written)
        self.right.append(self.references(record))

    def end(
        self,
        figures: Callable[[Sequence[str], Sequence[Sequence[str]]], list[SignedFigure]],
        as_json: bool,
    ) -> None:
        """The figures of all texts together, for people on standard error, beside the texts."""
        if not self or not self.written:
            return
        found = figures(self.written, self.right)
        if as_json:
            print_json({"figures": [figure._asdict() for figure in found]})
            return
        for name, value, signature in found:
            say(f"{name:<10} {value:6.2f}  {signature}")


def _line(record: Record) -> str:
    return str(record["where"]).rpartition(":")[2]
