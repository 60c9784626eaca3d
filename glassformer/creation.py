"""Creates models from presets and specs."""

from __future__ import annotations

from typing import Any

import torch

from glassformer.errors import ConfigError
from glassformer.families import find_family, find_preset, native, read
from glassformer.families._shared.sizes import preset_config, used_keys
from glassformer.families._shared.unread_keys import misspelled
from glassformer.model import Model
from glassformer.spec import ModelSpec
from glassformer.spec.variants import Variant, split_variant
from glassformer.text import Tokenizer
from glassformer.weights.architecture import named_class
from glassformer.weights.initialize import initial_value
from glassformer.weights.load import assign_tensor, tie_weights
from glassformer.weights.mapping import build_transformer, tied_names


@torch.inference_mode(False)  # inference tensors cannot be trained or watched for changes
def create(
    what: ModelSpec | str,
    seed: int = 0,
    *,
    tokenizer: Tokenizer | None = None,
    **settings: Any,
) -> Model:
    """Creates a newly initialized model. The same seed gives the same weights.

    Args:
        what: The name of a preset, or a `ModelSpec`.
        seed: Seed of the initial weights.
        tokenizer: The model's tokenizer.
        **settings: Changes to a preset: the sizes of recipes (`num_layers`, `num_heads`,
            `hidden_size`, `intermediate_size`, `context_length`, `dropout`), the options of
            `spec.variants.Variant` (`attention`, `norm`, `norm_placement`, `positions`, `window`,
            `dilation`, `block_sparse`), or keys of its config.json.

    Returns:
        The model.

    >>> gf.create("gpt2", seed=1, num_layers=4, vocab_size=1000)
    >>> gf.create("gpt2", attention="additive", norm_placement="post")
    """
    variant = Variant()
    if isinstance(what, ModelSpec):
        if settings:
            raise ConfigError("Settings are only for presets; change the ModelSpec itself.")
        config = native.config_of(what)
    else:
        preset = find_preset(what)
        variant, settings = split_variant(settings, used_keys(preset))
        config = preset_config(preset, settings)
    architecture = named_class(config)
    assert architecture is not None
    parsed = read(config, architecture)
    if parsed.unread:
        near = misspelled(parsed.unread, parsed.used)
        said = (f"{k} (did you mean {near[k]!r}?)" if k in near else k for k in parsed.unread)
        raise ConfigError(f"{find_family(config).NAME} has no setting {', '.join(said)}.")
    described = parsed.spec
    if variant.names:  # no published class has it, so the model is saved with its spec
        described = variant.apply(described)
        config = native.config_of(described)
        architecture = config["architectures"][0]
    model = build_transformer(described)
    for name, *_ in tied_names(model):
        assign_tensor(model, name, initial_value(model, name, seed))
    tie_weights(model)
    return Model(model, config, architecture, tokenizer=tokenizer)


def extended(model: Model, described: ModelSpec, seed: int = 0) -> Model:
    """Copies a model's weights into a model with additional heads, which are newly initialized.

    No published class has such heads, so the model is saved with its spec instead of a family's
    config.
    """
    made = create(described, seed, tokenizer=model.tokenizer)
    weights = model.state_dict()
    made.load_state_dict(weights, strict=False)
    more = [name for name, *_ in tied_names(made) if name not in weights]
    made.load_report.made = [*model.load_report.made, *more]
    made.source, made.base = model.source, model.base
    made.processor_source, made.generation_config = model.processor_source, model.generation_config
    return made
