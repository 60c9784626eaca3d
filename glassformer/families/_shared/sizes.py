"""Sizes of a model by the names that recipes and `gf.create` use for every family."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import cycle, islice
from typing import Any

from glassformer.errors import ConfigError
from glassformer.families import find_family, reader_of
from glassformer.spec import ModelSpec

KEYS = {  # name of a size -> the config keys of the model families
    "num_layers": "num_hidden_layers n_layer n_layers num_layers num_decoder_layers encoder_layers "
    "decoder_layers num_hops",
    "num_heads": "num_attention_heads n_head n_heads num_heads encoder_attention_heads "
    "decoder_attention_heads",
    "hidden_size": "hidden_size n_embd d_model dim emb_dim emb_sz",
    "intermediate_size": "intermediate_size n_inner d_ff dff hidden_dim ffn_dim d_inner "
    "encoder_ffn_dim decoder_ffn_dim n_hid",
    "context_length": "max_position_embeddings n_positions max_target_positions memory_size",
    "dropout": "hidden_dropout_prob attention_probs_dropout_prob resid_pdrop embd_pdrop "
    "attn_pdrop dropout attention_dropout dropout_rate hidden_dropout embed_dropout "
    "resid_dropout embedding_dropout mlp_dropout dropatt",
    "vocab_size": "vocab_size decoder_vocab_size src_vocab_size tgt_vocab_size",
    "head_dim": "head_dim d_kv d_head",
    "kv_heads": "num_key_value_heads",
    "embedded": "d_embed word_embed_proj_dim",
}
SIZES = (  # that a user can set
    *("num_layers", "num_heads", "hidden_size", "intermediate_size", "context_length"),
    "dropout",
)


def preset_config(preset: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the config.json of a preset with other settings.

    Args:
        preset: The contents of the preset's config.json.
        settings: Keys of config.json, and names of `SIZES`. If all of these names are also keys of
            this family's config.json, they are these keys; inner sizes then stay as they are.
    """
    keys = {key: value for key, value in settings.items() if key not in SIZES}
    sizes = {name: value for name, value in settings.items() if name in SIZES}
    config = {**preset, **keys}
    if not sizes:
        return config
    family, architecture = find_family(config), config["architectures"][0]
    if set(sizes) <= set(used_keys(preset)):
        return {**config, **sizes}
    for name, value in sizes.items():
        if name != "dropout" and (type(value) is not int or value < 1):
            raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}.")
    reader = reader_of(config)
    spec = family.spec_from_config(reader, architecture)
    return {**config, **config_keys(spec, reader.values, reader.used, sizes), **keys}


def used_keys(preset: Mapping[str, Any]) -> Collection[str]:
    """Returns the keys of config.json that a preset's family reads."""
    reader = reader_of(preset)
    find_family(preset).spec_from_config(reader, preset["architectures"][0])
    return reader.used


def config_keys(
    spec: ModelSpec, config: Mapping[str, Any], used: Collection[str], sizes: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the keys of config.json that sizes determine, with their values.

    Args:
        spec: The model without these sizes.
        config: Its config.json.
        used: The keys of config.json that the family reads.
        sizes: The sizes by their names in `KEYS`.
    """
    for name in sizes:
        if name in SIZES and not keys_of(name, used):
            raise ConfigError(
                f"{name} does not apply to the model type {config['model_type']!r}; leave it out, "
                "or use the keys of its config.json."
            )
    found = {
        key: value
        for name, value in (_in_proportion(spec, sizes) | dict(sizes)).items()
        for key in keys_of(name, used)
    }
    return found | (_layer_by_layer(config, sizes["num_layers"]) if "num_layers" in sizes else {})


def keys_of(name: str, used: Collection[str]) -> list[str]:
    """Returns the keys of a family's config.json for a size."""
    return [key for key in KEYS[name].split() if key in used]


def _in_proportion(before: ModelSpec, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sizes that follow from others; inner layers keep their ratio to the width."""
    blocks = before.last_stack.attention_blocks
    if not blocks or not {"hidden_size", "num_heads"} & set(sizes):
        return {}
    attention, ffn = blocks[0].attention, blocks[0].ffn
    width = sizes.get("hidden_size", before.last_stack.width)
    heads = sizes.get("num_heads", attention.heads)
    if width % heads:
        raise ConfigError(
            f"A model of hidden size {width} cannot have {heads} heads; choose num_heads so that "
            "it divides hidden_size."
        )
    shared = attention.heads // (attention.kv_heads or attention.heads)
    return {
        "intermediate_size": round(ffn.width * width / before.last_stack.width),
        "head_dim": width // heads,
        "kv_heads": max(1, heads // shared),
        "embedded": width,
    }


def _layer_by_layer(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Repeats the per-layer entries of a config for the new number of layers."""
    named: dict[str, Any] = {}
    if config.get("layer_types"):
        named["layer_types"] = list(islice(cycle(config["layer_types"]), layers))
    if config.get("attention_types"):  # pairs of a group and its number of repetitions
        kinds = [kind for group, times in config["attention_types"] for kind in group * times]
        named["attention_types"] = [[list(islice(cycle(kinds), layers)), 1]]
    return named
