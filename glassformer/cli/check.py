"""glassformer check: comparison of a checkpoint with the reference implementation."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from glassformer.cli.printing import output_console
from glassformer.cli.shared_options import AdapterOption, Download, Source
from glassformer.cli.verbs import verb


@verb("check", group="Look inside")
def check(
    model: Source,
    adapter: AdapterOption = None,
    download: Download = False,
    architecture: Annotated[
        str | None, typer.Option(help="The class to load; by default that in config.json.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare a model with the reference implementation.

    The reference implementation loads the same checkpoint (pip install 'glassformer[check]'). The
    command shows the largest differences of logits, hidden states and tokens. If they are too
    large, it repeats the comparison in float64, which tells rounding errors from real differences.
    A model with an adapter is also compared with peft. The exit code is 1 if the models are not
    equal.

    $ glassformer check zoo:stories
    """
    from glassformer.check import TOLERANCE
    from glassformer.check import check as compare

    result = compare(model, architecture=architecture, adapter=adapter)
    if as_json:
        print(json.dumps({**asdict(result), "equal": result.equal}))
    else:
        console = output_console()
        console.print(f"{result.texts} texts, float32, beside {result.reference}")
        for name, value in (("logits", result.logits), ("hidden states", result.hidden)):
            result_text = (
                "nothing to compare" if value is None else f"largest difference {value:.2e}"
            )
            console.print(f"  {name:14} {result_text}")
        tokens = {None: "no tokenizer in the folder", True: "the same", False: "DIFFERENT"}
        console.print(f"  {'tokens':14} {tokens[result.same_tokens]}")
        if result.finer is not None and result.rounding is not None:
            here, there = result.rounding
            console.print(f"  {'in float64':14} largest difference {result.finer:.2e}")
            console.print(f"  {'rounding':14} {here:.2e} here, {there:.2e} in the reference")
        verdict = "[green]equal[/]" if result.equal else "[red]not equal[/]"
        why = ": only float32 rounding" if result.rounded else ""
        console.print(f"{verdict} within {TOLERANCE:g}{why}")
    if not result.equal:
        raise typer.Exit(1)
