"""Taps. A tap sees a named tensor on its way and may put another in its place.

Names, the same for all families, with `encoder.` or `decoder.` in front and depth i of execution:

| name                        | shape                        | what it is                          |
|-----------------------------|------------------------------|-------------------------------------|
| embed                       | [batch, position, width]     | the sum of the embeddings           |
| blocks.i.resid_pre          | [batch, position, width]     | what the block reads                |
| blocks.i.q, .k, .v          | [batch, head, position, dim] | after the positions were applied    |
| blocks.i.global.q, .k, .v   | [batch, head, position, dim] | where global tokens have their own  |
| blocks.i.scores             | [batch, head, query, key]    | scaled, biased and masked           |
| blocks.i.pattern            | [batch, head, query, key]    | softmax of the scores               |
| blocks.i.z                  | [batch, head, query, dim]    | the values, weighted by the pattern |
| blocks.i.attn_out           | [batch, position, width]     | heads joined and projected          |
| blocks.i.resid_mid          | [batch, position, width]     | the stream after attention          |
| blocks.i.ffn_pre, .ffn_post | [batch, position, ffn width] | before and after the activation     |
| blocks.i.ffn_out            | [batch, position, width]     | what the feed-forward layer says    |
| blocks.i.resid_post         | [batch, position, width]     | what the block hands on             |
| blocks.i.cross.*            | as q, k, v to attn_out above | the same of cross-attention         |
| final                       | [batch, position, width]     | the last hidden state               |

A layer without attention shows resid_pre and resid_post; a recurrent one also walk_out, resid_post
before dropout; a hop, whose keys are sentences, also what attention does up to attn_out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from torch import Tensor

Tap = Callable[[str, Tensor], Tensor]


class ActivationCapture:
    """A tap that keeps what passes under the names asked for (shell patterns) and changes nothing.

    >>> seen = Capture("decoder.blocks.0.pattern", "*.resid_post")
    >>> net(tokens, tap=seen); seen["decoder.blocks.0.pattern"]
    """

    def __init__(self, *patterns: str) -> None:
        self.patterns = patterns or ("*",)
        self.seen: dict[str, Tensor] = {}

    def wants(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if self.wants(name):
            self.seen[name] = value
        return value

    def __getitem__(self, name: str) -> Tensor:
        return self.seen[name]


def wants(tap: Tap, names: Iterable[str]) -> bool:
    """Whether a tap asks for one of these tensors. One that doesn't say is given all of them."""
    ask: Callable[[str], bool] | None = getattr(tap, "wants", None)
    return ask is None or any(ask(name) for name in names)
