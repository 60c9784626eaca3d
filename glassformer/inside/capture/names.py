"""Names and axes of all tensors at a model's hook points (core/hooks.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase

from glassformer.errors import ConfigError
from glassformer.spec import BlockSpec, LayerSpec, MemoryHopSpec, ModelSpec, RecurrentSpec

Axes = tuple[str, ...]
STREAM: Axes = ("position", "width")
ATTENTION: dict[str, Axes] = {
    "q": ("head", "position", "dim"),
    "k": ("key head", "key", "dim"),
    "v": ("key head", "key", "dim"),
    "scores": ("head", "query", "key"),
    "pattern": ("head", "query", "key"),
    "z": ("head", "position", "dim"),
    "attn_out": STREAM,
}
FFN: dict[str, Axes] = {
    "ffn_pre": ("position", "neuron"),
    "ffn_post": ("position", "neuron"),
    "ffn_out": STREAM,
}


def names_of(spec: ModelSpec) -> dict[str, Axes]:
    """Returns the axes of every hook point's tensor by name, without the batch axis."""
    found: dict[str, Axes] = {}
    for stack, layers in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        if layers is None:
            continue
        found[f"{stack}.embed"] = STREAM
        for depth, index in enumerate(layers.order):
            for name, axes in _layer(layers.blocks[index]):
                found[f"{stack}.blocks.{depth}.{name}"] = axes
        found[f"{stack}.final"] = STREAM
    return found


def _layer(layer: LayerSpec) -> Iterator[tuple[str, Axes]]:
    yield "resid_pre", STREAM
    if isinstance(layer, BlockSpec | MemoryHopSpec):
        yield from ATTENTION.items()
    if isinstance(layer, RecurrentSpec):
        yield "recurrent_out", STREAM
    if isinstance(layer, BlockSpec):
        yield "resid_mid", STREAM
        if layer.attention.separate_global_projections:
            yield from ((f"global.{name}", ATTENTION[name]) for name in "qkv")
        if layer.cross is not None:
            yield from ((f"cross.{name}", axes) for name, axes in ATTENTION.items())
        yield from FFN.items()
    yield "resid_post", STREAM


def full_name(spec: ModelSpec, name: str) -> str:
    """Adds the stack to a name without one: `blocks.3.z` refers to the last stack."""
    if name.startswith(("encoder.", "decoder.", "*")):
        return name
    return f"{'encoder' if spec.decoder is None else 'decoder'}.{name}"


def in_stack(stack: str, name: str) -> str:
    """Puts the name of a stack before a name; without a stack the name stays as it is."""
    return f"{stack}.{name}" if stack else name


def matching(spec: ModelSpec, patterns: Iterable[str]) -> list[str]:
    """Returns the names that match shell patterns; a pattern without any match is an error."""
    known = names_of(spec)
    found: dict[str, None] = {}
    for pattern in patterns:
        whole = full_name(spec, pattern)
        names = [name for name in known if fnmatchcase(name, whole)]
        if not names:
            near = get_close_matches(whole, known, n=1, cutoff=0.0)
            raise ConfigError(
                f"This model has no tensor {pattern!r}; the nearest name is {near[0]!r} "
                "(docs/taps.md lists all names)."
            )
        found |= dict.fromkeys(names)
    return list(found)
