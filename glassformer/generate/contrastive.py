"""Contrastive search (Su et al., 2022).

Among the `top_k` most probable tokens, it takes the one with the highest (1 - alpha) * probability
- alpha * (largest cosine similarity between its hidden state and those before it).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core import Cache
from glassformer.generate.config import GenerationConfig
from glassformer.generate.history import SequenceState
from glassformer.generate.processors import NEVER, Processor
from glassformer.generate.runner import Runner, joined, last_logits, padded
from glassformer.generate.stops import StoppingCriteria
from glassformer.generate.strategy import (
    FinishedSequence,
    GeneratedToken,
    GenerationRequest,
    NoTokenLeftError,
    StepOutput,
    logprobs_of,
    processed,
)


@torch.inference_mode()
def run_contrastive(
    runner: Runner,
    config: GenerationConfig,
    processors: list[Processor],
    stops: StoppingCriteria,
    request: GenerationRequest,
) -> Iterator[StepOutput]:
    """Runs one request; yields the output of every step."""
    net, cache = runner.net, Cache()
    stops.begin([request])
    tokens, _ = padded([request.prompt], runner.device, "left")
    memory = None
    if request.source is not None:
        memory = net.encode(*joined([request.source], runner.device))
    out = net.decode(tokens, encoder_hidden_states=memory, cache=cache)
    history = SequenceState.of([request.prompt], [request.limit], runner.device)
    said: Tensor = out.last_hidden_state  # [1, position, width]
    logits = last_logits(out)
    while True:
        scores = processed(processors, history, logits)
        if scores.isneginf().all():
            raise NoTokenLeftError(config, request.number, int(history.made))
        share, candidates = scores.softmax(-1).topk(config.top_k)
        cache.select(torch.zeros(config.top_k, dtype=torch.long, device=runner.device))
        out = net.decode(candidates.view(-1, 1), cache=cache)
        likeness = F.cosine_similarity(out.last_hidden_state, said, dim=-1).amax(-1)  # [candidate]
        value = (1 - config.penalty_alpha) * share[0] - config.penalty_alpha * likeness
        best = value.masked_fill(share[0] == 0, NEVER).argmax()[None]  # never a forbidden token
        cache.select(best)
        token = candidates[0, best]
        logprob = logprobs_of(logits, token)
        history.append(token, logprob)
        said = torch.cat((said, out.last_hidden_state[best]), 1)
        logits = last_logits(out)[best]
        news = StepOutput([GeneratedToken(request.number, 0, int(token), float(logprob))])
        reason = stops.of(history, [request])[0]
        if reason is not None:
            news.finished.append(FinishedSequence(request.number, 0, *history.new(0), stop=reason))
        yield news
        if reason is not None:
            return
