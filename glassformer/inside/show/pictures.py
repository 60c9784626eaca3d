"""HTML for several tensors under one title, position information, and the parameter table."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.show.heatmap import picture
from glassformer.inside.show.html import fragment

if TYPE_CHECKING:
    from glassformer.inside.weights.parameters import Parameters
    from glassformer.inside.weights.positions import Picture


def arrays_html(title: str, arrays: Mapping[str, NamedTensor], note: str = "") -> str:
    parts = (
        f"<div><h3>{escape(name.replace('_', ' '))}</h3>{picture(one)}</div>"
        for name, one in arrays.items()
    )
    return fragment(title, f"{note}<div class='row'>{''.join(parts)}</div>")


def picture_html(found: Picture) -> str:
    layers = ", ".join(map(str, found.layers))
    facts = "; ".join(f"{name} {value}" for name, value in found.facts.items() if value is not None)
    note = f"<p>Layers {layers}. {escape(facts)}</p>"
    return arrays_html(found.heading, found.arrays, note)


def parameters_html(found: Parameters) -> str:
    rows = "".join(
        f"<tr><td class='w'>{'  ' * part.depth}{escape(part.name)}</td>"
        f"<td class='n'>{'' if part.shape is None else ' × '.join(map(str, part.shape))}</td>"
        f"<td class='n'>{part.count:,}</td>"
        f"<td>{'' if part.tied_to is None else 'tied to ' + escape(part.tied_to)}"
        f"{'computed' if part.fixed else ''}</td></tr>"
        for part in found
    )
    head = "<tr><th>name</th><th>shape</th><th>parameters</th><th></th></tr>"
    return fragment(found.heading, f"<div class='scroll'><table>{head}{rows}</table></div>")
