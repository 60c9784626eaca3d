"""Detection of the model family and model class of a checkpoint folder.

config.json decides. Where it names no class, or a class that the family does not have, the
tensors decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.errors import ConfigError, GlassformerError
from glassformer.families import Family, classes_of, families, find_family
from glassformer.families._shared.config_reader import WITHOUT_EFFECT
from glassformer.weights.mapping import LoadPlan, check_shapes, make_load_plan
from glassformer.weights.tensor_files import TensorFiles
from glassformer.weights.unused_tensors import unused_reasons

GOOGLE_BERT = {  # keys of bert_config.json (2018), which has no model_type
    "attention_probs_dropout_prob",
    "hidden_act",
    "hidden_dropout_prob",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
}
GOOGLE_POOLER = {  # further keys of the multilingual and Chinese models
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
}

UNTYPED = {  # families older than model_type, which came with transformers 2.4 in January 2020
    "albert", "bert", "ctrl", "distilbert", "gpt2", "openai-gpt", "roberta", "t5", "transfo-xl",
    "xlm", "xlm-roberta", "xlnet",
}  # fmt: skip


def named_class(config: Mapping[str, Any]) -> str | None:
    """Returns the class that config.json names, spelled as in its family, or None."""
    names = listed_classes(config)
    if not names:
        return None
    known = {name.lower(): name for name in find_family(config).CLASSES}
    return known.get(_plain(names[0]), names[0])


def listed_classes(config: Mapping[str, Any]) -> list[str]:
    """Returns the class names in config.json."""
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"config.json has architectures = {names!r}; it must be a list with a class name."
        )
    return names


def _plain(name: str) -> str:
    """Strips the TF or Flax prefix, which files converted from those libraries may keep."""
    return name.removeprefix("TF").removeprefix("Flax").lower()


def find_class(config: Mapping[str, Any], files: TensorFiles) -> str:
    """Determines the class to load.

    Args:
        config: The contents of config.json.
        files: The tensors of the checkpoint.

    Returns:
        The class named in config.json if the family has it, otherwise the class that fits the
        tensors.

    Raises:
        ConfigError: No class of the family fits the tensors.
    """
    family, named = find_family(config), named_class(config)
    if named in classes_of(family, config["model_type"]):
        return str(named)
    fitting = fitting_class(config, files)
    if fitting is not None:
        return fitting
    if named is not None and named in family.CLASSES:  # that of another type
        return named
    said = "config.json names no class"
    if named is not None:
        said = f"{family.NAME} has no class {named!r}"
    raise ConfigError(
        f"{said}, and the tensors fit none of {', '.join(family.CLASSES)}; give one as "
        "`architecture`."
    )


def fitting_class(config: Mapping[str, Any], files: TensorFiles) -> str | None:
    """Returns the class of the family that fits the tensors best, or None if none fits.

    A class fits if no tensor is missing and every unused tensor has a known reason. Among the
    fitting classes, the one that uses most of the tensors wins; ties go to the one with most heads.
    """
    fitting: list[tuple[int, int, str]] = []
    for architecture in classes_of(find_family(config), config["model_type"]):
        plan = make_load_plan(config, architecture, files)
        if fits(plan):
            fitting.append((-len(plan.unused()), len(plan.transformer.heads), architecture))
    return max(fitting, key=lambda found: found[:2])[2] if fitting else None


def fits(plan: LoadPlan) -> bool:
    """Whether the plan lacks no tensor, explains every unused one, and all shapes agree."""
    if plan.missing() or len(unused_reasons(plan)) < len(plan.unused()):
        return False
    try:
        check_shapes(plan)
    except GlassformerError:
        return False
    return True


def type_by_config(config: Mapping[str, Any]) -> str | None:
    """Infers a missing model_type from the class name or from the keys of Google's BERT config."""
    for name in listed_classes(config):
        for model_type, family in families().items():
            if _plain(name) in map(str.lower, classes_of(family, model_type)):
                return model_type
    keys = set(config) - set(WITHOUT_EFFECT)
    return "bert" if keys <= GOOGLE_BERT | GOOGLE_POOLER and keys >= GOOGLE_BERT else None


def find_type(config: Mapping[str, Any], files: TensorFiles) -> str | None:
    """Infers a missing model_type from config.json or, failing that, from the tensors.

    Returns:
        The result of `type_by_config` if there is one; otherwise the model type of the only family
        with a class that fits the tensors, where families whose own prefix occurs in the tensor
        names take precedence, and among these the old ones. None if no family or more than one
        remains.
    """
    found = type_by_config(config)
    if found is not None:
        return found
    fitting = [model_type for model_type in families() if _fits_type(config, files, model_type)]
    marked = [model_type for model_type in fitting if _has_prefix(files, families()[model_type])]
    candidates = marked or fitting
    candidates = [model_type for model_type in candidates if model_type in UNTYPED] or candidates
    one = len({families()[model_type].NAME for model_type in candidates}) == 1
    return candidates[0] if one else None


def _fits_type(config: Mapping[str, Any], files: TensorFiles, model_type: str) -> bool:
    try:
        return fitting_class({**config, "model_type": model_type}, files) is not None
    except GlassformerError:  # config.json is invalid for that family
        return False


def _has_prefix(files: TensorFiles, family: Family) -> bool:
    prefixes = tuple(base for base in family.CLASSES.values() if base)
    return bool(prefixes) and any(name.startswith(prefixes) for name in files)
