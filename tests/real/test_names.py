"""Published weights by name: every listed model loads and reads a sample."""

import pytest

import glassformer as gf
from glassformer.weights.quantization import count_parameters
from glassformer.zoo.published import REAL

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", REAL)
def test_what_is_listed_is_what_is_loaded(real, name):
    real(name)
    model, listed = gf.load(f"real:{name}"), REAL[name]
    assert (model.architecture, count_parameters(model)) == (listed.kind, listed.parameters)
    if listed.sample is not None:
        ids = model.tokenizer.encode(listed.sample).ids
        assert len(ids) > 5 and model.tokenizer.special.get("unk") not in ids
