"""How published tensors become ours, and back. Rules are data with inverses.

A rule names a module of ours and its counterpart in the file, `{i}` standing for a layer's number
and `{stack}` for encoder or decoder; weight and bias follow by themselves. `{base}` is where a
class keeps its body ("bert." under a head, nothing in the bare model), `{name}` any name.
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
    """`theirs` may name several modules (for JOINED). `also` are other names under which files
    keep the same tensor. Without it in the file, an `optional` tensor is made as in a new model."""

    theirs: str | tuple[str, ...]
    ours: str
    op: Identity = SAME
    also: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class WeightMatch:
    """A rule applied to one of our tensors: the names of its counterparts."""

    rule: WeightRule
    theirs: tuple[str, ...]
    also: tuple[str, ...]


def match(rules: Sequence[WeightRule], name: str, base: str) -> WeightMatch | None:
    """The first rule for our tensor `name`; one that names the tensor itself goes first."""
    module, _, leaf = name.rpartition(".")
    for target, suffix in ((name, ""), (module, f".{leaf}")):
        for rule in rules:
            found = _pattern(rule.ours).fullmatch(target)
            if found is not None:
                places = {"base": base, **found.groupdict()}
                names = (rule.theirs,) if isinstance(rule.theirs, str) else rule.theirs
                return WeightMatch(
                    rule,
                    tuple(their.format(**places) + suffix for their in names),
                    tuple(their.format(**places) + suffix for their in rule.also),
                )
    return None


@lru_cache(maxsize=1024)
def _pattern(ours: str) -> re.Pattern[str]:
    places = {
        "{i}": r"(?P<i>\d+)",
        "{stack}": r"(?P<stack>encoder|decoder)",
        "{name}": r"(?P<name>.+)",
    }
    parts = re.split(r"(\{\w+\})", ours)
    return re.compile("".join(places.get(part) or re.escape(part) for part in parts))


def projections(theirs: str, ours: str, q: str, k: str, v: str, out: str) -> tuple[WeightRule, ...]:
    """Attention whose queries, keys and values the file keeps apart; the names follow `theirs`."""
    return (
        WeightRule((theirs + q, theirs + k, theirs + v), f"{ours}.qkv", JOINED),
        WeightRule(theirs + q, f"{ours}.q"),
        WeightRule((theirs + k, theirs + v), f"{ours}.kv", JOINED),
        WeightRule(theirs + out, f"{ours}.out"),
    )
