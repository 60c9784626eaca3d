"""Descriptions of interventions on activations, and their application to tensors.

An `Edit` is immutable and converts to and from JSON. `Edits` are resolved for one model (the source
texts of patches have been run) and change tensors as a hook. A tensor whose values stay equal is
passed on unchanged, so that the computation after it is identical.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import ConfigError, InputError
from glassformer.inside.capture.model_inputs import ModelInputs
from glassformer.inside.capture.names import Axes, matching, names_of
from glassformer.spec import ModelSpec

Kind = Literal["scale", "add", "remove", "replace", "patch"]
KINDS = get_args(Kind)
RENAMED = {"source": "from", "source_target": "from_target"}  # `from` is a Python keyword


@dataclass(frozen=True, kw_only=True)
class Edit:
    """An intervention on the tensors at one or more hook points.

    Attributes:
        kind: "scale" multiplies by `factor` (0: off), "add" adds `factor` times `vector`, "remove"
            subtracts `factor` times the projection onto `vector`, "replace" sets the tensor to
            `vector` (or to one number), and "patch" sets it to the values of another text.
        at: The hook point name (core/hooks.py), or a shell pattern for several.
        heads: The heads to edit, None for all.
        positions: The positions to edit, None for all. They count from the start of the whole
            sequence; those of a patch are pairs (here, in the source).
        keys: The keys to edit in scores and patterns, None for all.
        factor: The multiplier.
        vector: The numbers, or one number for all.
        source: The text that a patch takes its values from; "from" in JSON.
        source_target: The decoder text of the source; "from_target" in JSON.
    """

    kind: Kind
    at: str
    heads: tuple[int, ...] | None = None
    positions: tuple[Any, ...] | None = None
    keys: tuple[int, ...] | None = None
    factor: float = 1.0
    vector: Any = None  # a sequence of numbers, or one
    source: Any = None
    source_target: Any = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"An edit is one of {', '.join(KINDS)}, not {self.kind!r}.")
        vectors = dict.fromkeys(("add", "remove", "replace"), "vector")
        needs = {**vectors, "patch": "source"}.get(self.kind)
        if needs is not None and getattr(self, needs) is None:
            raise ConfigError(
                f"An edit of the kind {self.kind!r} needs {RENAMED.get(needs, needs)!r}."
            )
        for name in ("heads", "keys", "positions"):
            values = getattr(self, name)
            if values is not None:
                if isinstance(values, str) or not isinstance(values, Iterable):
                    raise ConfigError(f"{name} must be a list of numbers, not {values!r:.40}.")
                object.__setattr__(self, name, tuple(_whole(name, value) for value in values))
        if self.kind == "patch" and self.positions is not None:
            pairs = tuple(p if isinstance(p, tuple) else (p, p) for p in self.positions)
            object.__setattr__(self, "positions", pairs)
        elif self.positions is not None and any(isinstance(p, tuple) for p in self.positions):
            raise ConfigError("Only a patch has pairs of positions; give single positions.")
        object.__setattr__(self, "factor", _number("factor", self.factor))
        if self.vector is not None and not isinstance(self.vector, int | float):
            numbers = self.vector.tolist() if isinstance(self.vector, Tensor) else self.vector
            if isinstance(numbers, str) or not isinstance(numbers, Iterable):
                raise ConfigError(f"vector must be a list of numbers, not {numbers!r:.40}.")
            listed = tuple(_number("vector", number) for number in numbers)
            object.__setattr__(self, "vector", listed)
        match self.source:
            case [str(), str()]:
                object.__setattr__(self, "source", tuple(self.source))  # JSON has lists for pairs

    @classmethod
    def of(cls, given: Edit | Mapping[str, Any]) -> Edit:
        """Returns an `Edit` from an edit or its JSON form.

        Args:
            given: An edit, or a dictionary with its fields.

        Returns:
            The edit.
        """
        if isinstance(given, Edit):
            return given
        if not isinstance(given, Mapping):
            raise ConfigError(f"An edit is an Edit or a dictionary, not {given!r}.")
        back = {theirs: ours for ours, theirs in RENAMED.items()}
        known = {field.name for field in fields(cls)}
        named = {back.get(key, key): value for key, value in given.items()}
        for key in named:
            if key not in known:
                raise ConfigError(f"An edit has no {key!r}, only {', '.join(sorted(known))}.")
        for key in ("kind", "at"):
            if not isinstance(named.get(key), str):
                raise ConfigError(f"An edit needs {key!r}, a string.")
        return cls(**named)

    def json(self) -> dict[str, Any]:
        """Returns the JSON form that `Edit.of` reads, without default values."""
        found = {RENAMED.get(key, key): value for key, value in asdict(self).items()}
        return {k: v for k, v in found.items() if v is not None and (k, v) != ("factor", 1.0)}


def _whole(name: str, value: Any) -> Any:
    if name == "positions" and isinstance(value, Sequence) and len(value) == 2:
        return (_whole(name, value[0]), _whole(name, value[1]))
    try:  # NumPy integers are accepted
        found = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = -1
    if found < 0:
        raise ConfigError(f"{name} must be whole numbers of at least 0, not {value!r:.40}.")
    return found


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name} must contain numbers, not {value!r:.40}.") from None


def _without(value: Tensor, vector: Tensor, factor: float) -> Tensor:
    along = F.normalize(vector.expand(value.shape[-1]), dim=0)
    lies: Tensor = (value @ along)[..., None] * along
    return value - factor * lies


CHANGES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "add": lambda value, vector, factor: value + factor * vector,
    "remove": _without,
    "replace": lambda value, vector, _: vector.expand_as(value),
}


@dataclass(frozen=True)
class Resolved:
    """An edit resolved for a model."""

    edit: Edit
    axes: Mapping[str, Axes]  # axes of the tensors it changes
    held: Mapping[str, Tensor]  # patch values by name: [1, ...] of the source text

    @classmethod
    def of(cls, edit: Edit, spec: ModelSpec, held: Mapping[str, Tensor]) -> Resolved:
        known = names_of(spec)
        return cls(edit, {name: known[name] for name in touched(edit, spec)}, held)

    def apply(self, name: str, value: Tensor, places: Places) -> Tensor:
        """Returns the edited tensor; `value` is [batch, ...]."""
        edit, axes = self.edit, ("batch", *self.axes[name])
        chosen = None
        for wanted, kinds in ((edit.heads, ("head", "key head")), (edit.keys, ("key",))):
            if wanted is None:
                continue
            axis = next((i for i, each in enumerate(axes) if each in kinds), None)
            if axis is None:
                raise ConfigError(
                    f"{name!r} has the axes {', '.join(axes[1:])}, and no axis {kinds[0]!r}."
                )
            size = value.shape[axis]
            if kinds[0] == "head" and max(wanted, default=0) >= size:
                raise ConfigError(f"{name!r} has the heads 0 to {size - 1}, not {max(wanted)}.")
            flags = torch.zeros(size, dtype=torch.bool, device=value.device)
            flags[[at for at in wanted if at < size]] = True
            chosen = _both(chosen, _along(flags, axis, value.ndim))
        along = place_axis(axes)
        elsewhere = axes[along] == "key" and ".cross." in name
        here = places.along(axes[along], value.shape[along], elsewhere)  # [batch or 1, position]
        if edit.kind == "patch":
            new, real = self.patched(name, value, along, here)
            chosen = _both(chosen, real)
        elif edit.positions is not None:
            wanted_here = torch.isin(here, torch.tensor(edit.positions, device=here.device))
            chosen = _both(chosen, _spread(wanted_here, along, value.ndim))
        if edit.kind == "scale":
            new = value * edit.factor
        elif edit.kind != "patch":
            vector = torch.tensor(edit.vector, dtype=value.dtype, device=value.device)
            if vector.ndim and len(vector) != value.shape[-1]:
                raise InputError(
                    f"The vector has {len(vector)} numbers, and {name!r} has {value.shape[-1]}."
                )
            new = CHANGES[edit.kind](value, vector, edit.factor)
        return new if chosen is None else torch.where(chosen, new, value)

    def patched(self, name: str, value: Tensor, along: int, here: Tensor) -> tuple[Tensor, Tensor]:
        """The source text's values at this text's positions, and a mask of where it has any."""
        other = self.held[name].to(value)  # [1, ...]
        size = other.shape[along]
        if other.shape[-1] != value.shape[-1]:  # rows of another key length
            fill = torch.finfo(value.dtype).min if name.endswith("scores") else 0.0
            other = F.pad(other, (0, value.shape[-1] - other.shape[-1]), value=fill)
        if self.edit.positions is None:
            there = torch.where(here < size, here, -1)
        else:
            there = torch.full_like(here, -1)
            for to, source in self.edit.positions:
                if source >= size:
                    raise ConfigError(
                        f"The source text of the patch has {size} tokens and no position {source}."
                    )
                there = torch.where(here == to, source, there)
        rows = there.clamp(min=0).expand(len(value), -1)
        index = _spread(rows, along, value.ndim).expand(
            *[n if i != along else rows.shape[1] for i, n in enumerate(value.shape)]
        )
        new = other.expand(len(value), *other.shape[1:]).gather(along, index)
        return new, _spread(there >= 0, along, value.ndim)


@dataclass(frozen=True)
class Places:
    """Positions of a pass's tokens in the whole sequence, -1 at padding: [batch or 1, ...]."""

    new: Tensor  # tokens read in this pass
    keys: Tensor  # all tokens so far

    def along(self, axis: str, size: int, elsewhere: bool = False) -> Tensor:
        """The positions along a tensor's axis; keys from outside the stack are numbered from 0."""
        found = self.keys if axis == "key" else self.new
        if elsewhere or size < found.shape[1]:
            return torch.arange(size, device=found.device)[None]
        return F.pad(found, (size - found.shape[1], 0), value=-1)  # adapter tokens or blank memory


class Edits:
    """The edits of a model in order, applicable to any forward pass."""

    def __init__(self, resolved: Sequence[Resolved]) -> None:
        self.resolved = tuple(resolved)

    def wants(self, name: str) -> bool:
        return any(name in one.axes for one in self.resolved)

    def apply(self, name: str, value: Tensor, places: Places) -> Tensor:
        for one in self.resolved:
            if name in one.axes:
                new = one.apply(name, value, places)
                value = value if torch.equal(new, value) else new
        return value


def touched(edit: Edit, spec: ModelSpec) -> list[str]:
    """Returns the names of the tensors that an edit changes."""
    return matching(spec, (edit.at,))


def own_part(name: str, axes: Axes, tensor: Tensor, model_inputs: ModelInputs) -> Tensor:
    """Returns the part of a [batch, ...] tensor that belongs to the text itself.

    Prepended tokens, such as those of an adapter, are removed.
    """
    along = place_axis(axes)
    length = model_inputs.length(name, axes[along])
    before = tensor.shape[along + 1] - length
    return tensor.narrow(along + 1, before, length) if before > 0 else tensor


def place_axis(axes: Axes) -> int:
    """Returns the token axis: queries of a pattern, keys of keys and values."""
    found = [i for i, axis in enumerate(axes) if axis in ("position", "query")]
    return found[0] if found else axes.index("key")


def _along(flags: Tensor, axis: int, ndim: int) -> Tensor:
    return flags.view([-1 if i == axis else 1 for i in range(ndim)])


def _spread(rows: Tensor, axis: int, ndim: int) -> Tensor:
    """Reshapes [batch, position] for broadcasting against the other axes."""
    return rows.view([len(rows) if i == 0 else -1 if i == axis else 1 for i in range(ndim)])


def _both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b
