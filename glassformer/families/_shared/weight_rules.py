"""Rules that map published tensors to ours and back.

A rule names one of our modules and its counterpart in the file; weight and bias follow from it.
`{i}` stands for a layer number, `{stack}` for encoder or decoder, and `{name}` for any name.
`{base}` is the prefix of the model body in the class ("bert." in a class with a head, empty in the
bare model).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from glassformer.families._shared.weight_layouts import POINTWISE, SINGLE, PerHeadQKV
from glassformer.families._shared.weight_ops import (
    JOINED,
    ROW,
    SAME,
    TRANSPOSED,
    UNWRITTEN,
    Identity,
    Interleave,
)

__all__ = [
    "JOINED",
    "POINTWISE",
    "ROW",
    "SAME",
    "SINGLE",
    "TRANSPOSED",
    "UNWRITTEN",
    "Interleave",
    "PerHeadQKV",
    "WeightMatch",
    "WeightRule",
    "match",
    "projections",
]


@dataclass(frozen=True)
class WeightRule:
    """A rule for one of our modules or tensors.

    Attributes:
        hf: The published module, or several of them (for JOINED).
        local: Our module or tensor.
        op: The conversion between the two.
        also: Other names under which files store the same tensor.
        optional: A tensor missing in the file is initialized as in a new model.
    """

    hf: str | tuple[str, ...]
    local: str
    op: Identity = SAME
    also: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class WeightMatch:
    """A rule applied to one of our tensors, with the names of its counterparts."""

    rule: WeightRule
    hf: tuple[str, ...]
    also: tuple[str, ...]


def match(rules: Sequence[WeightRule], name: str, base: str) -> WeightMatch | None:
    """Returns the rule for one of our tensors, or None if there is none.

    Rules that name the tensor itself take precedence over rules that name its module.

    Args:
        rules: The rules of the family, in order of precedence.
        name: The name of our tensor.
        base: The prefix of the model body in the published class.
    """
    module, _, leaf = name.rpartition(".")
    for target, suffix in ((name, ""), (module, f".{leaf}")):
        for rule in rules:
            found = _pattern(rule.local).fullmatch(target)
            if found is not None:
                places = {"base": base, **found.groupdict()}
                names = (rule.hf,) if isinstance(rule.hf, str) else rule.hf
                return WeightMatch(
                    rule,
                    tuple(their.format(**places) + suffix for their in names),
                    tuple(their.format(**places) + suffix for their in rule.also),
                )
    return None


@lru_cache(maxsize=1024)
def _pattern(local: str) -> re.Pattern[str]:
    places = {
        "{i}": r"(?P<i>\d+)",
        "{stack}": r"(?P<stack>encoder|decoder)",
        "{name}": r"(?P<name>.+)",
    }
    parts = re.split(r"(\{\w+\})", local)
    return re.compile("".join(places.get(part) or re.escape(part) for part in parts))


def projections(hf: str, local: str, q: str, k: str, v: str, out: str) -> tuple[WeightRule, ...]:
    """Returns the rules for an attention layer with separate query, key and value in the file.

    Args:
        hf: The prefix of the published names.
        local: Our attention module.
        q: The query's name after the prefix; likewise `k`, `v` and `out`.
    """
    return (
        WeightRule((hf + q, hf + k, hf + v), f"{local}.qkv", JOINED),
        WeightRule(hf + q, f"{local}.q"),
        WeightRule((hf + k, hf + v), f"{local}.kv", JOINED),
        WeightRule(hf + out, f"{local}.out"),
    )
