"""Handling of config.json keys that a family does not read.

A key that the reference implementation computes with in any family is an error unless its value is
neutral; other keys are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from glassformer.errors import UnsupportedError
from glassformer.spec import ModelSpec, RotarySpec

# (value, config.json, model) -> whether the value changes what is computed
Change = Callable[[Any, Mapping[str, Any], ModelSpec], bool]


def _decodes(model: ModelSpec) -> bool:
    return model.decoder is not None


def _rotations(model: ModelSpec) -> list[RotarySpec]:
    blocks = model.last_stack.attention_blocks
    return [block.position for block in blocks if isinstance(block.position, RotarySpec)]


def _narrows(value: Any, config: Mapping[str, Any], model: ModelSpec) -> bool:
    """Whether a sliding window is enabled and shorter than the maximum text length."""
    longest = config.get("max_position_embeddings")
    covers = isinstance(value, int) and isinstance(longest, int) and value >= longest
    return _decodes(model) and config.get("use_sliding_window") is not False and not covers


CHANGES: dict[str, Change] = {  # keys that the reference reads for any family, in shared code
    "is_causal": lambda value, _, model: value is False and _decodes(model),
    "sliding_window": _narrows,
    "attention_chunk_size": _narrows,
    "layer_types": lambda value, _, model: (
        not isinstance(value, list)
        or (any(kind != "full_attention" for kind in value) and _decodes(model))
    ),
    "per_layer_config": lambda value, _, model: bool(value),
    "partial_rotary_factor": lambda value, _, model: value != 1.0 and bool(_rotations(model)),
    "original_max_position_embeddings": lambda value, _, model: any(
        rotary.scaling is not None for rotary in _rotations(model)
    ),
    "token_classification_bias": lambda value, _, model: (
        value is False and _decodes(model) and any(head.name == "tag" for head in model.heads)
    ),
    **dict.fromkeys(
        ("text_config", "text_encoder", "decoder", "generator"),
        lambda value, _, model: isinstance(value, dict),
    ),
}


def check_unread(
    unread: Mapping[str, Any], config: Mapping[str, Any], family: str, model: ModelSpec
) -> None:
    """Raises an error for an unread key with which the reference computes a different model."""
    for key, value in unread.items():
        if key in CHANGES and value is not None and CHANGES[key](value, config, model):
            raise UnsupportedError(
                f"config.json sets {key} to {value!r}, with which the reference computes another "
                f"model than {family} is here; remove the key if the weights were trained without.",
                field=key,
            )


def remarks(
    unread: Mapping[str, Any], used: Iterable[str], elsewhere: Iterable[str], family: str
) -> list[str]:
    """Returns sentences about unread keys of other families and misspelled keys.

    Args:
        unread: The unread keys, with their values.
        used: Keys of this family that the config does not set.
        elsewhere: All keys that any family reads.
        family: The family's name.
    """
    said = [
        f"{key} = {value!r} in config.json has an effect in other families and none in {family}"
        for key, value in unread.items()
        if key in set(elsewhere) and value not in (None, False, 0, "", [], {})
    ]
    return said + [
        f"{key} in config.json is not read; {near} is a key of {family}"
        for key, near in misspelled(unread, used).items()
    ]


def misspelled(unread: Iterable[str], used: Iterable[str]) -> dict[str, str]:
    """Maps unread keys to the very similar keys that would be read."""
    near = {key: get_close_matches(key, list(used), n=1, cutoff=0.85) for key in unread}
    return {key: found[0] for key, found in near.items() if found}
