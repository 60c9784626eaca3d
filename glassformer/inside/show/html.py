"""HTML fragments with the shared style sheet, and standalone files."""

from __future__ import annotations

import hashlib
import json
from html import escape
from pathlib import Path
from typing import Any

from glassformer.storage.files import write_text

STYLE = Path(__file__).with_name("style.css").read_text("utf-8")


def fragment(title: str, body: str, script: str = "", data: Any = None) -> str:
    """Returns an HTML fragment for a notebook.

    Args:
        title: The heading.
        body: The HTML body.
        script: A JavaScript function of the fragment's element and `data`; it runs once for every
            copy of the fragment.
        data: The JSON data for the script.

    Returns:
        The HTML.
    """
    mark = hashlib.sha256(f"{title}{body}{script}".encode()).hexdigest()[:12]
    start = f'<div class="gf" data-gf="{mark}"><style>{STYLE}</style><h2>{escape(title)}</h2>{body}'
    if not script:
        return f"{start}</div>"
    given = json.dumps(data).replace("<", "\\u003c")
    return (
        f"{start}</div><script>(()=>{{const data={given};const draw={script};for(const root of "
        f"document.querySelectorAll('[data-gf=\"{mark}\"]'))if(!root.dataset.ready){{"
        "root.dataset.ready=1;draw(root,data)}})()</script>"
    )


def save(path: str | Path, title: str, body: str) -> None:
    """Writes a standalone HTML file."""
    whole = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>body{{margin:0;background:#fff}}"
        "@media(prefers-color-scheme:dark){body{background:#171b21}}</style></head>"
        f"<body>{body}</body></html>\n"
    )
    write_text(Path(path), whole)


def plain(text: str) -> str:
    """Makes the spaces and line breaks of a token visible."""
    return text.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣") or "∅"


def word(text: str) -> str:
    return escape(plain(text))


def signed_color(value: float, most: float = 1.0) -> str:
    """Returns a CSS color by sign, whose opacity grows with the absolute value."""
    share = min(1.0, abs(value) / most) if most else 0.0
    return f"rgba(var(--{'accent' if value >= 0 else 'against'}),{share:.3f})"
