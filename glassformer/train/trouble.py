"""Train room, trouble: what a machine says that cannot go on becomes a sentence with a way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from glassformer.errors import GlassformerError
from glassformer.train.recipe import TrainSettings

NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


@contextmanager
def explained(settings: TrainSettings) -> Iterator[None]:
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise out_of_memory(settings) from error
    except RuntimeError as error:
        if any(words in str(error) for words in NO_MEMORY):  # how the CPU's allocator says it
            raise out_of_memory(settings) from error
        if "deterministic" in str(error) and settings.deterministic:
            raise GlassformerError(
                f"A kernel cannot promise the same bits ({str(error).splitlines()[0]}); set "
                "train.deterministic = false."
            ) from error
        raise


def out_of_memory(settings: TrainSettings) -> GlassformerError:
    """Names what is left to turn, the cheapest first."""
    ways = []
    if settings.batch > 1:
        fewer = max(1, settings.batch // 2)
        more = settings.accumulate * settings.batch // fewer
        ways.append(f"train.batch={fewer} train.accumulate={more} (the same step in more parts)")
    if settings.precision == "float32":
        ways.append("train.precision=bfloat16")
    if not settings.checkpoint:
        ways.append("train.checkpoint=true (a third slower)")
    ways.append("a smaller model.context")
    return GlassformerError(f"There is not enough memory for a step; try {', or '.join(ways)}.")
