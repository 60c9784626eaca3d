"""Connectionist temporal classification (Graves et al., 2006) over the bytes of a text.

Output 0 is the blank, and output 1 + b the byte b of the text in UTF-8, so that a head has the same
257 outputs for every language and every alphabet.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.spec import HeadSpec

BLANK = 0
OUTPUTS = 257
HEAD = HeadSpec(name="ctc", num_outputs=OUTPUTS, stack="encoder")


def ctc_loss(logits: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
    """Returns the sum over rows of the negative log-likelihood of the targets.

    A row that is too short for its target, which no alignment fits, counts as 0.

    Args:
        logits: The head's outputs, [row, position, output].
        lengths: The number of positions of each row.
        targets: The outputs of all rows, joined, without blanks.
        target_lengths: The number of targets of each row.
    """
    scores = logits.float().log_softmax(-1).transpose(0, 1)  # [position, row, output]
    found: Tensor = F.ctc_loss(
        scores, targets, lengths, target_lengths, BLANK, reduction="sum", zero_infinity=True
    )
    return found


def ctc_texts(logits: Tensor, lengths: Sequence[int]) -> list[str]:
    """Returns the text of each row by greedy decoding.

    Of every position the best output is taken; repetitions are merged, then blanks removed.

    Args:
        logits: The head's outputs, [row, position, output].
        lengths: The number of positions of each row.
    """
    best = logits.argmax(-1).cpu()
    found = []
    for row, length in zip(best, lengths, strict=True):
        path = torch.unique_consecutive(row[:length])
        letters = bytes((path[path != BLANK] - 1).tolist())
        found.append(letters.decode("utf-8", errors="replace"))
    return found
