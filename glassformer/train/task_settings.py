"""The [train] table of a task: epochs, batch size and learning rate by the size of the work.

They were measured with `zoo:encoder` (3.7 million parameters) on 500 rows of banking77 and 2,000 of
sentence polarity, and follow published fine-tunings of larger models; docs/your-data.md has the
numbers.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import torch

SMALL = 3.7e6  # parameters of the model that was measured
BEST_RATE = 1e-3  # its learning rate
POWER = 0.9  # larger models learn at smaller rates: 2e-4 at 22 million, 5e-5 at 110 million
LORA_FACTOR = 3.0
EPOCHS = 610  # by the square root of the rows: 27 at 500 rows, 6 at 10,000
PATIENCE = 5  # evaluations, of ten in a run
EVALUATIONS = 0.1  # of the run lie between two
ROW_BYTES = 1000  # of a text that counts as a row
ACTIVATIONS = 34 * 4  # bytes for a token, a unit of the width and a layer


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What a run has to do.

    Attributes:
        rows: Training rows.
        tokens: Tokens of a long row, estimated.
        parameters: Parameters of the model.
        width, layers: Its size.
        whole_texts: Whether rows are cut from a running text.
    """

    rows: int
    tokens: int
    parameters: int
    width: int
    layers: int
    whole_texts: bool = False


def train_settings(work: Workload, *, lora: bool = False, batch_size: int = 0) -> dict[str, Any]:
    """Returns the [train] table.

    Args:
        work: The size of the work.
        lora: Whether an adapter is trained, which takes a higher learning rate.
        batch_size: Rows per step; 0 is chosen.
    """
    rate = BEST_RATE * min(1.0, (SMALL / work.parameters) ** POWER) * (LORA_FACTOR if lora else 1)
    step = batch_size or usual_batch(work.rows)
    rows = max(1, min(step, rows_in_memory(work)))
    parts = 1 if rows >= step else math.ceil(step / rows)
    settings: dict[str, Any] = {
        "epochs": usual_epochs(work.rows),
        "batch_size": math.ceil(step / parts),
        "learning_rate": rounded(rate),
        "betas": [0.9, 0.999],
        "weight_decay": 0.01,
        "lr_scheduler": "linear",
        "min_lr_ratio": 0.0,
        "eval_steps": EVALUATIONS,
        "save_steps": EVALUATIONS,
    }
    if parts > 1:
        settings["gradient_accumulation_steps"] = parts
    return settings


def usual_epochs(rows: int) -> int:
    """Returns more epochs for fewer rows: from 40 to 2."""
    return round(min(40.0, max(2.0, EPOCHS / math.sqrt(max(rows, 1)))))


def usual_batch(rows: int) -> int:
    """Returns 16 rows for a few hundred rows, and up to 64 for many."""
    return 16 if rows < 2_000 else 32 if rows < 50_000 else 64


def rows_in_memory(work: Workload) -> int:
    """Returns how many rows fit into a quarter of the free memory."""
    each = max(1, work.tokens * work.width * work.layers * ACTIVATIONS)
    return int(free_memory() / 4 // each)


def free_memory() -> int:
    """Returns the free bytes of the GPU, or else the memory of the machine."""
    if torch.cuda.is_available():
        return torch.cuda.mem_get_info()[0]
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def rounded(rate: float) -> float:
    """Rounds to one digit."""
    return float(f"{rate:.0e}")
