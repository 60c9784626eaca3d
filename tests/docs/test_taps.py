"""docs/taps.md lists every hook point of every family, with its axes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.families import classes_of, families, spec_from_config
from glassformer.inside.capture.names import names_of
from glassformer.spec import BlockSpec, LayerSpec, MemoryHopSpec, RecurrentSpec

ROOT = Path(__file__).parent.parent.parent
ROW = re.compile(r"^\| `([\w.]+)` \| ([a-z, ]+?) \| .*? \| ([\w -]+?) \|$", re.M)
ROWS = {name: (axes, where) for name, axes, where in ROW.findall(
    (ROOT / "docs" / "taps.md").read_text("utf-8"))}  # fmt: skip
WHERE: dict[str, Callable[[LayerSpec], bool]] = {
    "every layer": lambda layer: True,
    "attention": lambda layer: isinstance(layer, BlockSpec | MemoryHopSpec),
    "global attention": lambda layer: (
        isinstance(layer, BlockSpec) and layer.attention.separate_global_projections
    ),
    "cross-attention": lambda layer: isinstance(layer, BlockSpec) and layer.cross is not None,
    "block": lambda layer: isinstance(layer, BlockSpec),
    "recurrent": lambda layer: isinstance(layer, RecurrentSpec),
}


@pytest.mark.parametrize("model_type", families())
def test_a_family_shows_what_the_table_says(model_type):
    family = families()[model_type]
    for config in family.TINY:
        for architecture in classes_of(family, model_type):
            spec = spec_from_config({"model_type": model_type, **config}, architecture)
            shown = {name: ", ".join(axes) for name, axes in names_of(spec).items()}
            said = {}
            for stack, layers in (("encoder", spec.encoder), ("decoder", spec.decoder)):
                if layers is None:
                    continue
                for name, (axes, where) in ROWS.items():
                    if where == "every stack":
                        said[f"{stack}.{name}"] = axes
                        continue
                    for depth, index in enumerate(layers.order):
                        if WHERE[where](layers.blocks[index]):
                            said[f"{stack}." + name.replace(".i.", f".{depth}.")] = axes
            assert shown == said, architecture


def test_every_name_that_the_code_calls_is_in_the_table():
    folders = [ROOT / "glassformer" / name for name in ("core", "baselines")]
    code = "".join(path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py"))
    called = set(re.findall(r'ctx\.hook_point\(\s*"([\w.]+)"', code))
    assert {"q", "final", "recurrent_out", "cross.attn_out"} <= called
    assert called <= {name.removeprefix("blocks.i.") for name in ROWS}
