"""Inside room, showing: a view. Its tokens, what is predicted, its attention and its lens."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from glassformer.errors import GlassformerError
from glassformer.inside.show.grid import lens_html
from glassformer.inside.show.heads import html as heads_html
from glassformer.inside.show.page import fragment, word

if TYPE_CHECKING:
    from glassformer.inside.read import Token
    from glassformer.inside.view import View


def html(view: View) -> str:
    both = bool(view.reading.encoder and view.reading.decoder)
    body = f"<h3>encoder</h3>{_row(view.reading.encoder)}<h3>decoder</h3>" if both else ""
    body += _row(view.tokens) + _said(view)
    parts = [fragment(f"{view.model.architecture} reads {len(view.tokens)} tokens", body)]
    sides = [view.encoder, view.decoder, view.cross] if both else [view]
    for side in sides:
        try:
            parts.append(heads_html(side.attention))
        except GlassformerError as error:  # layers without attention
            parts.append(fragment(f"{side.title}: attention", f"<p>{escape(str(error))}</p>"))
    try:
        parts.append(lens_html(view.lens()))
    except GlassformerError as error:
        parts.append(fragment("Logit lens", f"<p>{escape(str(error))}</p>"))
    return "".join(parts)


def _row(tokens: tuple[Token, ...]) -> str:
    return "".join(f'<span class="token" title="{t.id}">{word(t.text)}</span>' for t in tokens)


def _said(view: View) -> str:
    try:
        found = view.predictions()
    except GlassformerError as error:
        return f"<p>{escape(str(error))}</p>"
    rows = "".join(
        f"<tr><td class='w'>{word(one.text)}</td><td class='n'>{one.probability:.1%}</td>"
        f"<td><span class='bar' style='width:{200 * one.probability:.1f}px;"
        "background:rgb(var(--accent))'></span></td></tr>"
        for one in found
    )
    return f"<h3>What is predicted</h3><table>{rows}</table>"
