"""HTML for the comparison of two models on one text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassformer.inside.show.bars import table, tokens
from glassformer.inside.show.heatmap import render_heatmap
from glassformer.inside.show.html import fragment, word

if TYPE_CHECKING:
    from glassformer.inside.compare import ModelComparison


def html(found: ModelComparison) -> str:
    body = ""
    if found.logit_divergence is not None and "position" in found.logit_divergence.axes:
        body += "<h3>Where predictions moved (KL, before to after)</h3>"
        body += tokens(found.logit_divergence)
    if found.logit_divergence is not None:
        rows = "".join(
            f"<tr><td class='w'>{word(m.text)}</td><td class='n'>{m.before:.2%}</td>"
            f"<td class='n'>{m.after:.2%}</td></tr>"
            for m in found.movers()
        )
        body += "<h3>Whose probability changed most</h3><table><tr><th>output</th><th>before</th>"
        body += f"<th>after</th></tr>{rows}</table>"
    moved = [(f"{s} layer {layer} head {head}", v) for s, layer, head, v in found.moved()]
    body += f"<h3>Heads whose patterns moved most</h3>{table(moved)}<div class='row'>"
    for name, side in found.sides.items():
        for what in (side.pattern, side.head_change):
            body += f"<div><h3>{name}: {what.title.partition(': ')[2]}</h3>"
            body += render_heatmap(what, float(what.array.max())) + "</div>"
        lines = [side.attention_change, side.feed_forward_change, side.residual_change]
        for one in lines:
            if one is not None:
                named = [(f"layer {i}", float(v)) for i, v in enumerate(one.array)]
                body += f"<div><h3>{one.title}</h3>{table(named)}</div>"
    return fragment("Before and after", body + "</div>")
