"""The cross-attention heads that follow the sound, by size of the published Whisper models.

OpenAI's program has the same lists, as compressed masks. Folders carry them in
generation_config.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.core import Transformer
from glassformer.errors import ConfigError

HEADS: dict[tuple[int, int, int], tuple[tuple[int, int], ...]] = {
    (4, 384, 51864): (  # tiny.en
        (1, 0),
        (2, 0),
        (2, 5),
        (3, 0),
        (3, 1),
        (3, 2),
        (3, 3),
        (3, 4),
    ),
    (4, 384, 51865): (  # tiny
        (2, 2),
        (3, 0),
        (3, 2),
        (3, 3),
        (3, 4),
        (3, 5),
    ),
    (6, 512, 51864): (  # base.en
        (3, 3),
        (4, 7),
        (5, 1),
        (5, 5),
        (5, 7),
    ),
    (6, 512, 51865): (  # base
        (3, 1),
        (4, 2),
        (4, 3),
        (4, 7),
        (5, 1),
        (5, 2),
        (5, 4),
        (5, 6),
    ),
    (12, 768, 51864): (  # small.en
        (6, 6),
        (7, 0),
        (7, 3),
        (7, 8),
        (8, 2),
        (8, 5),
        (8, 7),
        (9, 0),
        (9, 4),
        (9, 8),
        (9, 10),
        (10, 0),
        (10, 1),
        (10, 2),
        (10, 3),
        (10, 6),
        (10, 11),
        (11, 2),
        (11, 4),
    ),
    (12, 768, 51865): (  # small
        (5, 3),
        (5, 9),
        (8, 0),
        (8, 4),
        (8, 7),
        (8, 8),
        (9, 0),
        (9, 7),
        (9, 9),
        (10, 5),
    ),
    (24, 1024, 51864): (  # medium.en
        (11, 4),
        (14, 1),
        (14, 12),
        (14, 14),
        (15, 4),
        (16, 0),
        (16, 4),
        (16, 9),
        (17, 12),
        (17, 14),
        (18, 7),
        (18, 10),
        (18, 15),
        (20, 0),
        (20, 3),
        (20, 9),
        (20, 14),
        (21, 12),
    ),
    (24, 1024, 51865): (  # medium
        (13, 15),
        (15, 4),
        (15, 15),
        (16, 1),
        (20, 0),
        (23, 4),
    ),
    (32, 1280, 51865): (  # large-v2
        (10, 12),
        (13, 17),
        (16, 11),
        (16, 12),
        (16, 13),
        (17, 15),
        (17, 16),
        (18, 4),
        (18, 11),
        (18, 19),
        (19, 11),
        (21, 2),
        (21, 3),
        (22, 3),
        (22, 9),
        (22, 12),
        (23, 5),
        (23, 7),
        (23, 13),
        (25, 5),
        (26, 1),
        (26, 12),
        (27, 15),
    ),
    (32, 1280, 51866): (  # large-v3
        (7, 0),
        (10, 17),
        (12, 18),
        (13, 12),
        (16, 1),
        (17, 14),
        (19, 11),
        (21, 4),
        (24, 1),
        (25, 6),
    ),
    (4, 1280, 51866): (  # large-v3-turbo
        (2, 4),
        (2, 11),
        (3, 3),
        (3, 6),
        (3, 11),
        (3, 14),
    ),
}
"""(decoder layers, width, tokens) -> (layer, head); of the two models that have the sizes of
large, the list is that of large-v2."""


def alignment_heads(model: Transformer, saved: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Returns the (layer, head) pairs whose attention gives the times of words.

    They are those of generation_config.json, or else those that OpenAI published for the size of
    the model, or else all heads of the upper half of the decoder, as OpenAI's program has it.
    """
    assert model.decoder is not None
    blocks = model.decoder.spec.attention_blocks
    counts = [block.attention.heads for block in blocks]
    listed = saved.get("alignment_heads")
    if listed is None:
        vocabulary = model.decoder.spec.embed.vocabulary
        listed = HEADS.get((len(blocks), model.decoder.spec.width, vocabulary))
    if listed is None:
        half = len(blocks) // 2
        return [(i, h) for i in range(half, len(blocks)) for h in range(counts[i])]
    try:
        heads = [(int(layer), int(head)) for layer, head in listed]
        fits = all(0 <= h < counts[i] for i, h in heads if i >= 0) and heads
    except (TypeError, ValueError, IndexError):
        fits = False
    if not fits:
        raise ConfigError(
            "alignment_heads of generation_config.json is not a list of this decoder's "
            "(layer, head) pairs; remove it or get the file again."
        )
    return heads
