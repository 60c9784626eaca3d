"""glassformer check: the proof on the user's own checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console


def check(
    model: Annotated[
        str, typer.Argument(help="A model's folder, a GGUF or llama2.c file, or a built-in model.")
    ],
    architecture: Annotated[
        str | None, typer.Option(help="The class to load, if not the one that config.json names.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Load the folder in the reference implementation too, and show the largest differences."""
    from glassformer.check import TOLERANCE
    from glassformer.check import check as compare

    result = compare(model, architecture=architecture)
    if as_json:
        print(json.dumps({**asdict(result), "equal": result.equal}))
    else:
        console = Console()
        console.print(f"{result.texts} texts, float32, beside {result.reference}")
        for name, value in (("logits", result.logits), ("hidden states", result.hidden)):
            said = "nothing to compare" if value is None else f"largest difference {value:.2e}"
            console.print(f"  {name:14} {said}")
        tokens = {None: "no tokenizer in the folder", True: "the same", False: "DIFFERENT"}
        console.print(f"  {'tokens':14} {tokens[result.same_tokens]}")
        verdict = "[green]equal[/]" if result.equal else "[red]not equal[/]"
        console.print(f"{verdict} within {TOLERANCE:g}")
    if not result.equal:
        raise typer.Exit(1)
