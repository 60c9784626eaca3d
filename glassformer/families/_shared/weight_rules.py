"""Room 4, families: how published tensors become ours, and back. Rules are data with inverses.

A rule names a module of ours and its counterpart in the file, `{i}` standing for a layer's number
and `{stack}` for encoder or decoder; weight and bias follow by themselves. `{base}` is where a
class keeps its body ("bert." under a head, nothing in the bare model), `{name}` any name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from glassformer.families._shared.weight_layouts import POINTWISE, SINGLE, ByHead
from glassformer.families._shared.weight_ops import (
    JOINED,
    ROW,
    SAME,
    TRANSPOSED,
    UNWRITTEN,
    Same,
    Woven,
)

__all__ = [
    "JOINED", "POINTWISE", "ROW", "SAME", "SINGLE", "TRANSPOSED", "UNWRITTEN", "ByHead", "Match",
    "Rule", "Woven", "match", "projections",
]


@dataclass(frozen=True)
class Rule:
    """`theirs` may name several modules (for JOINED). `also` are other names under which files
    keep the same tensor. Without it in the file, an `optional` tensor is made as in a new model."""

    theirs: str | tuple[str, ...]
    ours: str
    op: Same = SAME
    also: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class Match:
    """A rule applied to one of our tensors: the names of its counterparts."""

    rule: Rule
    theirs: tuple[str, ...]
    also: tuple[str, ...]


def match(rules: Sequence[Rule], name: str, base: str) -> Match | None:
    """The first rule for our tensor `name`; one that names the tensor itself goes first."""
    module, _, leaf = name.rpartition(".")
    for target, suffix in ((name, ""), (module, f".{leaf}")):
        for rule in rules:
            found = _pattern(rule.ours).fullmatch(target)
            if found is not None:
                places = {"base": base, **found.groupdict()}
                names = (rule.theirs,) if isinstance(rule.theirs, str) else rule.theirs
                return Match(
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


def projections(theirs: str, ours: str, q: str, k: str, v: str, out: str) -> tuple[Rule, ...]:
    """Attention whose queries, keys and values the file keeps apart; the names follow `theirs`."""
    return (
        Rule((theirs + q, theirs + k, theirs + v), f"{ours}.qkv", JOINED),
        Rule(theirs + q, f"{ours}.q"),
        Rule((theirs + k, theirs + v), f"{ours}.kv", JOINED),
        Rule(theirs + out, f"{ours}.out"),
    )
