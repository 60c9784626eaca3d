"""Stand-ins for OpenAI's tables of byte pairs: of the published tokens they hold the single bytes
and the marks that are never spoken, under their own numbers, and something else in between."""

from __future__ import annotations

import base64
import json
from pathlib import Path

SIZES = {"gpt2.tiktoken": 50256, "multilingual.tiktoken": 50257}
MARKS = json.loads((Path(__file__).parent / "whisper_marks.json").read_text())


def write_table(folder: Path, name: str) -> None:
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    in_order = [*visible, *(byte for byte in range(256) if byte not in visible)]
    tokens = [bytes([byte]) for byte in in_order]
    tokens += [b"\xff%d" % number for number in range(256, SIZES[name])]
    for token, number in MARKS[name].items():
        tokens[number] = base64.b64decode(token)
    lines = [f"{base64.b64encode(token).decode()} {i}\n" for i, token in enumerate(tokens)]
    (folder / name).write_text("".join(lines))
