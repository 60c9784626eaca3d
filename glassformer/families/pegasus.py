"""PEGASUS (Zhang et al., 2019): a summarization model, pre-trained to generate removed sentences.

Sinusoidal positions, pre-norm.
"""

from __future__ import annotations

from glassformer import spec
from glassformer.families._shared import common, fairseq_like, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "PEGASUS"
MODEL_TYPES = ("pegasus",)
HEADS = ("ForConditionalGeneration", "ForCausalLM")
CLASSES = {"PegasusModel": "", **{f"Pegasus{head}": "model." for head in HEADS}}
IGNORED = {
    **fairseq_like.IGNORED,
    "classifier_dropout": "no class of this family classifies",
    "extra_pos_embeddings": "fixed positions count from 0",
}
UNUSED_TENSORS = {"{base}shared.weight": "a copy that is not used where embeddings are not tied"}
TINY = (
    {**fairseq_like.SMALL, "vocab_size": 99},
    {
        **fairseq_like.UNEVEN,
        "vocab_size": 61,
        "scale_embedding": True,
        "activation_function": "relu",
        "tie_word_embeddings": False,
    },
)
PRESETS = {
    "pegasus-large": (
        "PegasusForConditionalGeneration",
        {
            "vocab_size": 96103,
            "encoder_layers": 16,
            "decoder_layers": 16,
            "scale_embedding": True,
            "activation_function": "relu",
        },
    ),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    kind = architecture.removeprefix("Pegasus")
    vocabulary = config.integer("vocab_size", 50265)
    positions = spec.PositionTableSpec(
        length=config.integer("max_position_embeddings", 1024), layout="halves"
    )
    encoder, decoder = (
        fairseq_like.stack(config, side, vocabulary, positions, norm=None, pre=True)
        for side in ("encoder", "decoder")
    )
    chosen: tuple[spec.HeadSpec, ...] = {
        "Model": (),
        "ForConditionalGeneration": (heads.language_model(vocabulary, bias="fixed"),),
        "ForCausalLM": (heads.language_model(vocabulary),),
    }[kind]
    alone = kind == "ForCausalLM"
    tied = config.flag("tie_word_embeddings", True)
    stacks = ("decoder",) if alone else ("encoder", "decoder")
    return spec.ModelSpec(
        encoder=None if alone else encoder,
        decoder=decoder,
        heads=chosen,
        tied_weights=fairseq_like.ties(stacks, chosen) if tied else (),
        tokens=common.special_tokens(config, pad=0, eos=1, start=0),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("init_std", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    shared = bool(model.tied_weights)
    return (*fairseq_like.embeddings(shared), *fairseq_like.FIXED_POSITIONS, *fairseq_like.BODY)
