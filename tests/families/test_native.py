"""Models whose config file is their spec."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import glassformer
from glassformer.errors import GlassformerError
from glassformer.families import classes_of, families, read
from glassformer.families.native import NAMES_OF_0_1, config_of

READER = Path(glassformer.__file__).parent / "zoo" / "reader" / "config.json"


def test_a_config_that_was_saved_is_read_and_written_as_it_was():
    config = json.loads(READER.read_text("utf-8"))
    found = read(config, "Glassformer").spec
    assert config_of(found)["spec"] == config["spec"]


def in_names_of_0_1(value):
    """Config values with the class names that version 0.1 wrote."""
    if isinstance(value, list):
        return [in_names_of_0_1(item) for item in value]
    if not isinstance(value, dict):
        return value
    old = {new: old for old, new in NAMES_OF_0_1.items()} | {"ModelSpec": "ModelSpec"}
    renamed = {key: in_names_of_0_1(item) for key, item in value.items()}
    if "is" in value:
        renamed["is"] = old.get(value["is"], value["is"].removesuffix("Spec"))
    return renamed


def test_a_config_of_version_0_1_describes_the_same_model():
    config = json.loads(READER.read_text("utf-8"))
    old = {**config, "spec": in_names_of_0_1(config["spec"])}
    kinds = set(re.findall('"is": "(.*?)"', json.dumps(old)))
    assert {"Stack", "Block", "FFN", "Pattern", "Embed", "Table"} <= kinds
    assert read(old, "Glassformer").spec == read(config, "Glassformer").spec


@pytest.mark.parametrize("model_type", families())
def test_the_spec_of_every_family_can_be_saved(model_type):
    family = families()[model_type]
    for tiny in family.TINY:
        for architecture in classes_of(family, model_type):
            made = read({"model_type": model_type, **tiny}, architecture).spec
            plain = json.loads(json.dumps(config_of(made)))
            assert read(plain, "Glassformer").spec == made
            assert read(in_names_of_0_1(plain), "Glassformer").spec == made


def test_an_unknown_class_is_an_error_of_one_sentence():
    config = json.loads(READER.read_text("utf-8"))
    config["spec"]["encoder"]["blocks"][0]["is"] = "Loop"
    with pytest.raises(GlassformerError, match="'Loop' is not known here"):
        read(config, "Glassformer")
