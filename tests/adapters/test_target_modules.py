"""Published linear layers are found in our model by the families' rules, for every family."""

from __future__ import annotations

import pytest
import torch
import transformers
from cases import NAMES
from transformers.pytorch_utils import Conv1D

import glassformer as gf
from glassformer.adapters.target_modules import find_target_modules, shortest
from glassformer.weights.mapping import build_transformer

LAST = {
    name.model_type: name
    for name in NAMES
    if name.index == 0 and hasattr(transformers, name.architecture)
}
RENAMED = ("vit",)  # the reference has renamed its modules, and files keep their names


@pytest.mark.parametrize("name", [LAST[kind] for kind in LAST if kind not in RENAMED], ids=str)
def test_every_linear_layer_of_the_reference_has_its_place(name):
    config = name.config
    if "QuestionAnswering" in name.architecture:
        config.pop("num_labels", None)
    own = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    with torch.device("meta"):
        known = transformers.AutoConfig.for_model(name.model_type, **own)
        theirs = getattr(transformers, name.architecture)(known)
    layers = {
        path: (module.weight.shape[::-1] if isinstance(module, Conv1D) else module.weight.shape)
        for path, module in theirs.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D)
    }
    model = gf.Model(build_transformer(name.spec), config, name.architecture)
    places = find_target_modules(model)
    ours = {path: (p.stop - p.start, p.linear.in_features) for path, p in places.items()}
    assert ours == {path: tuple(shape) for path, shape in layers.items()}
    for path, place in places.items():
        assert place.transposed == isinstance(theirs.get_submodule(path), Conv1D), path
        assert sorted(place.order.tolist()) == list(range(place.stop - place.start))


def test_names_are_shortened_where_that_chooses_no_others():
    known = dict.fromkeys(("a.q", "a.v", "b.q", "b.v", "pooler.v"))
    assert shortest(["a.q", "b.q"], known) == ["q"]
    assert shortest(["a.v", "b.v"], known) == ["a.v", "b.v"]
