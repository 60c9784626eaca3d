"""HTML for the texts that activate neurons most, with tokens colored by activation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassformer.inside.show.html import fragment, signed_color, word

if TYPE_CHECKING:
    from glassformer.inside.explain.max_activating import Excerpt, MaxActivating


def html(found: MaxActivating) -> str:
    parts = []
    for neuron, excerpts in found.excerpts.items():
        most = max((abs(n) for one in excerpts for n in one.values), default=0.0)
        rows = "".join(_row(one, most) for one in excerpts)
        head = "<tr><th>text</th><th>position</th><th>activity</th><th></th></tr>"
        parts.append(
            f"<h3>neuron {neuron}</h3><div class='scroll'><table>{head}{rows}</table></div>"
        )
    note = f"<p>Of {found.read:,} texts, those in which it is most active.</p>"
    return fragment(found.heading, note + "".join(parts))


def _row(one: Excerpt, most: float) -> str:
    line = "".join(
        f'<span class="token" style="background:{signed_color(0.8 * value, most)}" '
        f'title="{value:+.4f}">'
        f"{f'<b>{word(text)}</b>' if place == one.at else word(text)}</span>"
        for place, (text, value) in enumerate(zip(one.tokens, one.values, strict=True))
    )
    return (
        f"<tr><td class='n'>{one.text}</td><td class='n'>{one.position}</td>"
        f"<td class='n'>{one.value:+.3f}</td><td>{line}</td></tr>"
    )
