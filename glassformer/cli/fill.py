"""glassformer fill: candidates for the gaps of a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.option_groups import grouped
from glassformer.cli.printing import Column, ResultRows, about, progress
from glassformer.cli.text_task import TextTaskOptions
from glassformer.cli.verbs import verb

if TYPE_CHECKING:
    from glassformer.tasks.fill_types import Filled

COLUMNS = (
    Column("gap", 3, "cyan"),
    Column("prob", 8, right=True),
    Column("words", 24, "cyan"),
    Column("text"),
)


@verb("fill", group="Write")
@grouped
def fill(
    options: TextTaskOptions,
    top: Annotated[
        int, typer.Option(min=1, help="Number of candidates per gap and fillings per text.")
    ] = 5,
    tokens: Annotated[
        int,
        typer.Option(min=1, help="Maximum number of tokens in a gap, for masked language models."),
    ] = 1,
    targets: Annotated[
        list[str] | None, typer.Option(help="A word that may fill the gap; may be repeated.")
    ] = None,
    num_beams: Annotated[
        int, typer.Option(min=1, help="Number of beams of the search over fillings.")
    ] = 8,
) -> None:
    """Fill the gaps of texts, marked by ___.

    Shows the words that fit each gap, and texts with all gaps filled.

    $ glassformer fill zoo:encoder "Paris is the ___ of France."
    """
    from glassformer.tasks.fill import filler

    inputs = options.inputs()
    work = filler(
        options.load().pack(), top=top, tokens=tokens, targets=targets, num_beams=num_beams
    )
    rows = ResultRows(COLUMNS, options.as_json)

    with progress(inputs, "filling") as passed:
        for record, result in passed(inputs.answers(options.text_of, work)):
            output = about(record, {"source": options.text_of(record), **result.record()})
            if options.as_json:
                rows.add((), output)
                continue
            for cells in table(result):
                rows.add(cells, output)
    inputs.end()


def table(result: Filled) -> Iterator[tuple[str, str, str, str]]:
    """Yields table rows; with several gaps, first the candidates of each gap."""
    several = len(result.gaps) > 1
    for number, gap in enumerate(result.gaps if several else (), 1):
        for one in gap.candidates:
            yield str(number), percent(one.probability), one.text, ""
    for filling in result.fillings:
        words = " | ".join(filling.words)
        yield ("all" if several else "1"), percent(filling.probability), words, filling.text


def percent(probability: Any) -> str:
    return "" if probability is None else f"{probability:.2%}"
