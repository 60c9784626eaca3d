"""Mean divergence of lens outputs from the final output over many texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import UnsupportedError
from glassformer.inside.capture.corpus import LENGTH, TOKENS, batches, captured, pieces
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.lens.lens import CHUNK_LOGITS
from glassformer.inside.lens.stages import language_head, stage_label, stage_names
from glassformer.inside.lens.tuned_lens import TunedLens
from glassformer.spec import HeadSpec
from glassformer.tasks.model_protocol import TaskModel

Way = Callable[[str, Tensor], Tensor]
"""Maps a stage's name and residual stream to the input of the head."""


def head_log_probs(model: TaskModel, head: HeadSpec, stream: Tensor) -> Tensor:
    """Returns the log-probabilities, [row, output], that a head computes from [row, width]."""
    return model.readout(stream[None], head.name)[0].float().log_softmax(-1)


def spans(rows: int, head: HeadSpec) -> Iterator[slice]:
    """Returns the slices of rows whose logits are computed at once."""
    step = max(1, CHUNK_LOGITS // (head.num_outputs or 1))
    return (slice(at, at + step) for at in range(0, rows, step))


def check_gradient(loss: Tensor) -> None:
    """Raises an error if no gradient flows through the head, as with quantized weights."""
    if not loss.requires_grad:
        raise UnsupportedError(
            "Quantized weights have no gradients; load the model without `quantize`."
        )


def lens_divergence(
    model: TaskModel, texts: Iterable[Text], *lenses: TunedLens, head: str | None = None, **how: Any
) -> NamedTensor:
    """Measures how far the lens output of each stage is from the final output.

    The texts should not be those that the tuned lenses were trained on.

    Args:
        model: The model.
        texts: The texts.
        *lenses: Tuned lenses to compare with the logit lens.
        head: The head, as in `tune_lens`.
        **how: `targets`, `max_length` and `tokens_per_batch`, as in `tune_lens`.

    Returns:
        [lens, stage]: the mean KL(final, stage) in nats for the logit lens and each tuned lens.
    """
    by = language_head(model, head)
    ways: list[Way] = [lambda stage, x: x, *(tuned.check(model, by.name).map for tuned in lenses)]
    names = ["logit lens", *("tuned lens" for _ in lenses)]
    return _measured(model, by, texts, ways, {"lens": names}, "divergence of lenses", **how)


def lens_transfer(
    model: TaskModel, texts: Iterable[Text], tuned: TunedLens, **how: Any
) -> NamedTensor:
    """Measures the divergence when the map of each stage is applied to every other stage.

    Stages on which each other's maps work well represent information alike.

    Args:
        model: The model.
        texts: The texts.
        tuned: The tuned lens.
        **how: `targets`, `max_length` and `tokens_per_batch`, as in `tune_lens`.

    Returns:
        [map, stage]: the mean KL(final, stage) in nats.
    """
    facts = tuned.check(model).facts
    by, stages = language_head(model, facts.head), facts.stages
    ways: list[Way] = [partial(_by_map, tuned, name) for name in stages]
    names = [*map(stage_label, stages)]
    return _measured(model, by, texts, ways, {"map": names}, "divergence by other maps", **how)


def _by_map(tuned: TunedLens, owner: str, stage: str, stream: Tensor) -> Tensor:
    return tuned.map(owner, stream)


@torch.no_grad()
def _measured(
    model: TaskModel,
    head: HeadSpec,
    texts: Iterable[Text],
    ways: Sequence[Way],
    rows: dict[str, list[str]],
    title: str,
    *,
    targets: Iterable[Text] | None = None,
    max_length: int = LENGTH,
    tokens_per_batch: int = TOKENS,
) -> NamedTensor:
    """The mean KL(final, stage) in nats, [way, stage]."""
    *stages, last = stage_names(model.spec)
    total = torch.zeros(len(ways), len(stages), dtype=torch.double)
    count = 0
    for batch in batches(pieces(model, texts, targets, max_length), tokens_per_batch):
        streams = captured(model, batch, [*stages, last])
        count += len(streams[last])
        for some in spans(len(streams[last]), head):
            end = head_log_probs(model, head, streams[last][some])
            for at, stage in enumerate(stages):
                for number, way in enumerate(ways):
                    here = head_log_probs(model, head, way(stage, streams[stage][some]))
                    far = F.kl_div(here, end, reduction="sum", log_target=True)
                    total[number, at] += far.double().cpu()
    labels = {**rows, "stage": [*map(stage_label, stages)]}
    return NamedTensor((total / max(1, count)).float(), (*rows, "stage"), labels, title)
