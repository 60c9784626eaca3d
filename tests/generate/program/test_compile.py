"""Which models have a step program, and that a part it does not know is refused."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, make_dataclass, replace

import pytest
from cases import NAMES, writes

import glassformer as gf
from glassformer import spec as specs
from glassformer.errors import UnsupportedError
from glassformer.generate.program import AttendOp, LinearOp, compile_program

REFUSED = {  # by model type: the parts that need another step than one token per row
    "awd-lstm": {"decoder.blocks.0"},
    "cnn": {"decoder.blocks.0"},
    "lstm": {"decoder.blocks.0"},
    "music-transformer": {"decoder.blocks.0.position"},
    "transfo-xl": {"decoder.embed.adaptive", "decoder.blocks.0.position"},
    "transformer-decoder": {
        "decoder.blocks.0.attention.compression_factor",
        "decoder.blocks.1.attention.compression_factor",
    },
    "xlnet": {"decoder.blocks.0.position"},
}
MODELS = {  # which have all parts of a spec among them
    "gpt2": "GPT2LMHeadModel",  # a table of positions
    "llama": "LlamaForCausalLM",  # rotary positions
    "t5": "T5ForConditionalGeneration",  # buckets of distances
    "bert": "BertLMHeadModel",  # a head with a transform
}


def spec_of(model_type):
    return next(
        name.spec for name in NAMES if name.architecture == MODELS[model_type] and writes(name)
    )


@pytest.mark.parametrize("name", [name for name in NAMES if writes(name)], ids=str)
def test_every_model_that_generates_has_a_program_or_a_known_reason(name):
    try:
        program = compile_program(name.spec)
    except UnsupportedError as error:
        assert error.field in REFUSED[name.model_type]
        return
    assert program.operations[-1].target == "logits"
    layers = len(name.spec.decoder.order)
    assert len(program.self_attention) == layers
    assert len(program.cross_attention) == (0 if name.spec.encoder is None else layers)
    written = set()
    for operation in program.operations:
        read = [getattr(operation, part, None) for part in ("source", "add")]
        assert written.issuperset(one for one in read if one is not None)
        written.add(getattr(operation, "target", None))


def classes(spec, found=None):
    """The classes of a decoder's specs."""
    found = set() if found is None else found
    found.add(type(spec))
    for field in fields(spec):
        value = getattr(spec, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if is_dataclass(part) and field.name not in ("encoder", "tokens", "init"):
                classes(part, found)
    return found


def extended(spec, kind, value):
    """The spec with a new field in the parts of a class."""
    changed = {}
    for field in fields(spec):
        old = getattr(spec, field.name)
        if isinstance(old, tuple):
            changed[field.name] = tuple(
                extended(one, kind, value) if is_dataclass(one) else one for one in old
            )
        elif is_dataclass(old) and field.name not in ("encoder", "tokens", "init"):
            changed[field.name] = extended(old, kind, value)
    made = replace(spec, **changed)
    if type(spec) is not kind:
        return made
    more = make_dataclass(
        kind.__name__, [("new_field", int, 0)], bases=(kind,), frozen=True, kw_only=True
    )
    return more(**{f.name: getattr(made, f.name) for f in fields(made)}, new_field=value)


@pytest.mark.parametrize(
    ("model_type", "kind"),
    [(m, kind) for m in MODELS for kind in sorted(classes(spec_of(m)), key=lambda k: k.__name__)],
)
def test_a_field_that_no_operation_consumes_must_be_neutral(model_type, kind):
    spec = spec_of(model_type)
    assert compile_program(extended(spec, kind, 0)).buffers == compile_program(spec).buffers
    with pytest.raises(UnsupportedError, match=r"new_field = 1") as refused:
        compile_program(extended(spec, kind, 1))
    assert refused.value.field.endswith(".new_field")


def test_every_class_of_a_decoder_is_among_them():
    found = set().union(*(classes(spec_of(model_type)) for model_type in MODELS))
    assert {kind.__name__ for kind in found} == {
        *("ModelSpec", "StackSpec", "TokenEmbeddingSpec", "PositionTableSpec", "BlockSpec"),
        *("AttentionSpec", "AttentionPattern", "FeedForwardSpec", "NormSpec", "HeadSpec"),
        *("TransformSpec", "RotarySpec", "T5BiasSpec"),
    }


def test_alibi_is_consumed_as_well():
    block = replace(spec_of("llama").decoder.blocks[0], position=specs.AlibiSpec())
    spec = spec_of("llama")
    spec = replace(spec, decoder=replace(spec.decoder, blocks=(block,) * len(spec.decoder.blocks)))
    assert compile_program(spec)
    with pytest.raises(UnsupportedError, match="new_field"):
        compile_program(extended(spec, specs.AlibiSpec, 1))


def test_the_program_of_gpt2():
    """One layer, operation by operation."""
    model = gf.create("gpt2", n_embd=8, n_head=2, n_layer=1, vocab_size=11, n_positions=16)
    program = compile_program(model.spec)
    shown = [type(op).__name__ for op in program.operations]
    assert shown == [
        *("EmbedOp", "LinearOp", "WriteKeysOp", "AttendOp", "LinearOp", "LinearOp", "LinearOp"),
        "LinearOp",
    ]
    linear = [op for op in program.operations if isinstance(op, LinearOp)]
    assert [(op.layer, op.norm, op.add) for op in linear] == [
        ("decoder.blocks.0.attention.qkv", "decoder.blocks.0.attention_norm", None),
        ("decoder.blocks.0.attention.out", None, "x"),
        ("decoder.blocks.0.ffn.up", "decoder.blocks.0.ffn_norm", None),
        ("decoder.blocks.0.ffn.down", None, "x"),
        ("heads.lm.out", "decoder.final_norm", None),
    ]
    (attend,) = (op for op in program.operations if isinstance(op, AttendOp))
    assert (attend.scale, attend.heads, attend.shape.heads, attend.left) == (0.5, 2, 2, None)
    assert (program.buffers["qkv"], program.buffers["logits"]) == (24, 11)
