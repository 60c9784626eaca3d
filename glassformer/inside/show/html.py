"""The sheet that all pictures stand on, and a whole file of it."""

from __future__ import annotations

import hashlib
import json
from html import escape
from pathlib import Path
from typing import Any

from glassformer.storage.files import write_text

STYLE = Path(__file__).with_name("style.css").read_text("utf-8")


def fragment(title: str, body: str, script: str = "", data: Any = None) -> str:
    """A piece of HTML for a notebook. The script is a function of the piece's element and `data`;
    it runs for every copy of the piece once."""
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
    whole = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>body{{margin:0;background:#fff}}"
        "@media(prefers-color-scheme:dark){body{background:#171b21}}</style></head>"
        f"<body>{body}</body></html>\n"
    )
    write_text(Path(path), whole)


def plain(text: str) -> str:
    """A token so that its spaces and line ends can be seen."""
    return text.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣") or "∅"


def word(text: str) -> str:
    return escape(plain(text))


def tint(value: float, most: float = 1.0) -> str:
    """A CSS color that is stronger the larger a number is; another one for negative numbers."""
    share = min(1.0, abs(value) / most) if most else 0.0
    return f"rgba(var(--{'accent' if value >= 0 else 'against'}),{share:.3f})"
