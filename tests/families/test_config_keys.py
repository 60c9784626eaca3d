"""Every key that the reference reads from a config is read here, has no effect, or is refused where
its value is not neutral. The keys are those of the installed transformers: recorded while its
models are made and run, and read from its sources, where a branch may not have been run."""

from __future__ import annotations

import ast
import importlib
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import reference
import transformers
from cases import NAMES, Case, Name, difference, in_transformers
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers.configuration_utils import PreTrainedConfig

from glassformer.errors import GlassformerError
from glassformer.families import classes_of, families, read, reader_of
from glassformer.families._shared.config_reader import WITHOUT_EFFECT
from glassformer.families._shared.synonyms import SYNONYMS
from glassformer.families._shared.unread_keys import CHANGES

TYPES = [kind for kind in families() if kind in transformers.CONFIG_MAPPING]
NEUTRAL = {  # read by the reference, and without an effect on what a model computes
    key: reason
    for reason, keys in {
        "the library's own": "attribute_map sub_configs nested_rope_parameter_keys "
        "default_rope_type is_heterogeneous "
        "base_model_tp_plan base_model_pp_plan base_model_ep_plan base_model_fsdp_plan",
        "how it runs": "output_cross_attentions kv_sharing_modes tie_last_hidden_states",
        "of images": "vision_aspect_ratio vision_feature_layer vision_feature_select_strategy "
        "image_size image_token_id mm_tokens_per_image patch_size vision_config",
        "dropout, or a new model's first values": "classifier_dropout hidden_dropout init_std "
        "initializer_range summary_last_dropout",
        "whether there is an encoder too, on which only the cache depends": "is_encoder_decoder",
        "of a kind of output layer that is refused": "asm_cutoffs asm_div_value",
        "allows a width that the heads do not divide, which is refused": "embedding_size",
        "refused when weights are loaded": "quantization_config",
        "of ViT, whose output layer is no embedding": "tie_word_embeddings",
        "of Gemma 3's part for images": "layer_norm_eps",
    }.items()
    for key in keys.split()
}


def source_of(model_type: str, kind: str) -> Path:
    module = transformers.CONFIG_MAPPING[model_type].__module__.replace("configuration", kind)
    return Path(importlib.import_module(module).__file__)


def written(path: Path) -> set[str]:
    """The keys that a source file reads: config.x, getattr(config, "x"), kwargs.pop("x")."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if last_name(node.value).endswith("config"):
                found.add(node.attr)
        elif isinstance(node, ast.Call) and len(node.args) > 0:
            of_config = last_name(node.func) in ("getattr", "hasattr")
            of_keys = last_name(node.func) in ("pop", "get", "setdefault") and "config" in path.name
            if of_config and last_name(node.args[0]).endswith("config"):
                found.add(node.args[1].value)
            elif of_keys and last_name(node.func.value) == "kwargs":
                found.add(node.args[0].value)
    return {key for key in found if isinstance(key, str)}


def last_name(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


@cache
def recorded(model_type: str) -> frozenset[str]:
    """The keys that the reference asks its config for, whether they are there or not."""
    seen: set[str] = set()
    plain = PreTrainedConfig.__getattribute__

    def record(config, key):
        seen.add(key)
        return plain(config, key)

    for name in NAMES:
        if name.model_type == model_type and in_transformers(name):
            config = reference.config_of(without_labels(name.config))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(PreTrainedConfig, "__getattribute__", record)
                computed(name, reference.find_class(name.architecture)(config).eval())
    return frozenset(seen)


def without_labels(config: dict[str, Any]) -> dict[str, Any]:
    """A class that answers questions takes no number of them."""
    return {key: value for key, value in config.items() if key != "num_labels"}


def computed(name: Name, theirs: Any) -> dict[str, list[Tensor]]:
    case = Case.of(name, theirs, SimpleNamespace(spec=name.spec, net=None))
    return case.theirs(case.batch((9, 5, 12, 7), "right"))


def read_here(model_type: str) -> set[str]:
    family, keys = families()[model_type], set()
    for tiny in family.TINY:
        for architecture in classes_of(family, model_type):
            reader = reader_of({"model_type": model_type, **tiny})
            family.spec_from_config(reader, architecture)
            keys |= reader.used
    return keys


@pytest.mark.parametrize("model_type", TYPES)
def test_every_key_that_the_reference_reads_is_accounted_for(model_type):
    config_class = transformers.CONFIG_MAPPING[model_type]
    declared = {field.name for field in fields(config_class)}
    theirs = recorded(model_type) | declared
    theirs |= written(source_of(model_type, "modeling"))
    theirs |= written(source_of(model_type, "configuration"))
    of_library = {key for key in dir(PreTrainedConfig) if callable(getattr(PreTrainedConfig, key))}
    internal = {key for key in theirs if key.startswith("_")} - declared
    ours = {*read_here(model_type), *SYNONYMS.get(model_type, {}), *WITHOUT_EFFECT, *CHANGES}
    ours |= set(families()[model_type].IGNORED)
    assert sorted(theirs - ours - set(NEUTRAL) - of_library - internal) == []


@pytest.mark.parametrize("model_type", TYPES)
def test_other_words_for_keys_are_those_of_the_reference(model_type):
    assert SYNONYMS.get(model_type, {}) == transformers.CONFIG_MAPPING[model_type].attribute_map


def test_another_word_goes_before_the_key_as_in_the_reference():
    config = {"model_type": "distilbert", "dim": 32, "n_heads": 4}
    theirs = transformers.AutoConfig.for_model(**config, num_attention_heads=2)
    ours = read({**config, "num_attention_heads": 2}, "DistilBertModel").spec
    assert theirs.n_heads == ours.encoder.attention_blocks[0].attention.heads == 2


ENDS = (
    "ForCausalLM",
    "LMHeadModel",
    "ForMaskedLM",
    "ForConditionalGeneration",
    "MTModel",
    "ForImageClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForConditionalGeneration",
)
PROBED = [
    name
    for name in NAMES
    if in_transformers(name)
    and name.architecture.endswith(ENDS)
    and (name.index == 0 or name.model_type == "llama")  # whose others have scaled rotations
]


def probes(name: Name) -> dict[str, Any]:
    """Keys of code that families share, with values that are not neutral."""
    blocks = name.spec.last_stack.attention_blocks
    return {
        "is_causal": False,
        "is_decoder": True,
        "is_encoder_decoder": name.spec.encoder is None or name.spec.decoder is None,
        "sliding_window": 3,
        "layer_types": ["sliding_attention"] * len(blocks),
        "head_dim": 2 * blocks[0].attention.head_dim,
        "partial_rotary_factor": 0.5,
        "original_max_position_embeddings": 24,
        "token_classification_bias": False,
    }


@pytest.mark.parametrize("name", PROBED, ids=str)
def test_what_changes_the_reference_changes_ours_or_is_refused(name):
    config = without_labels(name.config)
    before = computed(name, reference.make(config, name.architecture, seed=0))
    for key, value in probes(name).items():
        try:
            changed = read({**config, key: value}, name.architecture).spec
        except GlassformerError:
            continue
        if changed != read(config, name.architecture).spec:
            continue
        try:
            theirs = reference.make({**config, key: value}, name.architecture, seed=0)
            after = computed(name, theirs)
        except (ValueError, AttributeError, StrictDataclassError):  # it has no such model
            continue
        assert difference(before, after) == 0.0, key


@pytest.mark.parametrize("model_type", TYPES)
def test_neutral_values_are_not_refused(model_type):
    family = families()[model_type]
    config = {"model_type": model_type, **family.TINY[0]}
    architecture = classes_of(family, model_type)[-1]
    neutral = dict.fromkeys(CHANGES) | {"is_causal": True, "per_layer_config": {}}
    spec = read(config, architecture).spec
    assert read({**neutral, **config, "no_such_key": 3}, architecture).spec == spec
