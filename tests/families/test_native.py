"""Models whose config.json is their spec."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from glassformer import spec
from glassformer.errors import GlassformerError
from glassformer.families import classes_of, families, read
from glassformer.families.native import FIELDS, config_of, name_in_file, names_in_file
from glassformer.zoo import folder_of

READER = folder_of("reader") / "config.json"


def test_a_config_that_was_saved_is_read_and_written_as_it_was():
    config = json.loads(READER.read_text("utf-8"))
    found = read(config, "Glassformer").spec
    assert config_of(found)["spec"] == config["spec"]


def test_the_names_of_classes_in_files_are_those_of_the_first_release():
    layers = [name_in_file(kind) for kind in get_args(spec.LayerSpec)]
    assert layers == ["Block", "Recurrent", "Convolutional", "Hop"]
    positions = [name_in_file(kind) for kind in get_args(spec.PositionSpec)]
    assert positions == ["Rotary", "Buckets", "Alibi", "Shaw", "Disentangled", "Relative"]


def test_the_names_of_fields_in_files_are_those_of_the_first_release():
    head = names_in_file(spec.HeadSpec)
    assert (head["pooling"], head["num_outputs"], head["norm"]) == ("pick", "outputs", "norm")
    for kind, renamed in FIELDS.items():
        names = names_in_file(getattr(spec, kind))
        assert renamed.keys() <= names.keys() and len(set(names.values())) == len(names)


def test_a_config_of_the_first_release_starts_the_decoder_as_it_did():
    config = json.loads(READER.read_text("utf-8"))
    config["spec"] |= {"shift_text": True, "start_from_last": True}
    found = read(config, "Glassformer").spec
    assert found.shift_right and found.decoder_start == "last_token"
    assert config_of(found)["spec"] == config["spec"]


@pytest.mark.parametrize("model_type", families())
def test_the_spec_of_every_family_can_be_saved(model_type):
    family = families()[model_type]
    for tiny in family.TINY:
        for architecture in classes_of(family, model_type):
            made = read({"model_type": model_type, **tiny}, architecture).spec
            plain = json.loads(json.dumps(config_of(made)))
            assert read(plain, "Glassformer").spec == made


def test_an_unknown_class_is_an_error_of_one_sentence():
    config = json.loads(READER.read_text("utf-8"))
    config["spec"]["encoder"]["blocks"][0]["is"] = "Loop"
    with pytest.raises(GlassformerError, match="'Loop' is not known here"):
        read(config, "Glassformer")
