"""HTML for a view: its tokens, predictions, attention and lens."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from glassformer.errors import GlassformerError
from glassformer.inside.show.attention import html as heads_html
from glassformer.inside.show.bars import probability_bars
from glassformer.inside.show.html import fragment, word
from glassformer.inside.show.lens_table import lens_html

if TYPE_CHECKING:
    from glassformer.inside.capture.model_inputs import InputToken
    from glassformer.inside.capture.stack_view import StackView
    from glassformer.inside.capture.view import View


def html(view: View) -> str:
    both = bool(view.model_inputs.encoder and view.model_inputs.decoder)
    body = f"<h3>encoder</h3>{_row(view.model_inputs.encoder)}<h3>decoder</h3>" if both else ""
    body += _row(view.tokens) + _predictions(view)
    parts = [fragment(f"{view.model.architecture} reads {len(view.tokens)} tokens", body)]
    sides = [view.encoder, view.decoder, view.cross] if both else [view.stack_view]
    parts += [side_html(side) for side in sides]
    try:
        parts.append(lens_html(view.lens()))
    except GlassformerError as error:
        parts.append(fragment("Logit lens", f"<p>{escape(str(error))}</p>"))
    return "".join(parts)


def side_html(side: StackView) -> str:
    try:
        return heads_html(side.attention)
    except GlassformerError as error:  # layers without attention
        return fragment(f"{side.title}: attention", f"<p>{escape(str(error))}</p>")


def _row(tokens: tuple[InputToken, ...]) -> str:
    return "".join(f'<span class="token" title="{t.id}">{word(t.text)}</span>' for t in tokens)


def _predictions(view: View) -> str:
    try:
        found = view.predictions()
    except GlassformerError as error:
        return f"<p>{escape(str(error))}</p>"
    return f"<h3>{found.heading}</h3>{probability_bars(found)}"
