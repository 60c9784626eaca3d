"""What streams of many texts would say, and how far that is from the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.inside.capture.corpus import LENGTH, TOKENS, batches, captured, pieces
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.lens.lens import ROOM
from glassformer.inside.lens.stages import language_head, stage_label, stage_names
from glassformer.inside.lens.tuned_lens import TunedLens
from glassformer.spec import HeadSpec
from glassformer.tasks.model_protocol import TaskModel

Way = Callable[[str, Tensor], Tensor]
"""A stage's name and stream to what the head is given."""


def said(model: TaskModel, head: HeadSpec, stream: Tensor) -> Tensor:
    """[row, output]: log-probabilities of what is read in [row, width]."""
    return model.net.readout(stream[None], head.name)[0].float().log_softmax(-1)


def spans(rows: int, head: HeadSpec) -> Iterator[slice]:
    """Of so many rows, those whose logits are made at once."""
    step = max(1, ROOM // (head.outputs or 1))
    return (slice(at, at + step) for at in range(0, rows, step))


def check_gradient(loss: Tensor) -> None:
    if not loss.requires_grad:
        raise GlassformerError(
            "No gradient comes back through this model's head: codes of 8 or 4 bits have none; "
            "load it without `quantize`."
        )


def lens_divergence(
    model: TaskModel, texts: Iterable[Text], *lenses: TunedLens, head: str | None = None, **how: Any
) -> NamedTensor:
    """[lens, stage]: how far on the mean what each stage would say is from what is said in the end,
    KL(end, here) in nats, by the logit lens and by tuned ones; best of texts that they have not
    learned from. `head` and `how` (`targets`, `length`, `tokens`) are as in `tune_lens`."""
    by = language_head(model, head)
    ways: list[Way] = [lambda stage, x: x, *(tuned.check(model, by.name).map for tuned in lenses)]
    names = ["logit lens", *("tuned lens" for _ in lenses)]
    return _measured(model, by, texts, ways, {"lens": names}, "divergence of lenses", **how)


def lens_transfer(
    model: TaskModel, texts: Iterable[Text], tuned: TunedLens, **how: Any
) -> NamedTensor:
    """[map, stage]: the same, where the map of each stage reads every other one too; stages that
    understand each other's maps speak alike."""
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
    length: int = LENGTH,
    tokens: int = TOKENS,
) -> NamedTensor:
    """[way, stage]"""
    *stages, last = stage_names(model.spec)
    total = torch.zeros(len(ways), len(stages), dtype=torch.double)
    count = 0
    for batch in batches(pieces(model, texts, targets, length), tokens):
        streams = captured(model, batch, [*stages, last])
        count += len(streams[last])
        for some in spans(len(streams[last]), head):
            end = said(model, head, streams[last][some])
            for at, stage in enumerate(stages):
                for number, way in enumerate(ways):
                    here = said(model, head, way(stage, streams[stage][some]))
                    far = F.kl_div(here, end, reduction="sum", log_target=True)
                    total[number, at] += far.double().cpu()
    labels = {**rows, "stage": [*map(stage_label, stages)]}
    return NamedTensor((total / max(1, count)).float(), (*rows, "stage"), labels, title)
