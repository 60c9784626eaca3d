"""HTML for circuits, causal bases and composition scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassformer.inside.show.heatmap import picture
from glassformer.inside.show.html import fragment, word

if TYPE_CHECKING:
    from glassformer.inside.attribute.causal_basis import CausalBasis
    from glassformer.inside.lens.unembed import Words
    from glassformer.inside.weights.circuits import Circuit
    from glassformer.inside.weights.composition import Composition


def circuit_html(found: Circuit) -> str:
    sides = "".join(f"<th>{name}, one end</th><th>{name}, the other</th>" for name in found.ends)
    rows = []
    for rank, strength in enumerate(found.strengths.tolist()):
        cells = "".join(
            f"<td>{tokens(words)}</td>" for end in found.ends.values() for words in end.words[rank]
        )
        rows.append(f"<tr><td class='n'>{strength:.3f}</td>{cells}</tr>")
    body = f"<table><tr><th>strength</th>{sides}</tr>{''.join(rows)}</table>"
    return fragment(found.heading, f"<div class='scroll'>{body}</div>")


def tokens(words: Words) -> str:
    return "".join(
        f'<span class="token" title="{one.value:+.4f}">{word(one.text)}</span>' for one in words
    )


def basis_html(found: CausalBasis) -> str:
    rows = "".join(
        f"<tr><td class='n'>{energy:.4f}</td><td>{tokens(one)}</td><td>{tokens(other)}</td></tr>"
        for energy, (one, other) in zip(found.energies.tolist(), found.words, strict=True)
    )
    head = "<tr><th>energy</th><th>toward</th><th>away</th></tr>"
    note = (
        "<p>By how much (KL, nats) what is said changes when a direction is held at its mean.</p>"
    )
    return fragment(found.heading, f"{note}<div class='scroll'><table>{head}{rows}</table></div>")


def composition_html(found: Composition) -> str:
    rows = "".join(
        f"<tr><td>{'.'.join(map(str, one))}</td><td>{'.'.join(map(str, other))}</td>"
        f"<td class='n'>{score:.3f}</td></tr>"
        for one, other, score in found.top(12)
    )
    table = f"<table><tr><th>from</th><th>to</th><th>score</th></tr>{rows}</table>"
    note = "<p>Heads as layer.head; rows write, columns read.</p>"
    return fragment(found.heading, f"{note}<div class='row'>{picture(found.scores)}{table}</div>")
