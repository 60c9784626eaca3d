"""glassformer open: look inside a model, in the terminal until the page is there."""

from __future__ import annotations

import sys
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from glassformer.core import Capture
from glassformer.errors import GlassformerError
from glassformer.model import Model
from glassformer.source import load

SHADES = " ·░▒▓█"
TEXT = "ROMEO:\nIs the day so young?"


def open_view(
    model: Annotated[
        str, typer.Argument(help="A folder, a GGUF or llama2.c file, or a built-in model.")
    ] = "shakespeare",
    text: Annotated[str, typer.Option(help="What the model reads.")] = TEXT,
    layer: Annotated[int, typer.Option(min=0, help="Whose attention is drawn.")] = 0,
    head: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Show tokens, attention, the logit lens and the next token of a model with a language head."""
    console = Console()
    loaded = load(model, dtype=torch.float32)
    show(console, loaded, text, layer, head)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    console.print("\n[dim]Type a text to look at, or `layer,head` to turn to; empty ends.[/]")
    while line := ask(console):
        numbers = line.split(",")
        wanted = (line, layer, head)
        if len(numbers) == 2 and all(number.strip().isdigit() for number in numbers):
            wanted = (text, int(numbers[0]), int(numbers[1]))
        try:
            show(console, loaded, *wanted)
            text, layer, head = wanted
        except GlassformerError as error:
            console.print(str(error), style="red", markup=False)


def ask(console: Console) -> str:
    """A line that was typed; the end of the input is as good as an empty one."""
    try:
        return console.input("> ").strip()
    except EOFError:
        return ""


def show(console: Console, model: Model, text: str, layer: int, head: int) -> None:
    spec, tokenizer = model.spec, model.tokenizer
    name, stack = ("encoder", spec.encoder) if spec.decoder is None else ("decoder", spec.decoder)
    assert stack is not None
    if tokenizer is None:
        raise GlassformerError("This folder has no tokenizer, so that no text can be read.")
    if spec.encoder is not None and spec.decoder is not None:
        raise GlassformerError("The terminal view shows models of one stack; use Python for both.")
    if not any(h.pick == "each" and h.outputs == stack.embed.vocabulary for h in spec.heads):
        raise GlassformerError("This model has no language head, so that nothing is predicted.")
    if not stack.attention_blocks:
        raise GlassformerError("This model has no attention that could be drawn; use Python.")
    heads = stack.attention_blocks[0].attention.heads
    if layer >= len(stack.order) or head >= heads:
        raise GlassformerError(
            f"The model has layers 0 to {len(stack.order) - 1} and heads 0 to {heads - 1}."
        )
    ids = tokenizer.encode(text).ids
    if not ids:
        raise GlassformerError("The text is empty; give the model something to read.")
    seen = Capture(f"{name}.blocks.{layer}.pattern", f"{name}.*.resid_post")
    with torch.no_grad():
        out = model.net(torch.tensor([ids]), tap=seen)
        lens = [
            model.net.readout(seen[f"{name}.blocks.{depth}.resid_post"])[0]
            for depth in range(len(stack.order))
        ]
    assert out.logits is not None
    words = [tokenizer.decode([i], special=True) for i in ids]
    pattern = seen[f"{name}.blocks.{layer}.pattern"][0, head]
    console.print(f"\n[bold]{model!r}[/] reads {len(ids)} tokens")
    console.print(f"\n[bold]attention[/] of layer {layer}, head {head} (row looks at column)")
    console.print(attention_picture(words, pattern))
    console.print("\n[bold]logit lens[/]: what each layer would say next")
    console.print(lens_table(model, words, lens))
    position = -1 if spec.decoder is not None else words_to_fill(tokenizer.special.get("mask"), ids)
    console.print(f"\n[bold]next token[/] after {''.join(words)[-40:]!r}")
    console.print(next_table(model, out.logits[0, position]))


def words_to_fill(mask: int | None, ids: list[int]) -> int:
    return ids.index(mask) if mask in ids else -1


def attention_picture(words: list[str], pattern: Tensor) -> Text:
    picture = Text()
    for word, row in zip(words, pattern.tolist(), strict=True):
        cells = "".join(SHADES[min(int(w * len(SHADES)), len(SHADES) - 1)] * 2 for w in row)
        picture.append(f"{shown(word):>12} ", style="cyan")
        picture.append(f"{cells}\n")
    return picture


def lens_table(model: Model, words: list[str], lens: list[Tensor], last: int = 6) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("layer", justify="right", style="dim")
    first = max(0, len(words) - last)
    for word in words[first:]:
        table.add_column(shown(word), style="white", header_style="cyan")
    for depth, logits in reversed(list(enumerate(lens))):
        chances, best = logits.softmax(-1).max(-1)
        cells = [
            f"{shown(token_text(model, int(best[i])))} {float(chances[i]):.0%}"
            for i in range(first, len(words))
        ]
        table.add_row(str(depth), *cells)
    return table


def next_table(model: Model, logits: Tensor, count: int = 10) -> Table:
    chances, best = logits.softmax(-1).topk(min(count, len(logits)))
    table = Table(box=None, pad_edge=False, show_header=False)
    for chance, token in zip(chances.tolist(), best.tolist(), strict=True):
        bar = "█" * round(chance * 40)
        table.add_row(shown(token_text(model, token)), f"{chance:6.1%}", Text(bar, style="green"))
    return table


def token_text(model: Model, token: int) -> str:
    assert model.tokenizer is not None
    return model.tokenizer.decode([token], special=True)


def shown(word: str) -> str:
    return word.replace("\n", "⏎").replace(" ", "␣") or "∅"
