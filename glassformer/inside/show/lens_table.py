"""HTML for a lens as a table with one row per stage, the last stage on top."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from glassformer.inside.show.html import fragment, signed_color, word

if TYPE_CHECKING:
    from glassformer.inside.lens.lens import Lens

MOST = 64  # maximum number of positions in one table


def lens_html(lens: Lens) -> str:
    shown = range(max(0, len(lens.positions) - MOST), len(lens.positions))
    head = "".join(f'<th class="w">{word(lens.tokens[j])}</th>' for j in shown)
    rows = []
    for stage in reversed(range(len(lens.stages))):
        cells = "".join(_cell(lens, stage, j) for j in shown)
        rows.append(f"<tr><th>{escape(lens.names[stage])}</th>{cells}</tr>")
    cut = f" The last {MOST} positions are shown." if len(shown) < len(lens.positions) else ""
    body = (
        "<p>What each stage would say, if it were the last; the stronger the color, the more "
        f"probable. Point at a cell for more.{cut}</p><div class='scroll'><table>"
        f"<tr><th>read</th>{head}</tr>{''.join(rows)}</table></div>"
    )
    return fragment(lens.heading, body)


def _cell(lens: Lens, stage: int, j: int) -> str:
    likely = lens.best_probability.array[stage, j]
    ranked = range(lens.best.shape[2])
    several = "&#10;".join(f"{word(lens.text(stage, j, r))} {float(likely[r]):.1%}" for r in ranked)
    chosen = word(lens.words[int(lens.chosen[j])])
    more = (
        f"{chosen}: rank {int(lens.rank.array[stage, j])}, "
        f"{float(lens.probability.array[stage, j]):.2%}&#10;"
        f"divergence {float(lens.divergence.array[stage, j]):.3f}, "
        f"norm {float(lens.norm.array[stage, j]):.2f}"
    )
    color = signed_color(0.75 * float(likely[0]))
    return (
        f'<td class="w cell" style="background:{color}" title="{several}&#10;{more}">'
        f"{word(lens.text(stage, j))}</td>"
    )
