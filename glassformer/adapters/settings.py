"""Settings of each kind of adapter; plain values without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal, get_args

from glassformer.errors import ConfigError
from glassformer.spec import Activation

Biases = Literal["none", "all", "lora_only"]
Places = Literal["both", "ffn"]


OPTIONAL = {"max_steps": 100, "init_text": "a text"}
"""Examples of the values that options have whose default is None."""


@dataclass(frozen=True, kw_only=True)
class AdapterConfig:
    """Base class of adapter settings.

    Attributes:
        modules_to_save: Modules that are trained in full along with the adapter, by the ends of
            their published names. None selects the output layers of heads that do not predict
            tokens, which are often new.
    """

    modules_to_save: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            names = each.name in ("target_modules", "modules_to_save")
            if isinstance(value, list) or (names and isinstance(value, str)):
                value = (value,) if isinstance(value, str) else tuple(value)
                object.__setattr__(self, each.name, value)
            if names:
                _check_names(each.name, value)
                continue
            like = OPTIONAL.get(each.name) if each.default is None else each.default
            if like is not MISSING and like is not None and value is not each.default:
                _check_type(each.name, value, like)


@dataclass(frozen=True, kw_only=True)
class LowRankConfig(AdapterConfig):
    """Settings common to LoRA and AdaLoRA.

    Attributes:
        rank: The rank of the update of each layer.
        alpha: The numerator of the scale of the update.
        dropout: The dropout probability of the update's input.
        target_modules: Linear layers to adapt, by the ends of their published names ("q_proj",
            "c_attn"). None selects all linear layers in the model's blocks.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    target_modules: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least("rank", self.rank, 1)
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it must be in 0 <= dropout < 1.")
        if self.target_modules == ():
            raise ConfigError("target_modules names no linear layer; leave it out to adapt all.")


@dataclass(frozen=True, kw_only=True)
class LoRA(LowRankConfig):
    """LoRA: W + scale B A, where B A has a low rank (Hu et al., 2021).

    Attributes:
        use_rslora: The scale is alpha / sqrt(rank) instead of alpha / rank (Kalajdzievski, 2023).
        bias: Which biases are trained too: "none", "all" of the model, or only those of the
            adapted layers ("lora_only").
    """

    use_rslora: bool = False
    bias: Biases = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("bias", self.bias, get_args(Biases))

    @property
    def scale(self) -> float:
        return scale_of(self.alpha, self.rank, self.use_rslora)


@dataclass(frozen=True, kw_only=True)
class AdaLoRA(LowRankConfig):
    """AdaLoRA: W + scale P diag(e) Q, where unimportant triplets are pruned (Zhang et al., 2023).

    Pruning takes place between the first `warmup_steps` and the last `final_steps` of all
    `max_steps`.

    Attributes:
        rank: The initial rank of each layer.
        target_rank: The average rank per layer after pruning.
        warmup_steps: The number of steps before pruning starts.
        final_steps: The number of steps at the end during which ranks stay fixed.
        allocation_interval: The number of steps between two prunings.
        betas: Decay rates of the moving averages of sensitivity and its variability.
        orth_reg_weight: The weight of the loss term that keeps P and Q orthogonal.
        max_steps: The total number of training steps.
    """

    rank: int = 12
    target_rank: int = 8
    alpha: float = 32.0
    warmup_steps: int = 0
    final_steps: int = 0
    allocation_interval: int = 1
    betas: tuple[float, ...] = (0.85, 0.85)
    orth_reg_weight: float = 0.5
    max_steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least("target_rank", self.target_rank, 0)
        _at_least("allocation_interval", self.allocation_interval, 1)
        if self.target_rank > self.rank:
            raise ConfigError(
                f"target_rank is {self.target_rank}, which is above the initial rank {self.rank}; "
                "lower it."
            )
        if self.max_steps is not None and self.warmup_steps >= self.max_steps - self.final_steps:
            raise ConfigError(
                f"warmup_steps = {self.warmup_steps} and final_steps = {self.final_steps} leave "
                f"none of the {self.max_steps} steps to prune ranks; lower them."
            )

    @property
    def scale(self) -> float:
        return self.alpha / (self.rank + 1e-5)  # as in peft


@dataclass(frozen=True, kw_only=True)
class Bottleneck(AdapterConfig):
    """Bottleneck adapter: y + up(activation(down(y))).

    Attributes:
        bottleneck_size: The output size of the down projection.
        activation: The activation function.
        places: "both" adapts attention and feed-forward outputs of every layer (Houlsby et al.,
            2019), "ffn" only the feed-forward output (Pfeiffer et al., 2021).
    """

    bottleneck_size: int = 64
    activation: Activation = "relu"
    places: Places = "both"

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least("bottleneck_size", self.bottleneck_size, 1)
        _one_of("activation", self.activation, get_args(Activation))
        _one_of("places", self.places, get_args(Places))


@dataclass(frozen=True, kw_only=True)
class Prefix(AdapterConfig):
    """Prefix tuning: trained keys and values before the text, in every layer (Li and Liang, 2021).

    Attributes:
        num_virtual_tokens: The number of prefix positions.
        encoder_hidden_size: If not 0, a small network of this width computes keys and values during
            training.
    """

    num_virtual_tokens: int = 20
    encoder_hidden_size: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least("num_virtual_tokens", self.num_virtual_tokens, 1)
        _at_least("encoder_hidden_size", self.encoder_hidden_size, 0)


@dataclass(frozen=True, kw_only=True)
class Prompt(AdapterConfig):
    """Prompt tuning: trained vectors before the embedded text (Lester et al., 2021).

    Attributes:
        num_virtual_tokens: The number of vectors.
        init_text: The vectors start as the embeddings of this text's tokens, repeated as needed.
            None draws tokens from the vocabulary.
    """

    num_virtual_tokens: int = 20
    init_text: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least("num_virtual_tokens", self.num_virtual_tokens, 1)


@dataclass(frozen=True, kw_only=True)
class BitFit(AdapterConfig):
    """BitFit: only the biases of all layers are trained (Ben Zaken et al., 2021)."""


KINDS: dict[str, type[AdapterConfig]] = {
    "lora": LoRA,
    "adalora": AdaLoRA,
    "bottleneck": Bottleneck,
    "prefix": Prefix,
    "prompt": Prompt,
    "bitfit": BitFit,
}


def make(type: str, options: Mapping[str, Any], max_steps: int | None = None) -> AdapterConfig:
    """Creates settings from the [adapter] section of a recipe.

    Args:
        type: A key of `KINDS`.
        options: The fields of the settings.
        max_steps: The number of steps of the run, for adapters with a schedule.

    Returns:
        The settings.

    >>> make("lora", {"rank": 4, "target_modules": ["q_proj", "v_proj"]})
    """
    if type not in KINDS:
        raise ConfigError(f"There is no adapter {type!r}; {nearest(type, KINDS)}")
    known = [each.name for each in fields(KINDS[type])]
    for key in options:
        if key not in known:
            raise ConfigError(f"The adapter {type!r} has no option {key!r}; {nearest(key, known)}")
    if "max_steps" in known and options.get("max_steps") is None:
        options = {**options, "max_steps": max_steps}
    return KINDS[type](**options)


def scale_of(alpha: float, rank: int, rank_stable: bool) -> float:
    return alpha / (rank**0.5 if rank_stable else rank)


def nearest(name: str, known: Any) -> str:
    """Returns a suggestion for a misspelled name, or the list of known names."""
    near = get_close_matches(name, known, 1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {_listed(known)}."


def _listed(names: Any) -> str:
    some = sorted(names)
    return ", ".join(some[:12]) + (f" and {len(some) - 12} more" if len(some) > 12 else "")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name} is {value}; it must be at least {least}.")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name} is {value!r}; {nearest(value, known)}")


def _check_names(name: str, value: Any) -> None:
    is_list = isinstance(value, tuple) and all(isinstance(one, str) for one in value)
    if not (value is None or is_list):
        raise ConfigError(f"{name} is {value!r}; it must be a list of names of modules.")


def _check_type(name: str, value: Any, default: Any) -> None:
    kind = type(default)
    number = isinstance(value, int) and not isinstance(value, bool)
    if not (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))) and not (
        kind is float and number
    ):
        raise ConfigError(f"{name} is {value!r}; it must be like {default!r}.")
    if kind is tuple:
        if len(value) != len(default):
            raise ConfigError(f"{name} is {value!r}; it must be like {default!r}.")
        for one, like in zip(value, default, strict=True):
            _check_type(name, one, like)
