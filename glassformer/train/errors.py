"""Translates out-of-memory and communication errors into messages with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.distributed.checkpoint.api import CheckpointException

from glassformer.errors import DeviceError, GlassformerError, LostProcessError, UnsupportedError
from glassformer.train.distributed import Worker
from glassformer.train.recipe import TrainSettings

LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "imed out", "NCCL")
NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


@contextmanager
def explain_model_memory() -> Iterator[None]:
    """Explains a lack of memory while the model is built, before the size of a step matters."""
    try:
        yield
    except GlassformerError:  # some are RuntimeErrors
        raise
    except (RuntimeError, MemoryError) as error:
        if not _no_memory(error):
            raise
        raise DeviceError(
            "There is not enough memory for the model, its gradients and the optimizer state; "
            "choose a smaller model.hidden_size or model.num_layers, or share it between "
            "processes with scale.parallel = 'fsdp'."
        ) from error


@contextmanager
def explain_step_errors(settings: TrainSettings) -> Iterator[None]:
    """Explains out-of-memory and determinism errors during training."""
    try:
        yield
    except GlassformerError:  # some are RuntimeErrors
        raise
    except (RuntimeError, MemoryError) as error:
        if _no_memory(error):
            raise out_of_memory(settings) from error
        if "deterministic" in str(error) and settings.deterministic:
            raise UnsupportedError(
                f"A kernel is not deterministic ({str(error).splitlines()[0]}); set "
                "train.deterministic = false.",
                field="train.deterministic",
            ) from error
        raise


@contextmanager
def explain_lost_process(worker: Worker) -> Iterator[None]:
    """Explains the error that occurs when a process waits for another one that is lost."""
    try:
        yield
    except GlassformerError:  # some are RuntimeErrors
        raise
    except (RuntimeError, CheckpointException) as error:
        if worker.world_info is None or not _lost(error):
            raise
        raise LostProcessError(
            f"Process {worker.global_rank} of {worker.world_size} waited too long for another "
            "process, which has ended or hangs; see the messages of that process. The last "
            "checkpoint is complete, and the same command resumes from it."
        ) from error


def _no_memory(error: BaseException) -> bool:
    """Returns whether memory was exhausted; also recognizes the messages of the CPU allocator."""
    kinds = (torch.OutOfMemoryError, MemoryError)
    return isinstance(error, kinds) or any(words in str(error) for words in NO_MEMORY)


def _lost(error: BaseException) -> bool:
    inner = error.failures.values() if isinstance(error, CheckpointException) else ()
    return (
        isinstance(error, torch.distributed.DistError)
        or any(words in str(error) for words in LOST)
        or any(_lost(one) for one, _ in inner)
    )


def out_of_memory(settings: TrainSettings) -> DeviceError:
    """Returns an error that lists the settings that would save memory, the cheapest first."""
    remedies = []
    if settings.batch_size > 1:
        fewer = max(1, settings.batch_size // 2)
        more = settings.gradient_accumulation_steps * settings.batch_size // fewer
        remedies.append(
            f"train.batch_size={fewer} train.gradient_accumulation_steps={more} "
            "(the same step in more parts)"
        )
    if settings.precision == "float32":
        remedies.append("train.precision=bfloat16")
    if not settings.gradient_checkpointing:
        remedies.append("train.gradient_checkpointing=true (a third slower)")
    remedies.append("shorter rows (data.sequence_length)")
    return DeviceError(f"There is not enough memory for a step; try {', or '.join(remedies)}.")
