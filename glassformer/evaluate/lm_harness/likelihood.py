"""Log-probabilities of continuations, computed in batches of similar length.

Results are in the order of the requests. A context that several requests share is read once: they
all use its keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core import Cache
from glassformer.evaluate.lm_harness.requests import LikelihoodRequest
from glassformer.generate.prefix import can_share
from glassformer.generate.runner import padded
from glassformer.tasks.batching import LIMITS, BatchLimits, batched, buckets
from glassformer.weights.pretrained import PretrainedTransformer

LEAST = 8  # tokens; reading a shorter context again costs less than a separate pass


class Likelihood(NamedTuple):
    """Log-probability of a target.

    `total` is the log-probability of all tokens; `greedy` is whether each was the most probable
    one.
    """

    total: float
    greedy: bool


def likelihoods(
    model: PretrainedTransformer, groups: Sequence[Sequence[LikelihoodRequest]]
) -> Iterator[list[Likelihood]]:
    """Yields the likelihoods of each group of requests, such as the choices of one question."""
    capacity = LIMITS.get(model.device.type, LIMITS["cuda"])
    shares = can_share(model)
    for pool in batched(groups):
        found: list[list[Likelihood]] = [[] for _ in pool]
        together = [i for i, group in enumerate(pool) if shares and worth_sharing(group)]
        for bucket in buckets({i: size_of(pool[i]) for i in together}, capacity):
            for rows in fitting(model, pool, bucket):
                read = read_shared(model, [pool[i] for i in rows])
                for i, likely in zip(rows, read, strict=True):
                    found[i] = likely
        alone = [(i, one) for i in sorted({*range(len(pool))} - {*together}) for one in pool[i]]
        each = read_apart(model, [one for _, one in alone], capacity)
        for (i, _), one in zip(alone, each, strict=True):
            found[i].append(one)
        yield from found


def worth_sharing(group: Sequence[LikelihoodRequest]) -> bool:
    """Returns whether all requests have the same context, which is long enough to share."""
    first = group[0].context
    return len(group) > 1 and len(first) > LEAST and all(one.context == first for one in group)


def size_of(group: Sequence[LikelihoodRequest]) -> int:
    """Returns the size of a group in a batch: the larger of its context and its padded targets."""
    longest = max(len(one.target) for one in group)
    return max(len(group[0].context), len(group) * longest)


def fitting(
    model: PretrainedTransformer, groups: Sequence[Sequence[LikelihoodRequest]], rows: list[int]
) -> Iterator[list[int]]:
    """Splits a batch so that padded contexts and targets together fit in the position table.

    The longest target must fit after the longest context, since both are padded.
    """
    table = model.spec.last_stack.embed.position
    part: list[int] = []
    context = target = 0
    for row in rows:
        own = len(groups[row][0].context) - 1, max(len(one.target) for one in groups[row])
        longest = max(context, own[0]), max(target, own[1])
        if part and table is not None and sum(longest) > table.length:
            yield part
            part, longest = [], own
        part.append(row)
        context, target = longest
    yield part


def read_apart(
    model: PretrainedTransformer, requests: Sequence[LikelihoodRequest], capacity: BatchLimits
) -> list[Likelihood]:
    """Computes each request on its own, in batches of similar length."""
    found: dict[int, Likelihood] = {}
    sizes = {i: len(one.context) + len(one.target) - 1 for i, one in enumerate(requests)}
    for rows in buckets(sizes, capacity):
        batch = [requests[i] for i in rows]
        longest = max(len(one.target) for one in batch)
        with torch.inference_mode():
            tokens, mask = padded([read_of(one) for one in batch], model.device, "left")
            logits = model(tokens, mask, logits_to_keep=longest).logits  # [request, slot, token]
        ends = [longest] * len(batch)
        found |= dict(zip(rows, target_likelihoods(logits, batch, ends), strict=True))
    return [found[i] for i in range(len(requests))]


def read_shared(
    model: PretrainedTransformer, groups: Sequence[Sequence[LikelihoodRequest]]
) -> list[list[Likelihood]]:
    """Reads each context except its last token, then one row per request after its cache."""
    requests = [one for group in groups for one in group]
    cache, device = Cache(), model.device
    with torch.inference_mode():
        tokens, mask = padded([group[0].context[:-1] for group in groups], device, "left")
        model(tokens, mask, past_key_values=cache, logits_to_keep=1)
        counts = torch.tensor([len(group) for group in groups], device=device)
        cache.select(torch.arange(len(groups), device=device).repeat_interleave(counts))
        ends = [(one.context[-1], *one.target[:-1]) for one in requests]
        tokens, mask = padded(ends, device, "right")
        logits = model(tokens, mask, past_key_values=cache).logits
    likely = iter(target_likelihoods(logits, requests, [len(end) for end in ends]))
    return [[next(likely) for _ in group] for group in groups]


def read_of(request: LikelihoodRequest) -> tuple[int, ...]:
    """Returns the tokens that the model reads: all but the last, which is only predicted."""
    return (request.context + request.target)[:-1]


def target_likelihoods(
    logits: Tensor, requests: Sequence[LikelihoodRequest], ends: Sequence[int]
) -> Iterator[Likelihood]:
    """Yields likelihoods from logits of [request, slot, token].

    The logits of a request's target end before slot `ends`.
    """
    for row, request, end in zip(logits, requests, ends, strict=True):
        target = torch.tensor(request.target, device=logits.device)
        scores = row[end - len(target) : end].float()
        totals = scores.log_softmax(-1).gather(1, target[:, None])
        yield Likelihood(float(totals.sum()), bool(scores.argmax(-1).eq(target).all()))
