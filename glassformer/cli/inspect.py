"""glassformer inspect: architecture and parameters of a model."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.table import Table

from glassformer.cli.printing import output_console
from glassformer.cli.shared_options import AdapterOption, Download, zoo_names
from glassformer.cli.verbs import verb
from glassformer.spec import (
    AttentionPattern,
    AudioFramesSpec,
    BlockSparsePattern,
    BlockSpec,
    ConvolutionalSpec,
    LayerSpec,
    PatchEmbeddingSpec,
    RecurrentSpec,
    StackSpec,
)

if TYPE_CHECKING:
    from glassformer.parameter_table import ParameterRow


@verb("inspect", group="Look inside")
def inspect(
    model: Annotated[
        str,
        typer.Argument(
            help="A model's folder or file, zoo:NAME, or a preset.", autocompletion=zoo_names
        ),
    ],
    adapter: AdapterOption = None,
    download: Download = False,
    full: Annotated[bool, typer.Option("--full", help="Show every tensor of every layer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the architecture of a model and its parameters.

    A folder with a config.json is enough; the name of a preset works, too.

    $ glassformer inspect gpt2
    """
    from glassformer.families import read, remarks_on
    from glassformer.loading import describe
    from glassformer.parameter_table import parts_of
    from glassformer.weights.mapping import build_transformer
    from glassformer.weights.quantization import count_parameters

    config, architecture, spec = describe(model, adapter)
    parsed = read(config, architecture)
    transformer = build_transformer(spec)
    parts = list(parts_of(transformer))
    total = count_parameters(transformer)
    if as_json:
        rows = [asdict(part) for part in parts if part.shape is not None]
        output = {"class": architecture, "parameters": total, "bytes": bytes_of(total)}
        output |= {"tensors": rows}
        print(json.dumps({**output, "unread": dict(parsed.unread)}, indent=2))
        return
    console = output_console()
    sizes = ", ".join(f"{size_text(size)} in {dtype}" for dtype, size in bytes_of(total).items())
    console.print(f"[bold]{architecture}[/] with {total:,} parameters: {sizes}\n", soft_wrap=True)
    for name, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        if stack is not None:
            console.print(f"[bold]{name}[/]")
            for line in stack_lines(stack):
                console.print(Padding.indent(line.lstrip(), 2 + len(line) - len(line.lstrip())))
    for head in spec.heads:
        outputs = "a vector" if head.num_outputs is None else f"{head.num_outputs:,} outputs"
        console.print(f"[bold]head[/] {head.name}: reads {head.pooling}, gives {outputs}")
    console.print()
    console.print(parameter_table(parts if full else folded(parts), total))
    if parsed.unread:
        listed = ", ".join(parsed.unread)
        console.print(f"Unused keys of config.json: {listed}.", markup=False)
    for remark in remarks_on(config, parsed):
        console.print(f"{remark}.", markup=False)
    if not full:
        console.print("[dim]Identical layers are shown once; --full shows every tensor.[/]")


def bytes_of(parameters: int) -> dict[str, int]:
    """Returns the size of all parameters in each dtype that weights are published in."""
    return {"float32": 4 * parameters, "bfloat16": 2 * parameters}


def size_text(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def stack_lines(stack: StackSpec) -> list[str]:
    embed, blocks = stack.embed, stack.blocks
    tables = [f"{embed.vocabulary:,} tokens"]
    if isinstance(embed, AudioFramesSpec):
        tables = [f"spectrograms of {embed.num_mel_bins} bands"]
    elif isinstance(embed, PatchEmbeddingSpec):
        height, width = embed.image_size
        tables = [f"images of {height} x {width} pixels in {embed.grid[0] * embed.grid[1]} patches"]
    if embed.position is not None:
        table = "learned" if embed.position.layout == "learned" else "sinusoidal"
        tables.append(f"{embed.position.length:,} {table} positions")
    if embed.segments:
        tables.append(f"{embed.segments} segments")
    kinds = list(dict.fromkeys(map(layer_line, blocks)))  # dropout rates are not shown
    lines = [f"embeds {', '.join(tables)} as vectors of {stack.width:,}"]
    shared = "" if len(stack.order) == len(blocks) else f" over {len(blocks)} shared ones"
    lines.append(f"{len(stack.order)} layers{shared}, of {len(kinds)} kind{'s' * (len(kinds) > 1)}")
    return lines + [f"  {kind}" for kind in kinds[:3]] + ["  ..."] * (len(kinds) > 3)


def layer_line(layer: LayerSpec) -> str:
    if isinstance(layer, BlockSpec):
        return block_line(layer)
    if isinstance(layer, RecurrentSpec):
        ways = "both ways" if layer.bidirectional else "from left to right"
        return f"recurrent, {ways}, to vectors of {layer.width:,}"
    if isinstance(layer, ConvolutionalSpec):
        sides = "before it" if layer.causal else "around it"
        by = f" by {layer.dilation}" if layer.dilation > 1 else ""
        gate = "gated " if layer.gated else ""
        what = f"convolution over {layer.kernel} tokens{by}, the position and those {sides}"
        return f"{what}, {gate}{layer.activation}"
    return "hop: reads the sentences of a memory by attention"


def block_line(block: BlockSpec) -> str:
    attention, ffn = block.attention, block.ffn
    heads = f"{attention.heads} heads of {attention.head_dim}"
    if attention.key_heads != attention.heads:
        heads += f" on {attention.key_heads} key heads"
    where = "no positions of its own"
    if block.position is not None:
        where = f"{block.position.name} positions"
    gate = "gated " if ffn.gated else ""
    cross = " + cross-attention" if block.cross is not None else ""
    shape = f"{block.norm.kind} norm, {block.placement}, {block.residual}"
    return (
        f"{pattern_text(block.pattern)} attention ({heads}, {where}){cross} + "
        f"{gate}{ffn.activation} feed-forward of {ffn.width:,}; {shape}"
    )


def pattern_text(pattern: AttentionPattern | BlockSparsePattern) -> str:
    if isinstance(pattern, BlockSparsePattern):
        blocks = f"{pattern.block_size} tokens a block, {pattern.num_random_blocks} at random"
        return f"block-sparse ({blocks})"
    if pattern.left is None:
        return "causal" if pattern.right == 0 else "full"
    dilated = f" by {pattern.dilation}" if pattern.dilation > 1 else ""
    return f"windowed [-{pattern.left}, {pattern.right}]{dilated}"


def folded(parts: list[ParameterRow]) -> list[ParameterRow]:
    """Keeps only the first layer of each stack in detail."""
    return [
        part
        for part in parts
        if ".blocks." not in part.name
        or part.name.split(".blocks.")[1].split(".")[0] == "0"
        or part.name.split(".blocks.")[1].isdigit()
    ]


def parameter_table(parts: list[ParameterRow], total: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("part", no_wrap=True)
    table.add_column("shape", justify="right")
    table.add_column("parameters", justify="right")
    for part in parts:
        leaf = part.name.rpartition(".")[2]
        shape = "" if part.shape is None else " x ".join(f"{size:,}" for size in part.shape)
        count = f"{part.count:,}"
        if part.tied_to is not None:
            count = f"= {part.tied_to}"
        elif part.fixed:
            count = "fixed"
        style = None if part.shape is not None else "bold"
        table.add_row("  " * part.depth + leaf, shape, count, style=style)
    table.add_row("total", "", f"{total:,}", style="bold")
    return table
