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
from typing import ClassVar

import torch
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Same:
    """One tensor, as it is."""

    copies: ClassVar[bool] = False  # whether reading makes a new tensor of the file's

    def shapes(self, ours: Shape, parts: Sequence[int]) -> list[Shape]:
        return [ours]

    def read(self, theirs: list[Tensor]) -> Tensor:
        return theirs[0]

    def write(self, ours: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [ours]


@dataclass(frozen=True)
class Transposed(Same):
    """A weight that the file keeps as [in, out]; a bias stays as it is."""

    def shapes(self, ours: Shape, parts: Sequence[int]) -> list[Shape]:
        return [ours[::-1]]

    def read(self, theirs: list[Tensor]) -> Tensor:
        return theirs[0].t() if theirs[0].ndim == 2 else theirs[0]

    def write(self, ours: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [ours.t() if ours.ndim == 2 else ours]


@dataclass(frozen=True)
class Row(Same):
    """A vector that the file keeps as a matrix of one row."""

    def shapes(self, ours: Shape, parts: Sequence[int]) -> list[Shape]:
        return [(1, *ours)]

    def read(self, theirs: list[Tensor]) -> Tensor:
        return theirs[0][0]

    def write(self, ours: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [ours[None]]


@dataclass(frozen=True)
class Joined(Same):
    """Several tensors of the file are the row blocks of one of ours."""

    copies: ClassVar[bool] = True

    def shapes(self, ours: Shape, parts: Sequence[int]) -> list[Shape]:
        return [(rows, *ours[1:]) for rows in parts]

    def read(self, theirs: list[Tensor]) -> Tensor:
        return torch.cat(theirs)

    def write(self, ours: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return list(torch.split(ours, list(parts)))


@dataclass(frozen=True)
class PerHead(Same):
    """The file keeps a head's queries, keys and values together; ours all heads' queries first."""

    heads: int

    copies: ClassVar[bool] = True

    def read(self, theirs: list[Tensor]) -> Tensor:
        (packed,) = theirs
        rest = packed.shape[1:]
        return packed.view(self.heads, 3, -1, *rest).transpose(0, 1).reshape(-1, *rest)

    def write(self, ours: Tensor, parts: Sequence[int]) -> list[Tensor]:
        rest = ours.shape[1:]
        return [ours.view(3, self.heads, -1, *rest).transpose(0, 1).reshape(-1, *rest)]


SAME, TRANSPOSED, ROW, JOINED = Same(), Transposed(), Row(), Joined()


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
