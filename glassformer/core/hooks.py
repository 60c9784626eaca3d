"""Hook points: named tensors of the forward pass that a callback (tap) can read and replace.

The names are the same for all families, prefixed by `encoder.` or `decoder.`; i is the layer in
execution order:

| name                        | shape                        | what it is                          |
|-----------------------------|------------------------------|-------------------------------------|
| embed                       | [batch, position, width]     | the sum of the embeddings           |
| blocks.i.resid_pre          | [batch, position, width]     | the input of the block              |
| blocks.i.q, .k, .v          | [batch, head, position, dim] | after the position encoding         |
| blocks.i.global.q, .k, .v   | [batch, head, position, dim] | separate ones of global tokens      |
| blocks.i.scores             | [batch, head, query, key]    | scaled, biased and masked           |
| blocks.i.pattern            | [batch, head, query, key]    | softmax of the scores               |
| blocks.i.z                  | [batch, head, query, dim]    | the values, weighted by the pattern |
| blocks.i.attn_out           | [batch, position, width]     | heads concatenated and projected    |
| blocks.i.resid_mid          | [batch, position, width]     | residual stream after attention     |
| blocks.i.ffn_pre, .ffn_post | [batch, position, ffn width] | before and after the activation     |
| blocks.i.ffn_out            | [batch, position, width]     | output of the feed-forward layer    |
| blocks.i.resid_post         | [batch, position, width]     | the output of the block             |
| blocks.i.cross.*            | as q, k, v to attn_out above | the same for cross-attention        |
| final                       | [batch, position, width]     | the last hidden state               |

A layer without attention has resid_pre and resid_post; a recurrent layer also has recurrent_out,
which is resid_post before dropout; a memory hop, whose keys are sentences, also has the hook points
of attention up to attn_out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from torch import Tensor

Tap = Callable[[str, Tensor], Tensor]


class ActivationCapture:
    """A tap that stores the tensors whose names match shell patterns, and changes nothing.

    >>> seen = ActivationCapture("decoder.blocks.0.pattern", "*.resid_post")
    >>> model(input_ids, tap=seen); seen["decoder.blocks.0.pattern"]
    """

    def __init__(self, *patterns: str) -> None:
        self.patterns = patterns or ("*",)
        self.tensors: dict[str, Tensor] = {}

    def wants(self, name: str) -> bool:
        """Returns whether a name matches one of the patterns.

        Args:
            name: A hook point name.
        """
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if self.wants(name):
            self.tensors[name] = value
        return value

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def matching(self, pattern: str, without: str | None = None) -> tuple[Tensor, ...]:
        """Returns the stored tensors whose names match a pattern, in the order of the pass.

        Args:
            pattern: A shell pattern.
            without: Names that contain this text are left out.

        Returns:
            The tensors.
        """
        return tuple(
            value
            for name, value in self.tensors.items()
            if fnmatchcase(name, pattern) and (without is None or without not in name)
        )


class TapChain:
    """A tap that passes each tensor through several taps, one after the other."""

    def __init__(self, *taps: Tap) -> None:
        self.taps = taps

    def wants(self, name: str) -> bool:
        return any(wants(tap, (name,)) for tap in self.taps)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        for tap in self.taps:
            if wants(tap, (name,)):
                value = tap(name, value)
        return value


def chain(first: Tap | None, second: Tap) -> Tap:
    """Returns a tap that calls both; `first` may be missing."""
    return second if first is None else TapChain(first, second)


def wants(tap: Tap, names: Iterable[str]) -> bool:
    """Whether a tap wants one of these tensors. A tap without a `wants` method gets all of them."""
    ask: Callable[[str], bool] | None = getattr(tap, "wants", None)
    return ask is None or any(ask(name) for name in names)
