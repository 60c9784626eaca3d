"""CUDA graphs for forward and backward passes, from the second batch of a shape on.

A small model's step then does not wait for Python, and nothing is compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.core import Transformer
from glassformer.spec import RecurrentSpec
from glassformer.train.objectives import Objective, TrainingBatch
from glassformer.train.step import ADAPTER, Factors, ForwardBackward, Sums

SHAPES = 64
"""Maximum number of recorded batch shapes; others run without a graph. All graphs share memory."""
PATIENCE = 8
"""Number of synchronizing passes after which recording is given up; the first may only warm up."""


def recordable(model: Transformer) -> bool:
    """Returns whether all random choices of a pass are made on the device.

    A layer that Python drops at random would be dropped in every replay.
    """
    stacks = [stack for stack in (model.spec.encoder, model.spec.decoder) if stack is not None]
    return all(
        not stack.layer_dropout and not any(isinstance(b, RecurrentSpec) for b in stack.blocks)
        for stack in stacks
    )


@dataclass(frozen=True)
class Recording:
    """A recorded CUDA graph with its buffers.

    It reads `batch` and `factors`, adds to `gradients` and writes `sums`. Existing gradients are
    copied to `gradients` before a replay.
    """

    graph: torch.cuda.CUDAGraph
    batch: TrainingBatch
    factors: dict[str, Tensor]
    gradients: dict[nn.Parameter, Tensor]
    sums: Sums

    def replay(self, batch: TrainingBatch, factors: Factors) -> Sums:
        torch._foreach_copy_(_tensors(self.batch), _tensors(batch))
        for part, factor in self.factors.items():
            factor.fill_(factors[part])
        fresh = [gradient for one, gradient in self.gradients.items() if one.grad is None]
        if fresh:
            torch._foreach_zero_(fresh)
        for parameter, gradient in self.gradients.items():
            if parameter.grad is not None and parameter.grad is not gradient:
                gradient.copy_(parameter.grad)
            parameter.grad = gradient
        self.graph.replay()
        return {part: value.clone() for part, value in self.sums.items()}


class Recorded:
    """A forward and backward pass that is recorded once per batch shape.

    The first batch of a shape runs without a graph, which shows which parameters get gradients and
    whether anything synchronizes with the device; such a pass cannot be recorded. With several
    objectives, each has its own passes, because the combination of their shapes would hardly ever
    repeat; all recordings add their gradients to the same buffers. Gradient accumulation over
    micro-batches is not supported (`accumulate` is 1).
    """

    def __init__(
        self,
        forward_backward: ForwardBackward,
        objective: Objective,
        parameters: Sequence[nn.Parameter],
    ) -> None:
        self._forward_backward, self._objective, self._parameters = (
            forward_backward,
            objective,
            parameters,
        )
        self._device = forward_backward.worker.device
        self._pool = torch.cuda.graph_pool_handle()
        self._side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        self._gradients: dict[nn.Parameter, Tensor] = {}
        self._reached: dict[Hashable, list[nn.Parameter]] = {}
        self._recordings: dict[Hashable, Recording] = {}
        self._waited = 0

    def __call__(self, batch: TrainingBatch, factors: Factors, last: bool = True) -> Sums:
        parts = [batch] if ADAPTER in factors else self._objective.split_parts(batch)
        sums: Sums = {}
        for part in parts:
            sums |= self._one(part, factors, last)
        return sums

    def _one(self, batch: TrainingBatch, factors: Factors, last: bool) -> Sums:
        kind = self._kind(batch)
        if kind in self._reached and kind not in self._recordings:
            self._recordings[kind] = self._record(self._reached[kind], batch, factors)
        if kind in self._recordings:
            return self._recordings[kind].replay(batch, factors)
        if self._waited == PATIENCE or len(self._recordings) == SHAPES:
            return self._forward_backward(batch, factors, last)
        with self._added_up() as reached, _watched() as warned:
            sums = self._forward_backward(batch, factors, last)
        if warned:
            self._waited += 1
        elif len(self._reached) < SHAPES:
            self._reached[kind] = reached
        return sums

    @contextmanager
    def _added_up(self) -> Iterator[list[nn.Parameter]]:
        """Yields a list that is filled with the parameters that get gradients inside.

        The new gradients are added to the earlier ones.
        """
        before = {one: one.grad for one in self._parameters if one.grad is not None}
        for parameter in before:
            parameter.grad = None
        reached: list[nn.Parameter] = []
        yield reached
        reached += [one for one in self._parameters if one.grad is not None]
        for parameter, gradient in before.items():
            parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)

    def _kind(self, batch: TrainingBatch) -> Hashable:
        named = (*batch.inputs.items(), *batch.targets.items())
        counted = tuple(part for part, count in batch.counts.items() if count)
        shapes = tuple((name, tensor.shape) for name, tensor in named)
        return self._objective.stage(), counted, shapes

    def _record(
        self, reached: list[nn.Parameter], batch: TrainingBatch, factors: Factors
    ) -> Recording:
        """Records a pass on copies of the tensors, into which later batches are written."""
        own = TrainingBatch(
            _copied(batch.inputs), _copied(batch.targets), batch.counts, batch.tokens
        )
        numbers = torch.tensor(list(factors.values()), device=self._device)
        scales = dict(zip(factors, numbers, strict=True))
        gradients = {parameter: self._gradient(parameter) for parameter in reached}
        before = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = gradients.get(parameter)
        graph = torch.cuda.CUDAGraph()
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._side):
            graph.capture_begin(self._pool, capture_error_mode="thread_local")
            try:
                sums = self._forward_backward(own, scales)
            except BaseException:  # such as out of memory; an open capture breaks all later work
                with suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()
        for parameter, gradient in zip(self._parameters, before, strict=True):
            parameter.grad = gradient
        torch.cuda.current_stream(self._device).wait_stream(self._side)
        return Recording(graph, own, scales, gradients, sums)

    def _gradient(self, parameter: nn.Parameter) -> Tensor:
        if parameter not in self._gradients:
            self._gradients[parameter] = torch.zeros_like(parameter)
        return self._gradients[parameter]


@contextmanager
def _watched() -> Iterator[list[warnings.WarningMessage]]:
    """Yields the warnings about operations that synchronize with the device."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", "called a synchronizing CUDA operation")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield caught
        finally:
            torch.cuda.set_sync_debug_mode(before)


def _tensors(batch: TrainingBatch) -> list[Tensor]:
    return [*batch.inputs.values(), *batch.targets.values()]


def _copied(part: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in part.items()}
