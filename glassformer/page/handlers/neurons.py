"""The texts, of many, in which one is most active."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.inside import max_activating as find_strongest
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import LETTERS, Session

MOST = 2000  # texts


def strongest(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """An encoder-decoder writes what its decoder has written of each text itself."""
    id, texts = asked.text("model"), list(asked.list("texts") or [])
    if not all(isinstance(text, str) for text in texts):
        raise GlassformerError("Texts are a list of them.")
    if len(texts) > MOST or sum(map(len, texts)) > 8 * LETTERS:
        raise GlassformerError(
            f"{len(texts):,} texts are more than the page reads at once: {MOST:,}, with "
            f"{8 * LETTERS:,} characters. In Python, inside.max_activating reads any number."
        )
    real = [(number, text) for number, text in enumerate(texts) if text.strip()]
    runs = [RequestArgs({"model": id, "text": text}) for _, text in real]
    targets = [session.target(run) for run in runs]
    given = [target or "" for target in targets]
    found = find_strongest(
        session.model(id),
        [text for _, text in real],
        asked.index("layer"),
        asked.index("neuron"),
        asked.index("count", 10, least=1, most=100),
        targets=None if None in targets else given,
        stack=asked.choice("stack", ("encoder", "decoder")),
    )
    excerpts = [asdict(one) for one in found[asked.index("neuron")]]
    return {
        "read": found.read,
        "excerpts": [{**one, "text": real[one["text"]][0]} for one in excerpts],
    }
