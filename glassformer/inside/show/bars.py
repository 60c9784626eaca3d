"""HTML for contributions to a logit as bars, and for tokens colored by attribution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from glassformer.errors import GlassformerError
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.show.heatmap import render_heatmap
from glassformer.inside.show.html import fragment, plain, signed_color, word

if TYPE_CHECKING:
    from glassformer.inside.attribute.contributions import Contributions
    from glassformer.inside.attribute.gradients import Saliency
    from glassformer.inside.attribute.input_effects import InputEffects
    from glassformer.inside.attribute.predictions import Predictions

WIDE = 220  # pixels of the longest bar
COUNT = 24


def contributions_html(found: Contributions) -> str:
    of = plain(found.text) + ("" if found.versus is None else f" less {plain(found.versus)}")
    body = f"<p>The logit is {found.logit:.4f}; the parts add up to {found.total:.4f}.</p>"
    body += "<div class='row'><div><h3>Largest parts</h3>"
    body += table((part.name, part.value) for part in found.top(COUNT))
    body += "</div><div><h3>By kind</h3>" + table(found.by_kind().items())
    for title, kind in (("Heads", "heads"), ("Cross-attention heads", "cross_heads")):
        try:
            heads: NamedTensor = getattr(found, kind)
        except GlassformerError:
            continue
        body += f"<h3>{title}: layers down, heads across</h3>"
        body += render_heatmap(heads, float(heads.array.abs().max()))
    return fragment(f"What the logit of {of} is made of", body + "</div></div>")


def table(rows: Iterable[tuple[str, float]]) -> str:
    """Renders names, numbers and bars colored by sign."""
    given = list(rows)
    most = max((abs(value) for _, value in given), default=0.0) or 1.0
    lines = []
    for name, value in given:
        color = "accent" if value >= 0 else "against"
        width = WIDE * abs(value) / most
        bar = (
            f'<span class="bar" style="width:{width:.1f}px;background:rgb(var(--{color}))"></span>'
        )
        lines.append(f"<tr><td>{name}</td><td class='n'>{value:+.3f}</td><td>{bar}</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def tokens(values: NamedTensor) -> str:
    """Renders every token, colored by its number."""
    numbers = values.array.tolist()
    numbers = [0.0 if n != n else n for n in numbers]  # NaN: nothing was measured
    most = max(map(abs, numbers), default=0.0)
    parts = (
        f'<span class="token" style="background:{signed_color(0.8 * n, most)}" title="{n:+.4f}">'
        f"{word(text)}</span>"
        for text, n in zip(values.labels["position"], numbers, strict=True)
    )
    return f"<div>{''.join(parts)}</div>"


def predictions_html(found: Predictions) -> str:
    return fragment(found.heading, probability_bars(found))


def probability_bars(found: Predictions) -> str:
    if any(one.probability != one.probability for one in found):  # NaN for a regression
        return table((word(one.text), one.logit) for one in found)
    rows = "".join(
        f"<tr><td class='w'>{word(one.text)}</td><td class='n'>{one.probability:.1%}</td>"
        f"<td><span class='bar' style='width:{200 * one.probability:.1f}px;"
        "background:rgb(var(--accent))'></span></td></tr>"
        for one in found
    )
    return f"<table>{rows}</table>"


def saliency_html(found: Saliency) -> str:
    body = ""
    if found.source is not None:
        body += f"<h3>what the encoder reads</h3>{tokens(found.source)}<h3>the decoder</h3>"
    body += tokens(found.values)
    if found.missing is not None:
        body += (
            f"<p>The tokens add up to {found.total:.4f}; the logit is {found.difference:.4f} above "
            "the baseline's.</p>"
        )
    return fragment(f"{found.kind} for {plain(found.text)}", body)


def effects_html(found: InputEffects) -> str:
    body = "<p>How far the logit falls when a token is changed (blue) or rises (orange).</p>"
    if found.source is not None:
        body += f"<h3>what the encoder reads</h3>{tokens(found.source)}<h3>the decoder</h3>"
    body += tokens(found.values)
    return fragment(f"{found.kind} for {plain(found.text)}", body)
