"""Options shared by translate and summarize: generation settings and references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.parse_values import knobs_of
from glassformer.cli.shared_options import COMPUTED

if TYPE_CHECKING:
    from glassformer.cli.input_records import InputRecords
    from glassformer.cli.reference_scores import ReferenceScores

SEARCH, FRAME, JUDGE = "Generation", "Preprocessing", "Comparison with references"


@dataclass(frozen=True)
class Seq2SeqOptions:
    """Generation settings; None for those not given."""

    quantize: Annotated[
        str | None,
        typer.Option(help="Quantize the weights: int8 or int4.", rich_help_panel=COMPUTED),
    ] = None
    num_beams: Annotated[
        int | None,
        typer.Option(help="Number of beams (4); 1 is greedy search.", rich_help_panel=SEARCH),
    ] = None
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 0 favors long texts (1).", rich_help_panel=SEARCH)
    ] = None
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Maximum number of new tokens.", rich_help_panel=SEARCH)
    ] = None
    no_repeat_ngram_size: Annotated[
        int | None,
        typer.Option(help="No n-gram of this size occurs twice.", rich_help_panel=SEARCH),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(help="Rows per batch; a text has one row per beam.", rich_help_panel=SEARCH),
    ] = None
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any option of generate, as name=value.", rich_help_panel=SEARCH
        ),
    ] = None
    max_source_length: Annotated[
        int | None,
        typer.Option(
            help="Maximum length of a part in tokens; by default that of the model.",
            rich_help_panel=FRAME,
        ),
    ] = None
    source_prefix: Annotated[
        str | None,
        typer.Option(
            help="The text before a source; by default that of the model.", rich_help_panel=FRAME
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            help="The text between source and target, for a decoder; by default that of the model.",
            rich_help_panel=FRAME,
        ),
    ] = None

    def options(self) -> dict[str, Any]:
        """Returns the arguments of a translator or summarizer: frame and given settings."""
        from glassformer.generate.config import KINDS

        turned = {k: v for k, v in vars(self).items() if k in KINDS and v is not None}
        frame = {
            "max_source_length": self.max_source_length,
            "source_prefix": self.source_prefix,
            "separator": self.separator,
        }
        return {**frame, **turned, **knobs_of(self.sets or [])}


@dataclass(frozen=True)
class ReferenceOptions:
    reference: Annotated[
        str | None,
        typer.Option(
            help="A file of references, line by line; the metrics are printed at the end.",
            rich_help_panel=JUDGE,
        ),
    ] = None
    reference_field: Annotated[
        str | None,
        typer.Option(
            help="The column of the references, in --reference or in the input; a text or a list "
            "of texts.",
            rich_help_panel=JUDGE,
        ),
    ] = None

    def reference_scores(self, inputs: InputRecords, encoding: str | None) -> ReferenceScores:
        from glassformer.cli.reference_scores import ReferenceScores

        return ReferenceScores(inputs, self.reference, self.reference_field, encoding)
