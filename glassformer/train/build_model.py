"""Builds the `Model` of a recipe's [model] and [tokenizer] tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from glassformer import adapters
from glassformer.creation import create
from glassformer.errors import ConfigError
from glassformer.families import find_family, find_preset, reader_of
from glassformer.families._shared.sizes import SIZES, config_keys
from glassformer.loading import load, merged
from glassformer.model import Model
from glassformer.spec import ModelSpec
from glassformer.spec.variants import NAMES as VARIANT
from glassformer.storage.folders import atomic_folder
from glassformer.tasks.model_protocol import longest
from glassformer.text import Tokenizer
from glassformer.text import train as train_tokenizer
from glassformer.text.loading.load import holds_tokenizer
from glassformer.text.training.trainers import KINDS
from glassformer.train.recipe import ModelSettings, Recipe, TokenizerSettings
from glassformer.train.reporter import Reporter

DEFAULT_TYPE = "byte-bpe"
BYTES = 256


def build_model(
    recipe: Recipe, texts: Callable[[], Iterable[str]], kept: Path | None = None
) -> Model:
    """Builds the model that a run starts from, in float32, with its tokenizer.

    Args:
        recipe: The complete recipe.
        texts: Returns texts of the data to train a tokenizer on if there is none.
        kept: Folder in which a trained tokenizer is saved for when the run resumes.
    """
    tokenizer = make_tokenizer(recipe.tokenizer, recipe.model, texts, kept)
    seed, settings = recipe.train.seed, recipe.model
    if settings.base is None:
        assert settings.preset is not None
        config = config_of(settings, tokenizer)
        model = create(settings.preset, seed, tokenizer=tokenizer, **config)
        most = None if tokenizer is None else longest(model)
        if tokenizer is not None and most is not None:  # transformers truncates texts to it
            model.tokenizer = tokenizer.with_max_length(most)
    else:
        model = _loaded(settings, seed, tokenizer)
    check_vocabulary(model)
    return model


def initialize_from_vectors(model: Model, path: str, reporters: Sequence[Reporter]) -> None:
    """Initializes the token embeddings from a file of word vectors."""
    from glassformer.word_vectors import read_vectors, start_embedding  # few recipes need them

    rows = start_embedding(model, read_vectors(path))
    for reporter in reporters:
        reporter.note(f"{rows:,} rows of the token table start from {path}")


def make_tokenizer(
    settings: TokenizerSettings,
    model: ModelSettings,
    texts: Callable[[], Iterable[str]],
    kept: Path | None,
) -> Tokenizer | None:
    """Loads or trains the tokenizer; returns None if the model's folder contains one."""
    if settings.folder is not None:
        return Tokenizer.load(settings.folder)
    if settings.type is None and model.base is not None:
        return None
    if kept is not None and holds_tokenizer(kept):
        return Tokenizer.load(kept)
    kind, size = settings.type or DEFAULT_TYPE, settings.vocab_size
    special = None
    if kind == "byte":
        kind = "byte-bpe"  # without merges
        special = {**KINDS[kind].special, **settings.special_tokens}
        size = BYTES + len(set(special.values())) + len(settings.languages)
        size += len(settings.control_codes)
    elif settings.special_tokens:
        special = {**KINDS[kind].special, **settings.special_tokens}
    made = train_tokenizer(
        kind,
        texts=texts(),
        vocab_size=size,
        special_tokens=special,
        lowercase=settings.lowercase,
        min_frequency=settings.min_frequency,
        languages=settings.languages,
        control_codes=settings.control_codes,
    )
    if kept is None:
        return made
    with atomic_folder(kept) as draft:
        made.save(draft)
    return Tokenizer.load(kept)  # so that all settings are the same as after resuming


def config_of(settings: ModelSettings, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Returns the changes to a preset's config.json, with the keys of its model family."""
    assert settings.preset is not None
    preset = find_preset(settings.preset)
    architecture = settings.architecture or preset["architectures"][0]
    family = find_family(preset)
    if architecture not in family.CLASSES:
        raise ConfigError(
            f"model.architecture is {architecture!r}; {family.NAME} has "
            f"{', '.join(family.CLASSES)}."
        )
    reader = reader_of({**preset, **settings.config})
    before = family.spec_from_config(reader, architecture)
    sizes = {name: value for name in SIZES if (value := getattr(settings, name)) is not None}
    if tokenizer is not None:
        sizes["vocab_size"] = max(tokenizer.size, tokenizer.target_tokenizer.size)
    named = config_keys(before, reader.values, reader.used, sizes)
    if tokenizer is not None:
        named |= _special(before, tokenizer, reader.used)
    if settings.labels:
        named["id2label"] = {str(i): label for i, label in enumerate(settings.labels)}
        named["label2id"] = {label: i for i, label in enumerate(settings.labels)}
    variant = {name: value for name in VARIANT if (value := getattr(settings, name)) is not None}
    return {**named, **variant, **settings.config, "architectures": [architecture]}


def check_vocabulary(model: Model) -> None:
    """Raises an error if the tokenizer has more tokens than the model's embeddings.

    A decoder that shares the tokenizer with an encoder may have a smaller vocabulary: the first
    tokens. The objective checks its targets.
    """
    tokenizer, spec = model.tokenizer, model.spec
    if tokenizer is None:
        return
    shared = tokenizer.target_tokenizer is tokenizer
    sides = {"encoder": tokenizer, "decoder": tokenizer.target_tokenizer}
    for side, used in sides.items():
        stack = getattr(spec, side)
        has = 0 if stack is None else stack.embed.vocabulary  # 0 if the stack reads no token ids
        if side == "decoder" and shared and spec.encoder is not None:
            continue
        if has and used.size > has:
            raise ConfigError(
                f"The tokenizer has {used.size} tokens and the model's {side} {has}; use the "
                "model's own tokenizer, or a model with that vocabulary size."
            )


def _loaded(settings: ModelSettings, seed: int, tokenizer: Tokenizer | None) -> Model:
    new = (*SIZES, *VARIANT, "config")
    given = [name for name in new if getattr(settings, name) not in (None, {})]
    if given:
        raise ConfigError(
            f"model.{given[0]} is for new models (model.preset); the architecture of the model in "
            f"{settings.base} is fixed."
        )
    assert settings.base is not None
    model = load(
        settings.base,
        dtype=torch.float32,
        architecture=settings.architecture,
        init_missing=settings.init_missing,
        ignore_unexpected=settings.ignore_unexpected,
        labels=settings.labels or None,
        seed=seed,
    )
    if adapters.active(model) is not None:
        model = merged(model)
    for parameter in model.parameters():  # some are memory-mapped or transposed
        parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
    if tokenizer is None:
        return model
    other = Model(
        model,
        model.config,
        model.architecture,
        tokenizer=tokenizer,
        processor=model.processor_source,
        pooling=model.pooling,
        load_report=model.load_report,
        generation_config=model.generation_config,
    )
    other.source, other.base = model.source, model.base
    return other


def _special(spec: ModelSpec, tokenizer: Tokenizer, used: set[str]) -> dict[str, Any]:
    """Returns the special token ids of the new vocabulary under the family's config keys."""
    before = spec.tokens
    roles = {"pad": before.pad, "bos": before.bos, "eos": before.eos}
    found = {role: tokenizer.special.get(role) for role in roles}
    if found["bos"] is None:
        found["bos"] = tokenizer.special.get("cls")
    if found["eos"] is None:
        found["eos"] = tokenizer.special.get("sep")
    if found["pad"] is None:
        found["pad"] = found["eos"] if found["eos"] is not None else 0
    named = {f"{role}_token_id": id for role, id in found.items()}
    if spec.encoder is not None and spec.decoder is not None:  # start token: one of the three
        same = [role for role, id in roles.items() if id == before.start]
        named["decoder_start_token_id"] = found[same[0] if same else "eos"]
    return {key: id for key, id in named.items() if key in used}
