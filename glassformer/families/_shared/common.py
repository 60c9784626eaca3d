"""Config keys that several families have in common."""

from __future__ import annotations

from glassformer.errors import ConfigError
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.spec import Activation, SpecialTokens

MOST_LABELS = 500_000

ACTIVATION_NAMES: dict[str, Activation] = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "mish": "mish",
    "linear": "linear",
}


def activation(config: ConfigReader, key: str, default: str) -> Activation:
    """Reads the name of an activation function."""
    name = config.word(key, default)
    if name not in ACTIVATION_NAMES:
        raise ConfigError(
            f"config.json has {key} = {name!r}; known activations are "
            f"{', '.join(sorted(ACTIVATION_NAMES))}."
        )
    return ACTIVATION_NAMES[name]


def head_dim(config: ConfigReader, width: int, heads: int, key: str | None = None) -> int:
    """Returns width / heads.

    Args:
        config: The config.
        width: The model width.
        heads: The number of attention heads.
        key: The family's config key for the head size, which must agree if it is present.
    """
    if heads < 1 or width % heads:
        raise ConfigError(
            f"config.json asks for {heads} heads over a width of {width}, which is not a multiple."
        )
    if key is not None:
        config.only(key, width // heads)
    return width // heads


def labels(config: ConfigReader, default: int = 2) -> tuple[str, ...]:
    """Returns the classes of a classification head, from `id2label` or numbered."""
    names = config.optional("id2label")
    config.optional("label2id")
    if names is not None and not isinstance(names, dict):
        raise config.wrong("id2label", "an object with a name for every id from 0 on")
    count = config.integer("num_labels", len(names) if names else default, most=MOST_LABELS)
    if names is None or count != len(names):  # old files give the count without names
        return tuple(f"LABEL_{i}" for i in range(count))
    try:
        by_id = {int(key): str(name) for key, name in names.items()}
        return tuple(by_id[i] for i in range(len(by_id)))
    except (AttributeError, KeyError, ValueError):
        raise config.wrong("id2label", "a name for every id from 0 on") from None


def special_tokens(config: ConfigReader, **defaults: int | None) -> SpecialTokens:
    """Reads the ids of the special tokens."""
    return SpecialTokens(
        pad=config.id("pad_token_id", defaults.get("pad")),
        bos=config.id("bos_token_id", defaults.get("bos")),
        eos=config.id("eos_token_id", defaults.get("eos")),
        start=config.id("decoder_start_token_id", defaults.get("start")),
    )
