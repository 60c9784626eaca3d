"""glassformer score: log-probabilities and perplexity of a text."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from glassformer.cli.model_options import ModelOptions
from glassformer.cli.option_groups import grouped
from glassformer.cli.parse_values import text_of
from glassformer.cli.printing import output_console
from glassformer.cli.shared_options import COMPUTED
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError, InputError

if TYPE_CHECKING:
    from glassformer.generate import Score
    from glassformer.model import Model

SHOWN = 200


@verb("score", group="Write")
@grouped
def score(
    chosen: ModelOptions,
    text: Annotated[
        str | None,
        typer.Argument(
            help="The text to score, or a text file; - or nothing reads standard input."
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A text file.")] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of files and standard input; else UTF-8.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The text to score, for an encoder-decoder.")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(help="Length of a window in tokens; by default the model's context length."),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(help="Distance between the starts of two windows; by default half a window."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show every token of a long text.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quantize: Annotated[
        str | None,
        typer.Option(
            help="int8, int4: show the cost of quantization on this text.", rich_help_panel=COMPUTED
        ),
    ] = None,
) -> None:
    """Show the probability of each token of a text, and its perplexity.

    $ glassformer score zoo:stories "The cat sat on the mat."
    """
    if text is not None and file is not None:
        raise ConfigError("Give one of TEXT and --file.")
    read = text_of(text, file, encoding)
    if not read:
        raise InputError("The text is empty; give the model something to read.")
    from glassformer.evaluate.quantization_cost import quantization_cost

    loaded = chosen.load()
    cost = None
    if quantize is None:
        result = loaded.score(read, target, window=window, stride=stride)
    else:
        cost = quantization_cost(loaded, quantize, read, target, window=window, stride=stride)
        result = cost.after
    if as_json:
        output = record(loaded, result)
        output |= {} if cost is None else {"perplexity_before": cost.before.perplexity}
        print(json.dumps(output, ensure_ascii=False))
        return
    console = output_console()
    if full or len(result.tokens) <= SHOWN:
        console.print(table(loaded, result))
    console.print(
        f"{len(result.tokens):,} tokens, log-probability {result.total:.4f}, "
        f"perplexity [bold]{result.perplexity:.4f}[/]",
        highlight=False,
    )
    if cost is not None:
        console.print(str(cost), highlight=False)


def words_of(model: Model, result: Score) -> list[str]:
    if model.tokenizer is None:
        return [str(id) for id in result.tokens]
    tokenizer = model.tokenizer.target_tokenizer
    return [tokenizer.decode([id], special=True) for id in result.tokens]


def record(model: Model, result: Score) -> dict[str, object]:
    return {
        "tokens": result.tokens,
        "texts": words_of(model, result),
        "logprobs": result.logprobs,
        "total": result.total,
        "perplexity": result.perplexity,
        "unknown_ratio": result.unknown_ratio,
    }


def table(model: Model, result: Score) -> Table:
    shown = Table(box=None, pad_edge=False)
    shown.add_column("token", style="cyan")
    shown.add_column("log-probability", justify="right")
    shown.add_column("probability", justify="right")
    for word, logprob in zip(words_of(model, result), result.logprobs, strict=True):
        shown.add_row(repr(word)[1:-1], f"{logprob:.4f}", f"{math.exp(logprob):.2%}")
    return shown
