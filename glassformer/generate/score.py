"""Log-probabilities of the tokens of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core import Cache, Transformer
from glassformer.core.score import Score
from glassformer.errors import ConfigError, InputError

CHUNK = 512
Source = Sequence[int] | Tensor  # token ids, or a spectrogram


class ScoreWindow(NamedTuple):
    """Sliding window over a long text: its size in tokens, and the tokens it advances by."""

    size: int | None
    stride: int | None


def windows(context: int | None, window: int | None, stride: int | None) -> ScoreWindow:
    """Validates the window for a text that is longer than the context.

    Args:
        context: Context length of the model; None means that texts are read as a whole.
        window: Window size; None means the whole context.
        stride: Tokens per advance; None means half of the window.
    """
    for name, value in (("window", window), ("stride", stride)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be 1 or more, not {value}.")
    if context is not None and window is not None and window > context:
        raise ConfigError(f"window ({window}) is above the model's {context} positions.")
    size = window or context
    if size is not None and stride is not None and stride > size:
        raise ConfigError(f"stride ({stride}) is above the window ({size}).")
    return ScoreWindow(size, stride or (max(1, size // 2) if size else None))


def score(
    net: Transformer, ids: Sequence[int], frame: ScoreWindow, source: Source | None = None
) -> Score:
    """Scores all tokens but the first.

    Each window scores the tokens that the previous one did not reach, with the rest of the window
    as their context.

    Args:
        net: The model.
        ids: Token ids of the text (for an encoder-decoder, of the decoder).
        frame: Window size and stride.
        source: Input of the encoder.
    """
    if len(ids) < 2:
        raise InputError("A text of one token has nothing to predict; give a longer one.")
    last = len(ids) - 1  # number of positions read
    size = frame.size or last
    logprobs = read(net, ids[: size + 1], 0, source)
    while len(logprobs) < last:
        done = len(logprobs)
        end = min(done + (frame.stride or last), last)
        start = max(0, end - size)
        logprobs += read(net, ids[start : end + 1], done - start, source)
    return Score(tokens=list(ids[1:]), logprobs=logprobs)


@torch.inference_mode()
def read(net: Transformer, ids: Sequence[int], known: int, source: Source | None) -> list[float]:
    """Returns the log-probabilities of `ids[1:]`, without the first `known` ones.

    The text is read in chunks, so that the logits of a long text need not fit in memory.
    """
    device = next(net.parameters()).device
    memory = None
    if source is not None:
        memory = net.encode(torch.as_tensor(source, device=device)[None], None)
    tokens = torch.tensor([list(ids)], device=device)
    cache, found = Cache(), []
    for start in range(0, len(ids) - 1, CHUNK):
        end = min(start + CHUNK, len(ids) - 1)
        given = memory if start == 0 else None
        out = net.decode(tokens[:, start:end], encoder_hidden_states=given, cache=cache)
        assert out.logits is not None
        log = out.logits[0].float().log_softmax(-1)
        found += log.gather(1, tokens[0, start + 1 : end + 1, None])[:, 0].tolist()
    return found[known:]
